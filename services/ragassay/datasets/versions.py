"""Datasets under names, each with versions that are addressed by what they hold; what a store of them can do."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field, ValidationError

from ragassay.core.errors import BadData, BadInput, BadSettings, NotFound, UnknownName
from ragassay.core.models import FrozenModel, Sample
from ragassay.core.validation import problems
from ragassay.datasets.judgments import beir_folder

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
    """Where rows come from. ``judged_only``: they lack queries that nobody judged."""

    lineage: Lineage
    description: str | None = None
    judged_only: bool = False


class DatasetVersion(Origin):
    """One version of a dataset. ``digest``: SHA-256 in hex of its rows, one canonical JSON line each.

    ``imported_at`` is when it was last brought in: the version of a name for which that is latest is the one meant by
    the name alone.
    """

    name: str
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


Wanted = Callable[[int, bytes], bool]  # of a row's place from 0 and its canonical line


class DatasetStore(Protocol):
    """Keeps datasets. Rows are handed over and given back one by one, so that memory doesn't limit them."""

    def __hash__(self) -> int:
        """What is read of a store is remembered by it."""

    def names(self) -> list[str]:
        """The names that have a version, sorted."""

    def versions(self, name: str) -> list[DatasetVersion]:
        """The versions of a name, the latest first; none for a name that is unknown."""

    def samples(self, version: DatasetVersion, wanted: Wanted | None = None) -> Iterator[Sample]:
        """The rows of a version, in the order in which they came; of them only those ``wanted``."""

    def add(self, name: str, samples: Iterable[Sample], origin: Callable[[], Origin]) -> DatasetVersion:
        """Keep rows as a version, the latest of its name; the version there is where the same rows are kept already.

        ``origin`` is asked once the rows are read. A lineage without a parent gets the version that was the latest.
        Raises what ``samples`` raises, and then keeps nothing.
        """


def new_version(
    name: str, digest: str, rows: int, known: Sequence[DatasetVersion], origin: Origin, now: datetime
) -> DatasetVersion:
    """The record of rows that are now the latest version of a name; ``known`` are its versions, the latest first."""
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


def stored_samples(
    lines: Iterable[bytes], version: DatasetVersion, wanted: Wanted | None, *, of: str, row: str, hint: str
) -> Iterator[Sample]:
    """The samples of a version's lines, or those ``wanted``; raises BadData where they are not what was stored.

    ``of`` names the rows in an error, ``row`` is what stands before the number of one, ``hint`` what then helps.
    """
    digest = hashlib.sha256()
    for place, line in enumerate(lines):
        digest.update(line)
        if wanted is not None and not wanted(place, line):
            continue
        try:
            yield Sample.model_validate_json(line)
        except ValidationError as error:
            raise BadData([f"{row}{place + 1}: {problems(error)[0]}"], hint=hint) from None
    if digest.hexdigest() != version.digest:
        raise BadData([f"{of}: the rows are not those that were stored"], hint=hint)


def latest_first(versions: Iterable[DatasetVersion]) -> list[DatasetVersion]:
    """Versions in the order in which they were last imported, backwards."""
    return sorted(versions, key=lambda version: (version.imported_at, version.digest), reverse=True)


def check_name(name: str) -> str:
    """The name, where a dataset may have it; raises BadSettings."""
    if not re.fullmatch(NAME, name):
        what = f"a dataset's name is letters, digits, '_' and '-', 100 at the most, not {name[:120]!r}"
        raise BadSettings(what, hint="--name gives it another one")
    return name


def reference_in(text: str) -> Reference | None:
    """The reference that a text is; None where it can be none, as a path with a dot or a slash."""
    found = re.fullmatch(REFERENCE, text)
    return Reference(found[1], found[2].lower() if found[2] else None) if found else None


def is_file(path: Path) -> bool:
    """Is there a file, or a BEIR folder?"""
    return path.is_file() or (path.is_dir() and beir_folder(path) is not None)


def resolve(store: DatasetStore, text: str) -> DatasetVersion:
    """The version that ``NAME`` (the latest) or ``NAME@BEGINNING`` stands for.

    Raises BadInput for a text of another form, UnknownName, and NotFound where no version, or more than one, begins so.
    """
    reference = reference_in(text)
    if reference is None:
        raise BadInput(f"{text!r} is not of the form NAME or NAME@VERSION")
    name, prefix = reference
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
        raise NotFound(what, hint=f"known: {known}; all: ragassay data versions {name}")
    return matching[0]


def file_or_version(store: DatasetStore, text: Path | str) -> DatasetVersion | None:
    """The stored version that is meant; None where it is a file, which comes before a dataset of that name.

    Raises as ``resolve`` does, and NotFound where a name without a version is neither.
    """
    if is_file(Path(text)) or (reference := reference_in(str(text))) is None:
        return None
    names = store.names()
    if reference.prefix is None and reference.name not in names:
        near = difflib.get_close_matches(reference.name, names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"datasets: {', '.join(names) or 'none'}"
        raise NotFound("there is neither such a file nor such a dataset", where=str(text), hint=hint)
    return resolve(store, str(text))
