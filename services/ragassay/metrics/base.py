"""What a metric is, how its name is read, and what it is handed.

A metric is a function, or a class or object with a method ``compute``; the type of its first parameter decides what
it is given:

* ``Ranked``   the gains of a whole chunk, returns an array of shape (queries,), NaN where it is undefined
* ``Chunk``    everything about a chunk, returns one Score, number or None per sample
* ``Verdict``  one sample's verdict, returns a Score, a number or None
* ``Sample``   one sample, returns the same; so does one without a type

Names carry their parameter: ``ndcg@10``, ``rbp@0.8``; a name that is parsed prints back the same.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, get_args, overload

from ragassay.core.errors import BadSettings, UnknownName, reason_from
from ragassay.core.plugins import Registry
from ragassay.metrics.names import NEAREST, SPELLINGS

if TYPE_CHECKING:
    from ragassay.core.models import Sample, Score
    from ragassay.metrics.chunk import Chunk
    from ragassay.metrics.ranked import Array, Ranked

Kind = Literal["retrieval", "quality", "performance", "cost"]
LARGEST_K = 1_000_000
SEEN = ("Ranked", "Chunk", "Verdict", "Sample")
T = TypeVar("T")
UNIT = (0.0, 1.0)

OPERATIONAL = (
    *("latency_ms", "first_token_ms", "retrieval_latency_ms", "generation_latency_ms"),
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
    "cost": (lambda s: not _has_cost(s), "the response has no cost_usd, nor a model with both its tokens"),
    **{
        name: (partial(lambda field, s: getattr(s.response, field, None) is None, name), f"the response has no {name}")
        for name in (*OPERATIONAL, "route", "clicks", "dwell_ms", "doc_ids_before_reranking")
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
    """A metric, bound to its parameter where it takes one. ``name`` parses back to the same metric.

    ``parts``: the metrics that a composite is made of.
    """

    family: str
    function: Callable[..., Any] = field(compare=False)
    kind: Kind = "quality"
    better: Literal["higher", "lower"] = "higher"
    needs: tuple[str, ...] = ()
    takes: Literal["k", "p"] | None = None
    parameter: float | None = None
    optional: bool = False
    bounds: tuple[float, float] | None = None
    share: bool = False
    description: str = ""
    declared: object = None
    parts: tuple[Metric, ...] = ()

    @property
    def name(self) -> str:
        """Canonical name, such as ``ndcg@10``."""
        return self.family if self.parameter is None else f"{self.family}@{self.parameter:g}"

    @property
    def form(self) -> str:
        """The name with what it takes, as a list of metrics shows it: ``recall@k``, ``mrr[@k]``."""
        return f"{self.family}{f'[@{self.takes}]' if self.optional else f'@{self.takes}' if self.takes else ''}"

    def lacks(self, sample: Sample) -> str | None:
        """Why this sample can't be scored for want of input; None when it has all that is needed.

        A query that the run lacks counts as nothing retrieved, so metrics that compare with a query's labels score it.
        """
        if self.parts:
            lacks = ((part.name, part.lacks(sample)) for part in self.parts)
            return next((f"{name}: {reason}" for name, reason in lacks if reason), None)
        labels = [need for need in self.needs if need in LABELS]
        for label in labels:
            fields, reason = LABELS[label]
            if all(getattr(sample, name) is None for name in fields):
                return reason
        if sample.response is None:
            return None if labels else "the system gave no response"
        of_documents = ("retrieved_doc_ids",) if not _OF_DOCUMENTS.isdisjoint(labels) else ()
        for need in (*of_documents, *self.needs):
            if need in LACKS and LACKS[need][0](sample):
                error = sample.response.error if need in ("answer", "contexts", "retrieved_doc_ids") else None
                return f"the system failed: {reason_from(error)}" if error else LACKS[need][1]
        return None

    @property
    def arguments(self) -> dict[str, Any]:
        """The keywords that the function is called with, beside what it sees."""
        if self.takes is None or self.parameter is None:
            return {}
        return {self.takes: int(self.parameter) if self.takes == "k" else self.parameter}

    def reads(self, family: str) -> bool:
        """Is it that metric, or made of it?"""
        return self.family == family or any(part.reads(family) for part in self.parts)

    @property
    def sees(self) -> str:
        """What the function is handed: Ranked, Chunk, Verdict or Sample."""
        return _sees(self.function)

    @property
    def is_ours(self) -> bool:
        """Does it come with ragassay?"""
        return str(getattr(self.function, "__module__", "")).startswith("ragassay.")

    def values(self, batch: Ranked) -> Array:
        """The value for each query of a batch, NaN where undefined; for metrics that see Ranked."""
        values: Array = self.function(batch, **self.arguments)
        return values

    def score(self, chunk: Chunk) -> list[Score]:
        """One Score per sample, in order, in a thread without an event loop. What fails is a reason in its scores."""
        from ragassay.metrics.chunk import score  # not above: pydantic's import takes longer than a short TREC file

        return score(self, chunk)


METRICS: Registry[Metric] = Registry("metric", adopt=lambda thing: METRICS.get(name_of(thing)))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
FIGURES = ("cost_per_accurate_answer", "suspicious", "refusal_precision", "refusal_recall")
"""Figures about many rows that are no mean of a metric."""


class Metadata(TypedDict, total=False):
    """What is said of a metric where it is declared; None is as good as nothing."""

    better: Literal["higher", "lower"] | None
    needs: str | Iterable[str] | None
    name: str | None
    kind: Kind | None
    bounds: tuple[float, float] | None
    share: bool | None
    description: str | None


@overload
def metric(thing: T, /, **given: Unpack[Metadata]) -> T: ...
@overload
def metric(**given: Unpack[Metadata]) -> Callable[[T], T]: ...
def metric(thing: Any = None, /, **given: Unpack[Metadata]) -> Any:
    """Register a function, or a class or object with ``compute``, as a metric: ``@metric(...)`` or ``metric(thing)``.

    What is not given here is what the class or object has under the same name; else ``name`` is the function's or the
    class's, ``description`` its docstring. ``needs``: inputs without which a row is missing, not zero: those in LABELS
    and LACKS, verdict, embeddings. ``bounds``: the least and greatest value; without them there are none. ``share``:
    values are 0 or 1, so that its mean is a share. A parameter ``k`` or ``p`` is read from the name. The function may be
    async. Raises BadSettings and UnknownName for a declaration that can't be meant.
    """

    def register(thing: T) -> T:
        declared = _declared(thing, given)
        if not declared.is_ours and any(
            one.is_ours and one.family.lower() == declared.family.lower() for one in METRICS.registered()
        ):
            raise BadSettings(f"metric {declared.family!r} is one of ours", hint="choose another name")
        METRICS.add(declared.family, declared)
        return thing

    return register if thing is None else register(thing)


def name_of(thing: object) -> str:
    """The name that means a metric: a name itself, or that of a registered function, class or object.

    A class or object with ``compute`` that is not registered yet is. Raises BadSettings for what is no metric.
    """
    if isinstance(thing, str):
        return thing
    if isinstance(thing, Metric):
        return thing.name
    if (known := next((each for each in METRICS.registered() if each.declared is thing), None)) is not None:
        return known.name
    if not (callable(thing) or hasattr(thing, "compute")):
        what = "write a name, or a function, class or object made with @metric"
        raise BadSettings(f"{str(thing)[:60]!r} is no metric", hint=what)
    metric(thing)
    return next(each.name for each in METRICS.registered() if each.declared is thing)


def _declared(thing: Any, given: Metadata) -> Metric:
    """The metric that a function, class or object is, with what is ``given`` before what it has of its own."""
    try:
        owner = thing() if isinstance(thing, type) else thing
    except TypeError as error:
        raise BadSettings(f"metric {thing.__name__!r}: {error}", hint="register an object, not the class") from None
    function = owner if inspect.isroutine(owner) else getattr(owner, "compute", None)
    own: dict[str, Any] = (
        {} if function is owner else {key: getattr(owner, key, None) for key in Metadata.__annotations__}
    )
    said: dict[str, Any] = {key: value for key, value in (*own.items(), *given.items()) if value is not None}
    name = said.get("name") or getattr(thing, "__name__", type(thing).__name__)

    def refused(what: str, hint: str | None = None) -> BadSettings:
        return BadSettings(f"metric {name!r}: {what}", hint=hint)

    if not callable(function):
        raise refused("has no method compute", hint="write one: def compute(self, sample)")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise refused("a name is letters, digits, _ and -", hint="say it: name='own_metric'")
    if name.lower() in SPELLINGS:
        raise refused(f"that name means {SPELLINGS[name.lower()]}", hint="choose another one")
    if said.get("better") not in ("higher", "lower"):
        raise refused("is higher or lower better?", hint="declare it: @ragassay.metric(better='higher')")
    seen, *more = inspect.signature(function).parameters.values() or (None,)
    if seen is None:
        raise refused("takes no parameter", hint="the first is what it sees: a Sample, Chunk, Verdict or Ranked")
    takes = next((parameter for parameter in more if parameter.name in ("k", "p")), None)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if open_ := [
        each for each in more if each is not takes and each.default is each.empty and each.kind not in variadic
    ]:
        hint = "the answer, the contexts and the response are the sample's; else give it a default"
        raise refused(f"nothing is passed as {open_[0].name!r}", hint)
    needs = said.get("needs", ())
    needs = (needs,) if isinstance(needs, str) else tuple(needs)
    for need in needs:
        if need not in (known := {*LABELS, *LACKS, "verdict", "embeddings"}):
            raise UnknownName("input", need, known, where=f"metric {name!r}")
    kind: Any = said.get("kind") or ("retrieval" if _sees(function) == "Ranked" else "quality")
    if kind not in get_args(Kind):
        raise refused(f"unknown kind {kind!r}", hint=f"one of: {', '.join(get_args(Kind))}")
    share = bool(said.get("share"))
    return Metric(
        family=name,
        function=function,
        kind=kind,
        better=said["better"],
        needs=needs,
        takes=takes.name if takes else None,  # type: ignore[arg-type]  # one of the two
        optional=takes is not None and takes.default is not takes.empty,
        bounds=_bounds(said.get("bounds", UNIT if share else None), refused),
        share=share,
        description=(said.get("description") or inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " "),
        declared=thing,
    )


def _bounds(bounds: Any, refused: Callable[[str], BadSettings]) -> tuple[float, float] | None:
    """Least and greatest value; None where there are none."""
    try:
        low, high = map(float, bounds or (0, 1))
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise refused(f"bounds should be the least and the greatest value, are {bounds!r}")
    return None if bounds is None else (low, high)


def parse(text: str, own: Mapping[str, Metric] = MappingProxyType({})) -> Metric:
    """The metric that a name such as ``nDCG@10``, ``P@5``, ``ndcg_cut_10`` or ``rbp@0.8`` means.

    ``own`` are the run's own (``own_metrics``). Raises UnknownName with the near matches, BadSettings when the parameter
    is missing, superfluous or out of range.
    """
    if text.strip().lower() in own and text.strip().lower() not in METRICS:
        return own[text.strip().lower()]
    family, _, parameter = text.strip().partition("@")
    key = SPELLINGS.get(family.lower(), family.lower()).lower()
    if key not in METRICS:
        key = key.replace("-", "_")
    if not parameter and key not in METRICS and key not in SPELLINGS:
        head, _, tail = key.rpartition("_")
        if tail.replace(".", "", 1).isdigit():
            key, parameter = head, tail
    key = SPELLINGS.get(key, key).lower()
    if key not in METRICS:  # AnswerRelevancyMetric, as a class is called
        words = _words(family)
        key = SPELLINGS.get(words, words).lower()
    if key not in METRICS:
        raise unknown(text, *own)
    return _bind(METRICS.get(key), parameter, text.strip())


def _words(name: str) -> str:
    """``answer_relevancy`` of a class's name such as ``AnswerRelevancyMetric``."""
    return (
        re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
        .lower()
        .removesuffix("_metric")
        .replace("-", "_")
    )


def unknown(text: str, *others: str) -> UnknownName:
    """The error on a name that is neither a metric's nor one of the ``others``."""
    error = UnknownName("metric", text.strip(), [*others, *(m.family for m in METRICS)])
    words = _words(text.strip())
    if words in NEAREST:
        nearest, difference = NEAREST[words]
        error.hint = f"the nearest of ours is {nearest}, {difference}"
        return error
    error.hint = (
        f"{error.hint}; one of your own is a plug-in (--import, plugins, RAGASSAY_PLUGINS), or declared under criteria"
    )
    return error


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
    """Name of the type of the first parameter: Ranked, Chunk, Verdict or Sample, which is meant without a type."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    annotation = first.annotation if first else None
    if annotation is None or annotation is inspect.Parameter.empty:
        return "Sample"
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    seen = text.rsplit(".", 1)[-1].strip("\"'")
    if seen not in SEEN:
        what = f"the first parameter must be annotated with {', '.join(SEEN)}, not {text or annotation}"
        raise BadSettings(f"metric {function.__name__!r}: {what}")
    return seen
