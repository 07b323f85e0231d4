"""Whatever a file holds, loading gives a dataset or one of our errors; never anything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ragassay.core.errors import AssayError
from ragassay.datasets.columns import ALIASES, FIELDS
from ragassay.datasets.describe import describe
from ragassay.datasets.load import load
from ragassay.datasets.responses import load_responses

COLUMNS = sorted(
    {*FIELDS, "metadata", "response", "context", "output", *(a for names in ALIASES.values() for a in names)}
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["d1", "[1,", "{'a': 1}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
CELLS = st.sampled_from(
    ["query", "answer", "contexts", "1", "-2", "nan", "[", "['a', 'b']", '{"a": 1}', "a|b", "é", " "]
)
PIECES = CELLS | st.sampled_from([",", ",", "\n", "\n", "\r\n", '"', "\t", "\\", "\x00"])
quietly = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def _loads_or_refuses(path: Path, loading: Callable[..., Any], **options: Any) -> None:
    try:
        loaded = loading(path, **options)
    except AssayError as error:
        said = str(error)
        said.encode()
        assert "\n" not in said
    else:
        assert len(loaded.digest) == 64
        if loading is load:
            describe(loaded).model_dump_json()


@quietly
@given(content=st.binary(max_size=60), name=st.sampled_from(["json", "jsonl", "csv", "tsv", "parquet"]))
@example(content=b"PAR1" + b"\x00" * 20 + b"PAR1", name="parquet")
@example(content=b"query\n\x00", name="csv")
def test_any_bytes(content: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{name}"
    path.write_bytes(content)
    _loads_or_refuses(path, load)


@quietly
@given(pieces=st.lists(PIECES, max_size=25), name=st.sampled_from(["csv", "tsv"]))
def test_any_table(pieces: list[str], name: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{name}"
    path.write_bytes(("query,answer\n" + "".join(pieces)).encode())
    _loads_or_refuses(path, load, duplicates="keep_first")
    _loads_or_refuses(path, load_responses)


@quietly
@given(rows=st.lists(st.dictionaries(st.sampled_from(COLUMNS), VALUES, max_size=6), max_size=3))
@example(rows=[{"query": "q", "response": {"response": 1, "context": {"a": [1]}}}])
@example(rows=[{"id": [], "example id": False}])
def test_any_values_in_known_columns(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"query": "q", **row} for row in rows]), encoding="utf-8")
    for duplicates in ("error", "keep_first"):
        _loads_or_refuses(path, load, duplicates=duplicates)
    _loads_or_refuses(path, load, limit=1)
    _loads_or_refuses(path, load_responses)


@pytest.mark.parametrize("extension", ["json", "jsonl", "csv", "tsv", "parquet"])
def test_a_file_cut_off_anywhere_loads_or_is_refused(extension: str, tmp_path: Path, save: Any) -> None:
    rows = [{"query": "Where?", "contexts": ["a, b", 'c "d"'], "relevance_scores": {"é": 1}}, {"query": "Why?"}]
    path = save(rows, tmp_path / f"a.{extension}")
    whole = path.read_bytes()
    for length in range(0, len(whole), 1 if extension != "parquet" else 23):
        path.write_bytes(whole[:length])
        _loads_or_refuses(path, load)
