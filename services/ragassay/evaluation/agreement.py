"""A judge beside people: labelled rows are judged as in any run, and its scores compared with the labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragassay.core.errors import BadData, BadSettings
from ragassay.core.models import Result
from ragassay.datasets.readers import read_rows
from ragassay.evaluation.inputs import Inputs, load
from ragassay.evaluation.labels import LABEL, YES_OR_NO, metric_columns, read_labels
from ragassay.judges.agreement import FROM, Agreement, LabelledScore, agreement
from ragassay.metrics.metric import Metric, parse
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
        names = (LABEL, YES_OR_NO, *columns, "group")
        rows = [{name: value for name, value in row.items() if name not in names} for row in given]
        several = len({row.get("system") for row in rows}) > 1
        for row, said in zip(rows, given, strict=True):
            name = "query_id" if "query_id" in row else "id"
            if several and row.get(name):  # answers of several systems to one query
                said["group"] = said.get("group") or str(row[name])
                row[name] = f"{row[name]} ({row.get('system')})"
            if "query" in row:
                row["query"] = row["query"] or NO_QUERY
        name = options.pop("name", None) or path.stem
        self.inputs: Inputs = load(rows, {}, name=name, **options)
        has_label = any(LABEL in row or YES_OR_NO in row for row in given)
        self.metric = self._metric(metric or (columns[0] if len(columns) == 1 and not has_label else None))
        numbered = [(f"{path}: row {number}", row) for number, row in enumerate(given, 1)]
        labels = [
            (one.place, one.labels.get(self.metric.name)) for one in read_labels(numbered, str(path), self.metric.name)
        ]
        if without := [f"{place}: has no label" for place, label in labels if label is None]:
            raise BadData(without, hint="label: 1 or 0 (or between), what people say; label_binary decides where given")
        ids = [sample.query_id for sample in self.inputs.samples]
        self._said = dict(zip(ids, given, strict=False))
        self._labels = {
            query_id: int((label or 0.0) >= FROM) for query_id, (_, label) in zip(ids, labels, strict=False)
        }

    def _metric(self, name: str | None) -> Metric:
        samples = self.inputs.samples
        if name is None:
            truths = any(sample.ground_truth_answer or sample.key_facts for sample in samples)
            name = "correctness" if truths else "relevance"
            name = "faithfulness" if any(sample.contexts for sample in samples) else name
        metric = parse(name)
        if metric.sees != "Verdict":
            raise BadSettings(f"{metric.name} is not judged", where="--metric", hint="name one such as faithfulness")
        return metric

    def compared(self, run: Run) -> JudgeAgreement:
        """The scores of a finished run over these rows beside the labels."""
        record = run.record
        rows = self.scored(run)
        found = agreement(rows, level=record.spec.statistics.confidence, seed=record.spec.seed)
        return JudgeAgreement(
            **dict(found),
            data=record.dataset.name,
            run=record.id,
            judge=record.judge or {},
            metric=self.metric.name,
            rows=len(rows),
        )

    def scored(self, run: Run) -> list[LabelledScore]:
        """Label and score of each row of a finished run."""
        results = (row for system in run.record.systems for row in run.rows(system))
        return [self._scored(row) for row in results]

    def _scored(self, row: Result) -> LabelledScore:
        said, score = self._said[row.query_id], row.scores[self.metric.name]
        certain = row.verdict.probability.get(self.metric.name) if row.verdict else None
        return LabelledScore(
            label=self._labels[row.query_id],
            score=score.value if score.value is None or certain is None else certain,
            group=str(said.get("group") or f"row {row.query_id}"),
            reason=score.reason or "",
        )
