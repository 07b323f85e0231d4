"""Rows that are in memory already: lists of dicts, data frames (of spans too), Arrow tables, Hugging Face datasets.

What an object is is told by what it can do, so that none of those packages has to be installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ragassay.core.errors import BadInput, NothingToEvaluate
from ragassay.core.models import Sample
from ragassay.core.validation import shown
from ragassay.datasets.source import Source
from ragassay.datasets.tables import to_json
from ragassay.datasets.traces import are_spans, rows_of_spans

_TAKEN = "a list of dicts or Samples, a pandas, polars or Arrow table, a Hugging Face Dataset, or a path"


def rows_in(data: object, name: str = "data") -> Source:
    """The rows of an object in memory; ``name`` stands for a file in errors, where rows count from 1.

    NaN, NaT and NA are absent values, arrays lists, dates ISO 8601. Raises BadInput for what
    is no table of rows, NothingToEvaluate for one without rows.
    """
    source = Source(Path(name), name=name, counts_lines=False)
    for number, row in enumerate(_records(data, name), 1):
        if isinstance(row, Sample):
            row = row.model_dump(exclude_defaults=True)
        if isinstance(row, Mapping):
            values = {str(key): to_json(value) for key, value in row.items()}
            source.rows.append((number, values))
            source.columns = source.columns or tuple(values)
        else:
            source.add_problem(number, f"should be a dict or a Sample, is {_described(row)}")
    if not (source.rows or source.problems):
        raise NothingToEvaluate("there are no rows", where=name)
    source.check_width(len(source.columns))
    if source.rows and are_spans(source.rows[0][1]):
        spans = [values for _, values in source.rows]
        source.rows, source.columns = [], ()
        return rows_of_spans(source, spans)
    return source


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


def _described(value: object) -> str:
    kind = type(value)
    if kind.__module__ == "builtins":
        return "None" if value is None else shown(value)
    return f"a {kind.__module__}.{kind.__name__}"
