"""What a metric is, how its name is read, and what it is handed.

A metric is a function; the type of its first parameter decides what it is given:

* ``Ranked``   the gains of a whole chunk, returns an array of shape (queries,), NaN where it is undefined
* ``Chunk``    everything about a chunk, returns one Score per sample
* ``Verdict``  one sample's verdict, returns a Score
* ``Sample``   one sample, returns a Score, a number or None

Names carry their parameter: ``ndcg@10``, ``rbp@0.8``; a name that is parsed prints back the same.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ragassay.errors import BadSettings, UnknownName, reason_from
from ragassay.registry import Registry

if TYPE_CHECKING:
    from ragassay.metrics.chunk import Chunk
    from ragassay.metrics.ranked import Array, Ranked
    from ragassay.models import Sample, Score

Kind = Literal["retrieval", "quality", "performance", "cost"]
LARGEST_K = 1_000_000
SEEN = ("Ranked", "Chunk", "Verdict", "Sample")
F = TypeVar("F", bound=Callable[..., Any])

BEFORE = "ranking_before_reranking"
OPERATIONAL = (
    *("latency_ms", "retrieval_latency_ms", "generation_latency_ms"),
    *("input_tokens", "output_tokens", "cost_usd"),
)
"""What a response reports of time, tokens and cost."""
LABELS: dict[str, tuple[tuple[str, ...], str]] = {
    "judgments": (("relevant_doc_ids", "relevance_scores"), "the query has no relevance judgments"),
    "subtopics": (("subtopics",), "the query has no subtopics"),
    "doc_timestamps": (("doc_timestamps",), "the query has no doc_timestamps"),
    "primary_relevant": (("primary_relevant",), "the query has no primary_relevant"),
    "best_route": (("best_route",), "the query has no best_route"),
    "retrieval_needed": (("retrieval_needed",), "the query does not say whether retrieval is needed"),
}
"""Labels of a query: the fields that hold it, and the reason where none of them does."""
_OF_DOCUMENTS = frozenset(("judgments", "subtopics", "doc_timestamps", "primary_relevant"))
LACKS: dict[str, tuple[Callable[[Sample], bool], str]] = {
    "answer": (lambda s: s.answer is None, "the response has no answer"),
    # for a query that can't be answered, a verdict says why there is no score
    "truth": (
        lambda s: not (s.ground_truth_answer or s.key_facts or s.answerable is False),
        "the query has no ground truth",
    ),
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
        for name in (*OPERATIONAL, "route", "clicks", "dwell_ms")
    },
}


def _has_cost(sample: Sample) -> bool:
    """Is the cost given, or is there what it can be worked out from?"""
    response = sample.response
    if response is None or response.cost_usd is not None:
        return response is not None
    return None not in (response.model, response.input_tokens, response.output_tokens)


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
                return f"the system failed: {reason_from(error)}" if error else LACKS[need][1]
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
        from ragassay.metrics.chunk import score  # not above: pydantic's import takes longer than a short TREC file

        return score(self, chunk)


METRICS: Registry[Metric] = Registry("metric")
FIGURES = ("cost_per_accurate_answer", "suspicious", "refusal_precision", "refusal_recall")
"""Figures about many rows that are no mean of a metric."""
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


def parse(text: str, criteria: Iterable[str] = ()) -> Metric:
    """The metric that a name such as ``nDCG@10``, ``P@5``, ``ndcg_cut_10`` or ``rbp@0.8`` means.

    ``criteria`` are the names of the run's own, which are metrics there. Raises UnknownName with the near matches,
    BadSettings when the parameter is missing, superfluous or out of range.
    """
    if text.strip().lower() in (names := tuple(criteria)) and text.strip().lower() not in METRICS:
        from ragassay.metrics.criteria import criterion_metric  # not above: it needs pydantic

        return criterion_metric(text.strip().lower())
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
        raise UnknownName("metric", text.strip(), [*(m.family for m in METRICS), *names])
    return _bind(METRICS.get(key), parameter, text.strip())


def _bind(metric: Metric, parameter: str, text: str) -> Metric:
    """``metric`` with the parameter of its name; ``text`` is what the user wrote."""
    if metric.takes is None:
        if parameter:
            raise BadSettings(f"metric {text!r}: {metric.family} takes no cutoff", hint=f"write {metric.family}")
        return metric
    if not parameter:
        if metric.optional:
            return metric
        example = f"{metric.family}@{'10' if metric.takes == 'k' else '0.8'}"
        raise BadSettings(f"metric {text!r} needs a value after @", hint=f"write, for example, {example}")
    try:
        value = float(parameter)
    except ValueError:
        value = math.nan
    if metric.takes == "k" and not (1 <= value <= LARGEST_K and value == int(value)):
        what = f"the cutoff must be a whole number from 1 to {LARGEST_K:,}, not {parameter!r}"
        raise BadSettings(f"metric {text!r}: {what}")
    if metric.takes == "p" and not 0 < value < 1:
        raise BadSettings(f"metric {text!r}: the persistence must lie between 0 and 1, not {parameter!r}")
    return replace(metric, parameter=value)


def _sees(function: Callable[..., Any]) -> str:
    """Name of the type of the first parameter: Ranked, Chunk, Verdict or Sample."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    annotation = first.annotation if first else None
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    seen = text.rsplit(".", 1)[-1].strip("\"'")
    if seen not in SEEN:
        raise BadSettings(f"metric {function.__name__!r}: the first parameter must be annotated with {', '.join(SEEN)}")
    return seen
