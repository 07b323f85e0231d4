"""Labels that people gave to answers: one reader for files and imports, and labels beside the responses they are about.

A judge is measured by labelled rows that it judges as in any run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ragassay.core.errors import BadData, BadSettings, UnknownName
from ragassay.core.validation import shown
from ragassay.datasets.readers import read_rows
from ragassay.evaluation.inputs import Inputs, load, recorded_system
from ragassay.judges.agreement import FROM, Agreement, LabelledScore, agreement
from ragassay.metrics.metric import parse
from ragassay.storage.runs import Run

LABEL, YES_OR_NO = "label", "label_binary"
_ID, _SYSTEM = ("query_id", "id"), "system"
_EMPTY = (None, "")
NO_QUERY = "(no question is given)"  # of rows about a text that answers none
_HINT = (
    "columns: query_id, system where there are several, and one named as each metric that was labelled, from 0 to 1; "
    "or 'label' where one judged metric is asked for"
)


class RowLabels(NamedTuple):
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
    names = dict.fromkeys(name for _, row in given for name in row)
    columns = metric_columns([names])
    if not columns and not (metric and names.keys() & {LABEL, YES_OR_NO}):
        others = ", ".join(name for name in names if name not in (*_ID, _SYSTEM))
        raise BadData([f"{file}: no column is a judged metric: {others or 'there is none'}"], hint=_HINT)
    read, problems = [], []
    for place, row in given:
        column_of = {name: name for name in columns}
        if metric is not None and row.get(metric) in _EMPTY:
            column_of[metric] = LABEL if row.get(YES_OR_NO) in _EMPTY else YES_OR_NO
        labels = {}
        for name, column in column_of.items():
            if (value := row.get(column)) in _EMPTY:
                continue
            labels[name] = _label(value)
            if labels[name] is None:
                problems.append(f"{place}: {column} should lie between 0 and 1, is {shown(value)}")
        query = next((str(row[name]) for name in _ID if row.get(name) not in _EMPTY), None)
        system = None if row.get(_SYSTEM) in _EMPTY else str(row[_SYSTEM])
        read.append(RowLabels(place, query, system, {name: one for name, one in labels.items() if one is not None}))
    if problems:
        raise BadData(problems, hint=_HINT)
    return read


def metric_columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns that are named as a judged metric, or as ``accurate``."""
    columns = []
    for column in dict.fromkeys(name for row in rows for name in row):
        try:
            metric = parse(column)
        except (UnknownName, BadSettings):
            continue
        if metric.name == column and metric.uses_judge:
            columns.append(column)
    return columns


def with_labels(inputs: Inputs, path: Path, metrics: Sequence[str] | None = None) -> Inputs:
    """The inputs with the labels of a file on their responses. ``metrics``: what is computed, where it was chosen.

    Raises what reading a file raises, and BadData for a row about no recorded response or with a label that is none.
    """
    judged = metric_columns([dict.fromkeys(metrics or ())])
    only = next(iter(inputs.systems)) if len(inputs.systems) == 1 else ""
    labels: dict[str, dict[str, Mapping[str, float]]] = {name: {} for name in inputs.systems}
    problems = []
    for row in read_labels(read_rows(path), str(path), judged[0] if len(judged) == 1 else None):
        system, query = row.system or only, row.query_id
        if query is None:
            problems.append(f"{row.place}: query_id: is missing")
        elif system not in inputs.systems or query not in inputs.systems[system].responses:
            problems.append(f"{row.place}: {system or 'no system'} has no response to {query!r}")
        elif query in labels[system]:
            problems.append(f"{row.place}: {query!r} is labelled twice")
        else:
            labels[system][query] = row.labels
    if problems:
        raise BadData(problems, hint=_HINT)
    systems = dict(inputs.systems)
    for name, by_query in labels.items():
        if by_query:
            responses = dict(systems[name].responses)
            for query, of_query in by_query.items():
                responses[query] = responses[query].model_copy(update={"reference_labels": dict(of_query)})
            systems[name] = recorded_system(name, responses, systems[name].source.warnings)
    return replace(inputs, systems=systems)


def _label(value: Any) -> float | None:
    try:
        label = float(value)
    except (TypeError, ValueError):
        return None
    return label if 0 <= label <= 1 else None


class JudgeAgreement(Agreement):
    """How far a judge agrees with the labels of a file. ``run`` holds its verdicts; ``rows`` are not yet items."""

    schema_version: Literal[1] = 1
    kind: Literal["agreement"] = "agreement"
    data: str
    run: str
    judge: dict[str, Any]
    metric: str
    rows: int


class LabelledRows:
    """The rows of a file with what people said of them.

    ``metric`` is what the labels are about; by default that of the only column of labels, else faithfulness where there
    are contexts, correctness where there is ground truth, and relevance otherwise. A label from 0.5 on is a yes. ``query``
    may be null. Rows that share ``group`` are not independent, nor are answers of several ``system``s to one query.

    Raises BadData for a row without a label, UnknownName, and BadSettings for a metric that no judge has a part in.
    """

    def __init__(self, path: Path, metric: str | None = None, *, format: str = "auto", **options: Any) -> None:  # noqa: A002 - the option's name
        numbered = read_rows(path, format)
        given = [row for _, row in numbered]
        columns = metric_columns(given)
        of_people = {LABEL, YES_OR_NO, "group", *columns}
        rows = [{name: value for name, value in row.items() if name not in of_people} for row in given]
        groups = [None if (group := row.get("group")) in _EMPTY else str(group) for row in given]
        if len({row.get("system") for row in rows}) > 1:  # answers of several systems to one query
            for n, row in enumerate(rows):
                name = "query_id" if "query_id" in row else "id"
                if row.get(name) not in _EMPTY:
                    groups[n] = groups[n] or str(row[name])
                    row[name] = f"{row[name]} ({row.get('system')})"
        for row in rows:
            if "query" in row:
                row["query"] = row["query"] or NO_QUERY
        self.inputs: Inputs = load(rows, {}, name=options.pop("name", None) or path.stem, **options)
        only = columns[0] if len(columns) == 1 and not any(LABEL in row or YES_OR_NO in row for row in given) else None
        self.metric = parse(metric or only or self._usual_metric())
        if self.metric.input_type != "Verdict":
            what, hint = f"{self.metric.name} is not judged", "name a metric such as faithfulness"
            raise BadSettings(what, hint=hint, option="metric")
        labels = read_labels(numbered, str(path), self.metric.name)
        if without := [f"{one.place}: has no label" for one in labels if self.metric.name not in one.labels]:
            raise BadData(without, hint="label: 1 or 0 (or between), what people say; label_binary decides where given")
        self._people = {
            sample.query_id: (int(one.labels[self.metric.name] >= FROM), group or f"row {sample.query_id}")
            for sample, one, group in zip(self.inputs.samples, labels, groups, strict=False)
        }

    def _usual_metric(self) -> str:
        samples = self.inputs.samples
        if any(sample.contexts for sample in samples):
            return "faithfulness"
        return "correctness" if any(one.ground_truth_answer or one.key_facts for one in samples) else "relevance"

    def compared(self, run: Run) -> JudgeAgreement:
        """The scores of a finished run over these rows beside the labels."""
        record, rows = run.record, self.scored(run)
        found = agreement(rows, level=record.spec.statistics.confidence, seed=record.spec.seed)
        about = {"data": record.dataset.name, "run": record.id, "judge": record.judge or {}, "metric": self.metric.name}
        return JudgeAgreement.model_validate({**dict(found), **about, "rows": len(rows)})

    def scored(self, run: Run) -> list[LabelledScore]:
        """Label and score of each row of a finished run."""
        scored = []
        for row in (row for system in run.record.systems for row in run.rows(system)):
            score, (label, group) = row.scores[self.metric.name], self._people[row.query_id]
            chances = row.verdict.probability if row.verdict and score.value is not None else {}
            chance = chances.get(self.metric.name, score.value)
            scored.append(LabelledScore(label, chance, group, score.reason or ""))
        return scored
