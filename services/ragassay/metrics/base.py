"""What a metric is, how its name is read, and what it is handed.

A metric is a function; the type of its first parameter says what it sees:

* ``Ranked``   the gains of a whole chunk, returns an array of shape (queries,), NaN where it is undefined
* ``Chunk``    everything about a chunk, returns one Score per sample
* ``Verdict``  one sample's verdict, returns a Score
* ``Sample``   one sample, returns a Score, a number or None

Names carry their parameter: ``ndcg@10``, ``rbp@0.8``; a name that is parsed prints back the same.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ragassay.errors import BadSettings, UnknownName
from ragassay.registry import Registry

if TYPE_CHECKING:
    from ragassay.metrics.accuracy import AccuracyRule
    from ragassay.metrics.ranked import Array, Ranked
    from ragassay.models import Judgement, Sample, Score
    from ragassay.seams import Embedder

Kind = Literal["retrieval", "quality", "performance", "cost"]
LARGEST_K = 1_000_000
F = TypeVar("F", bound=Callable[..., Any])

NOTHING_RETRIEVED = "the system gave no response, which counts as nothing retrieved"
BEFORE = "ranking_before_reranking"
_OPERATIONAL = (
    "latency_ms",
    "retrieval_latency_ms",
    "generation_latency_ms",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "route",
    "clicks",
    "dwell_ms",
)
LABELS: dict[str, tuple[tuple[str, ...], str]] = {
    "judgments": (("relevant_doc_ids", "relevance_scores"), "the query has no relevance judgments"),
    "subtopics": (("subtopics",), "the query has no subtopics"),
    "doc_timestamps": (("doc_timestamps",), "the query has no doc_timestamps"),
    "primary_relevant": (("primary_relevant",), "the query has no primary_relevant"),
    "best_route": (("best_route",), "the query has no best_route"),
    "retrieval_needed": (("retrieval_needed",), "the query does not say whether retrieval is needed"),
}
"""What people say of a query: the fields that hold it, and the reason where none of them does."""
_OF_DOCUMENTS = frozenset(("judgments", "subtopics", "doc_timestamps", "primary_relevant"))
LACKS: dict[str, tuple[Callable[[Sample], bool], str]] = {
    "answer": (lambda s: s.answer is None, "the response has no answer"),
    "truth": (lambda s: not (s.ground_truth_answer or s.key_facts), "the query has no ground truth"),
    "ground_truth": (lambda s: not s.ground_truth_answer, "the query has no ground truth answer"),
    "contexts": (lambda s: s.contexts is None, "the response has no contexts"),
    "retrieved_doc_ids": (lambda s: s.retrieved_doc_ids is None, "the response has no retrieved_doc_ids"),
    "retrieved": (
        lambda s: s.retrieved_doc_ids is None and s.contexts is None,
        "the response has neither retrieved_doc_ids nor contexts, so whether it retrieved is not known",
    ),
    BEFORE: (
        lambda s: s.response is None or s.response.metadata.get(BEFORE) is None,
        f"the response's metadata has no {BEFORE}",
    ),
    "cost": (lambda s: not _has_cost(s), "the response has no cost_usd, nor a model with both its tokens"),
    **{
        name: (partial(lambda field, s: getattr(s.response, field, None) is None, name), f"the response has no {name}")
        for name in _OPERATIONAL
    },
}


def _has_cost(sample: Sample) -> bool:
    """Is the cost given, or is there what it can be worked out from?"""
    response = sample.response
    if response is None or response.cost_usd is not None:
        return response is not None
    return None not in (response.model, response.input_tokens, response.output_tokens)


def _half_life_days() -> float:
    from ragassay.models import HALF_LIFE_DAYS

    return HALF_LIFE_DAYS


@dataclass(frozen=True)
class Chunk:
    """Up to a chunk of samples and what the stages before have found out about them; all sequences are parallel."""

    samples: Sequence[Sample]
    judgements: Sequence[Judgement | None] = ()
    embedder: Embedder | None = None
    no_embedder: str = "no embedding model is set up"
    max_grade: float = 3.0
    relevant_from: float | None = None
    half_life_days: float = field(default_factory=_half_life_days)
    rule: AccuracyRule | None = None
    scores: dict[str, list[Score]] = field(default_factory=dict)

    @cached_property
    def ranked(self) -> Ranked:
        """The chunk's ranked gains; built once, shared by all retrieval metrics."""
        from ragassay.metrics.ranked import Ranked

        return Ranked.of(self.samples, relevant_from=self.relevant_from, max_grade=self.max_grade)

    def only(self, rows: Sequence[int]) -> Chunk:
        """The chunk cut down to some of its rows."""
        return replace(
            self,
            samples=[self.samples[n] for n in rows],
            judgements=[self.judgements[n] for n in rows] if self.judgements else (),
            scores={name: [scores[n] for n in rows] for name, scores in self.scores.items()},
        )


@dataclass(frozen=True)
class Metric:
    """A metric, bound to its parameter where it takes one. ``name`` parses back to the same metric."""

    family: str
    function: Callable[..., Any]
    kind: Kind = "quality"
    better: Literal["higher", "lower"] = "higher"
    needs: tuple[str, ...] = ()
    takes: Literal["k", "p"] | None = None
    parameter: float | None = None
    optional: bool = False
    bounds: tuple[float, float] | None = (0.0, 1.0)
    share: bool = False
    description: str = ""

    @property
    def name(self) -> str:
        """Canonical name, such as ``ndcg@10``."""
        return self.family if self.parameter is None else f"{self.family}@{self.parameter:g}"

    def lacks(self, sample: Sample) -> str | None:
        """Why this sample can't be scored for want of input; None when it has all that is needed.

        A query that the run lacks counts as nothing retrieved, so metrics that compare with a query's labels score it.
        """
        labels = [need for need in self.needs if need in LABELS]
        for label in labels:
            fields, reason = LABELS[label]
            if all(getattr(sample, name) is None for name in fields):
                return reason
        if sample.response is None:
            return None if labels else "the system gave no response"
        if sample.response.retrieved_doc_ids is None and not _OF_DOCUMENTS.isdisjoint(labels):
            return LACKS["retrieved_doc_ids"][1]
        for need in self.needs:
            if need in LACKS and LACKS[need][0](sample):
                error = sample.response.error if need in ("answer", "contexts") else None
                return f"the system failed: {error}" if error else LACKS[need][1]
        return None

    @property
    def arguments(self) -> dict[str, Any]:
        """The keyword that the function is called with, beside what it sees."""
        if self.takes is None or self.parameter is None:
            return {}
        return {self.takes: int(self.parameter) if self.takes == "k" else self.parameter}

    @property
    def sees(self) -> str:
        """What the function is handed: Ranked, Chunk, Verdict or Sample."""
        return _sees(self.function)

    def values(self, batch: Ranked) -> Array:
        """The value for each query of a batch, NaN where undefined; for metrics that see Ranked."""
        values: Array = self.function(batch, **self.arguments)
        return values

    def score(self, chunk: Chunk) -> list[Score]:
        """One Score per sample, in order. A row without the input it needs is missing with that reason."""
        from ragassay.models import Score

        lacks = [self.lacks(sample) for sample in chunk.samples]
        given = [n for n, reason in enumerate(lacks) if reason is None]
        whole = self.sees == "Ranked" or len(given) == len(lacks)  # gains are shared, so they are built for all rows
        scores = dict(enumerate(_ADAPTERS[self.sees](self, chunk))) if whole and given else {}
        if given and not whole:
            scores = dict(zip(given, _ADAPTERS[self.sees](self, chunk.only(given)), strict=True))
        for n in given:
            if chunk.samples[n].response is None and scores[n].value is not None:
                scores[n] = scores[n].model_copy(update={"reason": NOTHING_RETRIEVED})
        return [scores[n] if reason is None else Score.absent(reason, "no_input") for n, reason in enumerate(lacks)]


METRICS: Registry[Metric] = Registry("metric")
_PARAMETERS: tuple[Literal["k", "p"], ...] = ("k", "p")
SPELLINGS = {
    "p": "precision",
    "prec": "precision",
    "r": "recall",
    "rr": "mrr",
    "recip_rank": "mrr",
    "reciprocal_rank": "mrr",
    "ap": "map",
    "success": "hit",
    "hit_rate": "hit",
    "ndcg_cut": "ndcg",
    "map_cut": "map",
    "rprec": "r_precision",
    "q": "q_measure",
    "alpha_ndcg_cut": "alpha_ndcg",
    "ild": "intra_list_diversity",
    "kendall": "kendall_tau",
    "spearman": "spearman_rho",
    "answer_accuracy": "semantic_similarity",
    "answer_relevancy": "relevance",
    "answer_relevance": "relevance",
    "bertscore": "bertscore_f1",
    "rouge_1": "rouge1",
    "rouge_2": "rouge2",
    "rouge_l": "rougel",
}


def metric(
    *,
    better: Literal["higher", "lower"],
    needs: str | Iterable[str] = (),
    name: str | None = None,
    kind: Kind | None = None,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    share: bool = False,
) -> Callable[[F], F]:
    """Register a function as a metric under its own name.

    ``needs``: inputs without which a row is missing, not zero: those in LABELS and LACKS, verdict, embeddings.
    ``bounds``: the least and greatest value, for worst-best bounds; None when there is no limit.
    ``share``: values are 0 or 1, so that its mean is a share. A keyword parameter ``k`` or ``p`` is read from the name.
    """

    def register(function: F) -> F:
        signature = inspect.signature(function)
        takes: Literal["k", "p"] | None = (
            "k" if "k" in signature.parameters else "p" if "p" in signature.parameters else None
        )
        METRICS.add(
            (name or function.__name__),
            Metric(
                family=name or function.__name__,
                function=function,
                kind=kind or ("retrieval" if _sees(function) == "Ranked" else "quality"),
                better=better,
                needs=(needs,) if isinstance(needs, str) else tuple(needs),
                takes=takes,
                optional=takes is not None and signature.parameters[takes].default is not inspect.Parameter.empty,
                bounds=bounds,
                share=share,
                description=(inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " "),
            ),
            replace=True,
        )
        return function

    return register


def parse(text: str) -> Metric:
    """The metric that a name such as ``nDCG@10``, ``P@5``, ``ndcg_cut_10`` or ``rbp@0.8`` means.

    Raises UnknownName with the near matches, BadSettings when the parameter is missing, superfluous or out of range.
    """
    family, _, parameter = text.strip().partition("@")
    key = SPELLINGS.get(family.lower(), family.lower())
    if key not in METRICS:
        key = key.replace("-", "_")
    if not parameter and key not in METRICS and key not in SPELLINGS:
        head, _, tail = key.rpartition("_")
        if tail.replace(".", "", 1).isdigit():
            key, parameter = head, tail
    key = SPELLINGS.get(key, key)
    if key not in METRICS:
        raise UnknownName("metric", text.strip(), [m.family for m in METRICS])
    return bind(METRICS.get(key), parameter, text.strip())


def bind(found: Metric, parameter: str, text: str) -> Metric:
    """``found`` with the parameter of its name; ``text`` is what the user wrote."""
    if found.takes is None:
        if parameter:
            raise BadSettings(f"metric {text!r}: {found.family} takes no cutoff", hint=f"write {found.family}")
        return found
    if not parameter:
        if found.optional:
            return found
        example = f"{found.family}@{'10' if found.takes == 'k' else '0.8'}"
        raise BadSettings(f"metric {text!r} needs a value after @", hint=f"write, for example, {example}")
    try:
        value = float(parameter)
    except ValueError:
        value = math.nan
    if found.takes == "k" and not (1 <= value <= LARGEST_K and value == int(value)):
        what = f"the cutoff must be a whole number from 1 to {LARGEST_K:,}, not {parameter!r}"
        raise BadSettings(f"metric {text!r}: {what}")
    if found.takes == "p" and not 0 < value < 1:
        raise BadSettings(f"metric {text!r}: the persistence must lie between 0 and 1, not {parameter!r}")
    return replace(found, parameter=value)


def _sees(function: Callable[..., Any]) -> str:
    """Name of the type of the first parameter: Ranked, Chunk, Verdict or Sample."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    annotation = first.annotation if first else None
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    seen = text.rsplit(".", 1)[-1].strip("\"'")
    if seen not in _ADAPTERS:
        raise BadSettings(
            f"metric {function.__name__!r}: the first parameter must be annotated with {', '.join(_ADAPTERS)}"
        )
    return seen


def _from_ranked(metric: Metric, chunk: Chunk) -> Sequence[Score]:
    from ragassay.models import Score

    values = metric.values(chunk.ranked)
    details = chunk.ranked.details(metric.arguments.get("k"))
    return [
        Score(value=v, details=d) if math.isfinite(v) else Score.absent(f"{metric.name} is undefined here")
        for v, d in zip(values.tolist(), details, strict=True)
    ]


def _from_chunk(metric: Metric, chunk: Chunk) -> Sequence[Score]:
    scores: Sequence[Score] = metric.function(chunk, **metric.arguments)
    return scores


def _from_verdict(metric: Metric, chunk: Chunk) -> Sequence[Score]:
    from ragassay.models import Score

    scores = []
    for judgement in chunk.judgements or [None] * len(chunk.samples):
        if judgement is None:
            scores.append(Score.absent("no judge was asked", "no_input"))
        elif judgement.verdict is None:
            scores.append(Score.absent(judgement.reason or "the judge failed", "failed"))
        else:
            scores.append(metric.function(judgement.verdict))
    return scores


def _from_sample(metric: Metric, chunk: Chunk) -> Sequence[Score]:
    return [_as_score(metric, metric.function(sample, **metric.arguments)) for sample in chunk.samples]


def _as_score(metric: Metric, value: Score | float | bool | None) -> Score:
    from ragassay.models import Score

    if isinstance(value, Score):
        return value
    if value is None:
        return Score.absent(f"{metric.name} is undefined here")
    if not math.isfinite(value):
        return Score.absent(f"{metric.name} returned {value}", "failed")
    return Score(value=float(value))


_ADAPTERS: dict[str, Callable[[Metric, Chunk], Sequence[Score]]] = {
    "Ranked": _from_ranked,
    "Chunk": _from_chunk,
    "Verdict": _from_verdict,
    "Sample": _from_sample,
}
