"""Rows that are read one by one are those that are read at once, and don't fill the memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from ragassay.core.errors import BadData
from ragassay.datasets.load import load


def test_files_without_ids_are_numbered_through_and_an_id_of_two_files_is_refused(write) -> None:
    a, b = write("a.jsonl", '{"query": "a"}\n{"query": "b"}\n'), write("b.csv", "question\nc\n")
    assert [(s.query_id, s.query) for s in load([a, b])] == [("q_0", "a"), ("q_1", "b"), ("q_2", "c")]
    again = write("c.jsonl", '{"query_id": "q_1", "query": "d"}\n')
    with pytest.raises(BadData, match=r"c\.jsonl: query_id: 'q_1' is used already in a\.jsonl"):
        load([a, again])


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.parquet"])
def test_memory_does_not_grow_with_the_file(name: str, save, tmp_path: Path) -> None:
    """10,000 rows of 5 KB each are 50 MB; loading and reading them again stays below 30 MB."""
    path = save([{"query": f"{n} " + "x" * 5_000, "category": str(n % 3)} for n in range(10_000)], tmp_path / name)
    load([{"query": "what is imported at first use is not counted"}])
    tracemalloc.start()
    try:
        assert sum(1 for _ in load(path)) == 10_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30_000_000


def test_the_first_1000_rows_decide_what_columns_are(save, tmp_path: Path) -> None:
    rows = [{"question": f"q{n}"} for n in range(1_500)]
    rows[1_200]["reference"] = "late"
    dataset = load(save(rows, tmp_path / "late.jsonl"))
    assert next(s for s in dataset if s.query == "q1200").metadata == {"reference": "late"}
    assert "reference is kept as metadata; did you mean ground_truth_answer?" in dataset.warnings[0]
