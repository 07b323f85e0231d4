"""A judge beside people: labelled rows are judged as in any run, and its scores compared with the labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragassay.core.errors import BadData, BadSettings
from ragassay.datasets.readers import read_rows
from ragassay.evaluation.inputs import Inputs, load
from ragassay.evaluation.labels import LABEL, YES_OR_NO, metric_columns, read_labels
from ragassay.judges.agreement import FROM, Agreement, LabelledScore, agreement
from ragassay.metrics.metric import parse
from ragassay.storage.runs import Run

NO_QUERY = "(no question is given)"  # of rows about a text that answers none


class JudgeAgreement(Agreement):
    """How far a judge agrees with the labels of a file. ``run`` holds its verdicts; ``rows`` are not yet items."""

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
        given = [dict(values) for values in read_rows(path, format)]
        columns = metric_columns(given)
        of_people = {LABEL, YES_OR_NO, "group", *columns}
        rows = [{name: value for name, value in row.items() if name not in of_people} for row in given]
        groups = [row.get("group") for row in given]
        if len({row.get("system") for row in rows}) > 1:  # answers of several systems to one query
            for n, row in enumerate(rows):
                name = "query_id" if "query_id" in row else "id"
                if row.get(name):
                    groups[n] = groups[n] or str(row[name])
                    row[name] = f"{row[name]} ({row.get('system')})"
        for row in rows:
            if "query" in row:
                row["query"] = row["query"] or NO_QUERY
        self.inputs: Inputs = load(rows, {}, name=options.pop("name", None) or path.stem, **options)
        only = columns[0] if len(columns) == 1 and not any(LABEL in row or YES_OR_NO in row for row in given) else None
        self.metric = parse(metric or only or self._usual_metric())
        if self.metric.sees != "Verdict":
            raise BadSettings(
                f"{self.metric.name} is not judged", where="--metric", hint="name one such as faithfulness"
            )
        numbered = [(f"{path}: row {number}", row) for number, row in enumerate(given, 1)]
        labels = read_labels(numbered, str(path), self.metric.name)
        if without := [f"{one.place}: has no label" for one in labels if self.metric.name not in one.labels]:
            raise BadData(without, hint="label: 1 or 0 (or between), what people say; label_binary decides where given")
        self._people = {
            sample.query_id: (int(one.labels[self.metric.name] >= FROM), str(group or f"row {sample.query_id}"))
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
