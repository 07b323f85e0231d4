"""``/v1/datasets``: upload, list, read and delete datasets with versions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from anyio import BrokenWorkerProcess, fail_after, to_process
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from ragassay.api import dataset_work as work
from ragassay.api.dependencies import LOCATED, Page, QueryParameters, jobs_of, scoped
from ragassay.api.problems import respond
from ragassay.api.uploads import TABLES, received
from ragassay.core.errors import AssayError, BadData, Conflict, NotFound, Unavailable, UnknownName
from ragassay.core.paging import BY_TIME, bad_cursor, by_time, page_of
from ragassay.datasets.versions import (
    NAME,
    REFERENCE,
    DatasetPage,
    DatasetStore,
    DatasetVersion,
    DeletedVersions,
    KeptVersion,
    RowPage,
    named,
    resolve,
)
from ragassay.service.access import Requester
from ragassay.service.redis import RedisStore

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])
T = TypeVar("T")
LONGEST_S = 600.0  # in which a dataset has to be read


def _store(request: Request, caller: Requester) -> RedisStore:
    return jobs_of(request, caller).store


def _datasets(request: Request, caller: Requester) -> DatasetStore:
    return _store(request, caller).datasets


Reads = Annotated[DatasetStore, scoped(_datasets, "read")]
Changes = Annotated[DatasetStore, scoped(_datasets, "submit")]
Name = Annotated[
    str, Path(pattern=f"^{NAME}$", description="The dataset's name.", examples=["handbook"], max_length=100)
]
Named = Annotated[
    str,
    Path(
        pattern=f"^{REFERENCE}$",
        description="NAME, which means the version that came last, or NAME@VERSION with the beginning of a digest.",
        examples=["handbook", "handbook@3a095fb0729a"],
    ),
]


class _UploadQuery(QueryParameters):
    description: Annotated[str | None, Field(max_length=2000, description="what the dataset is")] = None
    columns: Annotated[
        Literal["auto", "ours"],
        Field(description="'ours': keys are those of a Sample, as GET .../rows has them, and nothing is mapped"),
    ] = "auto"
    map: Annotated[
        tuple[Annotated[str, Field(pattern=r"^\w+=\s*\S")], ...],
        Field(max_length=100, description="OURS=THEIRS: a column that is not understood by its name"),
    ] = ()


_UPLOAD: dict[str, Any] = {
    "response_model": KeptVersion,
    "responses": {
        201: {"description": "A new version", "model": KeptVersion, **LOCATED},
        200: {"description": "The same rows are a version of this name already; now the latest", **LOCATED},
    },
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "description": "Rows with queries, and with responses if a job is to evaluate them.",
            "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in TABLES},
        }
    },
}


@router.put("/{dataset}", **_UPLOAD)
async def upload_dataset(
    request: Request,
    store: Annotated[RedisStore, scoped(_store, "submit")],
    dataset: Name,
    query: Annotated[_UploadQuery, Query()],
) -> Response:
    """Keep the rows of the body as the latest version of a name: all of them, or none where one is bad.

    The same rows are the same version, however often and in whatever format they come.
    """
    mapping = {ours: theirs.strip() for ours, _, theirs in (each.partition("=") for each in query.map)}
    async with received(request, store.project, dataset) as path:
        options = {"mapping": mapping, **query.model_dump(exclude={"map"})}
        try:
            document, new = await apart(request, store, work.keep, path, **options)
        except BadData as error:
            return respond(error, max_lines=work.MAX_PROBLEMS + 1)
    version = KeptVersion.model_validate_json(document)
    return _json(document, status=201 if new else 200, Location=f"/v1/datasets/{version.name}@{version.digest}")


@router.get("")
def list_datasets(datasets: Reads, query: Annotated[Page, Query()]) -> DatasetPage:
    """The datasets by name, each with its latest version."""
    names, after = page_of(datasets.names(), str, form=NAME, **dict(query))
    return DatasetPage(datasets=tuple(versions[0] for versions in datasets.each(names)), next=after)


@router.get("/{dataset}")
def get_dataset(datasets: Reads, dataset: Named) -> DatasetVersion:
    """One version: its digest, description, number of rows, when it came and what it was made from."""
    return _resolved(datasets, dataset)


@router.get("/{dataset}/versions")
def list_versions(datasets: Reads, dataset: Name, query: Annotated[Page, Query()]) -> DatasetPage:
    """The versions of a dataset, the latest first."""
    versions = datasets.versions(dataset)
    if not versions:
        raise _not_found(UnknownName("dataset", dataset, datasets.names()))
    page, after = page_of(versions, _order, form=BY_TIME, descending=True, **dict(query))
    return DatasetPage(datasets=page, next=after)


def _order(version: DatasetVersion) -> str:
    return by_time(version.imported_at, version.digest)


@router.get("/{dataset}/rows", response_model=RowPage)
def list_rows(datasets: Reads, dataset: Named, query: Annotated[Page, Query()]) -> Response:
    """The rows in their order, as Samples without the fields that they lack; a page has 4 MB or one row at the most."""
    version, first = _resolved(datasets, dataset), _offset(query.cursor)
    page = datasets.page(version, first, query.limit)
    after = first + len(page)
    rest = b"null" if after >= version.rows else b'"%d"' % after
    return _json(b'{"rows":[%s],"next":%s}' % (b",".join(page), rest))


@router.delete("/{dataset}")
def delete_dataset(datasets: Changes, dataset: Named) -> DeletedVersions:
    """NAME@VERSION deletes that version, NAME alone all of them. Jobs have copies of their rows and go on.

    A version with a damaged record is deleted too; the answer lists only those that could be read.
    """
    try:
        version = _resolved(datasets, dataset)
        versions = [version] if "@" in dataset else datasets.versions(version.name)
    except Conflict:
        return DeletedVersions(deleted=tuple(datasets.delete_damaged(named(dataset))))
    for each in versions:
        datasets.delete(each)
    return DeletedVersions(deleted=tuple(versions))


async def apart(
    request: Request, store: RedisStore, function: Callable[..., T], *arguments: object, **options: object
) -> T:
    """The function's answer from a process of its own: it takes seconds, and memory that this one never gives back."""
    state = request.app.state
    call = partial(function, store.url, store.project, *arguments, **options)
    try:
        with fail_after(LONGEST_S):
            return await to_process.run_sync(call, cancellable=True, limiter=state.dataset_work)
    except UnknownName as error:
        raise _not_found(error) from None
    except TimeoutError:
        raise Unavailable(f"it was not done within {LONGEST_S:g} s", hint="split it into smaller datasets") from None
    except BrokenWorkerProcess:
        raise Unavailable("the process that worked on it died", hint="has the service's machine memory left?") from None


def _resolved(datasets: DatasetStore, reference: str) -> DatasetVersion:
    """The version that a path names; raises NotFound."""
    try:
        return resolve(datasets, reference)
    except UnknownName as error:
        raise _not_found(error) from None


def _not_found(error: UnknownName) -> AssayError:
    """An unknown dataset has no page of its own; any other name is what the caller sent."""
    return NotFound(error.message, hint=error.hint) if error.kind == "dataset" else error


def _json(document: bytes, status: int = 200, **headers: str) -> Response:
    return Response(document, status, headers, media_type="application/json")


def _offset(cursor: str | None) -> int:
    """The place from which a page is to begin; raises BadInput."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > 9:
        raise bad_cursor(cursor)
    return int(cursor)
