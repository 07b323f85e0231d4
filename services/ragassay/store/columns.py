"""The figures of a chunk's results as columns, written beside them: a page sorts and filters without reading the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import zstandard

from ragassay.metrics.base import OPERATIONAL
from ragassay.models import Result

FIGURES = (*OPERATIONAL, "number_of_results", "relevant", "duration_ms")  # what rows have beside scores
LABELS = ("category", "difficulty")
FAILED = "?failed"  # 1 where a score is missing because something failed


@dataclass(frozen=True)
class Columns:
    """Some rows' figures by name, float64 with NaN where a row has none; of a label the places in ``labels``."""

    names: tuple[str, ...]
    values: Any  # shape: (names, rows)
    labels: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, results: Sequence[Result]) -> Columns:
        """The columns of these rows."""
        labels = {label: tuple(dict.fromkeys(filter(None, (getattr(r, label) for r in results)))) for label in LABELS}
        scores = tuple(dict.fromkeys(name for result in results for name in result.scores))
        figures = tuple(name for name in FIGURES if name not in scores)
        rows = [
            [
                *((result.scores[name].value if name in result.scores else None) for name in scores),
                *(getattr(result, name) for name in figures),
                float(any(score.missing == "failed" for score in result.scores.values())),
                *(_place(getattr(result, label), labels[label]) for label in LABELS),
            ]
            for result in results
        ]
        names = (*scores, *figures, FAILED, *(f"?{label}" for label in LABELS))
        return cls(names, np.array(rows, dtype="<f8").reshape(len(results), len(names)).T, labels)

    def column(self, name: str) -> Any:
        """One column; all NaN where there is none of that name."""
        if name in self.names:
            return self.values[self.names.index(name)]
        return np.full(self.values.shape[1], np.nan)

    def has_label(self, label: str, value: str) -> Any:
        """For each row, whether its label is that."""
        known = self.labels.get(label, ())
        return self.column(f"?{label}") == (known.index(value) if value in known else -1)


def _place(value: str | None, known: tuple[str, ...]) -> int | None:
    return known.index(value) if value else None


def pack_columns(results: Sequence[Result]) -> bytes:
    """The columns of a chunk's rows as they are kept."""
    columns = Columns.of(results)
    head = orjson.dumps({"names": columns.names, "labels": columns.labels})
    return zstandard.compress(head + b"\n" + np.ascontiguousarray(columns.values).tobytes())


def unpack_columns(blob: bytes) -> Columns:
    """The columns that were kept."""
    head, _, values = zstandard.decompress(blob).partition(b"\n")
    document = orjson.loads(head)
    names = tuple(document["names"])
    return Columns(
        names,
        np.frombuffer(values, dtype="<f8").reshape(len(names), -1),
        {label: tuple(known) for label, known in document["labels"].items()},
    )


def pack_texts(results: Sequence[Result]) -> bytes:
    """What a search for text looks at, as it is kept."""
    return zstandard.compress(orjson.dumps(texts(results)))


def unpack_texts(blob: bytes) -> list[str]:
    """What a search for text looks at, for each row."""
    kept: list[str] = orjson.loads(zstandard.decompress(blob))
    return kept


def texts(results: Sequence[Result]) -> list[str]:
    """For each row its id, query, answer and ground truth, in one case."""
    return ["\n".join((r.query_id, r.query, r.answer or "", *r.ground_truth_answer)).casefold() for r in results]
