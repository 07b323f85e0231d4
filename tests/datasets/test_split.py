"""Parts of a dataset: even in every category, the same everywhere, and refused where they can't be made."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragassay.core.errors import BadInput, BadSettings
from ragassay.core.package_data import folder
from ragassay.datasets.load import load
from ragassay.datasets.split import split

SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


def test_split_divides_the_shipped_corpus_by_its_shares():
    samples = load(folder("datasets") / "handbook" / "queries.json").samples
    _, parts = split([s.query_id for s in samples], [s.category for s in samples], SHARES)
    assert [part.rows for part in parts] == [30, 10, 10]
    # 15 factual of 50: 9, 3 and 3
    assert [part.labels["factual"] for part in parts] == [9, 3, 3]


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


def test_split_leaves_out_a_part_without_a_share():
    parts, report = split(["a", "b"], [None, None], {"train": 0.5, "validation": 0, "test": 0.5})
    assert sorted(parts) == ["test", "train"]
    assert [part.name for part in report] == ["train", "test"]


@pytest.mark.parametrize(
    ("shares", "error", "says"),
    [
        ({"train": 0.5, "test": 0.6}, BadSettings, "add up to 1.1"),
        ({"train": 1.5, "test": -0.5}, BadSettings, "should be from 0 to 1"),
        ({"train": 0.9, "test": 0.1}, BadInput, "test would be empty"),
    ],
)
def test_split_refuses_shares_that_do_not_fit(shares, error, says):
    with pytest.raises(error, match=says):
        split(["a", "b"], [None, None], shares)
