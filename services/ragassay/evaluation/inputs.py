"""What an evaluation is of: a dataset and the systems under test, read from files, rows in memory or results of other tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from ragassay.core.errors import BadSettings
from ragassay.core.files import KeyedRows, MappedRows
from ragassay.core.models import Response, Sample
from ragassay.core.protocols import digest
from ragassay.core.report import Called, Source
from ragassay.datasets.columns import MapOption
from ragassay.datasets.dataset import Dataset, digest_of_responses
from ragassay.datasets.frames import rows_in
from ragassay.datasets.load import join, load_responses
from ragassay.datasets.load import load as load_dataset
from ragassay.storage.protocol import system_name
from ragassay.systems.base import LiveOptions
from ragassay.systems.builtin import planned_source
from ragassay.systems.functions import Function, FunctionConfig, RegisteredConfig, by_name, is_function
from ragassay.systems.http import HttpConfig
from ragassay.systems.options import SystemConfig

_SYSTEMS = "; a system may also be a function of the query, or an object with retrieve(query, top_k)"
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
        """The samples with their responses; for a system that answers later, with the fields that its responses will have."""
        if isinstance(self.responses, KeyedRows):
            return self.responses.rows
        expected = self._expected()

        def joined(sample: Sample) -> Sample:
            return sample.model_copy(update={"response": expected or self.responses.get(sample.query_id)})

        return MappedRows(samples, joined)

    def _expected(self) -> Response | None:
        """A response with the fields that the system will fill; None for recorded responses."""
        if self.source.called:
            configuration = self.source.called.configuration
            fields = configuration.get("reply", _EXPECTED)  # a function may return any of them
            parts = ("first_token_ms", "retrieval_latency_ms", "generation_latency_ms")
            streamed = dict.fromkeys(parts, 0.0) if configuration.get("stream", True) else {}
            return Response(**{"latency_ms": 0.0, **{field: _EXPECTED[field] for field in fields}, **streamed})
        if self.source.built:
            filled = ("contexts", "retrieved_doc_ids", "retrieval_latency_ms")
            answer = _EXPECTED["answer"] if self.source.built.configuration["answer"] else None
            return Response(answer=answer, latency_ms=0.0, **{field: _EXPECTED[field] for field in filled})
        return None


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
    places = {sample.query_id: n for n, sample in enumerate(samples) if sample.response}
    responses = KeyedRows[Response](samples, places, attrgetter("response"))
    return Inputs(dataset, samples, {"default": recorded_system("default", responses)})


def recorded_system(system: str, responses: Mapping[str, Response], warnings: tuple[str, ...] = ()) -> SystemInput:
    """A system whose responses are there, by query id."""
    source = Source(name=system, digest=digest_of_responses(responses), rows=len(responses), warnings=warnings)
    return SystemInput(source, responses)


def called_source(system: str, config: LiveOptions, rows: int) -> Source:
    """Where the responses of a system come from that a run calls."""
    called = Called(configuration=config.model_dump(mode="json"))
    return Source(name=system, digest=digest(called.configuration), rows=rows, called=called)


def has_recorded(systems: Mapping[str, Any]) -> bool:
    """Whether any of these systems has responses already, so that a mapping may name their columns."""
    planned = HttpConfig | FunctionConfig | RegisteredConfig | SystemConfig
    return any(not is_function(choice) and not isinstance(choice, planned) for choice in systems.values())


def load(
    data: Any,
    systems: Mapping[str, Any],
    *,
    corpus: Path | None = None,
    format: str = "auto",  # noqa: A002 - as the option is called
    mapping: MapOption | None = None,
    duplicates: Literal["error", "keep_first"] = "error",
    limit: int | None = None,
    max_grade: float | None = None,
    name: str | None = None,
) -> Inputs:
    """The dataset and each system's responses; without ``systems`` those in ``data``, as ``default``.

    A file of promptfoo's results with several providers has a system for each.

    ``data`` is a file, a dataset that is loaded already, or rows as ``datasets.frames`` takes them; so are the responses
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
        raise BadSettings("data is missing", hint="name a file, or one of a system's responses", option="data")
    reading: dict[str, Any] = {"format": format, "mapping": mapping, "duplicates": duplicates}
    dataset = data
    if not isinstance(dataset, Dataset):
        dataset = load_dataset(data, limit=limit, max_grade=max_grade, other_files=has_recorded(systems), **reading)
    rows = len(dataset.samples)
    source = Source(name=name or dataset.name, digest=dataset.digest, rows=rows, warnings=dataset.warnings)
    systems = systems or dataset.systems
    if not systems:
        return recorded(source, dataset.samples)

    def system_input(system: str, choice: Any) -> SystemInput:
        if is_function(choice):
            return SystemInput(called_source(system, FunctionConfig.of(choice), rows), {}, choice)
        if isinstance(choice, HttpConfig | FunctionConfig | RegisteredConfig):
            return SystemInput(called_source(system, choice, rows), {})
        if isinstance(choice, SystemConfig):
            return SystemInput(planned_source(system, choice, corpus, rows), {})
        file = load_responses(choice if isinstance(choice, Path) else rows_in(choice, system, _SYSTEMS), **reading)
        return recorded_system(system, join(dataset, file, system), file.warnings)

    return Inputs(
        source, dataset.samples, {system: system_input(system, by_name(one)) for system, one in systems.items()}
    )
