"""Writes the files that the tests of datasets load."""

import csv
import json
from pathlib import Path

import pytest

from offline_runs import write_jsonl
from ragassay.datasets.load import load


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes bytes, text, or anything else as JSON, into an empty current folder; returns the relative path."""
    monkeypatch.chdir(tmp_path)

    def write_file(name, content):
        path = Path(name)
        text = content if isinstance(content, (str, bytes)) else json.dumps(content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_file


@pytest.fixture
def only(write):
    """The sample of a file with one row."""

    def only(row, **options):
        (sample,) = load(write("a.json", [row]), **options).samples
        return sample

    return only


@pytest.fixture
def save():
    """Writes rows in the format of the path's extension; in CSV, lists and objects as JSON. Returns the path."""

    def cell(value):
        return json.dumps(value) if isinstance(value, (list, dict)) else value

    def save_rows(rows, path):
        if path.suffix == ".json":
            path.write_text(json.dumps(rows), encoding="utf-8")
        elif path.suffix == ".jsonl":
            write_jsonl(path, rows)
        elif path.suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.Table.from_pylist(list(rows)), path)
        else:
            names = list(dict.fromkeys(name for row in rows for name in row))
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, names, delimiter="," if path.suffix == ".csv" else "\t")
                writer.writeheader()
                writer.writerows({name: cell(value) for name, value in row.items()} for row in rows)
        return path

    return save_rows
