"""Datasets under names, each with versions that are addressed by what they hold: the store of them, and what opens one."""

from __future__ import annotations

import hashlib
import re
import uuid
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from ragassay.core.blobs import STAGED, Blobs, FolderBlobs
from ragassay.core.errors import BadData, BadInput, BadSettings, Conflict, NotFound, NothingToEvaluate, UnknownName
from ragassay.core.models import FrozenModel, Sample
from ragassay.core.validation import problems
from ragassay.datasets.columns import MapOption
from ragassay.datasets.dataset import Dataset, canonical_line
from ragassay.datasets.judgments import beir_folder
from ragassay.datasets.load import load
from ragassay.datasets.rows import Duplicates
from ragassay.datasets.source import Source

_DAMAGED = "the stored rows are damaged; import them again"
SHORT = 12  # hex digits of a digest, where it is shown
NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}"
REFERENCE = rf"({NAME})(?:@([0-9a-fA-F]{{1,64}}))?"


class Lineage(FrozenModel):
    """How a version came about: from which other one (``NAME@DIGEST``), from which files, with which options."""

    action: Literal["import", "split", "generate"]
    parent: str | None = None
    sources: tuple[str, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012 - a default of a model


class Origin(FrozenModel):
    """Where rows come from. ``judged_only``: queries without judgments were left out."""

    lineage: Lineage
    description: str | None = None
    judged_only: bool = False


class DatasetVersion(Origin):
    """One version of a dataset. ``digest``: SHA-256 in hex of its rows, one canonical JSON line each.

    ``imported_at`` is when it was last brought in: the version of a name for which that is latest is the one meant by
    the name alone.
    """

    name: Annotated[str, Field(pattern=rf"^{NAME}$")]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    rows: int
    created_at: datetime
    imported_at: datetime

    @property
    def reference(self) -> str:
        """``NAME@DIGEST``, the digest shortened."""
        return f"{self.name}@{self.digest[:SHORT]}"


class KeptVersion(DatasetVersion):
    """The version that rows became, and what may be wrong with some that could be read."""

    warnings: tuple[str, ...] = ()


class DatasetPage(FrozenModel):
    """Versions of datasets; ``next`` is the cursor of the next page."""

    datasets: tuple[DatasetVersion, ...]
    next: str | None


class RowPage(FrozenModel):
    """Rows of a version in their order; ``next`` is the cursor of the next page."""

    rows: tuple[Sample, ...]
    next: str | None


class DeletedVersions(FrozenModel):
    """The versions that are gone."""

    deleted: tuple[DatasetVersion, ...]


class Reference(NamedTuple):
    """A dataset's name, and the beginning of a version's digest; None for the latest."""

    name: str
    prefix: str | None


BLOCK = 256 * 1024  # bytes of rows that are stored together; a longer row has a block of its own
LARGEST_PAGE = 4 * 1024 * 1024
_VERSIONS = "versions"


class DatasetStore:
    """Datasets over blobs. Rows are handed over and given back one by one, so that memory doesn't limit them.

    versions/<name>/<digest>.json       name, description, times and lineage; written last
    <name>@<digest>/<first row>.jsonl   canonical rows, a block of them each; SHA-256 of all of them is the digest
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    @classmethod
    def of_folder(cls, home: Path) -> DatasetStore:
        """Those under one folder, ``.ragassay`` by default."""
        return cls(FolderBlobs(home / "datasets"))

    def names(self) -> list[str]:
        """The names that have a version, sorted."""
        return list(self._records())

    def each(self, names: Collection[str] | None = None) -> Iterator[list[DatasetVersion]]:
        """The versions of each name, or of each of ``names``, as ``versions`` gives them, in the order of names."""
        named = ((name, records) for name, records in self._records().items() if names is None or name in names)
        return (versions for name, records in named if (versions := self._read(name, records)))

    def versions(self, name: str) -> list[DatasetVersion]:
        """The versions of a name, the latest first, none for a name that is unknown; raises Conflict for a bad record."""
        return self._read(name, self._blobs.names(f"{_VERSIONS}/{name}"))

    def _records(self) -> dict[str, list[str]]:
        """The blobs of the records of versions, by name, in the order of names: ``a`` comes before ``a-b``."""
        by_name: dict[str, list[str]] = {}
        for record in sorted(self._blobs.names(_VERSIONS), key=lambda record: record.split("/")):
            by_name.setdefault(record.split("/")[1], []).append(record)
        return by_name

    def _read(self, name: str, records: Sequence[str]) -> list[DatasetVersion]:
        versions = list[DatasetVersion]()
        for record, content in zip(records, self._blobs.get_many(records), strict=True):
            try:
                if content is not None:
                    versions.append(DatasetVersion.model_validate_json(content))
            except ValidationError as error:
                what = f"a record of dataset {name} can't be read: {problems(error)[0]}"
                hint = "another version of ragassay wrote it, or it is damaged: start that version, or delete it"
                raise Conflict(what, where=f"{self._blobs.where}/{record}", hint=hint) from None
        return sorted(versions, key=lambda version: (version.imported_at, version.digest), reverse=True)

    def samples(self, version: DatasetVersion, wanted: Callable[[int], bool] | None = None) -> Iterator[Sample]:
        """The rows of a version, in the order in which they came, or those whose places, from 0, are ``wanted``.

        Raises NotFound, and BadData if they are not what was stored.
        """
        digest = hashlib.sha256()
        for place, line in enumerate(self.lines(version)):
            digest.update(line)
            if wanted is not None and not wanted(place):
                continue
            try:
                yield Sample.model_validate_json(line)
            except ValidationError as error:
                raise BadData([f"{version.reference}: row {place + 1}: {problems(error)[0]}"], hint=_DAMAGED) from None
        if digest.hexdigest() != version.digest:
            raise BadData([f"{version.reference}: the rows are not those that were stored"], hint=_DAMAGED)

    def lines(self, version: DatasetVersion, first: int = 0) -> Iterator[bytes]:
        """The canonical lines of the rows from a place on; raises NotFound if they are gone."""
        names = self._blobs.names(rows_folder(version))
        blocks = sorted(name for name in names if Path(name).stem.isdecimal())
        starts = [int(Path(block).stem) for block in blocks]
        begin = max(bisect_right(starts, first) - 1, 0)
        for start, block in zip(starts[begin:], blocks[begin:], strict=True):
            if (content := self._blobs.get(block)) is None:
                raise _gone(version)
            yield from content.splitlines(keepends=True)[max(first - start, 0) :]
        if not blocks:
            raise _gone(version)

    def page(self, version: DatasetVersion, first: int, limit: int) -> list[bytes]:
        """Rows from a place on as canonical JSON: ``limit`` of them, or one and as many as fit into 4 MB with it."""
        page, size = list[bytes](), 0
        for line in islice(self.lines(version, first), limit):
            size += len(line)
            if page and size > LARGEST_PAGE:
                break
            page.append(line.rstrip())
        return page

    def add(self, name: str, samples: Iterable[Sample], origin: Callable[[], Origin]) -> DatasetVersion:
        """Keep rows as the latest version of a name; the version there is if the same rows are kept already.

        No other process sees any of them before all are there. ``origin`` is asked once the rows are read. A lineage without a
        parent gets the version that was the latest. Raises BadSettings for a name that can't be, NothingToEvaluate without
        rows, and what ``samples`` raises; then nothing is kept.
        """
        check_name(name)
        staged, digest, rows = f"{STAGED}{uuid.uuid4().hex}", hashlib.sha256(), 0
        try:
            for block in _blocks(map(canonical_line, samples)):
                content = b"".join(block)
                digest.update(content)
                self._blobs.put(f"{staged}/{rows:09d}.jsonl", content)
                rows += len(block)
            version = _version_of(name, digest.hexdigest(), rows, self.versions(name), origin)
            self._blobs.publish(staged, rows_folder(version), _record(version), version.model_dump_json().encode())
        except BaseException:
            with suppress(Exception):  # in Redis they go by themselves later
                self._blobs.delete(staged)
            raise
        return version

    def delete(self, version: DatasetVersion) -> None:
        """Forget a version and its rows; raises NotFound."""
        if not self._blobs.delete(rows_folder(version), _record(version)):
            raise _gone(version)

    def delete_damaged(self, reference: Reference) -> list[DatasetVersion]:
        """Forget the versions that a reference names although a record can't be read; returns those that could be.

        Raises NotFound where the beginning of a digest names none, or more than one.
        """
        name, prefix = reference
        records = self._blobs.names(f"{_VERSIONS}/{name}")
        named = [record for record in records if Path(record).stem.startswith(prefix or "")]
        if prefix and len(named) != 1:
            known = ", ".join(Path(record).stem[:SHORT] for record in named or records)
            raise NotFound(f"{prefix!r} does not name one version of dataset {name!r}", hint=f"known: {known}")
        deleted = list[DatasetVersion]()
        for record in named:
            with suppress(Conflict):
                deleted += self._read(name, [record])
            self._blobs.delete(f"{name}@{Path(record).stem}", record)
        return deleted


def rows_folder(version: DatasetVersion) -> str:
    """The name of the folder of a version's rows."""
    return f"{version.name}@{version.digest}"


def _record(version: DatasetVersion) -> str:
    return f"{_VERSIONS}/{version.name}/{version.digest}.json"


def _blocks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    block, size = list[bytes](), 0
    for line in lines:
        if block and size + len(line) > BLOCK:
            yield block
            block, size = [], 0
        block.append(line)
        size += len(line)
    if block:
        yield block


def _gone(version: DatasetVersion) -> NotFound:
    return NotFound(
        f"the rows of {version.reference} are gone", hint="the dataset was deleted, or is damaged: import it again"
    )


def _version_of(
    name: str, digest: str, rows: int, known: Sequence[DatasetVersion], made: Callable[[], Origin]
) -> DatasetVersion:
    """The record of rows that are now the latest version of a name; ``known`` are its versions, the latest first."""
    if not rows:
        raise NothingToEvaluate("there is no row to keep", where=name)
    now, origin = datetime.now(UTC), made()
    description = origin.description or (known[0].description if known else None)
    if same := next((version for version in known if version.digest == digest), None):
        return same.model_copy(update={"imported_at": now, "description": description})
    lineage = origin.lineage
    if lineage.parent is None and known:
        lineage = lineage.model_copy(update={"parent": f"{name}@{known[0].digest}"})
    return DatasetVersion(
        name=name,
        digest=digest,
        rows=rows,
        created_at=now,
        imported_at=now,
        lineage=lineage,
        description=description,
        judged_only=origin.judged_only,
    )


def check_name(name: str) -> str:
    """The name, where a dataset may have it; raises BadSettings."""
    if not re.fullmatch(NAME, name):
        what = f"a dataset's name is letters, digits, '_' and '-', 100 at the most, not {name[:120]!r}"
        raise BadSettings(what, hint="choose another name", option="name")
    return name


def reference_in(text: str) -> Reference | None:
    """The reference that a text is; None where it can be none, as a path with a dot or a slash."""
    match = re.fullmatch(REFERENCE, text)
    return Reference(match[1], match[2].lower() if match[2] else None) if match else None


def named(text: str) -> Reference:
    """The reference that a text is; raises BadInput for one of another form."""
    if reference := reference_in(text):
        return reference
    raise BadInput(f"{text!r} is not of the form NAME or NAME@VERSION")


def is_file(path: Path) -> bool:
    """Is there a file, or a BEIR folder?"""
    return path.is_file() or (path.is_dir() and beir_folder(path) is not None)


def resolve(store: DatasetStore, text: str) -> DatasetVersion:
    """The version that ``NAME`` (the latest) or ``NAME@BEGINNING`` names.

    Raises BadInput for a text of another form, UnknownName, and NotFound where no version, or more than one, begins so.
    """
    name, prefix = named(text)
    versions = store.versions(name)
    if not versions:
        raise UnknownName("dataset", name, store.names())
    matching = [version for version in versions if version.digest.startswith(prefix or "")]
    if prefix and len(matching) != 1:
        what = (
            f"version {prefix!r} of dataset {name!r} is not unique"
            if matching
            else f"{name!r} has no version {prefix!r}"
        )
        known = ", ".join(version.digest[:SHORT] for version in (matching or versions)[:5])
        raise NotFound(what, hint=f"known: {known}; all: ragassay data show {name}")
    return matching[0]


def file_or_version(store: DatasetStore, text: Path | str) -> DatasetVersion | None:
    """The stored version that is meant; None where it is a file, which comes before a dataset of that name.

    Raises as ``resolve`` does, and NotFound where a name without a version is neither.
    """
    if is_file(Path(text)) or (reference := reference_in(str(text))) is None:
        return None
    names = store.names()
    if reference.prefix is None and reference.name not in names:
        hint = UnknownName("dataset", reference.name, names).hint
        raise NotFound("there is neither such a file nor such a dataset", where=str(text), hint=hint)
    return resolve(store, str(text))


def import_rows(
    store: DatasetStore,
    name: str,
    rows: Dataset,
    *,
    sources: Iterable[str] = (),
    description: str | None = None,
) -> DatasetVersion:
    """Keep rows as the latest version of a name. Raises what reading them raises, and then keeps nothing."""

    def origin() -> Origin:
        lineage = Lineage(action="import", sources=tuple(sources), options={"columns": dict(rows.mapped)})
        return Origin(lineage=lineage, description=description or rows.description, judged_only=rows.judged_only)

    return store.add(name, rows, origin)


def open_data(
    store: DatasetStore,
    data: Any,
    *,
    format: str = "auto",  # noqa: A002 - as the option is called
    mapping: MapOption | None = None,
    duplicates: Duplicates = "error",
    limit: int | None = None,
    max_grade: float | None = None,
    other_files: bool = False,
) -> Dataset:
    """The dataset that is meant by a path or by ``NAME[@VERSION]``, or by rows; options and errors as of ``load``.

    Raises BadSettings for options about columns and format, which a stored dataset has behind it, unless
    ``other_files`` are read with them too.
    """
    version = file_or_version(store, Path(data)) if isinstance(data, str | Path) else None
    if version is None:
        reading: dict[str, Any] = {"format": format, "mapping": mapping, "duplicates": duplicates}
        return load(data, **reading, limit=limit, max_grade=max_grade, other_files=other_files)
    if (mapping or format != "auto") and not other_files:
        option = "map" if mapping else "format"
        raise BadSettings(
            f"{option} is about files; {data} is a stored dataset", hint="give it to: ragassay data import"
        )
    return version_dataset(store, version, limit=limit, max_grade=max_grade)


def version_dataset(
    store: DatasetStore, version: DatasetVersion, *, limit: int | None = None, max_grade: float | None = None
) -> Dataset:
    """The rows of a stored version as a dataset; options and errors as of ``load``."""
    source = Source(
        Path(version.reference),
        enumerate(store.samples(version), 1),
        name=version.name,
        description=version.description,
        judged_only=version.judged_only,
        counts_lines=False,
        canonical=True,
    )
    return load(source, limit=limit, max_grade=max_grade)
