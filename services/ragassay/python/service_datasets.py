"""The datasets of a service, as ``Client.datasets`` and ``AsyncClient.datasets`` have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragassay.data.versions import (
    DatasetPage,
    DatasetVersion,
    DeletedVersions,
    KeptVersion,
    RowPage,
    check_name,
    file_or_version,
)
from ragassay.errors import BadInput, BadSettings
from ragassay.python.exchanges import (
    MOST_A_PAGE,
    AwaitedDrive,
    Drive,
    Exchange,
    HttpRequest,
    ServiceError,
    all_pages,
    awaited_pages,
    document,
    pages,
    route,
)

if TYPE_CHECKING:
    from ragassay.data.diff import DatasetDifference
    from ragassay.datasets import DescribedDataset, GeneratedVersion, SplitVersions
    from ragassay.models import Sample

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


class ServiceDatasets:
    """``ragassay.Datasets`` at a service: the same verbs; a dataset is named ``NAME`` or ``NAME@VERSION``."""

    def __init__(self, run: Drive) -> None:
        self._run = run

    def import_(
        self,
        data: Any,
        name: str | None = None,
        *,
        description: str | None = None,
        map: Mapping[str, str] | None = None,  # noqa: A002 - as the option is called
        duplicates: str = "error",
    ) -> KeptVersion:
        """Upload a file, a version that is stored here, or rows in memory. Files of any length go piece by piece."""
        upload = _upload_of(data, name, map)
        return self._run(_send(upload, description=description, mapping=map, duplicates=duplicates))

    def list(self) -> tuple[DatasetVersion, ...]:
        """The datasets by name, each with its latest version."""
        return self._run(_versions())

    def versions(self, name: str) -> tuple[DatasetVersion, ...]:
        """The versions of a name, the latest first."""
        return self._run(_versions(name))

    def show(self, dataset: str) -> DatasetVersion:
        """One version."""
        return self._run(_show(dataset))

    def rows(self, dataset: str) -> Iterator[Sample]:
        """The rows in their order, page by page."""
        for page in pages(self._run, partial(_rows, dataset)):
            yield from page.rows

    def describe(self, dataset: str, against: str | None = None, *, similar: float = 0.8) -> DescribedDataset:
        """Counts, lengths, labels, questions that are nearly the same, leaks."""
        return self._run(_describe(dataset, against, similar))

    def diff(self, a: str, b: str) -> DatasetDifference:
        """What changed from ``a`` to ``b``, row by row."""
        return self._run(_diff(a, b))

    def split(self, dataset: str, **options: Any) -> SplitVersions:
        """Keep parts as datasets; options as ``ragassay.Datasets.split`` takes them."""
        return self._run(_split(dataset, options))

    def generate(self, documents: str | Path, name: str | None = None, **options: Any) -> GeneratedVersion:
        """Make questions from a Markdown or text file or a corpus; options are ``count``, ``seed``, ``unanswerable``."""
        return self._run(_generate(Path(documents), name, options))

    def delete(self, dataset: str) -> tuple[DatasetVersion, ...]:
        """Delete NAME@VERSION, or all versions of NAME; returns them. Jobs have copies of their rows."""
        return self._run(_delete(dataset)).deleted


class AsyncServiceDatasets:
    """``ServiceDatasets`` to await; ``rows`` is an async iterator."""

    def __init__(self, run: AwaitedDrive) -> None:
        self._run = run

    async def import_(
        self,
        data: Any,
        name: str | None = None,
        *,
        description: str | None = None,
        map: Mapping[str, str] | None = None,  # noqa: A002 - as the option is called
        duplicates: str = "error",
    ) -> KeptVersion:
        """See ``ServiceDatasets.import_``."""
        upload = _upload_of(data, name, map)
        return await self._run(_send(upload, description=description, mapping=map, duplicates=duplicates))

    async def list(self) -> tuple[DatasetVersion, ...]:
        """See ``ServiceDatasets.list``."""
        return await self._run(_versions())

    async def versions(self, name: str) -> tuple[DatasetVersion, ...]:
        """See ``ServiceDatasets.versions``."""
        return await self._run(_versions(name))

    async def show(self, dataset: str) -> DatasetVersion:
        """See ``ServiceDatasets.show``."""
        return await self._run(_show(dataset))

    async def rows(self, dataset: str) -> AsyncIterator[Sample]:
        """See ``ServiceDatasets.rows``."""
        async for page in awaited_pages(self._run, partial(_rows, dataset)):
            for row in page.rows:
                yield row

    async def describe(self, dataset: str, against: str | None = None, *, similar: float = 0.8) -> DescribedDataset:
        """See ``ServiceDatasets.describe``."""
        return await self._run(_describe(dataset, against, similar))

    async def diff(self, a: str, b: str) -> DatasetDifference:
        """See ``ServiceDatasets.diff``."""
        return await self._run(_diff(a, b))

    async def split(self, dataset: str, **options: Any) -> SplitVersions:
        """See ``ServiceDatasets.split``."""
        return await self._run(_split(dataset, options))

    async def generate(self, documents: str | Path, name: str | None = None, **options: Any) -> GeneratedVersion:
        """See ``ServiceDatasets.generate``."""
        return await self._run(_generate(Path(documents), name, options))

    async def delete(self, dataset: str) -> tuple[DatasetVersion, ...]:
        """See ``ServiceDatasets.delete``."""
        return (await self._run(_delete(dataset))).deleted


class Upload(NamedTuple):
    """Rows to be sent: a file or lines, their Content-Type, and whether their keys are those of a Sample."""

    name: str
    content: Path | bytes
    content_type: str
    ours: bool = False


def _upload_of(data: Any, name: str | None, mapping: Mapping[str, str] | None) -> Upload:
    """What is sent of a file, of a version that is stored here, or of rows in memory.

    A file that the service can read row by row goes as it is. Raises BadSettings where rows in memory have no name.
    """
    from ragassay.data.dataset import canonical_line
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


def _send(
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


def ensure(version: DatasetVersion, rows: Path) -> Exchange[DatasetVersion]:
    """The version at the service, to which it is uploaded where it is not there yet."""
    try:
        return (yield from _show(f"{version.name}@{version.digest}"))
    except ServiceError as error:
        if error.status != 404:
            raise
    upload = Upload(version.name, rows, _TABLES[".jsonl"], ours=True)
    return (yield from _send(upload, description=version.description))


def _versions(name: str | None = None) -> Exchange[tuple[DatasetVersion, ...]]:
    """All versions of a name; without one the latest of each."""

    def ask(cursor: str | None) -> Exchange[DatasetPage]:
        path = route("datasets", *([name, "versions"] if name else []), cursor=cursor, limit=MOST_A_PAGE)
        return document(DatasetPage, "GET", path)

    listed = yield from all_pages(ask)
    return tuple(version for page in listed for version in page.datasets)


def _show(reference: str) -> Exchange[DatasetVersion]:
    return document(DatasetVersion, "GET", route("datasets", reference))


def _rows(reference: str, cursor: str | None) -> Exchange[RowPage]:
    return document(RowPage, "GET", route("datasets", reference, "rows", cursor=cursor, limit=MOST_A_PAGE))


def _describe(reference: str, against: str | None, similar: float) -> Exchange[DescribedDataset]:
    from ragassay.datasets import DescribedDataset

    path = route("datasets", reference, "description", against=against, similar=similar)
    return document(DescribedDataset, "GET", path, timeout_s=_WORK_S)


def _diff(a: str, b: str) -> Exchange[DatasetDifference]:
    from ragassay.data.diff import DatasetDifference

    return document(DatasetDifference, "GET", route("datasets", a, "diff", to=b), timeout_s=_WORK_S)


def _split(reference: str, options: Mapping[str, Any]) -> Exchange[SplitVersions]:
    from ragassay.datasets import SplitVersions

    return document(SplitVersions, "POST", route("datasets", reference, "split"), options, _WORK_S)


def _generate(documents: Path, name: str | None, options: Mapping[str, Any]) -> Exchange[GeneratedVersion]:
    from ragassay.datasets import GeneratedVersion

    kind = _DOCUMENTS.get(documents.suffix.lower())
    if kind is None or not documents.is_file():
        raise BadInput("should be a Markdown or text file, or a corpus.jsonl", where=str(documents))
    path = route("datasets", check_name(name or f"{documents.resolve().stem}-generated"), "generate", **options)
    request = HttpRequest("POST", path, documents, {"Content-Type": kind}, _WORK_S)
    return GeneratedVersion.model_validate_json((yield request))


def _delete(reference: str) -> Exchange[DeletedVersions]:
    return document(DeletedVersions, "DELETE", route("datasets", reference))
