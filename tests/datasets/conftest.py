"""Writes the files that the tests of the data room load."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], Path]:
    """Writes bytes, text, or anything else as JSON, into an empty current folder, and gives the relative path."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, content: Any) -> Path:
        path = Path(name)
        text = content if isinstance(content, (str, bytes)) else json.dumps(content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_file


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (list, dict)) else value


def save_rows(rows: Sequence[dict[str, Any]], path: Path) -> Path:
    """The same rows in the format of the path's extension; in CSV, lists and objects as JSON."""
    match path.suffix:
        case ".json":
            path.write_text(json.dumps(rows), encoding="utf-8")
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        case ".csv" | ".tsv":
            names = list(dict.fromkeys(name for row in rows for name in row))
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, names, delimiter="," if path.suffix == ".csv" else "\t")
                writer.writeheader()
                writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
        case ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


@pytest.fixture
def save() -> Callable[[Sequence[dict[str, Any]], Path], Path]:
    return save_rows
