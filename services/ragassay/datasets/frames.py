"""Rows in memory: lists of dicts or Samples, data frames, Arrow tables, Hugging Face datasets.

Their libraries are not imported: a table is known by its methods.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from ragassay.core.errors import BadInput
from ragassay.core.models import Sample
from ragassay.core.validation import is_text, shown
from ragassay.datasets.source import NumberedRow, Source, ValueProblem

_TAKEN = (
    "give a list of dicts or Samples, a pandas, polars or Arrow table, a Hugging Face Dataset, an object with len() and [i], "
    "or a path"
)


def rows_in(data: object, name: str = "data", other_kinds: str = "") -> Source:
    """The rows of an object in memory; errors show ``name`` in the place of a file, ``other_kinds`` in the hint, rows from 1.

    NaN, NaT and NA are absent values, arrays lists, dates ISO 8601. Raises BadInput for what is no table of rows.
    """
    if not _is_table(data):
        hint = _TAKEN + other_kinds
        if (
            isinstance(data, Mapping)
            and data
            and all(hasattr(each, "columns") or hasattr(each, "column_names") for each in data.values())
        ):
            hint = f"it has several tables; name one, such as [{next(iter(data))!r}]"
        raise BadInput(f"{shown(data)} is no table of rows", where=name, hint=hint)
    source = Source(Path(name), name=name, counts_lines=False)
    source.rows = numbered_rows(source, _records(data))
    return source


def numbered_rows(source: Source, records: Iterable[object]) -> Iterator[NumberedRow]:
    """Dicts or Samples as rows of a source, whose problems are noted there."""
    for number, row in enumerate(records, 1):
        if isinstance(row, Sample):
            row = row.model_dump(exclude_defaults=True)
        if not isinstance(row, Mapping):
            source.add_problem(number, f"should be a dict or a Sample, is {shown(row)}")
            continue
        try:
            yield number, {to_json(str(key)): to_json(value) for key, value in row.items()}
        except ValueProblem as error:
            source.add_problem(number, error.what)


def _is_table(data: object) -> bool:
    if isinstance(data, Mapping | str | bytes | type):
        return False
    return (
        isinstance(data, Iterable) or hasattr(data, "lazy") or hasattr(data, "__arrow_c_stream__") or _is_indexed(data)
    )


def _is_indexed(data: object) -> bool:
    """Has it ``len()`` and ``[i]``, as datasets of training loops have, and can't be iterated?"""
    return not isinstance(data, Iterable) and hasattr(data, "__len__") and hasattr(data, "__getitem__")


def _records(data: Any) -> Any:
    """Its rows, one after the other."""
    if hasattr(data, "lazy") and hasattr(data, "collect"):
        data = data.collect()  # polars' LazyFrame
    if hasattr(data, "iloc") and hasattr(data, "columns"):  # pandas
        if twice := next((name for name in data.columns if list(data.columns).count(name) > 1), None):
            raise BadInput(f"two columns are called {shown(str(twice))}")
        names = [name for name in data.index.names if name is not None and name not in data.columns]
        return (data.reset_index(names) if names else data).to_dict("records")
    for method in ("to_dicts", "to_pylist"):  # polars; Arrow
        if hasattr(data, method):
            return getattr(data, method)()
    if _is_indexed(data) and not hasattr(data, "__arrow_c_stream__"):
        return (data[n] for n in range(len(data)))
    if hasattr(data, "column_names") or not hasattr(data, "__arrow_c_stream__"):  # Hugging Face, or any iterable
        return data
    import pyarrow

    return pyarrow.table(data).to_pylist()


def to_json(value: Any) -> Any:
    """A value of a table as JSON would have it; None for one that is missing. What has no such form stays, to be refused.

    NaN, NaT and NA are missing values, arrays lists, dates ISO 8601. Raises ValueProblem for half a surrogate pair.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        if not value.isascii() and not is_text(value):
            raise ValueProblem(f"holds half of a surrogate pair, which is no text: {shown(value)}")
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        entries = {to_json(str(key)): to_json(entry) for key, entry in value.items()}
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
        return int(value) if value.is_finite() and value == value.to_integral_value() else to_json(float(value))
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return to_json(value.tolist()) if callable(getattr(value, "tolist", None)) else value
