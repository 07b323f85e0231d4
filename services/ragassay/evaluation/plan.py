"""What a run needs before it can begin: its inputs, its metrics, and what its judge calls would take."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ragassay.core.errors import BadSettings, NothingToEvaluate
from ragassay.core.files import LazyRows
from ragassay.core.models import Response, Sample, Usage
from ragassay.core.protocols import digest
from ragassay.core.report import Called, Source
from ragassay.core.specification import JobSpec
from ragassay.datasets import promptfoo
from ragassay.datasets.dataset import Dataset, digest_of_responses
from ragassay.datasets.load import load as load_dataset
from ragassay.datasets.responses import join, load_responses
from ragassay.datasets.tables import rows_in
from ragassay.evaluation.engine import Plan, Tools, rows_to_judge
from ragassay.llm.journal import CostEstimator
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.metric import METRICS, Metric, parse
from ragassay.storage.protocol import system_name
from ragassay.systems.base import LiveOptions
from ragassay.systems.builtin import BuiltIn, extract, planned_source
from ragassay.systems.functions import Function, FunctionConfig, RegisteredConfig, by_name
from ragassay.systems.http import HttpConfig
from ragassay.systems.options import SystemConfig
from ragassay.systems.runner import LiveSystem

DEFAULT_METRICS = (
    *("hit@1", "hit@3", "hit@5", "hit@10", "ndcg@5", "ndcg@10", "mrr", "map@10", "precision@5", "recall@10"),
    *("semantic_similarity", "faithfulness", "completeness", "relevance", "correctness"),
    *("context_precision", "context_recall", "accurate"),
)


_EXPECTED: dict[str, Any] = {
    "answer": "?", "contexts": ("?",), "retrieved_doc_ids": ("?",), "retrieved_scores": (1.0,), "model": "?",
    "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "retrieval_latency_ms": 0.0, "generation_latency_ms": 0.0,
    "route": "?", "error": None,
}  # fmt: skip


@dataclass(frozen=True)
class SystemInput:
    """A system under test: where its responses come from, and those that are recorded, by query id.

    ``function``: of a system that is a function of the caller's.
    """

    source: Source
    responses: Mapping[str, Response]
    function: Function | None = None

    def join(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """The samples with their responses; for a built-in system, with the fields that its responses will have."""
        if isinstance(self.responses, ResponsesInSamples):
            return self.responses.samples
        if self.source.called:
            fields = self.source.called.configuration.get("reply", _EXPECTED)  # a function may return any of them
            expected = Response(latency_ms=0.0, **{field: _EXPECTED[field] for field in fields})
            if self.source.called.configuration.get("stream", True):
                parts = ("first_token_ms", "retrieval_latency_ms", "generation_latency_ms")
                expected = expected.model_copy(update=dict.fromkeys(parts, 0.0))
            return _Joined(samples, lambda _: expected)
        if self.source.built:
            expected = Response(
                answer="?" if self.source.built.configuration["answer"] else None,
                contexts=("?",),
                retrieved_doc_ids=("?",),
                retrieval_latency_ms=0.0,
                latency_ms=0.0,
            )
            return _Joined(samples, lambda _: expected)
        return _Joined(samples, self.responses.get)


class _Joined(LazyRows[Sample]):
    """Samples with the responses that ``respond`` has for their ids."""

    def __init__(self, samples: Sequence[Sample], respond: Callable[[str], Response | None]) -> None:
        self._samples, self._respond = samples, respond

    def __len__(self) -> int:
        return len(self._samples)

    def row(self, place: int) -> Sample:
        """The sample at a place, from 0."""
        sample = self._samples[place]
        return sample.model_copy(update={"response": self._respond(sample.query_id)})


class ResponsesInSamples(Mapping[str, Response]):
    """The responses that stand in ``samples``, by query id."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.samples = samples
        self._places = {sample.query_id: n for n, sample in enumerate(samples) if sample.response}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __getitem__(self, query_id: str) -> Response:
        response = self.samples[self._places[query_id]].response
        if response is None:
            raise KeyError(query_id)
        return response


@dataclass(frozen=True)
class Inputs:
    """What is to be evaluated: the dataset's rows, and the systems by name."""

    dataset: Source
    samples: Sequence[Sample]
    systems: Mapping[str, SystemInput]

    @property
    def warnings(self) -> list[str]:
        """What may be wrong with the rows, behind the name of their file; each once."""
        sources = (self.dataset, *(system.source for system in self.systems.values()))
        return list(dict.fromkeys(f"{source.name}: {warning}" for source in sources for warning in source.warnings))

    def joined(self) -> dict[str, Sequence[Sample]]:
        """For each system, the samples with their responses."""
        return {name: system.join(self.samples) for name, system in self.systems.items()}

    def responses(self) -> dict[str, Mapping[str, Response]]:
        """For each system, its recorded responses by query id."""
        return {name: system.responses for name, system in self.systems.items()}


def recorded(dataset: Source, samples: Sequence[Sample]) -> Inputs:
    """The responses that stand in the samples, as the system ``default``."""
    return Inputs(dataset, samples, {"default": recorded_system("default", ResponsesInSamples(samples))})


def recorded_system(system: str, responses: Mapping[str, Response], warnings: tuple[str, ...] = ()) -> SystemInput:
    """A system whose responses are there, by query id."""
    source = Source(name=system, digest=digest_of_responses(responses), rows=len(responses), warnings=warnings)
    return SystemInput(source, responses)


def load(
    data: Any,
    systems: Mapping[str, Any],
    *,
    corpus: Path | None = None,
    format: str = "auto",  # noqa: A002 - as the option is called
    mapping: Mapping[str, str] | None = None,
    duplicates: Literal["error", "keep_first"] = "error",
    limit: int | None = None,
    max_grade: float | None = None,
    name: str | None = None,
) -> Inputs:
    """The dataset and each system's responses; without ``systems`` those in ``data``, as ``default``.

    A file of promptfoo's results with several providers has a system for each.

    ``data`` is a file, a dataset that is loaded already, or rows as ``datasets.tables`` takes them; so are the responses
    of a system. Without ``data`` the questions are those of the first system's file. A SystemConfig is a built-in system,
    which searches ``corpus``; an endpoint or a function is called; neither has responses yet.
    """
    for system in systems:
        try:
            system_name(system)
        except ValueError as error:
            raise BadSettings(str(error)) from None
    if data is None:
        data = next((choice for choice in systems.values() if isinstance(choice, Path)), None)
    if data is None:
        raise BadSettings(
            "DATA is missing",
            hint="name a file: ragassay evaluate DATA, 'data:' in the configuration, or a system's: --system NAME=FILE",
        )
    dataset = data
    if not isinstance(dataset, Dataset):
        dataset = load_dataset(
            data, format=format, mapping=mapping, duplicates=duplicates, limit=limit, max_grade=max_grade
        )
    rows = len(dataset.samples)
    if not systems:
        systems = promptfoo.systems_of(dataset.path)
    source = Source(name=name or dataset.name, digest=dataset.digest, rows=rows, warnings=dataset.warnings)
    if not systems:
        return recorded(source, dataset.samples)
    inputs: dict[str, SystemInput] = {}
    for system, given in systems.items():
        choice = by_name(given)
        if isinstance(choice, HttpConfig | FunctionConfig | RegisteredConfig) or callable(choice):
            config = FunctionConfig.of(choice) if callable(choice) else choice
            inputs[system] = SystemInput(called_source(system, config, rows), {}, choice if callable(choice) else None)
            continue
        if isinstance(choice, SystemConfig):
            inputs[system] = SystemInput(planned_source(system, choice, corpus, len(dataset.samples)), {})
            continue
        rows_or_file = choice if isinstance(choice, Path) else rows_in(choice, system)
        file = load_responses(rows_or_file, format=format, mapping=mapping, duplicates=duplicates)
        responses = {s.query_id: s.response for s in join(dataset, file, system) if s.response}
        inputs[system] = recorded_system(system, responses, file.warnings)
    return Inputs(source, dataset.samples, inputs)


def called_source(system: str, config: LiveOptions, rows: int) -> Source:
    """Where the responses of a system come from that a run calls."""
    called = Called(configuration=config.model_dump(mode="json"), run=uuid.uuid4().hex)
    return Source(name=system, digest=digest(called.configuration), rows=rows, called=called)


def computable() -> dict[str, Callable[[Sample], str | None]]:
    """For each metric family, what a sample lacks for it; None when nothing."""
    return {metric.family: metric.lacks for metric in METRICS}


def choose_metrics(spec: JobSpec, systems: Mapping[str, Sequence[Sample]]) -> tuple[Metric, ...]:
    """The metrics to report: those asked for, else the default ones whose inputs some answered row has; and the run's own.

    Raises BadSettings where none is asked for, NothingToEvaluate where none has its input.
    """
    own = own_metrics(spec)
    if spec.metrics is not None:
        chosen = {metric.name: metric for metric in (parse(name, own) for name in spec.metrics)} | own
        if not chosen:
            raise BadSettings("no metric is asked for", hint="leave metrics out for the default ones")
        first = next(_answered(systems), None)
        if first and all(metric.lacks(sample) for sample in _answered(systems) for metric in chosen.values()):
            lacking = next(iter(chosen.values())).lacks(first)
            raise NothingToEvaluate(
                f"no row has the input of a requested metric: {lacking}", hint="see: ragassay data show FILE"
            )
        return tuple(chosen.values())
    defaults = [*map(parse, DEFAULT_METRICS), *own.values()]
    without_input = defaults
    for sample in _answered(systems):
        without_input = [metric for metric in without_input if metric.lacks(sample) is not None]
        if not without_input:
            break
    usable = [metric for metric in defaults if metric not in without_input]
    reads = set(AccuracyRule.parse(spec.accurate, own).metrics)
    scorable = reads & {metric.name for metric in usable}
    metrics = tuple(metric for metric in usable if metric.family != "accurate" or scorable)
    if not metrics and any(True for _ in _answered(systems)):
        raise NothingToEvaluate("no default metric has the input it needs", hint="see: ragassay data show FILE")
    return metrics


def _answered(systems: Mapping[str, Sequence[Sample]]) -> Iterator[Sample]:
    return (sample for samples in systems.values() for sample in samples if sample.response)


def plan(spec: JobSpec, metrics: Sequence[Metric]) -> Plan:
    """What to compute for every sample."""
    own = own_metrics(spec)
    rule = AccuracyRule.parse(spec.accurate, own)
    graded = (spec.relevant_from, spec.max_grade, spec.graded)
    return Plan(
        tuple(metrics),
        rule,
        *graded,
        concurrency=spec.concurrency,
        timeout_s=spec.timeout_s,
        own=own,
    )


async def estimate(
    spec: JobSpec, inputs: Inputs, tools: Tools, live: Mapping[str, BuiltIn | LiveSystem]
) -> list[Usage]:
    """What each judge call of an evaluation would take, made by the code that makes the calls; none is made.

    ``tools`` must hold a CostEstimator. ``live`` systems have one of their own: those built in retrieve and call no model,
    and sentences of the passages stand in for its answers; for the answer of one that is called stand ground truth or query.
    """
    if not isinstance(tools.journal, CostEstimator):
        raise BadSettings("an estimate needs a CostEstimator, which makes no request")
    joined = inputs.joined()
    for name, system in live.items():
        responses = await asyncio.gather(*(system.respond(sample) for sample in inputs.samples))
        joined[name] = [
            sample.model_copy(update={"response": _with_answer(sample, response, system)})
            for sample, response in zip(inputs.samples, responses, strict=True)
        ]
    planned = plan(spec, choose_metrics(spec, joined))
    for rows in joined.values():
        await tools.panel.rate([rows[n] for n in rows_to_judge(rows, planned)], tools.journal)
    return tools.journal.estimates


def _with_answer(sample: Sample, response: Response | None, system: BuiltIn | LiveSystem) -> Response | None:
    if isinstance(system, LiveSystem):
        return Response(answer=sample.ground_truth_answer[0] if sample.ground_truth_answer else sample.query)
    if response is None or system.config.answer is None or response.answer is not None:
        return response
    return response.model_copy(update={"answer": extract(sample.query, response.contexts or ())})
