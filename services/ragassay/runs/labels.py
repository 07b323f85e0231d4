"""Labels that people gave to some of the rows of a run, read from a file and put beside the responses they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragassay.data.formats import read
from ragassay.errors import BadData, BadSettings, UnknownName
from ragassay.metrics import parse
from ragassay.runs.plan import Inputs, recorded_system
from ragassay.validation import shown

RANDOM, CHOSEN = "random", "chosen"  # how a labelled row was drawn
_ID, _SYSTEM, _DRAWN = ("query_id", "id"), "system", "drawn"
_HINT = "columns: query_id, system where there are several, and one for each metric that was labelled, from 0 to 1"


def with_labels(inputs: Inputs, path: Path) -> Inputs:
    """The inputs with the labels of a file on their responses; those of rows that were chosen correct no mean.

    Raises what reading a file raises, and BadData for a row about no response, of no metric, or with a label that is none.
    """
    raw = read(path, "auto")
    rows = [dict(values) for _, values in raw.rows]
    raw.check()
    metrics = _metrics(path, rows)
    labels: dict[str, dict[str, dict[str, float]]] = {name: {} for name in inputs.systems}
    problems = []
    for number, row in enumerate(rows, 1):
        try:
            system, query = _about(row, inputs, labels)
            if row.get(_DRAWN) == CHOSEN:
                continue
            labels[system][query] = {
                name: _label(name, row[name]) for name in metrics if row.get(name) not in (None, "")
            }
        except ValueError as error:
            problems.append(f"{path}: row {number}: {error}")
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


def _metrics(path: Path, rows: list[dict[str, Any]]) -> list[str]:
    named = dict.fromkeys(column for row in rows for column in row if column not in (*_ID, _SYSTEM))
    found = []
    for column in named:
        try:
            metric = parse(column)
        except (UnknownName, BadSettings):
            continue
        if metric.name == column and (metric.sees == "Verdict" or metric.family == "accurate"):
            found.append(column)
    if not found:
        raise BadData([f"{path}: no column is a judged metric: {', '.join(named) or 'there is none'}"], hint=_HINT)
    return found


def _about(row: Mapping[str, Any], inputs: Inputs, labels: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """The system and the query that a row is about; raises ValueError, also where ``labels`` have it."""
    query = next((str(row[name]) for name in _ID if row.get(name) not in (None, "")), None)
    if query is None:
        raise ValueError("has no query_id")
    system = str(row[_SYSTEM]) if row.get(_SYSTEM) else next(iter(inputs.systems))
    if not row.get(_SYSTEM) and len(inputs.systems) > 1:
        raise ValueError(f"has no system, and there are {', '.join(inputs.systems)}")
    if system not in inputs.systems:
        raise ValueError(f"there is no system {system!r}")
    source = inputs.systems[system].source
    if source.called or source.built:
        raise ValueError(f"{system} answers while it is evaluated: a label is about an answer that is known")
    if query not in inputs.systems[system].responses:
        raise ValueError(f"{system} has no response to {query!r}")
    if query in labels[system]:
        raise ValueError(f"{query!r} is labelled twice")
    return system, query


def _label(name: str, value: Any) -> float:
    try:
        label = float(value)
    except (TypeError, ValueError):
        label = -1.0
    if not 0 <= label <= 1:
        raise ValueError(f"{name} should lie between 0 and 1, is {shown(value)}")
    return label
