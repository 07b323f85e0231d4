"""Rows in memory: every kind of table gives the dataset that a file of the same rows gives."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import datasets
from offline_runs import write_jsonl
from ragassay.core.errors import BadData, BadInput, NothingToEvaluate
from ragassay.datasets.load import load

ROWS = [
    {"question": f"Where is {n}?", "answer": "Here.", "contexts": ["It is here.", "Or there."], "latency_ms": 1.5 * n}
    | {"ground_truth": None if n else "Here.", "team": "red", "input_tokens": None if n == 2 else 7}
    for n in range(3)
]


class ArrowOnly:
    """Some table of which only the Arrow interface is known."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Indexed:
    """A dataset as training loops have it: ``len()`` and ``[i]``, which does not end by itself."""

    def __len__(self):
        return len(ROWS)

    def __getitem__(self, n):
        return ROWS[n % len(ROWS)]


def frame_of_arrays():
    """As it comes out of many a pipeline: arrays in cells, NaN for what is missing, whole numbers as floats, an index."""
    frame = pd.DataFrame([{**row, "query_id": f"q_{n}"} for n, row in enumerate(ROWS)]).set_index("query_id")
    return frame.assign(contexts=[np.array(row["contexts"]) for row in ROWS])


TABLES = {
    "list": lambda: ROWS,
    "generator": lambda: (row for row in ROWS),
    "len and [i]": Indexed,
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas with arrays": frame_of_arrays,
    "pandas with a column as its index too": lambda: pd.DataFrame(ROWS).set_index("question", drop=False),
    "pandas on Arrow": lambda: pd.DataFrame(ROWS).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars lazy": lambda: pl.LazyFrame(ROWS),
    "Arrow": lambda: pa.Table.from_pylist(ROWS),
    "Arrow stream": lambda: ArrowOnly(pa.Table.from_pylist(ROWS)),
    "Hugging Face": lambda: datasets.Dataset.from_list(ROWS),
    "Hugging Face iterable": lambda: datasets.Dataset.from_list(ROWS).to_iterable_dataset(),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_load_of_each_kind_of_table_is_that_of_a_file_of_its_rows(make, tmp_path):
    of_file = load(write_jsonl(tmp_path / "rows.jsonl", ROWS))
    assert load(make()).samples == of_file.samples


def test_load_takes_samples_as_they_are_whatever_their_metadata_is_called():
    metadata = {"question": "another", "category": "mine"}
    samples = [sample.model_copy(update={"metadata": metadata}) for sample in load(ROWS).samples]
    assert load(samples).samples == tuple(samples)
    assert load(samples, limit=2).samples == tuple(samples[:2])
    with pytest.raises(BadData, match="query_id: 'q_0' is used already in data: row 1"):
        load([samples[0], samples[0]])


def test_load_numbers_of_other_types_are_numbers():
    row = {"query": "?", "answer": "!", "latency_ms": np.float32(0.5), "cost_usd": Decimal("0.25"), "n": np.int64(7)}
    (sample,) = load([{**row, "input_tokens": Decimal("NaN")}]).samples
    assert (sample.response.latency_ms, sample.response.cost_usd, sample.metadata) == (0.5, 0.25, {"n": 7})
    assert sample.response.input_tokens is None


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        ([{"query": "?"}, "text"], BadData, "data: row 2: should be a dict or a Sample, is 'text'"),
        ([{"query": "?"}, {"query": np.nan, "answer": "!"}], BadData, "data: row 2: query: is missing"),
        ([{"query": "?", "contexts": ["a", np.nan]}], BadData, r"data: row 1: contexts\[1\]: should be text, is null"),
        ([{"query": "?", "answer": "\ud83d"}], BadData, "data: row 1: holds half of a surrogate pair, .*: '.ud83d'"),
        ([{"query": "?", "cost_usd": Decimal("Infinity")}], BadData, "data: row 1: cost_usd: should be"),
        (datasets.DatasetDict(test=datasets.Dataset.from_list(ROWS)), BadInput, r"name one, such as \['test'\]"),
        ({"train": pd.DataFrame()}, BadInput, r"it has several tables; name one, such as \['train'\]"),
        ({"queries": pd.DataFrame()}, BadInput, r"it has several tables; name one, such as \['queries'\]"),
        (pd.DataFrame, BadInput, "data: a value of type type is no table of rows"),
        (None, BadInput, "data: null is no table of rows; give a list of dicts or Samples, a pandas"),
        (pd.DataFrame(), NothingToEvaluate, "data: there are no rows"),
    ],
)
def test_load_what_can_not_be_read_is_one_error_that_names_the_row(data, error, says):
    with pytest.raises(error, match=says):
        load(data)
