"""What a metric is, and the one way to declare one: a function, or a class or object with a method ``compute``.

There are two kinds of input, by the type of the first parameter:

* a row: its ``Sample`` (also without a type), its ``Verdict``, or its two lists of ids, as ``retrieved_ids`` and
  ``relevant_ids``, if there are parameters of these names; returns a Score, a number or None
* a batch: the ``Chunk`` of the rows that are evaluated at once, returns one of these for each row; or its graded lists,
  ``Ranked``, returns an array of shape (queries,), NaN where it is undefined
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

from ragassay.core.errors import BadSettings, UnknownName, reason_from
from ragassay.core.formatting import split_names
from ragassay.core.plugins import Registry
from ragassay.metrics.names import SPELLINGS, argument_value, read_name

if TYPE_CHECKING:
    from ragassay.core.models import Sample
    from ragassay.metrics.ranked import Array, Ranked

Better = Literal["higher", "lower"]
Kind = Literal["retrieval", "quality", "performance", "cost"]
InputType = Literal["Sample", "Verdict", "Ids", "Chunk", "Ranked"]
Input: TypeAlias = tuple[Callable[["Sample"], bool], str]
"""Does a row lack it, and the reason that its score then has."""
Inputs: TypeAlias = dict[str, Input]
T = TypeVar("T")
UNIT = (0.0, 1.0)
FIGURES = ("cost_per_accurate_answer", "suspicious", "refusal_precision", "refusal_recall")
"""Figures about many rows that are no mean of a metric."""
OPERATIONAL = (
    *("latency_ms", "first_token_ms", "retrieval_latency_ms", "generation_latency_ms"),
    *("input_tokens", "output_tokens", "cost_usd"),
)
"""What a response reports of time, tokens and cost."""


def _reported(name: str) -> Input:
    return lambda sample: getattr(sample.response, name, None) is None, f"the response has no {name}"


def _labelled(name: str) -> Input:
    return lambda sample: getattr(sample, name) is None, f"the query has no {name}"


def _has_cost(sample: Sample) -> bool:
    """Is the cost given, or is there what it can be worked out from?"""
    response = sample.response
    if response is None or response.cost_usd is not None:
        return response is not None
    return None not in (response.model, response.input_tokens, response.output_tokens)


_DOCUMENT_LABELS: Inputs = {
    "judgments": (
        lambda s: s.relevant_doc_ids is None and s.relevance_scores is None,
        "the query has no relevance judgments",
    ),
    **{name: _labelled(name) for name in ("subtopics", "doc_timestamps", "primary_relevant")},
}
_QUERY_LABELS: Inputs = _DOCUMENT_LABELS | {
    "best_route": _labelled("best_route"),
    "retrieval_needed": (lambda s: s.retrieval_needed is None, "the query does not say whether retrieval is needed"),
}
"""Labels of a query that a metric may need."""
_RESPONSE_INPUTS: Inputs = {
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
    **{name: _reported(name) for name in (*OPERATIONAL, "route", "clicks", "dwell_ms", "doc_ids_before_reranking")},
}
"""What a metric may need of a response, or of the ground truth once there is a response."""
INPUTS = frozenset((*_QUERY_LABELS, *_RESPONSE_INPUTS, "verdict", "embeddings"))


@dataclass(frozen=True)
class Metric:
    """A metric, bound to its parameter if it takes one. ``name`` parses back to the same metric.

    ``input_type``: what the function gets, ``Ids`` as two keywords, ``needs``: the inputs without which a row has
    no score, ``binary``: are values 0 or 1, ``optional``: may the parameter be left out, ``parts``: the metrics of a
    composite.
    """

    family: str
    function: Callable[..., Any] = field(compare=False)
    input_type: InputType = "Sample"
    kind: Kind = "quality"
    better: Better = "higher"
    needs: tuple[str, ...] = ()
    param: Literal["k", "p"] | None = None
    argument: float | None = None
    optional: bool = False
    bounds: tuple[float, float] | None = None
    binary: bool = False
    description: str = ""
    declared: object = None
    parts: tuple[Metric, ...] = ()

    @property
    def name(self) -> str:
        """Canonical name, such as ``ndcg@10``."""
        return self.family if self.argument is None else f"{self.family}@{self.argument:.15g}"

    @property
    def signature(self) -> str:
        """The name with what it takes, as a list of metrics shows it: ``recall@k``, ``mrr[@k]``."""
        return f"{self.family}{f'[@{self.param}]' if self.optional else f'@{self.param}' if self.param else ''}"

    @property
    def arguments(self) -> dict[str, Any]:
        """The keywords that the function is called with, after its input."""
        if self.param is None or self.argument is None:
            return {}
        return {self.param: int(self.argument) if self.param == "k" else self.argument}

    @property
    def is_async(self) -> bool:
        """Is it awaited?"""
        return inspect.iscoroutinefunction(self.function)

    @property
    def is_ours(self) -> bool:
        """Does it come with ragassay?"""
        return str(getattr(self.function, "__module__", "")).startswith("ragassay.")

    @property
    def embeds(self) -> bool:
        """Is it ours, and runs an embedding model? It is called in a thread, while the judge is asked."""
        return self.is_ours and "embeddings" in self.needs

    @property
    def uses_judge(self) -> bool:
        """Does it follow from a judge's verdict?"""
        return self.input_type == "Verdict" or self.family == "accurate" or any(part.uses_judge for part in self.parts)

    def reads(self, family: str) -> bool:
        """Is it that metric, or made of it?"""
        return self.family == family or any(part.reads(family) for part in self.parts)

    def missing_input(self, sample: Sample) -> str | None:
        """Why this sample can't be scored for want of input; None when it has all that is needed.

        A query that the run lacks counts as nothing retrieved, so metrics that compare with a query's labels score it.
        """
        if self.parts:
            missing = ((part.name, part.missing_input(sample)) for part in self.parts)
            return next((f"{name}: {reason}" for name, reason in missing if reason), None)
        labels = [need for need in self.needs if need in _QUERY_LABELS]
        for label in labels:
            is_absent, reason = _QUERY_LABELS[label]
            if is_absent(sample):
                return reason
        if sample.response is None:
            return None if labels else "the system gave no response"
        of_documents = ("retrieved_doc_ids",) if any(label in _DOCUMENT_LABELS for label in labels) else ()
        for need in (*of_documents, *self.needs):
            if need not in _RESPONSE_INPUTS:  # a label, or what a stage before gives
                continue
            is_absent, reason = _RESPONSE_INPUTS[need]
            if is_absent(sample):
                error = sample.response.error if need in ("answer", "contexts", "retrieved_doc_ids") else None
                return f"the system failed: {reason_from(error)}" if error else reason
        return None

    def values(self, batch: Ranked) -> Array:
        """The value for each query of a batch, NaN where undefined; for metrics that see Ranked."""
        values: Array = self.function(batch, **self.arguments)
        return values


_OURS = ("accuracy", "diversity", "embedding", "answer", "judged", "operational", "retrieval")
METRICS: Registry[Metric] = Registry(
    "metric", modules=[f"ragassay.metrics.{name}" for name in _OURS], adopt=lambda thing: METRICS.get(name_of(thing))
)
_ANNOTATIONS = ("Sample", "Verdict", "Chunk", "Ranked")
_IDS = frozenset(("retrieved_ids", "relevant_ids"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
_WORDS = ("better", "needs", "name", "kind", "bounds", "binary", "description")


def metric(
    *,
    better: Better,
    needs: str | Iterable[str] = (),
    name: str | None = None,
    kind: Kind | None = None,
    bounds: tuple[float, float] | None = None,
    binary: bool = False,
    description: str | None = None,
) -> Callable[[T], T]:
    """Register a function, or a class or object with ``compute``, as a metric: ``@metric(better="higher")``.

    ``needs``: inputs without which a row is missing, not zero: those in INPUTS. ``name``:
    that of the function or class; ``description``: its docstring; ``kind``: quality, of graded lists retrieval; unless they
    are given. ``bounds``: the least and greatest value; without them there are none. ``binary``: values are 0 or 1, so
    that its mean is a share. A parameter ``k`` or ``p`` is read from the name. The function may be async.
    Raises BadSettings and UnknownName for a declaration that can't be meant.
    """
    inputs = (needs,) if isinstance(needs, str) else tuple(needs)

    def register(thing: T) -> T:
        called: str = name if name is not None else getattr(thing, "__name__", type(thing).__name__)
        try:
            function = _function(thing)
            input_type, param = _parameters(function)
            _check(called, better, kind, inputs)
            limits = _bounds(bounds or (UNIT if binary else None))
        except BadSettings as error:
            raise BadSettings(error.message, where=f"metric {called!r}", hint=error.hint) from None
        declared = Metric(
            family=called,
            function=function,
            input_type=input_type,
            kind=kind or ("retrieval" if input_type in ("Ranked", "Ids") else "quality"),
            better=better,
            needs=("retrieved_doc_ids", "judgments", *inputs) if input_type == "Ids" else inputs,
            param=param.name if param else None,  # type: ignore[arg-type]  # one of the two
            optional=param is not None and param.default is not param.empty,
            bounds=limits,
            binary=binary,
            description=(description or inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " "),
            declared=thing,
        )
        if not declared.is_ours and any(
            one.is_ours and one.family.lower() == called.lower() for one in METRICS.registered()
        ):
            raise BadSettings(f"metric {called!r} is one of ours", hint="choose another name")
        METRICS.add(called, declared)
        return thing

    return register


def names_of(metrics: object) -> list[str]:
    """The names of metrics, which may be given as a text with commas, or as names, functions and objects."""
    if isinstance(metrics, str):
        return split_names(metrics)
    if not isinstance(metrics, Iterable):
        from ragassay.core.validation import shown  # imports pydantic, which `ragassay trec` does without

        raise BadSettings(f"should be a list, is {shown(metrics)}", where="metrics")
    return [name_of(one) for one in metrics]


def name_of(thing: object) -> str:
    """The name that means a metric: a name itself, or that of a registered function, class or object.

    A class or object with ``compute`` that is not registered yet is, with its attributes for the words of ``metric``. Of
    ``compute(retrieved_ids, relevant_ids)`` higher is better, unless it says so.
    Raises BadSettings for anything else.
    """
    if isinstance(thing, str):
        return thing
    if isinstance(thing, Metric):
        return thing.name
    if (known := next((each for each in METRICS.registered() if each.declared is thing), None)) is not None:
        return known.name
    if not hasattr(thing, "compute"):
        hint = "write a name, a function with @metric(better=...), or an object with compute"
        raise BadSettings(f"{str(thing)[:60]!r} is no metric", hint=hint)
    words: dict[str, Any] = {word: getattr(thing, word) for word in _WORDS if hasattr(thing, word)}
    better = "higher" if callable(thing.compute) and _takes_ids(thing.compute) else None
    metric(**({"better": better} | words))(thing)
    return name_of(thing)


def parse(text: str, custom: Mapping[str, Metric] = MappingProxyType({})) -> Metric:
    """The metric that a name such as ``nDCG@10``, ``P@5``, ``ndcg_cut_10`` or ``rbp@0.8`` means.

    ``custom`` are the run's own (``custom_metrics``). Raises UnknownName with the near matches, BadSettings if the parameter
    is missing, superfluous or out of range.
    """
    text = text.strip()
    if text.lower() in custom and text.lower() not in METRICS:
        return custom[text.lower()]
    family, argument = read_name(text, METRICS.__contains__)
    if family not in METRICS:
        raise unknown(text, *custom)
    declared = METRICS.get(family)
    value = argument_value(declared.family, declared.param, argument, text, optional=declared.optional)
    return declared if value is None else replace(declared, argument=value)


def unknown(text: str, *others: str) -> UnknownName:
    """The error on a name that is neither a metric's nor one of the ``others``."""
    error = UnknownName("metric", text.strip(), [*others, *(metric.family for metric in METRICS)])
    advice = "one of your own is a plug-in (--import, plugins, RAGASSAY_PLUGINS), or declared under criteria"
    error.hint = f"{error.hint}; {advice}"
    return error


def _function(thing: Any) -> Callable[..., Any]:
    """The function that computes: the thing itself, or ``compute`` of the object, or of an object of the class."""
    if inspect.isroutine(thing):
        return thing
    try:
        compute = getattr(thing() if isinstance(thing, type) else thing, "compute", None)
    except TypeError as error:
        raise BadSettings(str(error), hint="register an object, not the class") from None
    if not callable(compute):
        raise BadSettings("has no method compute", hint="write one: def compute(self, sample)")
    return compute  # type: ignore[no-any-return]


def _takes_ids(function: Callable[..., Any]) -> bool:
    return inspect.signature(function).parameters.keys() >= _IDS


def _parameters(function: Callable[..., Any]) -> tuple[InputType, inspect.Parameter | None]:
    """The input of a function, by the type of its first parameter, and the parameter that is read from the name."""
    parameters = dict(inspect.signature(function).parameters)
    if not parameters:
        raise BadSettings("takes no parameter", hint=f"the first is its input: {', '.join(_ANNOTATIONS)}")
    if _takes_ids(function):
        input_type: Any = "Ids"
        more = [parameter for name, parameter in parameters.items() if name not in _IDS]
    else:
        first, *more = parameters.values()
        annotation = "Sample" if first.annotation is first.empty else first.annotation
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
        input_type = text.rsplit(".", 1)[-1].strip("\"'")
        if input_type not in _ANNOTATIONS:
            raise BadSettings(f"the first parameter must be annotated with {', '.join(_ANNOTATIONS)}, not {text}")
    param = next((parameter for parameter in more if parameter.name in ("k", "p")), None)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for one in more:
        if one is not param and one.default is one.empty and one.kind not in variadic:
            hint = "the answer, the contexts and the response are the sample's; else give it a default"
            hint += ", or call the two retrieved_ids and relevant_ids" if len(more) == 1 else ""
            raise BadSettings(f"nothing is passed as {one.name!r}", hint=hint)
    return input_type, param


def _check(name: object, better: object, kind: object, needs: tuple[str, ...]) -> None:
    """Raises BadSettings and UnknownName for words of a declaration that can't be meant."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadSettings("a name is letters, digits, _ and -", hint="give one: name='own_metric'")
    if name.lower() in SPELLINGS:
        raise BadSettings(f"that name means {SPELLINGS[name.lower()]}", hint="choose another one")
    if better not in get_args(Better):
        hint = "declare better='higher' or 'lower', in @ragassay.metric(...) or as an attribute of the class"
        raise BadSettings("is higher or lower better?", hint=hint)
    if kind is not None and kind not in get_args(Kind):
        raise BadSettings(f"unknown kind {kind!r}", hint=f"one of: {', '.join(get_args(Kind))}")
    for need in needs:
        if need not in INPUTS:
            raise UnknownName("input", need, INPUTS, where=f"metric {name!r}")


def _bounds(bounds: Any) -> tuple[float, float] | None:
    """Least and greatest value; None if there are none."""
    try:
        low, high = map(float, bounds or UNIT)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise BadSettings(f"bounds should be the least and the greatest value, are {bounds!r}")
    return None if bounds is None else (low, high)
