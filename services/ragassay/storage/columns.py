"""The figures of rows as columns, written beside the results: a page sorts and filters without reading the results.

The columns of a system are one blob, ``columns-<system>``: 8 bytes for each row of each column, one column after another.
What a search looks at is a blob for each chunk, ``texts/<system>/<n>``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import orjson

from ragassay.core.blobs import Blobs, packed, unpacked
from ragassay.core.draws import draw_key
from ragassay.core.models import Result
from ragassay.datasets.dataset import plain_text
from ragassay.metrics.failures import failure
from ragassay.metrics.judged import QUESTIONS
from ragassay.metrics.metric import OPERATIONAL
from ragassay.storage.protocol import ChunkId, RunRecord

FIGURES = (*OPERATIONAL, "number_of_results", "relevant", "duration_ms")  # what rows have beside scores
LABELS: dict[str, Callable[[Result], str | None]] = {
    "category": lambda row: row.category,
    "difficulty": lambda row: row.difficulty,
    "failure": failure,
}
THERE = "?there"  # not 0 where the row is done; of a run in a folder, when its results were written
QUESTION = "?question"  # equal for rows that are no independent observations, as evaluation.groups.question_key is
ID = "?id"  # of the query, as ``label_value`` has it
DRAW = "?draw"  # rows in its order are in random order, see ``draw_value``
FAILED = "?failed"  # 1 where its response failed, or the scoring
_WIDTH = 8  # bytes of a value


def names(metrics: Iterable[str]) -> tuple[str, ...]:
    """The names of all columns of an evaluation with these metrics; that of what is done comes last."""
    given = tuple(metrics)
    labelled = [column(name) for name in QUESTIONS if name in given for column in (chance_column, people_column)]
    return tuple(
        dict.fromkeys((*given, *FIGURES, FAILED, *map(label_column, LABELS), *labelled, DRAW, QUESTION, ID, THERE))
    )


def label_column(label: str) -> str:
    """The name of the column of a label."""
    return f"?{label}"


def chance_column(metric: str) -> str:
    """The name of the column of the judge's chance of a yes, else its score; NaN for rows that can't be labelled."""
    return f"?chance.{metric}"


def people_column(metric: str) -> str:
    """The name of the column of what the dataset says that people say of a metric."""
    return f"?people.{metric}"


def draw_value(record: RunRecord, query_id: str) -> float:
    """Where the rows on a query come in the random order of the dataset and seed: the first 53 bits of ``draw_key``."""
    return float(int.from_bytes(draw_key(record.spec.seed, record.dataset.digest, query_id)[:8]) >> 11)


def label_value(value: str | None) -> float:
    """What stands for a label's text in its column; NaN for none."""
    if value is None:
        return float("nan")
    return float(int.from_bytes(hashlib.sha256(value.encode()).digest()[:6]))  # 48 bits, which a float64 holds


def columns(results: Sequence[Result], written: float = 1.0) -> dict[str, Any]:
    """The columns of these rows, float64; ``written`` is what marks them as done."""
    metrics = tuple(dict.fromkeys(name for result in results for name in result.scores))
    given: dict[str, Iterable[float | None]] = {
        **{name: [getattr(result, name) for result in results] for name in FIGURES},
        **{
            name: [result.scores[name].value if name in result.scores else None for result in results]
            for name in metrics
        },
        FAILED: [float(result.failed) for result in results],
        **{label_column(label): [label_value(of(result)) for result in results] for label, of in LABELS.items()},
        **{chance_column(name): [_chance(one, name) for one in results] for name in QUESTIONS if name in metrics},
        **{people_column(name): [one.label(name) for one in results] for name in QUESTIONS if name in metrics},
        QUESTION: [_question(one) for one in results],
        ID: [label_value(one.query_id) for one in results],
        THERE: [written] * len(results),
    }
    return {name: np.array(values, dtype="<f8") for name, values in given.items()}


def _chance(row: Result, metric: str) -> float | None:
    score = row.scores[metric].value if metric in row.scores and row.answer is not None else None
    return score if score is None or row.verdict is None else row.verdict.probability.get(metric, score)


def _question(row: Result) -> float:
    """Even for questions and odd for conversations."""
    if row.conversation_id is not None:
        return label_value(row.conversation_id) // 2 * 2 + 1
    turns = (turn.content for turn in row.history)
    return label_value("\n".join((plain_text(row.query), *row.ground_truth_answer, *turns))) // 2 * 2


def columns_blob(system: str) -> str:
    """The name of the blob of a system's columns."""
    return f"columns-{system}"


def texts_blob(chunk: ChunkId) -> str:
    """The name of the blob of a chunk's texts."""
    return f"texts/{chunk.system}/{chunk.number:05d}"


def column_parts(
    record: RunRecord, chunk: ChunkId, results: Sequence[Result], written: float
) -> list[tuple[int, bytes]]:
    """The parts of a system's blob that a chunk writes, and their places; the mark of what is done comes last."""
    by_name, first = columns(results, written), chunk.number * record.chunk_size
    by_name[DRAW] = np.array([draw_value(record, one.query_id) for one in results], dtype="<f8")
    return [
        ((number * record.dataset.rows + first) * _WIDTH, by_name[name].tobytes())
        for number, name in enumerate(names(record.metrics))
    ]


def write_columns(
    blobs: Blobs, record: RunRecord, chunk: ChunkId, results: Sequence[Result], *, written: float
) -> None:
    """Write the columns and texts of a chunk."""
    blobs.put(texts_blob(chunk), pack_texts(results))
    blobs.write_at(columns_blob(chunk.system), column_parts(record, chunk, results, written))


def read_column(blobs: Blobs, record: RunRecord, system: str, name: str) -> Any:
    """A column of a system's rows as it was written; 0 where nothing was written."""
    rows, number = record.dataset.rows, names(record.metrics).index(name)
    part = blobs.read_at(columns_blob(system), number * rows * _WIDTH, rows * _WIDTH)
    return np.frombuffer(part.ljust(rows * _WIDTH, b"\0"), dtype="<f8")


def pack_texts(results: Sequence[Result]) -> bytes:
    """What a search for text looks at, as it is kept."""
    return packed(orjson.dumps(texts(results)))


def rows_with(blob: bytes, text: str) -> list[bool] | None:
    """For each row of a chunk, whether its kept texts hold this one; None where none does."""
    kept = unpacked(blob) or b"[]"
    if orjson.dumps(text)[1:-1] not in kept:
        return None
    return [text in each for each in orjson.loads(kept)]


def texts(results: Sequence[Result]) -> list[str]:
    """For each row its id, query, answer and ground truth, in one case."""
    return ["\n".join((r.query_id, r.query, r.answer or "", *r.ground_truth_answer)).casefold() for r in results]
