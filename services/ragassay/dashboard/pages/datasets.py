"""Datasets with versions: the list, and one with what is in it, what changed, its rows, and the runs on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Annotated

import orjson
from fastapi import Query, Request, Response

from ragassay.core.formatting import cut
from ragassay.core.models import Sample
from ragassay.core.text import is_answerable
from ragassay.dashboard.library import Library
from ragassay.dashboard.site import A_PAGE, SearchText, Start, pages, shown_document
from ragassay.datasets.versions import SHORT, DatasetStore, DatasetVersion, resolve
from ragassay.reporting import datasets as said
from ragassay.reporting.document import Cell, Document, Figure, Link, Table

MOST_RUNS = 20
LONGEST = 1000
VersionText = Annotated[str, Query(max_length=200)]
router = pages()


@router.get("/ui/datasets")
def _datasets(request: Request, q: SearchText = "", start: Start = 0) -> Response:
    library: Library = request.state.library
    store = library.datasets
    all_versions = (store.versions(name) for name in store.names())
    found = (versions for versions in all_versions if versions and _has(versions, q))
    listed = list(islice(found, start, start + A_PAGE + 1))
    rows = tuple(
        (
            Link(versions[0].name, f"/ui/datasets/{versions[0].name}"),
            versions[0].description or "",
            f"{versions[0].rows:,}",
            str(len(versions)),
            Figure(versions[0].digest[:SHORT], said.made(versions[0])),
        )
        for versions in listed[:A_PAGE]
    )
    columns = ("dataset", "what it is", "rows", "versions", "latest version")
    keep = "PUT /v1/datasets/handbook" if library.of_service else "ragassay data import questions.jsonl --name handbook"
    none = "There is no dataset yet. Keep questions under a name, each change as a version:"
    return shown_document(
        request,
        Document("Datasets", blocks=(Table("Datasets", columns, rows),) if rows else ()),
        commands=() if rows else ("No dataset matches.",) if q or start else (none, keep),
        search=q,
        asked={"q": q},
        start=start,
        more=len(listed) > A_PAGE,
    )


def _has(versions: Sequence[DatasetVersion], text: str) -> bool:
    """Is the text in the name, the description or a version's digest, in any case?"""
    places = (versions[0].name, versions[0].description or "", *(version.reference for version in versions))
    return any(text.casefold() in place.casefold() for place in places)


@router.get("/ui/datasets/{name}")
def _dataset(
    request: Request,
    name: str,
    version: VersionText = "",
    text: Annotated[str, Query(max_length=200, alias="q")] = "",
    start: Start = 0,
) -> Response:
    library: Library = request.state.library
    store = library.datasets
    chosen = resolve(store, f"{name}@{version}" if version else name)
    versions = store.versions(chosen.name)
    places = _matching(store, _full(chosen), text) if text else range(chosen.rows)
    here = frozenset(places[start : start + A_PAGE])
    rows = list(store.samples(chosen, lambda place, _: place in here))
    responses = any(row.response for row in rows or islice(store.samples(chosen), 1))
    runs = tuple(_of_runs(library, chosen.name))
    latest = ", the latest" if chosen == versions[0] else ""
    about = f"Version {chosen.digest[:SHORT]}{latest}: {chosen.rows:,} rows, {said.made(chosen)}"
    about += "; only queries that somebody judged" if chosen.judged_only else ""
    return shown_document(
        request,
        Document(
            chosen.name,
            f"{about}. {chosen.description or ''}",
            blocks=(
                Table("Runs", ("run", "how good", "judge"), runs, "" if runs else "No run used it yet."),
                Table("Versions", ("version", "rows", "made by"), tuple(map(_of_version, versions))),
                _of_rows(rows, responses=responses),
            ),
        ),
        crumbs={"Datasets": "/ui/datasets"},
        commands=tuple(_commands(library, chosen, versions, responses=responses)),
        search=text,
        asked={"version": version, "q": text},
        start=start,
        more=start + len(rows) < len(places),
    )


def _commands(
    library: Library, chosen: DatasetVersion, versions: Sequence[DatasetVersion], *, responses: bool
) -> Iterator[str]:
    """A sentence, then what evaluates, describes and compares versions."""
    yield "Evaluate, describe and compare versions:"
    if library.of_service:
        yield (
            "POST /v1/jobs "
            + orjson.dumps({"dataset": chosen.reference} | ({} if responses else {"systems": ["NAME"]})).decode()
        )
    else:
        yield f"ragassay evaluate {chosen.reference}{'' if responses else ' --system mine=answers.jsonl'}"
    yield f"ragassay data show {chosen.reference}"
    if len(versions) > 1:
        yield f"ragassay data diff {versions[1].reference} {versions[0].reference}"


def _of_version(one: DatasetVersion) -> tuple[Cell, ...]:
    link = Link(one.digest[:SHORT], f"/ui/datasets/{one.name}?version={one.digest[:SHORT]}")
    return link, f"{one.rows:,}", said.made(one)


def _of_rows(rows: Sequence[Sample], *, responses: bool) -> Table:
    def cells(row: Sample) -> Iterator[Cell]:
        yield Figure(cut(row.query, LONGEST), ", ".join(_labels(row)))
        yield cut(" | ".join((*row.ground_truth_answer, *row.key_facts)), LONGEST)
        if responses:
            yield cut(row.answer or "", LONGEST)
        yield "not judged" if row.judgments is None else str(sum(grade > 0 for grade in row.judgments.values()))

    columns = ("question", "ground truth", *(["answer"] if responses else []), "relevant documents")
    return Table("Rows", columns, tuple(tuple(cells(row)) for row in rows), "" if rows else "No row matches.")


def _of_runs(library: Library, name: str) -> Iterator[tuple[Cell, ...]]:
    for run in islice((run for run in library.runs() if run.dataset == name), MOST_RUNS):
        good = "; ".join(f"{system}: {headline}" for system, headline in run.headline.items()) or "no report yet"
        address = f"/ui/runs/{run.id}" if run.headline else ""
        yield Figure(run.name or run.id, run.created_at[:16].replace("T", " "), href=address), good, run.judge


def _full(version: DatasetVersion) -> str:
    """The reference that means these rows for ever."""
    return f"{version.name}@{version.digest}"


@lru_cache(8)
def _matching(store: DatasetStore, reference: str, text: str) -> tuple[int, ...]:
    """The places of the rows that have the text in their id, question, truth or labels, in any case."""
    folded = text.casefold()
    written, places = orjson.dumps(folded)[1:-1].decode(), list[int]()

    def may_have(place: int, line: bytes) -> bool:  # to read a row takes ten times as long
        there = written in line.decode().casefold()
        if there:
            places.append(place)
        return there

    samples = store.samples(resolve(store, reference), may_have)
    return tuple(places[-1] for sample in samples if any(folded in one.casefold() for one in _texts(sample)))


def _texts(sample: Sample) -> Iterator[str]:
    yield from (sample.query_id, sample.query, *sample.ground_truth_answer, *sample.key_facts)
    yield from filter(None, (sample.category, sample.difficulty, sample.split, sample.answer))


def _labels(sample: Sample) -> Iterator[str]:
    yield from filter(None, (sample.query_id, sample.category, sample.difficulty, sample.split))
    if is_answerable(sample) is False:
        yield "can't be answered"
