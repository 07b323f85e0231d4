"""What changed from one version of a dataset to another: rows that came, went, or have other values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from ragassay.core.models import FrozenModel, Sample
from ragassay.datasets.dataset import NUMBERED, canonical
from ragassay.datasets.describe import same_text

_OPENED = ("response", "metadata", "labels")


class NamedRow(FrozenModel):
    """A row by its id and its question."""

    query_id: str
    query: str


class ChangedRow(NamedRow):
    """A row, as the second version has it, and the fields in which the two differ, such as ``response.answer``."""

    fields: tuple[str, ...]


class DatasetDifference(FrozenModel):
    """Two versions, row by row."""

    a: str
    b: str
    unchanged: int
    added: tuple[NamedRow, ...]
    removed: tuple[NamedRow, ...]
    changed: tuple[ChangedRow, ...]


def difference(a: Iterable[Sample], b: Iterable[Sample], *, names: tuple[str, str]) -> DatasetDifference:
    """Compare rows that can be read again, one by one; only those that differ are kept in memory.

    Rows belong together by their id; by their question where the id only numbers the row.
    """
    before = {key: _digest(sample) for key, sample in _keyed(a)}
    now = {key: _digest(sample) for key, sample in _keyed(b)}
    differ = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    old, new = ({key: one for key, one in _keyed(rows) if key in differ} if differ else {} for rows in (a, b))
    return DatasetDifference(
        a=names[0],
        b=names[1],
        unchanged=len(now) - len(new),
        added=tuple(_named(sample) for key, sample in new.items() if key not in old),
        removed=tuple(_named(sample) for key, sample in old.items() if key not in new),
        changed=tuple(
            ChangedRow(**_named(sample).model_dump(), fields=_differing(old[key], sample))
            for key, sample in new.items()
            if key in old
        ),
    )


def _keyed(samples: Iterable[Sample]) -> Iterator[tuple[bytes, Sample]]:
    """Each row with what it is found by in another version; a question that is asked again is counted."""
    times: dict[bytes, int] = {}
    for sample in samples:
        if not NUMBERED.fullmatch(sample.query_id):
            yield b"id " + sample.query_id.encode(), sample
            continue
        text = same_text(sample.query)
        times[text] = times.get(text, 0) + 1
        yield b"query %s %d" % (text, times[text]), sample


def _values(sample: Sample) -> dict[str, Any]:
    values = canonical(sample)
    if NUMBERED.fullmatch(sample.query_id):
        del values["query_id"]
    for name in _OPENED:
        inner = values.pop(name, {})
        values |= {f"{name}.{key}": value for key, value in inner.items()}
    return values


def _digest(sample: Sample) -> bytes:
    return hashlib.sha256(orjson.dumps(_values(sample), option=orjson.OPT_SORT_KEYS)).digest()[:16]


def _differing(one: Sample, other: Sample) -> tuple[str, ...]:
    a, b = _values(one), _values(other)
    return tuple(name for name in dict.fromkeys((*a, *b)) if a.get(name) != b.get(name))


def _named(sample: Sample) -> NamedRow:
    return NamedRow(query_id=sample.query_id, query=sample.query)
