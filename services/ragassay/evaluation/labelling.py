"""Labels that people give to rows of a run: which row comes next, how labels are kept, and what they say so far.

Rows come in one random order, the same for each system and run of a dataset with the same seed. So the rows that were
labelled in that order are a random part of all: they correct the mean and measure the judge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from ragassay.core.errors import BadData, NothingToEvaluate, TooLarge
from ragassay.core.files import MappedRows
from ragassay.core.models import Chance, FrozenModel, Result, Sample
from ragassay.core.report import ReportWithResults
from ragassay.core.statistics import Estimate
from ragassay.core.validation import shown
from ragassay.evaluation.groups import numbered
from ragassay.evaluation.labels import read_labels
from ragassay.judges.agreement import FROM, Agreement, LabelledScore, agreement
from ragassay.stats.ppi import corrected_mean
from ragassay.storage.columns import DRAW, QUESTION, chance_column, draw_value, people_column
from ragassay.storage.protocol import RunRecord
from ragassay.storage.row_index import RowIndex, SystemColumns
from ragassay.storage.runs import LABELS_FILE, Run, row_of

_ROW = TypeAdapter(dict[str, Any])
LONGEST_NAME, LONGEST_TIME, MAX_LABELS = 80, 40, 200_000  # of a run, those that were superseded included


class HumanLabel(FrozenModel):
    """What a person said of one answer, from 0 to 1, or None if they could not tell. ``at`` is UTC, ISO 8601."""

    system: Annotated[str, Field(min_length=1, max_length=64)]
    query_id: Annotated[str, Field(min_length=1)]
    metric: Annotated[str, Field(min_length=1, max_length=200)]
    value: Chance | None
    by: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    at: Annotated[str, Field(min_length=1, max_length=LONGEST_TIME)]


def add_labels(run: Run, labels: Sequence[HumanLabel]) -> None:
    """Append labels to a run's. Raises DiskFull, Conflict, and TooLarge beyond what is kept."""
    if (run.blobs.get(LABELS_FILE) or b"").count(b"\n") + len(labels) > MAX_LABELS:
        raise TooLarge(f"of a run {MAX_LABELS:,} labels are kept", hint="label another run")
    run.blobs.append(LABELS_FILE, (label.model_dump(mode="json") for label in labels))


def labels_of(run: Run) -> list[HumanLabel]:
    """The labels of a run, oldest first; raises BadData for a line that is no label. What a kill left of a line is no line."""
    *lines, _ = (run.blobs.get(LABELS_FILE) or b"").split(b"\n")
    where = f"{run.blobs.where}/{LABELS_FILE}"
    return [row_of(where, number, line, HumanLabel) for number, line in enumerate(lines, 1)]


def latest(labels: Iterable[HumanLabel], system: str, metric: str) -> dict[str, HumanLabel]:
    """By query, the last label of a system's answers for a metric."""
    return {one.query_id: one for one in labels if (one.system, one.metric) == (system, metric)}


class LabelProgress(NamedTuple):
    """What the labels of one system and metric say so far.

    ``rows`` have a score and can be labelled, ``asked`` of these are to be, ``unscored`` have none. ``agreement`` is None
    without a label.
    """

    rows: int
    asked: int
    unscored: int
    labelled: int
    skipped: int
    mean: Estimate
    agreement: Agreement | None


class Labelling:
    """One system's rows of a run, as people label them for one metric, known by their columns alone."""

    def __init__(self, columns: SystemColumns, metric: str, record: RunRecord) -> None:
        self.metric, self._record = metric, record
        draws, chances = columns.column(DRAW), columns.column(chance_column(metric))
        scored = np.flatnonzero(columns.there & ~np.isnan(chances))
        self._unscored = int(columns.there.sum()) - len(scored)
        self._numbers = scored[np.argsort(draws[scored])]
        self._draws, self._chances = draws[self._numbers], chances[self._numbers]
        self._scores = columns.column(metric)[self._numbers]
        self._questions = numbered(columns.column(QUESTION)[self._numbers])

    def __contains__(self, query_id: str) -> bool:
        return self._place(query_id) is not None

    def _place(self, query_id: str) -> int | None:
        """Where a query comes in the random order; None if it can't be labelled."""
        draw = draw_value(self._record, query_id)
        place = int(np.searchsorted(self._draws, draw))
        return place if place < len(self._draws) and self._draws[place] == draw else None

    def number(self, query_id: str) -> int | None:
        """The number of the row on a query among those of the system; None if it can't be labelled."""
        place = self._place(query_id)
        return None if place is None else int(self._numbers[place])

    def next(self, labels_by_query: Mapping[str, HumanLabel], size: int | None = None) -> int | None:
        """The number of the row to label next, ``labels_by_query`` being those of others; None if all were shown."""
        shown_places = {self._place(query) for query in labels_by_query}
        places = range(len(self._numbers[:size]))
        return next((int(self._numbers[place]) for place in places if place not in shown_places), None)

    def labels(self, labels_by_query: Mapping[str, HumanLabel]) -> dict[str, float]:
        """The labels by query, without what people could not tell."""
        return {query: one.value for query, one in labels_by_query.items() if one.value is not None and query in self}

    def progress(self, labels_by_query: Mapping[str, HumanLabel], size: int | None = None) -> LabelProgress:
        """What they say so far."""
        spec = self._record.spec
        of_rows, scores, skipped = np.full(len(self._numbers), np.nan), list[LabelledScore](), 0
        for query, one in labels_by_query.items():
            if (place := self._place(query)) is None:
                continue
            if one.value is None:
                skipped += 1
            else:
                of_rows[place] = one.value
                scores.append(LabelledScore(int(one.value >= FROM), float(self._chances[place]), query))
        found = None
        with suppress(NothingToEvaluate):
            found = agreement(scores, level=spec.statistics.confidence, seed=spec.seed)
        return LabelProgress(
            rows=len(self._numbers),
            asked=len(self._numbers[:size]),
            unscored=self._unscored,
            labelled=len(scores),
            skipped=skipped,
            mean=corrected_mean(of_rows, self._scores, self._questions, level=spec.statistics.confidence),
            agreement=found,
        )


def exported(
    labelling: Labelling, labels_by_query: Mapping[str, HumanLabel], samples: Mapping[str, Sample | None]
) -> Iterator[dict[str, Any]]:
    """The labels as ``labels`` and ``judge agreement`` read them, a row each."""
    fields = {"query", "history", "ground_truth_answer", "key_facts"}
    for query, value in labelling.labels(labels_by_query).items():
        sample, label = samples[query], labels_by_query[query]
        row: dict[str, Any] = {"query_id": query, "system": label.system, labelling.metric: value}
        if sample is not None:
            row |= sample.model_dump(mode="json", include=fields, exclude_defaults=True)
            row |= {"answer": sample.answer, "contexts": sample.contexts}
        yield {name: given for name, given in (row | {"by": label.by, "at": label.at}).items() if given is not None}


def imported(content: bytes, labelling: Labelling, system: str, by: str, at: str) -> list[HumanLabel]:
    """The labels in JSON Lines that ``exported`` made, or with ``query_id`` and a column of the metric or ``label``.

    ``by`` and ``at`` are used for lines that name none. Raises BadData with what is wrong in each line.
    """
    rows, problems, labels = dict[str, dict[str, Any]](), list[str](), list[HumanLabel]()
    for number, line in enumerate(content.splitlines(), 1):
        try:
            if line.strip():
                rows[f"line {number}"] = _ROW.validate_json(line)
        except ValidationError:
            problems.append(f"line {number}: is no JSON object")
    for read in read_labels(rows.items(), "the lines", labelling.metric) if rows else ():
        value, row = read.labels.get(labelling.metric), rows[read.place]
        if read.system not in (None, system):
            problems.append(f"{read.place}: is about the system {shown(read.system)}, not {system}")
        elif read.query_id is None:
            problems.append(f"{read.place}: query_id: is missing")
        elif read.query_id not in labelling:
            problems.append(f"{read.place}: there is no row {shown(read.query_id)} with a score of {labelling.metric}")
        elif value is None:
            problems.append(f"{read.place}: has no label of {labelling.metric}")
        else:
            given = {"by": str(row.get("by") or by)[:LONGEST_NAME], "at": str(row.get("at") or at)[:LONGEST_TIME]}
            about = {"system": system, "query_id": read.query_id, "metric": labelling.metric, "value": value}
            labels.append(HumanLabel.model_validate({**about, **given}))
    if problems or not labels:
        hint = "a JSON object in each line, as the export has them"
        raise BadData(problems or ["there is no label in it"], hint=hint)
    return labels


def report_of(run: Run) -> ReportWithResults:
    """The report of a run, corrected by people's labels of its rows; raises as ``Run.report`` does."""
    report, labels = run.report_with_results(), labels_of(run)
    return with_labels(report, labels, RowIndex(run)) if labels else report


def with_labels(report: ReportWithResults, labels: Iterable[HumanLabel], rows: RowIndex) -> ReportWithResults:
    """The report with labels that were given after it was made: on its rows, and in the corrected mean of each metric.

    The last label of a row and metric counts. The report stays as it is if a reference judge corrects the means, or its
    rows are not kept any more.
    """
    spec, values = report.provenance.configuration, defaultdict[str, dict[str, dict[str, float]]](dict)
    for (system, query, metric), value in {(one.system, one.query_id, one.metric): one.value for one in labels}.items():
        if value is not None and len(report.results.get(system, ())) >= report.systems[system].queries:
            values[system].setdefault(query, {})[metric] = value
    if not values or spec.references:
        return report
    results, systems = dict(report.results), dict(report.systems)
    for system, by_query in values.items():
        results[system] = MappedRows(results[system], partial(_labelled, by_query))
        metrics, columns = dict(systems[system].metrics), rows.of_system(system)
        questions = numbered(columns.column(QUESTION)[columns.there])
        place_of = {draw: place for place, draw in enumerate(columns.column(DRAW)[columns.there].tolist())}
        places = {query: place_of.get(draw_value(rows.record, query)) for query in by_query}
        for metric in metrics.keys() & {name for of_row in by_query.values() for name in of_row}:
            of_people = columns.column(people_column(metric))[columns.there]
            for query, of_row in by_query.items():
                if metric in of_row and places[query] is not None:
                    of_people[places[query]] = of_row[metric]
            judged = columns.column(metric)[columns.there]
            corrected = corrected_mean(of_people, judged, questions, level=spec.statistics.confidence)
            metrics[metric] = metrics[metric].model_copy(update={"corrected": corrected})
        systems[system] = systems[system].model_copy(update={"metrics": metrics})
    return report.model_copy(update={"systems": systems, "results": results})


def _labelled(labels: Mapping[str, Mapping[str, float]], row: Result) -> Result:
    return row.with_labels(labels[row.query_id]) if row.query_id in labels else row
