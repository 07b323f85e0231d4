"""Labels that people gave to answers: one reader for files and imports, and labels beside the responses they are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragassay.core.errors import BadData, BadSettings, UnknownName
from ragassay.core.validation import shown
from ragassay.datasets.readers import read_rows
from ragassay.evaluation.inputs import Inputs, recorded_system
from ragassay.metrics.metric import parse

LABEL, YES_OR_NO = "label", "label_binary"
_ID, _SYSTEM = ("query_id", "id"), "system"
_HINT = "columns: query_id, system where there are several, and 'label' or one for each metric that was labelled, from 0 to 1"


@dataclass(frozen=True, slots=True)
class RowLabels:
    """The labels in one row of a file, by metric, from 0 to 1. ``place`` names the row in messages."""

    place: str
    query_id: str | None
    system: str | None
    labels: Mapping[str, float]


def read_labels(rows: Iterable[tuple[str, Mapping[str, Any]]], file: str, metric: str | None) -> list[RowLabels]:
    """The labels in ``rows``, each with its place: of columns named as a judged metric, and of ``label``.

    ``label`` (``label_binary`` where it is given) is about ``metric``. Raises BadData with each value that is no label, and
    where no column has labels or ``label`` is about no known metric.
    """
    given = list(rows)
    columns = metric_columns(row for _, row in given)
    has_label = any(name in row for _, row in given for name in (LABEL, YES_OR_NO))
    if has_label and metric is None and not columns:
        what = f"{file}: the column {LABEL!r} does not say which metric it is about"
        raise BadData([what], hint=f"rename it to that metric, such as faithfulness; {_HINT}")
    if not has_label and not columns:
        names = dict.fromkeys(name for _, row in given for name in row if name not in (*_ID, _SYSTEM))
        raise BadData([f"{file}: no column is a judged metric: {', '.join(names) or 'there is none'}"], hint=_HINT)
    found, problems = [], []
    for place, row in given:
        values = {name: (name, row.get(name)) for name in columns}
        if metric is not None and _is_empty(values.get(metric, ("", None))[1]):
            name = LABEL if _is_empty(row.get(YES_OR_NO)) else YES_OR_NO
            values[metric] = (name, row.get(name))
        try:
            labels = {name: _label(*value) for name, value in values.items() if not _is_empty(value[1])}
        except ValueError as error:
            problems.append(f"{place}: {error}")
            continue
        query = next((str(row[name]) for name in _ID if not _is_empty(row.get(name))), None)
        system = None if _is_empty(row.get(_SYSTEM)) else str(row[_SYSTEM])
        found.append(RowLabels(place, query, system, labels))
    if problems:
        raise BadData(problems, hint=_HINT)
    return found


def metric_columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns that are named as a judged metric, or as ``accurate``."""
    found = []
    for column in dict.fromkeys(name for row in rows for name in row):
        try:
            metric = parse(column)
        except (UnknownName, BadSettings):
            continue
        if metric.name == column and metric.uses_judge:
            found.append(column)
    return found


def with_labels(inputs: Inputs, path: Path, metrics: Sequence[str] | None = None) -> Inputs:
    """The inputs with the labels of a file on their responses. ``metrics``: what is computed, where it was chosen.

    Raises what reading a file raises, and BadData for a row about no response or with a label that is none.
    """
    rows = [(f"{path}: row {number}", dict(values)) for number, values in enumerate(read_rows(path), 1)]
    judged = metric_columns([dict.fromkeys(metrics or ())])
    labels: dict[str, dict[str, dict[str, float]]] = {name: {} for name in inputs.systems}
    problems = []
    for row in read_labels(rows, str(path), judged[0] if len(judged) == 1 else None):
        try:
            system, query = _about(row, inputs, labels)
            labels[system][query] = dict(row.labels)
        except ValueError as error:
            problems.append(f"{row.place}: {error}")
    if problems:
        raise BadData(problems, hint=_HINT)
    systems = dict(inputs.systems)
    for name, by_query in labels.items():
        labelled = systems[name]
        if by_query:
            responses = {
                query: one.model_copy(update={"reference_labels": by_query[query]}) if query in by_query else one
                for query, one in labelled.responses.items()
            }
            systems[name] = recorded_system(name, responses, labelled.source.warnings)
    return replace(inputs, systems=systems)


def _about(row: RowLabels, inputs: Inputs, labels: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """The system and the query that a row is about; raises ValueError, also where ``labels`` have it."""
    if row.query_id is None:
        raise ValueError("has no query_id")
    if row.system is None and len(inputs.systems) > 1:
        raise ValueError(f"has no system, and there are {', '.join(inputs.systems)}")
    system = row.system or next(iter(inputs.systems))
    if system not in inputs.systems:
        raise ValueError(f"there is no system {system!r}")
    source = inputs.systems[system].source
    if source.answers:
        raise ValueError(f"{system} answers while it is evaluated: a label is about an answer that is known")
    if row.query_id not in inputs.systems[system].responses:
        raise ValueError(f"{system} has no response to {row.query_id!r}")
    if row.query_id in labels[system]:
        raise ValueError(f"{row.query_id!r} is labelled twice")
    return system, row.query_id


def _is_empty(value: Any) -> bool:
    return value is None or value == ""


def _label(name: str, value: Any) -> float:
    try:
        label = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        label = -1.0
    if not 0 <= label <= 1:
        raise ValueError(f"{name} should lie between 0 and 1, is {shown(value)}")
    return label
