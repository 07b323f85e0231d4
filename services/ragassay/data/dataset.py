"""What loading gives: a dataset, or a system's responses, each with the digest of its canonical rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from ragassay.models import FrozenModel, Response, Sample


@dataclass(frozen=True)
class Dataset:
    """Samples of one file, in its order; ``response`` is set where the row carried any part of one.

    ``digest`` is the SHA-256 of the canonical rows, so the same rows as JSON or as CSV have the same one. ``mapped``
    maps our fields to the columns they are read from, ``kept`` names the unknown columns: their values are in
    ``metadata``. ``beyond_limit`` holds {query_id: query} of the rows that ``limit`` left out. ``judged_only``: it lacks
    queries that nobody judged, so a system may well have answered more.
    """

    name: str
    path: Path
    samples: tuple[Sample, ...]
    digest: str
    mapped: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    description: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    beyond_limit: Mapping[str, str] = field(default_factory=dict)
    judged_only: bool = False

    @property
    def has_responses(self) -> bool:
        """Did any row carry a response?"""
        return any(sample.response is not None for sample in self.samples)


@dataclass(frozen=True)
class Responses:
    """One system's recorded responses, by query_id; a file without ids is keyed ``by_query``, the query's text, alone.

    ``ignored`` names the columns that describe the query and not the response: the dataset has the last word on them.
    """

    path: Path
    by_id: Mapping[str, Response]
    digest: str
    by_query: Mapping[str, Response] = field(default_factory=dict)
    mapped: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def digest_of_samples(samples: Iterable[Sample]) -> str:
    """SHA-256 in hex over one canonical JSON line per sample: keys sorted, fields left out that are not given."""
    return _digest(canonical(sample) for sample in samples)


def digest_of_responses(responses: Mapping[str, Response]) -> str:
    """As for samples, in the order of the keys: where a response stands in its file means nothing."""
    return _digest({"key": key, "response": canonical(responses[key])} for key in sorted(responses))


def canonical(noun: FrozenModel) -> dict[str, Any]:
    """The plain values of a noun, without those at their default."""
    return noun.model_dump(exclude_defaults=True)


def _digest(rows: Iterable[dict[str, Any]]) -> str:
    total = hashlib.sha256()
    for row in rows:
        total.update(orjson.dumps(row, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE))
    return total.hexdigest()
