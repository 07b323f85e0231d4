"""What loading gives: a dataset, or a system's responses, and the digests of canonical rows."""

from __future__ import annotations

import hashlib
import heapq
import re
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from ragassay.core.files import MIB, set_aside
from ragassay.core.models import FrozenModel, Response, Sample

NUMBERED = re.compile(r"q_\d+")  # the id that a row gets from its place in a file without ids
_NOT_THE_QUESTION = {"query_id", "response", "metadata"}
_MAX_SORTED = 16 * MIB  # of lines that are sorted in memory


@dataclass(frozen=True)
class Dataset:
    """Samples of one file or stored version, in their order; ``response`` is set if the row has any part of one.

    ``digest`` (``digest_of_dataset``) is the same for the same rows as JSON or as CSV. ``mapped`` maps our fields to the
    columns they are read from, ``kept`` names the unknown columns: their values are in ``metadata``. ``judged_only``:
    queries without judgments are left out; ``limited``: those beyond a limit are. ``systems``: rows of the responses that
    the file has of several systems, by their names.
    """

    name: str
    path: Path
    samples: Sequence[Sample]
    digest: str
    mapped: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    description: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    judged_only: bool = False
    limited: bool = False
    systems: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def partial(self) -> bool:
        """May a system well have answered more?"""
        return self.judged_only or self.limited

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.samples)


@dataclass(frozen=True)
class Responses:
    """One system's recorded responses, by query_id if the file has ids; ``texts``: by the query's text, if it has these."""

    path: Path
    by_id: Mapping[str, Response]
    texts: Sequence[tuple[str, Response]] = ()
    warnings: tuple[str, ...] = ()


def plain_text(query: str) -> str:
    """The query without regard to white space: rows with the same one ask the same."""
    return " ".join(query.split())


def digest_of_dataset(samples: Iterable[Sample]) -> str:
    """SHA-256 in hex over questions, truths and labels: the same for whatever ids, order and answers come with them.

    One canonical JSON line per sample: keys sorted, fields left out that are not given. The lines are sorted too.
    """
    digest = DatasetDigest()
    for _ in digest.adding(samples):
        pass
    return digest.hex()


def digest_of_samples(samples: Iterable[Sample]) -> str:
    """As for a dataset, over all that the samples hold, in their order."""
    return _digest(map(canonical_line, samples))


def digest_of_responses(responses: Mapping[str, Response]) -> str:
    """As for samples, in the order of the keys, so that the order of a file does not matter."""
    return _digest(_line({"key": key, "response": canonical(responses[key])}) for key in sorted(responses))


def set_aside_samples(samples: Iterable[Sample]) -> Sequence[Sample]:
    """The samples, in memory where they are few and otherwise in a file: see ``set_aside``."""
    return set_aside(samples, lambda one: orjson.dumps(canonical(one)) + b"\n", Sample.model_validate_json)


def canonical(noun: FrozenModel) -> dict[str, Any]:
    """The plain values of a noun, without those at their default."""
    return noun.model_dump(exclude_defaults=True)


def canonical_line(noun: FrozenModel) -> bytes:
    """The plain values as JSON with its keys sorted, and a line end."""
    return _line(canonical(noun))


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def _digest(lines: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for line in lines:
        total.update(line)
    return total.hexdigest()


class DatasetDigest:
    """The digest of samples as they go by (``digest_of_dataset``); many lines are sorted in parts, in files."""

    def __init__(self) -> None:
        self._parts: list[Iterable[bytes]] = []
        self._part: list[bytes] = []
        self._size = 0

    def adding(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """The samples, each counted in."""
        for sample in samples:
            line = _line(sample.model_dump(exclude_defaults=True, exclude=_NOT_THE_QUESTION))
            self._part.append(bytes(memoryview(line)))  # orjson's own bytes keep the kilobytes that it wrote into
            self._size += len(line)
            if self._size > _MAX_SORTED:
                file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when this object goes
                weakref.finalize(self, file.close)
                file.writelines(sorted(self._part))
                file.seek(0)
                self._parts.append(file)
                self._part, self._size = [], 0
            yield sample

    def hex(self) -> str:
        """The digest of all samples so far."""
        return _digest(heapq.merge(*self._parts, sorted(self._part)))
