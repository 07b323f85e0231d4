"""Which rows of a run people label next, and what their labels say so far.

Rows come in one random order, the same for each system and run of a dataset with the same seed. So the rows that were
labelled in that order are a random part of all: they correct the mean and measure the judge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from ragassay.core.errors import BadData, NothingToEvaluate
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Result, Sample
from ragassay.core.statistics import CorrectedMean
from ragassay.core.validation import shown
from ragassay.evaluation.aggregate import corrected_by_labels
from ragassay.evaluation.human_labels import HumanLabel
from ragassay.evaluation.labels import read_labels
from ragassay.judges.agreement import FROM, Agreement, LabelledScore, agreement

QUESTIONS = {
    "faithfulness": "Do the contexts support what the answer says?",
    "correctness": "Does the answer agree with what is expected?",
    "completeness": "Does the answer cover the key facts?",
    "relevance": "Does the answer address the question?",
    "accurate": "Is the answer accurate?",
}
"""What people are asked, by metric: those whose meaning a person can answer at a glance."""


@dataclass(frozen=True, slots=True)
class _RowToLabel:
    """A row that can be labelled. ``certain``: the judge's chance of a yes, where it gives one, else the score."""

    place: int
    score: float
    certain: float


@dataclass(frozen=True)
class LabelProgress:
    """What the labels of one system and metric say so far.

    ``rows`` have a score and can be labelled, ``asked`` of these are to be, ``unscored`` have none. ``agreement`` is None
    without a label.
    """

    rows: int
    asked: int
    unscored: int
    labelled: int
    skipped: int
    mean: CorrectedMean
    agreement: Agreement | None


class Labelling:
    """One system's rows of a run, as people label them for one metric. ``dataset`` is the digest of the dataset."""

    def __init__(self, rows: Iterable[Result], metric: str, spec: EvalConfig, dataset: str) -> None:
        self.metric, self._spec, self._unscored = metric, spec, 0
        scored: dict[str, _RowToLabel] = {}
        for place, result in enumerate(rows):
            score = result.scores.get(metric)
            if score is None or score.value is None or result.answer is None:
                self._unscored += 1
                continue
            chances = result.verdict.probability if result.verdict else {}
            scored[result.query_id] = _RowToLabel(place, score.value, chances.get(metric, score.value))

        def drawn(query: str) -> bytes:
            return hashlib.sha256(f"{spec.seed}\0{dataset}\0{query}".encode()).digest()

        self._rows = {query: scored[query] for query in sorted(scored, key=drawn)}

    def __contains__(self, query_id: str) -> bool:
        return query_id in self._rows

    def place(self, query_id: str) -> int:
        """Where a row stands among all of its system."""
        return self._rows[query_id].place

    def sample(self, size: int | None = None) -> list[str]:
        """The queries to label, in random order: ``size`` of them, or all."""
        return list(self._rows)[:size]

    def next(self, said: Mapping[str, HumanLabel], size: int | None = None) -> str | None:
        """The query to label next, ``said`` being what people said of others; None where all were shown."""
        return next((query for query in self.sample(size) if query not in said), None)

    def labels(self, said: Mapping[str, HumanLabel]) -> dict[str, float]:
        """The labels by query, without what people could not tell."""
        return {query: one.value for query, one in said.items() if one.value is not None and query in self._rows}

    def progress(self, said: Mapping[str, HumanLabel], size: int | None = None) -> LabelProgress:
        """What they say so far."""
        labels = self.labels(said)
        rows = ((labels.get(query), row.score) for query, row in self._rows.items())
        return LabelProgress(
            rows=len(self._rows),
            asked=len(self.sample(size)),
            unscored=self._unscored,
            labelled=len(labels),
            skipped=sum(one.value is None and query in self._rows for query, one in said.items()),
            mean=corrected_by_labels(rows, level=self._spec.statistics.confidence),
            agreement=self._agreement(labels),
        )

    def _agreement(self, labels: Mapping[str, float]) -> Agreement | None:
        scores = [
            LabelledScore(int(value >= FROM), self._rows[query].certain, query, query)
            for query, value in labels.items()
        ]
        with suppress(NothingToEvaluate):
            return agreement(scores, level=self._spec.statistics.confidence, seed=self._spec.seed)
        return None


def latest(labels: Iterable[HumanLabel], system: str, metric: str) -> dict[str, HumanLabel]:
    """By query, the last that was said of a system's answers for a metric."""
    return {one.query_id: one for one in labels if (one.system, one.metric) == (system, metric)}


def exported(
    labelling: Labelling, said: Mapping[str, HumanLabel], samples: Mapping[str, Sample | None]
) -> Iterator[dict[str, Any]]:
    """The labels as ``labels`` and ``judge agreement`` read them, a row each."""
    for query, value in labelling.labels(said).items():
        sample, label = samples[query], said[query]
        row: dict[str, Any] = {"query_id": query, "system": label.system, labelling.metric: value}
        if sample is not None:
            row |= sample.model_dump(
                mode="json", include={"query", "ground_truth_answer", "key_facts"}, exclude_defaults=True
            )
            row |= {"answer": sample.answer, "contexts": sample.contexts}
        row |= {"by": label.by, "at": label.at}
        yield {name: given for name, given in row.items() if given is not None}


def imported(content: bytes, labelling: Labelling, system: str, by: str, at: str) -> list[HumanLabel]:
    """The labels in JSON Lines that ``exported`` made, or with ``query_id`` and a column of the metric or ``label``.

    ``by`` and ``at`` stand for whom and when where a line names none. Raises BadData with what is wrong in each line.
    """
    rows, problems = _objects(content)
    labels = []
    for read, (_, row) in zip(read_labels(rows, "the lines", labelling.metric) if rows else (), rows, strict=True):
        if problem := _problem(read.query_id, read.system, labelling, system):
            problems.append(f"{read.place}: {problem}")
        elif labelling.metric not in read.labels:
            problems.append(f"{read.place}: has no label of {labelling.metric}")
        else:
            who, when = str(row.get("by") or by)[:80], str(row.get("at") or at)[:40]
            value = read.labels[labelling.metric]
            label = {"system": system, "query_id": read.query_id, "metric": labelling.metric, "value": value}
            labels.append(HumanLabel.model_validate({**label, "by": who, "at": when}))
    if problems or not labels:
        hint = "a JSON object in each line, as the export has them"
        raise BadData(problems or ["there is no label in it"], hint=hint)
    return labels


def _objects(content: bytes) -> tuple[Sequence[tuple[str, dict[str, Any]]], list[str]]:
    """The JSON objects of lines with their places, and what is wrong with the other lines."""
    rows, problems = [], []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except ValueError as error:
            problems.append(f"line {number}: {error}")
            continue
        if isinstance(row, dict):
            rows.append((f"line {number}", row))
        else:
            problems.append(f"line {number}: is no JSON object")
    return rows, problems


def _problem(query: str | None, about: str | None, labelling: Labelling, system: str) -> str | None:
    """Why a line can't be about a row of the system; None where it can."""
    if about not in (None, system):
        return f"is about the system {shown(about)}, not {system}"
    if query is None or query not in labelling:
        return f"there is no row {shown(query)} with a score of {labelling.metric}"
    return None
