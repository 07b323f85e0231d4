"""What a client asks of a service about datasets, apart from how it is sent; see ``exchanges``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from ragassay.data.versions import DatasetPage, DatasetVersion, DeletedVersions, KeptVersion, RowPage
from ragassay.errors import BadInput, BadSettings
from ragassay.python.exchanges import JSON, MOST_A_PAGE, Exchange, HttpRequest, ServiceError, route

if TYPE_CHECKING:
    from ragassay.data.diff import DatasetDifference
    from ragassay.datasets import DescribedDataset, GeneratedVersion, SplitVersions

_WORK_S = 3600.0  # the server's own limits are shorter
_TABLES = {
    **dict.fromkeys((".jsonl", ".ndjson"), "application/x-ndjson"),
    ".csv": "text/csv",
    **dict.fromkeys((".tsv", ".tab"), "text/tab-separated-values"),
    **dict.fromkeys((".parquet", ".pq"), "application/vnd.apache.parquet"),
}
_DOCUMENTS = {
    **dict.fromkeys((".md", ".markdown"), "text/markdown"),
    ".txt": "text/plain",
    ".jsonl": "application/x-ndjson",
}


class Upload(NamedTuple):
    """Rows to be sent: a file or lines, their Content-Type, and whether their keys are those of a Sample."""

    name: str
    content: Path | bytes
    content_type: str
    ours: bool = False


def upload_of(data: Any, name: str | None, *, mapping: Mapping[str, str] | None) -> Upload:
    """What is sent of a file, of a version that is stored here, or of rows in memory.

    A file that the service can read row by row goes as it is. Raises BadSettings where rows in memory have no name.
    """
    from ragassay.data.dataset import canonical_line
    from ragassay.data.versions import check_name, file_or_version
    from ragassay.settings import Settings
    from ragassay.store.datasets import FolderDatasets, open_data

    store = FolderDatasets(Settings().home)
    if isinstance(data, str | Path):
        version = file_or_version(store, data)
        if version is not None:
            return Upload(check_name(name or version.name), store.rows_file(version), _TABLES[".jsonl"], ours=True)
        path = Path(data)
        if path.is_file() and (kind := _TABLES.get(path.suffix.lower())):
            return Upload(check_name(name or path.resolve().stem), path, kind)
        name = name or path.resolve().stem
    if name is None:
        raise BadSettings("rows in memory need a name", hint='import_(rows, "NAME")')
    rows = open_data(store, data, mapping=mapping)
    return Upload(check_name(name), b"".join(map(canonical_line, rows)), _TABLES[".jsonl"], ours=True)


def send(
    upload: Upload,
    *,
    description: str | None = None,
    mapping: Mapping[str, str] | None = None,
    duplicates: str = "error",
) -> Exchange[KeptVersion]:
    """Upload rows as a version."""
    asked: dict[str, Any] = {"columns": "ours"}
    if not upload.ours:
        columns = [f"{ours}={theirs}" for ours, theirs in (mapping or {}).items()]
        asked = {"map": columns, "duplicates": None if duplicates == "error" else duplicates}
    path = route("datasets", upload.name, description=description, **asked)
    request = HttpRequest("PUT", path, upload.content, {"Content-Type": upload.content_type}, _WORK_S)
    return KeptVersion.model_validate_json((yield request))


def import_(
    data: Any, name: str | None, *, description: str | None, mapping: Mapping[str, str] | None, duplicates: str
) -> Exchange[KeptVersion]:
    """Upload what ``upload_of`` makes of it."""
    upload = upload_of(data, name, mapping=mapping)
    return send(upload, description=description, mapping=mapping, duplicates=duplicates)


def ensure(version: DatasetVersion, rows: Path) -> Exchange[DatasetVersion]:
    """The version at the service, to which it is uploaded where it is not there yet."""
    try:
        return (yield from show(f"{version.name}@{version.digest}"))
    except ServiceError as error:
        if error.status != 404:
            raise
    upload = Upload(version.name, rows, _TABLES[".jsonl"], ours=True)
    return (yield from send(upload, description=version.description))


def versions(name: str | None = None) -> Exchange[tuple[DatasetVersion, ...]]:
    """All versions of a name; without one the latest of each."""
    found, cursor, first = list[DatasetVersion](), None, True
    while first or cursor is not None:
        path = route("datasets", *([name, "versions"] if name else []), cursor=cursor, limit=MOST_A_PAGE)
        page = DatasetPage.model_validate_json((yield HttpRequest("GET", path)))
        cursor, first = page.next, False
        found += page.datasets
    return tuple(found)


def show(reference: str) -> Exchange[DatasetVersion]:
    """One version."""
    return DatasetVersion.model_validate_json((yield HttpRequest("GET", route("datasets", reference))))


def rows(reference: str, cursor: str | None) -> Exchange[RowPage]:
    """A page of the rows: the first, or the one of a cursor."""
    path = route("datasets", reference, "rows", cursor=cursor, limit=MOST_A_PAGE)
    return RowPage.model_validate_json((yield HttpRequest("GET", path)))


def describe(reference: str, against: str | None, similar: float) -> Exchange[DescribedDataset]:
    """The description of a version."""
    from ragassay.datasets import DescribedDataset

    path = route("datasets", reference, "description", against=against, similar=similar)
    return DescribedDataset.model_validate_json((yield HttpRequest("GET", path, timeout_s=_WORK_S)))


def diff(a: str, b: str) -> Exchange[DatasetDifference]:
    """What changed from one version to another."""
    from ragassay.data.diff import DatasetDifference

    path = route("datasets", a, "diff", to=b)
    return DatasetDifference.model_validate_json((yield HttpRequest("GET", path, timeout_s=_WORK_S)))


def split(reference: str, options: Mapping[str, Any]) -> Exchange[SplitVersions]:
    """Split a version."""
    from ragassay.datasets import SplitVersions

    request = HttpRequest("POST", route("datasets", reference, "split"), orjson.dumps(options), JSON, _WORK_S)
    return SplitVersions.model_validate_json((yield request))


def generate(documents: Path, name: str | None, options: Mapping[str, Any]) -> Exchange[GeneratedVersion]:
    """Make questions from the documents in a file."""
    from ragassay.data.versions import check_name
    from ragassay.datasets import GeneratedVersion

    kind = _DOCUMENTS.get(documents.suffix.lower())
    if kind is None or not documents.is_file():
        raise BadInput("should be a Markdown or text file, or a corpus.jsonl", where=str(documents))
    path = route("datasets", check_name(name or f"{documents.resolve().stem}-generated"), "generate", **options)
    request = HttpRequest("POST", path, documents, {"Content-Type": kind}, _WORK_S)
    return GeneratedVersion.model_validate_json((yield request))


def delete(reference: str) -> Exchange[DeletedVersions]:
    """Delete a version, or all of a name."""
    return DeletedVersions.model_validate_json((yield HttpRequest("DELETE", route("datasets", reference))))
