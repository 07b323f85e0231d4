"""Where people label rows of a run, and their labels as JSON Lines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlencode

from fastapi import Depends, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BeforeValidator, Field

from ragassay.core.errors import BadInput, NotFound, UnknownName
from ragassay.core.files import to_lines
from ragassay.core.models import FrozenModel, Result
from ragassay.dashboard import labelled, views
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import body, form_of, pages, shown
from ragassay.evaluation.labelling import LONGEST_NAME, QUESTIONS, HumanLabel, Labelling, exported, imported, latest
from ragassay.judges.combine import disagreements

router = pages()
NAME_COOKIE = "ragassay_name"
MOST_BYTES = 64 * 2**20
_SKIP, _LAST_SHOWN, _A_YEAR_S = "skip", 10, 365 * 24 * 3600


class LabelChoice(FrozenModel):
    """What the address says of labelling."""

    metric: Annotated[str | None, Query(max_length=200)] = None
    system: Annotated[str | None, Query(max_length=64)] = None
    size: Annotated[Annotated[int, Field(ge=1, le=1_000_000)] | None, BeforeValidator(lambda size: size or None)] = None
    row: Annotated[str | None, Query(max_length=10_000)] = None


Address = Annotated[LabelChoice, Query()]
Sent = Annotated[bytes, Depends(body(MOST_BYTES))]


class _RowsToLabel:
    """The rows of a run's system as they are labelled for a metric, and what was said of them."""

    def __init__(self, request: Request, run: str, asked: LabelChoice) -> None:
        self.library: Library = request.state.library
        self.run, self.report = run, self.library.report(run, labels=False)
        self.metrics = [name for name in QUESTIONS if name in self.report.provenance.metrics]
        if not self.metrics:
            raise BadInput("no metric of this run can be labelled", hint=f"evaluate with one of {', '.join(QUESTIONS)}")
        self.metric, self.system = asked.metric or self.metrics[0], asked.system or next(iter(self.report.systems))
        if self.metric not in self.metrics:
            raise UnknownName("metric that people label", self.metric, self.metrics)
        if self.system not in self.report.systems:
            raise UnknownName("system", self.system, self.report.systems)
        self.labelling = self._labelling()
        self.said: Mapping[str, HumanLabel] = latest(self.library.labels(run), self.system, self.metric)
        self.asked: dict[str, Any] = {"metric": self.metric, "system": self.system}
        if asked.size is not None:
            self.asked["size"] = asked.size

    def _labelling(self) -> Labelling:
        """Held while the run's report does not change: all rows are read for it."""
        spec, digest = self.report.provenance.configuration, self.report.provenance.dataset.digest
        key = (self.library.where, self.run, self.library.version(self.run), self.system, self.metric)
        rows = self.report.results_of(self.system)
        made: Labelling = self.library.held("labelling", key, lambda: Labelling(rows, self.metric, spec, digest))
        return made

    def row(self, query_id: str) -> Result:
        """A row by its id; raises NotFound."""
        rows = self.library.rows(self.run)
        number = rows.find(self.system, query_id) if query_id in self.labelling else None
        if number is None:
            raise NotFound(f"there is no row {query_id!r} of {self.system} with a score of {self.metric}")
        return rows.at([number])[0]

    def address(self, **more: Any) -> str:
        """The page's address with what was chosen."""
        return f"/ui/runs/{quote(self.run)}/label?{urlencode(self.asked | more)}"


@router.get("/ui/runs/{run}/label")
def _label(request: Request, run: str, asked: Address) -> Response:
    rows = _RowsToLabel(request, run, asked)
    query = asked.row or rows.labelling.next(rows.said, asked.size)
    row = rows.row(query) if query else None
    sample = rows.library.sample(run, row) if row else None
    label = rows.said.get(query) if query else None
    sentences, facts = views.units(row) if row and label else ([], [])
    return shown(
        request,
        "label.html",
        run=run,
        report=rows.report,
        asked=rows.asked,
        size=asked.size,
        metrics=rows.metrics,
        question=QUESTIONS[rows.metric],
        answers=labelled.ANSWERS[rows.metric],
        row=row,
        label=label,
        answered=labelled.answered(label) if label else "",
        beside=labelled.beside(row, label) if row and label else ("", ""),
        reason=row.scores[rows.metric].reason or "" if row and label else "",
        divided=list(disagreements(row.ratings)) if row and label else [],
        sentences=sentences,
        facts=facts,
        contexts=views.contexts(sample),
        history=views.history(row) if row else [],
        progress=labelled.progress_lines(rows.labelling.progress(rows.said, asked.size)),
        last=[(one, labelled.answered(one)) for one in list(rows.said.values())[: -_LAST_SHOWN - 1 : -1]],
        commands=labelled.commands(rows.report, rows.metric),
        name=_name(request),
        next=rows.address(),
        longest_name=LONGEST_NAME,
    )


@router.post("/ui/runs/{run}/label")
def _say(request: Request, run: str, asked: Address, sent: Sent) -> Response:
    rows = _RowsToLabel(request, run, asked)
    form = form_of(sent)
    query, value, name = form.get("row", ""), form.get("value", ""), _given_name(form, request)
    if value != _SKIP and value not in labelled.ANSWERS[rows.metric]:
        raise BadInput(f"value should be one of {', '.join((*labelled.ANSWERS[rows.metric], _SKIP))}", where="value")
    rows.row(query)
    said = None if value == _SKIP else float(value)
    given = HumanLabel(system=rows.system, query_id=query, metric=rows.metric, value=said, by=name, at=_now())
    rows.library.add_labels(run, [given])
    after = {} if said is None and query not in rows.said else {"row": query}
    return _remembering(name, RedirectResponse(rows.address(**after), 303))


@router.get("/ui/runs/{run}/labels.jsonl")
def _export(request: Request, run: str, asked: Address) -> Response:
    rows = _RowsToLabel(request, run, asked)
    samples = {query: rows.library.sample(run, rows.row(query)) for query in rows.labelling.labels(rows.said)}
    content = b"".join(to_lines(exported(rows.labelling, rows.said, samples)))
    headers = {"Content-Disposition": 'attachment; filename="labels.jsonl"'}
    return Response(content, media_type="application/jsonl", headers=headers)


@router.post("/ui/runs/{run}/labels.jsonl")
def _import(request: Request, run: str, asked: Address, sent: Sent) -> Response:
    rows = _RowsToLabel(request, run, asked)
    is_form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    form = form_of(sent) if is_form else {}
    name = _given_name(form, request, "import")
    content = form.get("lines", "").encode() if is_form else sent
    rows.library.add_labels(run, imported(content, rows.labelling, rows.system, name, _now()))
    return RedirectResponse(rows.address(), 303)


def _name(request: Request) -> str:
    """Who labels, as they said before."""
    return unquote(request.cookies.get(NAME_COOKIE, ""))[:LONGEST_NAME].strip()


def _given_name(form: Mapping[str, str], request: Request, usual: str = "") -> str:
    name = form.get("by", "").strip()[:LONGEST_NAME] or _name(request) or usual
    if not name:
        raise BadInput("your name is missing: a label is kept with who gave it", where="by")
    return name


def _remembering(name: str, response: Response) -> Response:
    response.set_cookie(NAME_COOKIE, quote(name), max_age=_A_YEAR_S, path="/ui", httponly=True, samesite="strict")
    return response


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
