"""The figures of rows as columns, written beside the results: a page sorts and filters without reading the results."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import orjson

from ragassay.core.models import Result
from ragassay.datasets.dataset import plain_text
from ragassay.metrics.failures import failure
from ragassay.metrics.metric import OPERATIONAL

FIGURES = (*OPERATIONAL, "number_of_results", "relevant", "duration_ms")  # what rows have beside scores
LABELS: dict[str, Callable[[Result], str | None]] = {
    "category": lambda row: row.category,
    "difficulty": lambda row: row.difficulty,
    "failure": failure,
}
THERE = "?there"  # 1 where the row is done
QUESTION = "?question"  # equal if rows ask the same and have the same ground truth, as in groups.question_key
FAILED = "?failed"  # 1 where its response failed, or the scoring
_WIDTH = 8  # bytes of a value


class Columns(Protocol):
    """Rows' figures by name."""

    def column(self, name: str) -> Any:
        """A value for each row; NaN where it has none."""


def names(metrics: Iterable[str]) -> tuple[str, ...]:
    """The names of all columns of an evaluation with these metrics."""
    return tuple(dict.fromkeys((*metrics, *FIGURES, FAILED, *map(label_column, LABELS), QUESTION, THERE)))


def label_column(label: str) -> str:
    """The name of the column of a label."""
    return f"?{label}"


def label_value(value: str | None) -> float:
    """What stands for a label's text in its column; NaN for none."""
    if value is None:
        return float("nan")
    return float(int.from_bytes(hashlib.sha256(value.encode()).digest()[:6]))  # 48 bits, which a float64 holds


def columns(results: Sequence[Result]) -> dict[str, Any]:
    """The columns of these rows, float64."""
    metrics = tuple(dict.fromkeys(name for result in results for name in result.scores))
    given: dict[str, Iterable[float | None]] = {
        **{name: [getattr(result, name) for result in results] for name in FIGURES},
        **{
            name: [result.scores[name].value if name in result.scores else None for result in results]
            for name in metrics
        },
        FAILED: [float(result.failed) for result in results],
        **{label_column(label): [label_value(of(result)) for result in results] for label, of in LABELS.items()},
        QUESTION: [label_value("\n".join((plain_text(one.query), *one.ground_truth_answer))) for one in results],
        THERE: [1.0] * len(results),
    }
    return {name: np.array(values, dtype="<f8") for name, values in given.items()}


def read_column(blob: bytes | None, rows: int) -> Any:
    """A column of so many rows as it was kept; 0 where nothing was written."""
    kept = np.frombuffer((blob or b"")[: rows * _WIDTH], dtype="<f8")
    return kept if len(kept) == rows else np.concatenate([kept, np.zeros(rows - len(kept))])


def pack_texts(results: Sequence[Result]) -> bytes:
    """What a search for text looks at, as it is kept."""
    packed: bytes = zstd().compress(orjson.dumps(texts(results)))
    return packed


def rows_with(blob: bytes, text: str) -> list[bool] | None:
    """For each row of a chunk, whether its kept texts hold this one; None where none does."""
    kept = zstd().decompress(blob)
    if orjson.dumps(text)[1:-1] not in kept:
        return None
    return [text in each for each in orjson.loads(kept)]


def texts(results: Sequence[Result]) -> list[str]:
    """For each row its id, query, answer and ground truth, in one case."""
    return ["\n".join((r.query_id, r.query, r.answer or "", *r.ground_truth_answer)).casefold() for r in results]


def zstd() -> ModuleType:
    """Zstandard, imported when columns are packed or read: a short run has none."""
    import zstandard

    return zstandard
