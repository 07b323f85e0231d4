"""Versions of a dataset: what changed between two, and parts that are even in every category and the same everywhere."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragassay.core.errors import BadInput, BadSettings
from ragassay.core.models import Sample
from ragassay.datasets.diff import ChangedRow, NamedRow, difference
from ragassay.datasets.split import split


def differ(a, b):
    one, other = ([Sample(**row) for row in rows] for rows in (a, b))
    return difference(one, other, names=("a", "b"))


def test_difference_tells_rows_apart_by_their_id_and_changes_by_their_fields():
    kept = {"query_id": "1", "query": "Kept?"}
    found = differ(
        [
            kept,
            {"query_id": "2", "query": "Gone?"},
            {"query_id": "3", "query": "How long?", "metadata": {"by": "x", "n": 1}},
        ],
        [
            {"query_id": "4", "query": "New?"},
            {"query_id": "3", "query": "How long is it?", "metadata": {"by": "y", "n": 1}, "response": {"answer": "a"}},
            kept,
        ],
    )
    assert found.unchanged == 1
    assert found.added == (NamedRow(query_id="4", query="New?"),)
    assert found.removed == (NamedRow(query_id="2", query="Gone?"),)
    fields = ("query", "metadata.by", "response.answer")
    assert found.changed == (ChangedRow(query_id="3", query="How long is it?", fields=fields),)


SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=10, max_size=80), st.integers(0, 2**40))
def test_split_is_stratified_and_independent_of_order(labels, seed):
    ids = [str(n) for n in range(len(labels))]
    parts, report = split(ids, labels, SHARES, seed=seed)
    for label, rows in Counter(labels).items():
        for part in report:
            assert abs(part.labels.get(label, 0) - part.share * rows) < 2
    order = random.Random(seed).sample(range(len(ids)), len(ids))
    again, _ = split([ids[n] for n in order], [labels[n] for n in order], SHARES, seed=seed)
    assert again == [parts[n] for n in order]
    assert len(labels) < 30 or any(split(ids, labels, SHARES, seed=other)[0] != parts for other in range(3))


@pytest.mark.parametrize(
    ("shares", "error", "says"),
    [
        ({"train": 0.5, "test": 0.4}, BadSettings, "add up to 0.9"),
        ({"train": 1.5, "test": -0.5}, BadSettings, "should be from 0 to 1"),
        ({"train": 0.9, "test": 0.1}, BadInput, "test would be empty"),
    ],
)
def test_split_refuses_shares_that_do_not_fit(shares, error, says):
    with pytest.raises(error, match=says):
        split(["a", "b"], [None, None], shares)
