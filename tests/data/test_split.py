"""Splits: the same everywhere, even, and without what would tell a system the test questions."""

from __future__ import annotations

import hashlib
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragassay.data.overlaps import Leak, QueryRow, overlaps, query_row
from ragassay.data.split import split
from ragassay.errors import BadInput, BadSettings
from ragassay.models import Sample

SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


def row(n: int, *documents: str) -> QueryRow:
    return QueryRow(f"Q{n}", hashlib.sha256(str(n).encode()).hexdigest(), documents)


def parts_of(rows: list[QueryRow], labels: list[str], **options: object) -> dict[str, str]:
    chosen = split(rows, labels, SHARES, **options).parts  # type: ignore[arg-type]
    return {row.query_id: part for row, part in zip(rows, chosen, strict=True)}


ROWS = [row(n) for n in range(20)]
LABELS = ["even" if n % 2 == 0 else "odd" for n in range(20)]


def test_a_seed_gives_the_same_parts_on_any_machine() -> None:
    letters = " ".join(part[:2] for part in split(ROWS, LABELS, SHARES, seed=7).parts)
    assert letters == PINNED


PINNED = "va tr tr tr tr tr va tr te tr tr va tr te tr te tr tr te va"


def test_the_order_of_the_file_changes_nothing_and_another_seed_does() -> None:
    order = list(range(20))
    random.Random(1).shuffle(order)
    shuffled = parts_of([ROWS[n] for n in order], [LABELS[n] for n in order], seed=7)
    assert shuffled == parts_of(ROWS, LABELS, seed=7)
    assert shuffled != parts_of(ROWS, LABELS, seed=8)


def test_each_part_has_its_share_of_every_label() -> None:
    rows = [row(n) for n in range(1000)]
    labels = [("common", "rare", "common", "other")[n % 4] for n in range(1000)]
    divided = split(rows, labels, SHARES)
    for part, share in SHARES.items():
        counts = Counter(label for label, of in zip(labels, divided.parts, strict=True) if of == part)
        assert {label: abs(n - share * labels.count(label)) <= 1 for label, n in counts.items()} == dict.fromkeys(
            counts, True
        )


@given(st.lists(st.lists(st.integers(0, 30), max_size=3), min_size=40, max_size=60), st.integers(0, 5))
def test_no_relevant_document_is_in_two_parts(documents: list[list[int]], seed: int) -> None:
    rows = [row(n, *map(str, ids)) for n, ids in enumerate(documents)]
    try:
        divided = split(rows, ["x"] * len(rows), SHARES, seed=seed)
    except BadInput:  # a part would be empty
        return
    parts: dict[str, set[str]] = {}
    for one, part in zip(rows, divided.parts, strict=True):
        for document in one.documents:
            parts.setdefault(document, set()).add(part)
    assert {len(of) for of in parts.values()} <= {1}
    assert divided.report.leaks == ()


def test_questions_that_are_nearly_the_same_stay_together() -> None:
    rows = [row(n) for n in range(30)]
    rows += [each._replace(query_id=f"{each.query_id}b", text=each.text + "s") for each in rows]
    parts = parts_of(rows, ["x"] * 60)
    assert all(parts[f"Q{n}"] == parts[f"Q{n}b"] for n in range(30))


def test_similar_questions_may_be_in_different_parts_where_that_is_asked_for() -> None:
    rows = [QueryRow(f"Q{n}", f"what does the error with the number {n} mean to us", ()) for n in range(20)]
    with pytest.raises(BadInput, match="--group-by question lets parts share similar questions"):
        split(rows, LABELS, SHARES, group_by="similar")
    report = split(rows, LABELS, SHARES, group_by="question").report
    assert [part.rows for part in report.parts] == [12, 4, 4]
    assert {leak.shared for leak in report.leaks} == {"similar question"}


def test_parts_may_share_documents_where_that_is_asked_for_and_the_leak_is_reported() -> None:
    rows = [row(n, "hub") for n in range(20)]
    with pytest.raises(
        BadInput, match="validation would be empty; the largest group that stays together has 20 of 20 rows"
    ):
        split(rows, LABELS, SHARES)
    report = split(rows, LABELS, SHARES, group_by="similar").report
    assert [part.rows for part in report.parts] == [12, 4, 4]
    assert [(leak.shared, leak.parts, leak.rows) for leak in report.leaks] == [
        ("relevant document", ("train", "validation"), 4),
        ("relevant document", ("train", "test"), 4),
        ("relevant document", ("validation", "test"), 4),
    ]


def test_a_part_that_is_far_from_its_share_is_a_warning() -> None:
    rows = [row(n, "hub") if n < 16 else row(n) for n in range(20)]
    (first, *_) = split(rows, LABELS, SHARES).report.warnings
    assert first.startswith(
        "train has 80 % of the rows instead of 60 %; the largest group that stays together has 16 of 20"
    )


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"train": 0.5, "test": 0.4}, "add up to 0.9, not 1: train 0.5, test 0.4"),
        ({"train": 1.5, "test": -0.5}, "from 0 to 1"),
    ],
)
def test_shares_have_to_add_up(shares: dict[str, float], message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        split(ROWS, LABELS, shares)


def test_the_documents_of_chunks_are_what_stands_before_the_separator() -> None:
    sample = Sample(query_id="a", query="Q?", relevance_scores={"guide-a-01": 2, "guide-a-02": 1, "b": 1, "c-1": 0})
    assert query_row(sample, separator="-").documents == ("guide-a", "b")
    assert query_row(sample).documents == ("guide-a-01", "guide-a-02", "b")


def test_what_leaks_between_the_parts_of_a_dataset_is_counted_once_per_row() -> None:
    rows = [
        QueryRow("a", "how long is a token valid", ("d1", "d2"), "train"),
        QueryRow("b", "how long is a token valid", ("d3",), "test"),
        QueryRow("c", "how long is this token valid", ("d1", "d2"), "test"),
        QueryRow("d", "where are backups kept", ("d9",), "test"),
        QueryRow("e", "unlabelled rows are in no part", ("d1",)),
    ]
    found = overlaps(rows, least=0.6)
    assert [each.query_ids for each in found.similar_queries] == [("a", "b", "c")]
    assert found.leaks == (
        Leak(shared="question", parts=("train", "test"), rows=1, examples=("b",)),
        Leak(shared="similar question", parts=("train", "test"), rows=2, examples=("b", "c")),
        Leak(shared="relevant document", parts=("train", "test"), rows=1, examples=("c",)),
    )
