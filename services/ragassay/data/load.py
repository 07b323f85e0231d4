"""Loads datasets and recorded responses: a file, its columns, its rows; and joins the two on query_id."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from ragassay.data.dataset import Dataset, Responses, digest_of_responses, digest_of_samples
from ragassay.data.formats import read
from ragassay.data.mapping import RESPONSE_FIELDS, SAMPLE_FIELDS, ColumnMapper, ColumnMapping, Wanted
from ragassay.data.problems import ValueProblem
from ragassay.data.raw import RawRows
from ragassay.data.rows import Duplicates, RowBuilder
from ragassay.data.values import open_cell, plain
from ragassay.errors import BadData, BadSettings, TooLarge
from ragassay.models import Response, Sample
from ragassay.render import listed
from ragassay.validation import shown

logger = logging.getLogger("ragassay")
_CONTAINERS = ("metadata", "inputs", "vars", "expectations")


def load(
    path: Path | str,
    *,
    format: str = "auto",  # noqa: A002 - the name of the option
    mapping: Mapping[str, str] | None = None,
    duplicates: Duplicates = "error",
    limit: int | None = None,
) -> Dataset:
    """The dataset in a file. All rows decide what its columns are; ``limit`` keeps, and checks, the first so many.

    ``mapping`` is {our field: their column}; dots reach into objects. ``duplicates`` says what becomes of a document
    id that a response lists twice: a bad row, or dropped with its score and counted in ``warnings``.
    Raises NotFound, BadInput, UnknownName, BadSettings, NothingToEvaluate, and BadData with a line for every bad row.
    """
    check_options(duplicates, limit)
    samples: list[Sample] = []
    beyond_limit: dict[str, str] = {}
    with _loading(Path(path)):
        raw, columns = _open(Path(path), format, mapping or {}, "dataset")
        builder = RowBuilder(raw, columns, duplicates)
        for index, (number, values) in enumerate(raw.drain()):
            if limit is not None and index >= limit:
                beyond_limit[builder.query_id(index, values)] = str(columns.value("query", values) or "")
            elif sample := builder.sample(index, number, values):
                samples.append(sample)
    metadata = metadata_of(raw)
    raw.check()
    return Dataset(
        name=raw.name or raw.path.stem,
        path=raw.path,
        samples=tuple(samples),
        digest=digest_of_samples(samples),
        mapped=columns.mapped,
        kept=tuple(builder.kept),
        description=raw.description,
        metadata=metadata,
        warnings=(*raw.warnings, *columns.warnings, *builder.warnings()),
        beyond_limit=beyond_limit,
        judged_only=raw.judged_only,
    )


def load_rows(rows: Iterable[dict[str, Any]], *, name: str = "samples") -> Dataset:
    """The dataset that a JSON file with these rows would be; ``name`` stands for the file in errors.

    Raises BadData with a line for every bad row: ``samples: row 3: query: is empty``.
    """
    raw = RawRows(Path(name), list(enumerate(rows, 1)), counts_lines=False)
    try:
        columns = ColumnMapper(raw, {}, "dataset").map()
    except BadData as error:  # its hint speaks of an option that a request has not
        raise BadData(error.problems, hint="call the keys as we do: ragassay schema sample") from None
    builder = RowBuilder(raw, columns, "error")
    built = [builder.sample(index, number, values) for index, (number, values) in enumerate(raw.drain())]
    raw.check()
    samples = tuple(sample for sample in built if sample)
    return Dataset(
        name=name,
        path=raw.path,
        samples=samples,
        digest=digest_of_samples(samples),
        mapped=columns.mapped,
        kept=tuple(builder.kept),
    )


def load_responses(
    path: Path | str,
    *,
    format: str = "auto",  # noqa: A002 - the name of the option
    mapping: Mapping[str, str] | None = None,
    duplicates: Duplicates = "error",
) -> Responses:
    """One system's recorded responses. Columns about the query are ignored, unknown ones kept in the metadata.

    A file without any query_id is keyed by the query's text, if it has that. Raises as ``load`` does.
    """
    check_options(duplicates, None)
    with _loading(Path(path)):
        raw, columns = _open(Path(path), format, mapping or {}, "responses")
        key_field = _key_field(raw, columns)
        builder = RowBuilder(raw, columns, duplicates)
        built = [builder.response(number, values, key_field) for number, values in raw.drain()]
    raw.check()
    responses: dict[str, Response] = dict(row for row in built if row is not None)
    used, mapped = (*RESPONSE_FIELDS, key_field), columns.mapped
    return Responses(
        path=raw.path,
        by_id=responses if key_field == "query_id" else {},
        by_query=responses if key_field == "query" else {},
        digest=digest_of_responses(responses),
        mapped={ours: theirs for ours, theirs in mapped.items() if ours in used},
        kept=tuple(builder.kept),
        ignored=(*(mapped[ours] for ours in SAMPLE_FIELDS if ours in mapped and ours not in used), *builder.ignored),
        warnings=(*columns.warnings, *builder.warnings()),
    )


def join(dataset: Dataset, responses: Responses, system_name: str) -> tuple[Sample, ...]:
    """Every sample of the dataset with the system's response to it, or None where it gave none.

    Raises BadData for a response to a query that the dataset does not have, and, where responses are keyed by the
    query's text, for a text that several samples share.
    """
    if responses.by_query:
        return _join_on_text(dataset, responses, system_name)
    known = {sample.query_id for sample in dataset.samples} | dataset.beyond_limit.keys()
    unknown = [key for key in responses.by_id if key not in known]
    if unknown and dataset.judged_only and len(unknown) < len(responses.by_id):
        answered = len(responses.by_id)
        logger.warning("%s: %d of %d queries have no judgments and are left out", system_name, len(unknown), answered)
        unknown = []
    _refuse_unknown(unknown, "query_id", dataset, responses, system_name)
    return tuple(s.model_copy(update={"response": responses.by_id.get(s.query_id)}) for s in dataset.samples)


def _join_on_text(dataset: Dataset, responses: Responses, system_name: str) -> tuple[Sample, ...]:
    known = Counter([*(sample.query for sample in dataset.samples), *dataset.beyond_limit.values()])
    _refuse_unknown([key for key in responses.by_query if key not in known], "query", dataset, responses, system_name)
    shared = next((text for text in responses.by_query if known[text] > 1), None)
    if shared is not None:
        what = f"no column holds it, and the query {shown(shared)} is {known[shared]} times in the dataset"
        raise BadData([f"{responses.path}: query_id: {what}"], hint="give each response the query_id of its query")
    return tuple(s.model_copy(update={"response": responses.by_query.get(s.query)}) for s in dataset.samples)


def _refuse_unknown(unknown: list[str], ours: str, dataset: Dataset, responses: Responses, system_name: str) -> None:
    if not unknown:
        return
    what = f"{listed(map(shown, unknown))}: not in the dataset {dataset.path}"
    no_ids = ours == "query_id" and "query_id" not in dataset.mapped
    raise BadData(
        [f"{responses.path}: {ours}: system {system_name!r} answers {what}"],
        hint="the dataset has no query_id column, so its ids are q_0, q_1 ..." if no_ids else None,
    )


def check_options(duplicates: str, limit: int | None) -> None:
    """Raise BadSettings for a value that these options don't have."""
    if duplicates not in get_args(Duplicates):
        raise BadSettings(f"should be error or keep_first, is {shown(duplicates)}", where="--duplicates")
    if limit is not None and limit < 1:
        raise BadSettings(f"should be at least 1, is {limit}", where="--limit")


def _open(path: Path, name: str, mapping: Mapping[str, str], wanted: Wanted) -> tuple[RawRows, ColumnMapping]:
    raw = read(path, name)
    if not raw.rows:
        raw.check()
    for _, values in raw.rows if raw.cells else ():
        open_cells(values)
    try:
        return raw, ColumnMapper(raw, mapping, wanted).map()
    except BadData as error:
        raise BadData([*error.problems, *raw.problems], hint=error.hint) from None


def open_cells(values: dict[str, Any]) -> None:
    """Put the objects in place of the cells that print them, in columns that hold objects elsewhere."""
    for column in _CONTAINERS:
        if column in values:
            values[column] = open_cell(values[column])


@contextmanager
def _loading(path: Path) -> Iterator[None]:
    """Rows are many objects and no garbage: looking for cycles among them all again and again took 4 of 14 seconds.

    Raises TooLarge where memory does not suffice.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    except MemoryError:
        what = "does not fit into the memory of this process"
        raise TooLarge(what, where=str(path), hint="evaluate it in parts") from None
    finally:
        if was_on:
            gc.enable()


def _key_field(raw: RawRows, columns: ColumnMapping) -> str:
    """``query_id``, or ``query`` where no row has an id."""
    for name in ("query_id", "query"):
        if any(columns.value(name, values) is not None for _, values in raw.rows):
            return name
    raise BadData(
        [f"{raw.path}: query_id: no column holds it, nor the query's text, so no response can be joined"],
        hint="say which: --map query_id=COLUMN",
    )


def metadata_of(raw: RawRows) -> dict[str, object]:
    """What stands beside the rows of a file; what JSON does not have is refused."""
    try:
        return {str(key): plain(value, f".{key}") for key, value in raw.metadata.items()}
    except ValueProblem as error:
        raw.refuse(0, f"metadata{error.at}: {error.what}")
        return {}
