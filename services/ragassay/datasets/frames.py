"""Rows in memory: lists of dicts or Samples, data frames, Arrow tables, Hugging Face datasets.

Their libraries are not imported: a table is known by its methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from ragassay.core.errors import BadInput
from ragassay.core.models import Sample
from ragassay.core.validation import shown
from ragassay.datasets.source import NumberedRow, Source

_TAKEN = "a list of dicts or Samples, a pandas, polars or Arrow table, a Hugging Face Dataset, or a path"


def rows_in(data: object, name: str = "data") -> Source:
    """The rows of an object in memory; ``name`` stands for a file in errors, where rows count from 1.

    NaN, NaT and NA are absent values, arrays lists, dates ISO 8601. Raises BadInput for what is no table of rows.
    """
    source = Source(Path(name), name=name, counts_lines=False)
    source.rows = _rows(source, _records(data, name))
    return source


def _rows(source: Source, records: Iterable[object]) -> Iterator[NumberedRow]:
    for number, row in enumerate(records, 1):
        if isinstance(row, Sample):
            row = row.model_dump(exclude_defaults=True)
        if isinstance(row, Mapping):
            yield number, {str(key): to_json(value) for key, value in row.items()}
        else:
            source.add_problem(number, f"should be a dict or a Sample, is {_described(row)}")


def _records(data: Any, name: str) -> Iterable[object]:
    """Its rows, one after the other."""
    if isinstance(data, Mapping | str | bytes):
        hint = f"give {_TAKEN}"
        if isinstance(data, Mapping) and data and all(_reader(part) for part in data.values()):
            hint = f"it has several tables; name one, such as [{next(iter(data))!r}]"
        raise BadInput(f"{_described(data)} is no table of rows", where=name, hint=hint)
    if callable(getattr(data, "collect", None)) and hasattr(data, "lazy"):
        data = data.collect()  # polars' LazyFrame
    if reader := _reader(data):
        return reader(data)
    if isinstance(data, Iterable):
        return data
    raise BadInput(f"{_described(data)} is no table of rows", where=name, hint=f"give {_TAKEN}")


def _reader(data: Any) -> Callable[[Any], Iterable[object]] | None:
    """What reads the rows of a table; None for what is none."""
    if isinstance(data, type):
        return None
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return _of_pandas
    for method in ("to_dicts", "to_pylist"):  # polars; Arrow
        if callable(getattr(data, method, None)):
            return lambda table: getattr(table, method)()
    if hasattr(data, "__arrow_c_stream__"):
        return _of_arrow
    if hasattr(data, "column_names") and hasattr(data, "features"):
        return iter  # Hugging Face
    return None


def _of_pandas(frame: Any) -> Iterable[object]:
    if twice := next((name for name in frame.columns if list(frame.columns).count(name) > 1), None):
        raise BadInput(f"two columns are called {shown(str(twice))}")
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    records: Iterable[object] = frame.to_dict("records")
    return records


def _of_arrow(table: Any) -> Iterable[object]:
    import pyarrow

    rows: Iterable[object] = pyarrow.table(table).to_pylist()
    return rows


def to_json(value: Any) -> Any:
    """A value of a table as JSON would have it; None for one that is missing. What has no such form stays, to be refused.

    NaN, NaT and NA are missing values, arrays lists, dates ISO 8601.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        entries = {str(key): to_json(entry) for key, entry in value.items()}
        return {key: entry for key, entry in entries.items() if entry is not None}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted(map(to_json, value), key=str)
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas'
        return None
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return to_json(value.tolist()) if callable(getattr(value, "tolist", None)) else value


def _described(value: object) -> str:
    kind = type(value)
    if kind.__module__ == "builtins":
        return "None" if value is None else shown(value)
    return f"a {kind.__module__}.{kind.__name__}"
