"""Datasets with versions: the list, and one with what is in it, what changed, its rows, and the runs on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

import orjson
from fastapi import Query, Request, Response

from ragassay.core.formatting import cut, minute
from ragassay.core.models import Sample
from ragassay.core.text import is_answerable
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import A_PAGE, Field, SearchText, Start, address_of, pages, shown_document
from ragassay.datasets.versions import SHORT, DatasetVersion, resolve
from ragassay.reporting.datasets import made
from ragassay.reporting.document import Cell, Document, Figure, Link, Table
from ragassay.storage.protocol import RunRecord

MAX_RUNS, MAX_LISTED = 20, 500  # runs on the page of a dataset, and those whose datasets are listed
LONGEST = 1000
VersionText = Annotated[str, Query(max_length=200)]
router = pages()


@router.get("/ui/datasets")
def _datasets(request: Request, q: SearchText = "", start: Start = 0) -> Response:
    library: Library = request.state.library
    found = (
        versions
        for versions in library.datasets.each()
        if q.casefold() in f"{versions[0].name} {versions[0].description}".casefold()
    )
    listed = list(islice(found, start, start + A_PAGE + 1))
    rows = tuple(
        (
            Link(latest.name, f"/ui/datasets/{latest.name}"),
            latest.description or "",
            f"{latest.rows:,}",
            str(1 + len(earlier)),
            Figure(latest.digest[:SHORT], made(latest)),
        )
        for latest, *earlier in listed[:A_PAGE]
    )
    columns = ("dataset", "what it is", "rows", "versions", "latest version")
    used = None if start else _used(library, q)
    tables = (Table("Datasets", columns, rows) if rows else None, used)
    keep = "PUT /v1/datasets/handbook" if library.of_service else "ragassay data import questions.jsonl --name handbook"
    none = "No dataset is kept under a name yet. Keep questions under one, each change as a version:"
    return shown_document(
        request,
        Document("Datasets", blocks=tuple(table for table in tables if table)),
        commands=() if rows or (q and used) else ("No dataset matches.",) if q or start else (none, keep),
        fields=[Field("Search", "q", q, "search")],
        asked={"q": q},
        start=start,
        more=len(listed) > A_PAGE,
    )


def _used(library: Library, text: str) -> Table | None:
    """What the newest runs were made on, whether or not it is kept under a name; ``text``: part of a dataset's name.

    Only the records of the runs are read, not their reports.
    """
    by_source: dict[tuple[str, str], list[tuple[RunRecord, bool]]] = {}
    for entry in islice(library.newest(), MAX_LISTED):
        if entry.run and text.casefold() in (source := entry.run.record.dataset).name.casefold():
            of_source = by_source.setdefault((source.name, source.digest), [])
            of_source.append((entry.run.record, entry.status == "finished"))
    rows = tuple(
        (
            Link(name, f"/ui/runs?{address_of({'q': name})}"),
            digest[:SHORT],
            f"{newest.dataset.rows:,}",
            f"{len(runs):,}",
            _run_cell(newest.id, newest.spec.name, newest.created_at, has_page=has_page),
        )
        for (name, digest), runs in by_source.items()
        for newest, has_page in runs[:1]
    )
    note = "A dataset whose rows change gets another digest."
    return Table("Used by runs", ("dataset", "digest", "rows", "runs", "newest run"), rows, note) if rows else None


def _run_cell(run: str, name: str | None, created_at: str, *, has_page: bool) -> Figure:
    return Figure(name or run, minute(created_at), href=f"/ui/runs/{run}" if has_page else "")


@router.get("/ui/datasets/{name}")
def _dataset(request: Request, name: str, version: VersionText = "", start: Start = 0) -> Response:
    library: Library = request.state.library
    store = library.datasets
    chosen = resolve(store, f"{name}@{version}" if version else name)
    versions = store.versions(chosen.name)
    rows = [Sample.model_validate_json(line) for line in islice(store.lines(chosen, start), A_PAGE)]
    responses = any(row.response for row in rows or islice(store.samples(chosen), 1))
    runs = tuple(_of_runs(library, chosen.name))
    latest = ", the latest" if chosen == versions[0] else ""
    about = f"Version {chosen.digest[:SHORT]}{latest}: {chosen.rows:,} rows, {made(chosen)}"
    about += "; only queries that somebody judged" if chosen.judged_only else ""
    listed = tuple(
        (Link(one.digest[:SHORT], f"/ui/datasets/{one.name}?version={one.digest[:SHORT]}"), f"{one.rows:,}", made(one))
        for one in versions
    )
    columns = ("question", "ground truth", *(["answer"] if responses else []), "relevant documents")
    cells = tuple(tuple(_cells(row, responses=responses)) for row in rows)
    return shown_document(
        request,
        Document(
            chosen.name,
            f"{about}. {chosen.description or ''}",
            blocks=(
                Table("Runs", ("run", "how good", "judge"), runs, "" if runs else "No run used it yet."),
                Table("Versions", ("version", "rows", "made by"), listed),
                Table("Rows", columns, cells),
            ),
        ),
        crumbs={"Datasets": "/ui/datasets"},
        commands=tuple(_commands(library, chosen, versions, responses=responses)),
        asked={"version": version},
        start=start,
        more=start + len(rows) < chosen.rows,
    )


def _commands(
    library: Library, chosen: DatasetVersion, versions: Sequence[DatasetVersion], *, responses: bool
) -> Iterator[str]:
    """A sentence, then what evaluates, describes and compares versions."""
    yield "Evaluate, describe and compare versions:"
    if library.of_service:
        job = {"dataset": chosen.reference, **({} if responses else {"systems": ["NAME"]})}
        yield f"POST /v1/jobs {orjson.dumps(job).decode()}"
    else:
        yield f"ragassay evaluate {chosen.reference}{'' if responses else ' --system mine=answers.jsonl'}"
    yield f"ragassay data show {chosen.reference}"
    if len(versions) > 1:
        yield f"ragassay data diff {versions[1].reference} {versions[0].reference}"


def _cells(row: Sample, *, responses: bool) -> Iterator[Cell]:
    labels = [row.query_id, row.category, row.difficulty, row.split]
    labels += ["can't be answered"] if is_answerable(row) is False else []
    yield Figure(cut(row.query, LONGEST), ", ".join(filter(None, labels)))
    yield cut(" | ".join((*row.ground_truth_answer, *row.key_facts)), LONGEST)
    if responses:
        yield cut(row.answer or "", LONGEST)
    yield "not judged" if row.judgments is None else str(sum(grade > 0 for grade in row.judgments.values()))


def _of_runs(library: Library, name: str) -> Iterator[tuple[Cell, ...]]:
    for run in islice((run for run in library.runs() if run.dataset == name), MAX_RUNS):
        good = "; ".join(f"{system}: {headline}" for system, headline in run.headline.items()) or "no report yet"
        yield _run_cell(run.id, run.name, run.created_at, has_page=bool(run.headline)), good, run.judge
