"""Where people label rows of a run, blind until they answered, and their labels as JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlencode

from fastapi import Depends, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BeforeValidator, Field

from ragassay.core.errors import BadInput, NotFound, UnknownName
from ragassay.core.files import to_lines
from ragassay.core.formatting import interval, number, percent
from ragassay.core.models import FrozenModel, Result
from ragassay.core.statistics import Estimate
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import body, form_of, pages, shown
from ragassay.evaluation.labelling import (
    LONGEST_NAME,
    HumanLabel,
    Labelling,
    LabelProgress,
    exported,
    imported,
    latest,
)
from ragassay.judges.agreement import FROM
from ragassay.judges.combine import disagreements
from ragassay.metrics.judged import QUESTIONS
from ragassay.reporting.document import Passages
from ragassay.reporting.row import answer, contexts, expected, turns

router = pages()
ANSWERS = {
    "faithfulness": {"1": "supported", "0.5": "partly", "0": "not supported"},
    "correctness": {"1": "correct", "0.5": "partly", "0": "wrong"},
    "completeness": {"1": "all covered", "0.5": "partly", "0": "not covered"},
    "relevance": {"1": "addressed", "0.5": "partly", "0": "not addressed"},
    "accurate": {"1": "accurate", "0": "not accurate"},
}
"""What can be said, by metric: the value of each answer, and its words."""
NAME_COOKIE = "ragassay_name"
MAX_BYTES = 64 * 2**20
_SKIP, _LAST_SHOWN, _A_YEAR_S = "skip", 10, 365 * 24 * 3600


class LabelChoice(FrozenModel):
    """What the address says of labelling."""

    metric: Annotated[str | None, Query(max_length=200)] = None
    system: Annotated[str | None, Query(max_length=64)] = None
    size: Annotated[Annotated[int, Field(ge=1, le=1_000_000)] | None, BeforeValidator(lambda size: size or None)] = None
    row: Annotated[str | None, Query(max_length=10_000)] = None


class _RowsToLabel:
    """The rows of a run's system as they are labelled for a metric, and their labels; raises BadInput, UnknownName."""

    def __init__(self, request: Request, run: str, asked: Annotated[LabelChoice, Query()]) -> None:
        self.library: Library = request.state.library
        self.run, self.report, self.size = run, self.library.report(run, labels=False), asked.size
        self.query = asked.row
        self.metrics = [name for name in QUESTIONS if name in self.report.provenance.metrics]
        if not self.metrics:
            raise BadInput("no metric of this run can be labelled", hint=f"evaluate with one of {', '.join(QUESTIONS)}")
        self.metric, self.system = asked.metric or self.metrics[0], asked.system or next(iter(self.report.systems))
        if self.metric not in self.metrics:
            raise UnknownName("metric that people label", self.metric, self.metrics)
        if self.system not in self.report.systems:
            raise UnknownName("system", self.system, self.report.systems)
        key = (self.library.where, run, self.library.version(run), self.system, self.metric)
        self.labelling: Labelling = self.library.held("labelling", key, self._labelling)
        self.labels: Mapping[str, HumanLabel] = latest(self.library.labels(run), self.system, self.metric)
        self.asked: dict[str, Any] = {"metric": self.metric, "system": self.system}
        self.asked |= {"size": asked.size} if asked.size else {}

    def _labelling(self) -> Labelling:
        rows = self.library.rows(self.run)
        return Labelling(rows.of_system(self.system), self.metric, rows.record)

    def next(self) -> Result | None:
        """The row to label next; None if all were shown."""
        return next(iter(self._at(self.labelling.next(self.labels, self.size))), None)

    def row(self, query_id: str) -> Result:
        """A row by its id; raises NotFound."""
        for row in self._at(self.labelling.number(query_id)):
            if row.query_id == query_id:
                return row
        raise NotFound(f"there is no row {query_id!r} of {self.system} with a score of {self.metric}")

    def _at(self, number: int | None) -> list[Result]:
        rows = self.library.rows(self.run)
        return [] if number is None else rows.at([number + rows.first(self.system)])

    def address(self, **more: Any) -> str:
        """The page's address with what was chosen."""
        return f"/ui/runs/{quote(self.run)}/label?{urlencode(self.asked | more)}"


RowsToLabel = Annotated[_RowsToLabel, Depends()]
Sent = Annotated[bytes, Depends(body(MAX_BYTES))]


@router.get("/ui/runs/{run}/label")
def _label(request: Request, rows: RowsToLabel) -> Response:
    row = rows.row(rows.query) if rows.query else rows.next()
    label = rows.labels.get(row.query_id) if row else None
    about: dict[str, Any] = {"answered": "", "beside": ("", ""), "reason": "", "disagreements": []}
    blocks = list[Passages]()
    if row and label:  # not before it is answered
        about = {
            "answered": _answered(label),
            "beside": _beside(row, label),
            "reason": row.scores[rows.metric].reason or "",
            "disagreements": list(disagreements(row.ratings)),
        }
    if row:
        judged = label is not None
        blocks = [answer(row, judged=judged)]
        if rows.metric != "faithfulness" and row.ground_truth_answer:
            blocks.append(expected(row, judged=judged))
        if rows.metric in ("faithfulness", "accurate"):
            blocks += contexts(rows.library.sample(rows.run, row), labelled=judged)
    return shown(
        request,
        "label.html",
        run=rows.run,
        report=rows.report,
        asked=rows.asked,
        size=rows.size,
        metrics=rows.metrics,
        question=QUESTIONS[rows.metric],
        answers=ANSWERS[rows.metric],
        row=row,
        label=label,
        earlier=list(turns(row)) if row else [],
        blocks=blocks,
        progress=_progress(rows.labelling.progress(rows.labels, rows.size)),
        last=[(one, _answered(one)) for one in list(rows.labels.values())[: -_LAST_SHOWN - 1 : -1]],
        name=_name(request),
        next=rows.address(),
        longest_name=LONGEST_NAME,
        **about,
    )


@router.post("/ui/runs/{run}/label")
def _say(request: Request, rows: RowsToLabel, sent: Sent) -> Response:
    form = form_of(sent)
    query, value, name = form.get("row", ""), form.get("value", ""), _given_name(form, request)
    if value != _SKIP and value not in ANSWERS[rows.metric]:
        raise BadInput(f"value should be one of {', '.join((*ANSWERS[rows.metric], _SKIP))}", where="value")
    rows.row(query)
    said = None if value == _SKIP else float(value)
    given = HumanLabel(system=rows.system, query_id=query, metric=rows.metric, value=said, by=name, at=_now())
    rows.library.add_labels(rows.run, [given])
    after = {} if said is None and query not in rows.labels else {"row": query}
    response = RedirectResponse(rows.address(**after), 303)
    response.set_cookie(NAME_COOKIE, quote(name), max_age=_A_YEAR_S, path="/ui", httponly=True, samesite="strict")
    return response


@router.get("/ui/runs/{run}/labels.jsonl")
def _export(rows: RowsToLabel) -> Response:
    samples = {query: rows.library.sample(rows.run, rows.row(query)) for query in rows.labelling.labels(rows.labels)}
    content = b"".join(to_lines(exported(rows.labelling, rows.labels, samples)))
    headers = {"Content-Disposition": 'attachment; filename="labels.jsonl"'}
    return Response(content, media_type="application/jsonl", headers=headers)


@router.post("/ui/runs/{run}/labels.jsonl")
def _import(request: Request, rows: RowsToLabel, sent: Sent) -> Response:
    is_form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    form = form_of(sent) if is_form else {}
    content = form.get("lines", "").encode() if is_form else sent
    labels = imported(content, rows.labelling, rows.system, _given_name(form, request, "import"), _now())
    rows.library.add_labels(rows.run, labels)
    return RedirectResponse(rows.address(), 303)


def _progress(progress: LabelProgress) -> Iterator[tuple[str, str]]:
    """What the labels say so far: how many there are, the corrected mean or why there is none, and the judge's agreement."""
    skipped = f", {progress.skipped:,} skipped" if progress.skipped else ""
    yield "Labels", f"{progress.labelled:,} of {progress.asked:,} rows labelled{skipped}"
    mean = progress.mean
    judged = "" if mean.uncorrected is None else f"; the judge's own is {number(mean.uncorrected)}"
    yield "Mean by labels", f"none: {mean.reason}" if mean.value is None else f"{_known(mean)}{judged}"
    if found := progress.agreement:
        yield "Judge's balanced accuracy", _known(found.balanced_accuracy, 2)
        yield "Judge's kappa", _known(found.kappa, 2)


def _known(one: Estimate, digits: int = 3) -> str:
    """``0.850, 95 % interval 0.784 to 0.899``, or why it is not known."""
    if one.value is None or (ci := one.interval) is None:
        return one.reason or ""
    ends = interval(ci, partial(number, digits=digits), f"{percent(ci.level)} interval {{}} to {{}}")
    return f"{number(one.value, digits)}, {ends}"


def _answered(label: HumanLabel) -> str:
    """A label in the words of its answer."""
    if label.value is None:
        return "skipped"
    return ANSWERS[label.metric].get(f"{label.value:g}", number(label.value))


def _beside(row: Result, label: HumanLabel) -> tuple[str, str]:
    """What the judge says of a labelled row, and the tone of it: good where both say yes or both no."""
    value = row.scores[label.metric].value
    if value is None:
        return "The judge gave no score", "none"
    chance = row.verdict.probability.get(label.metric) if row.verdict else None
    said = f"The judge: {number(value)}"
    said += "" if chance is None else f", with a chance of {number(chance)} that people say yes"
    if label.value is None:
        return said, "none"
    alike = ((value if chance is None else chance) >= FROM) is (label.value >= FROM)
    return f"{said}: {'as you' if alike else 'other than you'}", "good" if alike else "bad"


def _name(request: Request) -> str:
    """Who labels, as they said before."""
    return unquote(request.cookies.get(NAME_COOKIE, ""))[:LONGEST_NAME].strip()


def _given_name(form: Mapping[str, str], request: Request, usual: str = "") -> str:
    name = form.get("by", "").strip()[:LONGEST_NAME] or _name(request) or usual
    if not name:
        raise BadInput("your name is missing: a label is kept with who gave it", where="by")
    return name


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
