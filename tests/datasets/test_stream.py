"""Rows that are read one by one are those that are read at once, and don't fill the memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from ragassay.core.errors import BadData
from ragassay.datasets.load import SampleStream


def test_files_without_ids_are_numbered_through_and_an_id_of_two_files_is_refused(write) -> None:
    a, b = write("a.jsonl", '{"query": "a"}\n{"query": "b"}\n'), write("b.csv", "question\nc\n")
    assert [(s.query_id, s.query) for s in SampleStream([a, b])] == [("q_0", "a"), ("q_1", "b"), ("q_2", "c")]
    again = write("c.jsonl", '{"query_id": "q_1", "query": "d"}\n')
    with pytest.raises(BadData, match=r"c\.jsonl: query_id: 'q_1' is used already in a\.jsonl"):
        list(SampleStream([a, again]))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.parquet"])
def test_memory_does_not_grow_with_the_file(name: str, save, tmp_path: Path) -> None:
    """3,000 rows of 5 KB each are 15 MB; both passes together stay below 5 MB."""
    path = save([{"query": f"{n} " + "x" * 5_000, "category": str(n % 3)} for n in range(3_000)], tmp_path / name)
    sum(1 for _ in SampleStream([path]))  # what is imported at first use is not counted
    tracemalloc.start()
    try:
        assert sum(1 for _ in SampleStream([path])) == 3_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


def test_a_column_that_begins_late_is_read_and_a_late_contradiction_is_a_bad_row(save, tmp_path: Path) -> None:
    rows = [{"question": f"q{n}"} for n in range(1_500)]
    rows[1_200]["reference"] = "late"
    path = save(rows, tmp_path / "late.jsonl")
    assert next(s for s in SampleStream([path]) if s.query == "q1200").ground_truth_answer == ("late",)
    twice = save(
        [{**row, "user_input": row["question"]} for row in rows[:-1]] + [{"question": "x", "user_input": "y"}],
        tmp_path / "twice.jsonl",
    )
    with pytest.raises(BadData, match=r"twice\.jsonl:1500: query.*: the columns user_input and question differ here"):
        list(SampleStream([twice]))
