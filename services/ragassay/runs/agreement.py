"""A judge beside people: labelled rows are judged as in any run, and its scores compared with the labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragassay.data.formats import read
from ragassay.errors import BadData, BadSettings
from ragassay.judges.agreement import Agreement, LabelledScore, agreement
from ragassay.metrics import Metric, parse
from ragassay.models import Result
from ragassay.runs.plan import Inputs, load
from ragassay.store.protocol import RunStore
from ragassay.validation import shown

MOST_WEIGHT = 1e9
NO_QUERY = "(no question is given)"  # of rows about a text that answers none
_LABELS = ("label", "label_binary", "group", "max_group", "weight")


class JudgeAgreement(Agreement):
    """How far a judge agrees with the labels of a file. ``run`` holds its verdicts; ``rows`` are not yet items."""

    data: str
    run: str
    judge: dict[str, Any]
    metric: str
    rows: int


class LabelledRows:
    """The rows of a file with what people said of them.

    ``label_binary``, else ``label`` from 0.5 on, is a yes. ``query`` may be null. Rows that share ``max_group`` are one
    item, rows that share ``group`` are not independent, nor are answers of several ``system``s to one query. ``weight``: how
    many rows one stands for.
    """

    def __init__(self, path: Path, *, format: str = "auto", **options: Any) -> None:  # noqa: A002 - the option's name
        raw = read(path, format)
        given = [(number, dict(values)) for number, values in raw.rows]
        raw.check()
        problems = [f"{path}: row {n}: {what}" for n, (_, row) in enumerate(given, 1) if (what := _problem(row))]
        if problems:
            raise BadData(
                problems, hint="label: 1 or 0 (or between), what people say; label_binary decides where given"
            )
        rows = [{name: value for name, value in row.items() if name not in _LABELS} for _, row in given]
        several = len({row.get("system") for row in rows}) > 1
        for row, (_, said) in zip(rows, given, strict=True):
            name = "query_id" if "query_id" in row else "id"
            if several and row.get(name):  # answers of several systems to one query
                said["group"] = said.get("group") or str(row[name])
                row[name] = f"{row[name]} ({row.get('system')})"
            if "query" in row:
                row["query"] = row["query"] or NO_QUERY
        name = options.pop("name", None) or path.stem
        self.inputs: Inputs = load(rows, {}, name=name, **options)
        ids = [sample.query_id for sample in self.inputs.samples]
        self._said = {query_id: row for query_id, (_, row) in zip(ids, given, strict=False)}

    def metric(self, name: str | None) -> Metric:
        """The judged metric of that name; by default faithfulness where there are contexts, else correctness where
        there is ground truth, else relevance.

        Raises UnknownName, and BadSettings for a metric that no judge has a part in.
        """
        samples = self.inputs.samples
        if name is None:
            truths = any(sample.ground_truth_answer or sample.key_facts for sample in samples)
            name = "correctness" if truths else "relevance"
            name = "faithfulness" if any(sample.contexts for sample in samples) else name
        metric = parse(name)
        if metric.sees != "Verdict":
            raise BadSettings(f"{metric.name} is not judged", where="--metric", hint="name one such as faithfulness")
        return metric

    def compared(self, run: RunStore, metric: Metric) -> JudgeAgreement:
        """The scores of a finished run over these rows beside the labels."""
        record = run.record
        rows = self.scored(run, metric)
        found = agreement(rows, level=record.spec.confidence, seed=record.spec.seed)
        return JudgeAgreement(
            **dict(found),
            data=record.dataset.name,
            run=record.id,
            judge=record.judge or {},
            metric=metric.name,
            rows=len(rows),
        )

    def scored(self, run: RunStore, metric: Metric) -> list[LabelledScore]:
        """Label and score of each row of a finished run."""
        results = (row for chunk in run.record.chunks() for row in run.results(chunk) or ())
        return [self._scored(row, metric) for row in results]

    def _scored(self, row: Result, metric: Metric) -> LabelledScore:
        said, score = self._said[row.query_id], row.scores[metric.name]
        certain = row.verdict.probability.get(metric.name) if row.verdict else None
        return LabelledScore(
            label=_label(said),
            score=score.value if score.value is None or certain is None else certain,
            item=str(said.get("max_group") or f"row {row.query_id}"),
            group=str(said.get("group") or said.get("max_group") or f"row {row.query_id}"),
            reason=score.reason or "",
            weight=float(said.get("weight") or 1.0),
        )


def _label(row: Mapping[str, Any]) -> int:
    binary = row.get("label_binary")
    return int(float(row["label"] if binary is None else binary) >= 0.5)


def _problem(row: Mapping[str, Any]) -> str | None:
    """What is wrong with a row's label; None where nothing is."""
    name = "label" if row.get("label_binary") is None else "label_binary"
    if row.get(name) is None:
        return "has no label"
    try:
        value = float(row[name])
    except (TypeError, ValueError):
        value = -1.0
    if not 0 <= value <= 1:
        return f"{name} should lie between 0 and 1, is {shown(row[name])}"
    return _bad_weight(row.get("weight"))


def _bad_weight(given: Any) -> str | None:
    try:
        weight = 1.0 if given in (None, "") else float(given)
    except (TypeError, ValueError):
        weight = 0.0
    return None if 0 < weight <= MOST_WEIGHT else f"weight should be a number above 0, is {shown(given)}"
