"""What a run evaluates: its record and its chunks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from ragassay.core.eval_config import DEFAULTS, RunConfig
from ragassay.core.models import FrozenModel
from ragassay.core.report import Source

Outcome = Literal["kept", "last", "stale"]
_SYSTEM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def system_name(name: str) -> str:
    """The name, which can be one of a folder; raises ValueError where it can't."""
    if not _SYSTEM_NAME.fullmatch(name):
        raise ValueError(f"system name {name!r} must be letters, digits, '.', '_' or '-', 64 at the most")
    return name


def _with_zone(time: str) -> str:
    if datetime.fromisoformat(time).tzinfo is None:
        raise ValueError("should be a time with its offset from UTC")
    return time


@dataclass(frozen=True)
class ChunkId:
    """One chunk of one system of a run; chunks are numbered from 0 in the dataset's order."""

    system: str
    number: int

    def __str__(self) -> str:
        return f"{self.system}:{self.number}"

    @classmethod
    def parse(cls, text: str) -> ChunkId:
        """The chunk that prints as ``text``."""
        system, _, number = text.rpartition(":")
        return cls(system, int(number))


class RunRecord(FrozenModel):
    """What a run evaluates, every name resolved; written once, before the first chunk.

    ``judge``, ``embeddings`` and ``code_digest`` tell whether anything changed before a resume; they are None where the
    process that accepts a run (the API) is not the one that works on it. ``kind``: an ``agreement`` run judges labelled
    rows to measure a judge; ``last`` and trends leave it out.
    """

    schema_version: Literal[2] = 2
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]
    created_at: Annotated[str, AfterValidator(_with_zone)]
    kind: Literal["evaluation", "agreement"] = "evaluation"
    spec: RunConfig
    metrics: Annotated[tuple[str, ...], Field(min_length=1)]
    dataset: Source
    systems: dict[Annotated[str, AfterValidator(system_name)], Source]
    judge: dict[str, Any] | None = None
    embeddings: str | None = None
    code_digest: str | None = None
    plugins: dict[str, str] = {}  # noqa: RUF012 - a default of a model
    chunk_size: Annotated[int, Field(ge=1, le=10_000)] = DEFAULTS.performance.batch

    def chunks(self) -> list[ChunkId]:
        """All chunks, system by system."""
        return [chunk for system in self.systems for chunk in self.chunks_of(system)]

    def chunks_of(self, system: str) -> list[ChunkId]:
        """The chunks of one system, in the dataset's order."""
        return [ChunkId(system, n) for n in range(-(-self.dataset.rows // self.chunk_size))]

    def rows_in(self, chunk: ChunkId) -> int:
        """How many rows a chunk has."""
        return min(self.chunk_size, self.dataset.rows - chunk.number * self.chunk_size)
