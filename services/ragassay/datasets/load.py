"""Loads datasets and recorded responses: a file, its columns, its rows; and joins the two on query_id."""

from __future__ import annotations

import gc
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from ragassay.core.errors import BadData, BadSettings, NothingToEvaluate, TooLarge
from ragassay.core.files import MIB
from ragassay.core.formatting import listed
from ragassay.core.models import Response, Sample
from ragassay.core.validation import shown
from ragassay.datasets.columns import value_at
from ragassay.datasets.dataset import (
    Dataset,
    Responses,
    digest_of_dataset,
    digest_of_responses,
    plain_text,
    set_aside_samples,
)
from ragassay.datasets.formats import comes_row_by_row, read, stream
from ragassay.datasets.mapping import (
    DOTTED_NAMES,
    RESPONSE_FIELDS,
    SAMPLE_FIELDS,
    ColumnMapper,
    ColumnMapping,
    Wanted,
)
from ragassay.datasets.objects import rows_in
from ragassay.datasets.problems import ValueProblem
from ragassay.datasets.raw import NumberedRow, RawRows
from ragassay.datasets.rows import Duplicates, RowBuilder
from ragassay.datasets.values import open_cells, plain

logger = logging.getLogger("ragassay")
_MOST_COMPARED = 1000  # rows of a streamed file whose columns are compared with each other
_MOST_TEXT = MIB  # characters of those rows
_RENAMING = re.compile(r"--map (\S+)=(\S+)")  # a request has no options


def load(
    data: Any,
    *,
    format: str = "auto",  # noqa: A002 - the name of the option
    mapping: Mapping[str, str] | None = None,
    duplicates: Duplicates = "error",
    limit: int | None = None,
    max_grade: float | None = None,
) -> Dataset:
    """The dataset in a file, or in rows as ``objects.rows_in`` takes or gives them; Samples are taken as they are.

    A file of JSON Lines, CSV, TSV or Parquet is read row by row, twice, and its samples are held in memory only where
    they are few (``set_aside``); see ``columns_of``. ``limit``: only this number of rows, from the first,
    is kept and checked. A row with a grade above ``max_grade`` is a bad row.

    ``mapping`` is {our field: their column}; dots reach into objects. ``duplicates`` says what becomes of a document
    id that a response lists twice: a bad row, or dropped with its score and counted in ``warnings``.
    Raises NotFound, BadInput, UnknownName, BadSettings, NothingToEvaluate, and BadData with a line for every bad row.
    """
    check_options(duplicates, limit)
    if isinstance(data, list | tuple) and data and all(isinstance(row, Sample) for row in data):
        return dataset_of(data, limit=limit, max_grade=max_grade)
    streamed = isinstance(data, str | Path) and comes_row_by_row(Path(data), format)
    with _loading(data, held=not streamed):
        raw, columns, rows = _open_dataset(data, format, mapping or {}, streamed)
        return _dataset(raw, columns, rows, duplicates, limit, max_grade)


def _dataset(
    raw: RawRows,
    columns: ColumnMapping,
    rows: Iterator[NumberedRow],
    duplicates: Duplicates = "error",
    limit: int | None = None,
    max_grade: float | None = None,
) -> Dataset:
    """The dataset of rows that are still to be read; raises BadData with a line for every bad row."""
    beyond_limit: dict[str, str] = {}
    builder = RowBuilder(raw, columns, duplicates, max_grade)
    samples = set_aside_samples(_samples(builder, rows, limit, beyond_limit))
    metadata = metadata_of(raw)
    raw.check()
    return Dataset(
        name=raw.name or raw.path.stem,
        path=raw.path,
        samples=samples,
        digest=digest_of_dataset(samples),
        mapped=columns.mapped,
        kept=tuple(builder.kept),
        description=raw.description,
        metadata=metadata,
        warnings=(*raw.warnings, *columns.warnings, *builder.warnings()),
        beyond_limit=beyond_limit,
        judged_only=raw.judged_only,
    )


def _samples(
    builder: RowBuilder, rows: Iterator[NumberedRow], limit: int | None, beyond_limit: dict[str, str]
) -> Iterator[Sample]:
    """The samples that the first ``limit`` rows are; of the others, ids and queries are put into ``beyond_limit``."""
    for index, (number, values) in enumerate(rows):
        if limit is not None and index >= limit:
            beyond_limit[builder.query_id(index, values)] = str(builder.columns.value("query", values) or "")
        elif sample := builder.sample(index, number, values):
            yield sample


def dataset_of(samples: Sequence[Sample], *, limit: int | None = None, max_grade: float | None = None) -> Dataset:
    """The dataset of Samples that are there already; options and errors as of ``load``."""
    beyond_limit = {sample.query_id: sample.query for sample in samples[limit:]} if limit else {}
    chosen = samples if limit is None else samples[:limit]
    counts: Counter[str] = Counter()
    too_high: list[str] = []

    def checked() -> Iterator[Sample]:
        for sample in chosen:
            counts[sample.query_id] += 1
            grades = (sample.relevance_scores or {}).values() if max_grade else ()
            if grade := next((grade for grade in grades if max_grade and grade > max_grade), None):
                too_high.append(f"relevance_scores of {shown(sample.query_id)}: {grade:g} is above max_grade")
            yield sample

    digest = digest_of_dataset(checked())
    bad = [f"query_id: {shown(query)} is used more than once" for query, count in counts.items() if count > 1]
    if bad or too_high:
        raise BadData([f"data: {what}" for what in (*bad, *too_high)])
    chosen = tuple(chosen) if isinstance(chosen, list) else chosen
    return Dataset("data", Path("data"), chosen, digest, beyond_limit=beyond_limit)


def load_rows(rows: Iterable[dict[str, Any]], *, name: str = "samples", max_grade: float | None = None) -> Dataset:
    """The dataset that a JSON file with these rows would be; ``name`` stands for the file in errors.

    Raises BadData with a line for every bad row: ``samples: row 3: query: is empty``.
    """
    raw = RawRows(Path(name), list(enumerate(rows, 1)), counts_lines=False, name=name)
    try:
        columns = ColumnMapper(raw, {}, "dataset").map()
    except BadData as error:  # its hint speaks of an option that a request has not
        raise BadData(error.problems, hint="call the keys as we do: ragassay schema sample") from None
    dataset = _dataset(raw, columns, raw.drain(), max_grade=max_grade)
    return replace(dataset, warnings=tuple(_RENAMING.sub(r"rename \2 to \1", each) for each in dataset.warnings))


def load_named_responses(
    query_ids: Sequence[str], given: Sequence[object], *, name: str = "samples"
) -> dict[str, Responses]:
    """For each system, its responses among ``given``: for each row ``{system: response}``, or None.

    Raises BadData with a line for every one that can't be read: ``samples: responses.v2: row 3: latency_ms: ...``.
    """
    by_system: dict[str, RawRows] = {}
    bad: list[str] = []
    for number, (query_id, responses) in enumerate(zip(query_ids, given, strict=True), 1):
        if responses is not None and not isinstance(responses, dict):
            bad.append(f"{name}: row {number}: responses: should be {{system: response}}, is {shown(responses)}")
            continue
        for system, response in (responses or {}).items():
            if response is not None and not isinstance(response, dict):
                bad.append(f"{name}: row {number}: responses.{system}: should be an object, is {shown(response)}")
            elif response:
                raw = by_system.setdefault(system, RawRows(Path(f"{name}: responses.{system}"), counts_lines=False))
                raw.rows.append((number, {**response, "query_id": query_id}))
    if bad:
        raise BadData(bad, hint="write the rows' responses as 'responses': {'v1': {'answer': ...}, 'v2': ...}")
    return {system: load_responses(raw) for system, raw in by_system.items()}


def load_responses(
    data: Any,
    *,
    format: str = "auto",  # noqa: A002 - the name of the option
    mapping: Mapping[str, str] | None = None,
    duplicates: Duplicates = "error",
) -> Responses:
    """One system's recorded responses, in a file or in rows as ``load`` takes them.

    Columns about the query are ignored, unknown ones kept in the metadata. Without any query_id, responses are keyed by
    the query's text, if that is there. Raises as ``load`` does.
    """
    check_options(duplicates, None)
    with _loading(data):
        raw, columns = _open(data, format, mapping or {}, "responses")
        key_field = _key_field(raw, columns)
        builder = RowBuilder(raw, columns, duplicates)
        texts = _texts(raw, columns) if key_field == "query_id" else {}
        built = [builder.response(number, values, key_field) for number, values in raw.drain()]
    raw.check()
    responses: dict[str, Response] = dict(row for row in built if row is not None)
    used, mapped = (*RESPONSE_FIELDS, key_field), columns.mapped
    return Responses(
        path=raw.path,
        by_id=responses if key_field == "query_id" else {},
        by_query=responses if key_field == "query" else {},
        texts=texts,
        digest=digest_of_responses(responses),
        mapped={ours: theirs for ours, theirs in mapped.items() if ours in used},
        kept=tuple(builder.kept),
        ignored=(*(mapped[ours] for ours in SAMPLE_FIELDS if ours in mapped and ours not in used), *builder.ignored),
        warnings=(*columns.warnings, *builder.warnings()),
    )


def join(dataset: Dataset, responses: Responses, system_name: str) -> tuple[Sample, ...]:
    """Every sample of the dataset with the system's response to it, or None where it gave none.

    They belong together by id, and by the query's text where one of the two files has no ids. Raises BadData for a
    response to a query that the dataset does not have, and for a text that would have to tell several rows apart.
    """
    known = {sample.query_id for sample in dataset.samples} | dataset.beyond_limit.keys()
    unknown = [key for key in responses.by_id if key not in known]
    if responses.by_query or (unknown and responses.texts and "query_id" not in dataset.mapped):
        return _join_on_text(dataset, responses, system_name)
    if unknown and dataset.judged_only and len(unknown) < len(responses.by_id):
        answered = len(responses.by_id)
        logger.warning("%s: %d of %d queries have no judgments and are left out", system_name, len(unknown), answered)
        unknown = []
    _refuse_unknown(unknown, "query_id", dataset, responses, system_name)
    return tuple(s.model_copy(update={"response": responses.by_id.get(s.query_id)}) for s in dataset.samples)


def _join_on_text(dataset: Dataset, responses: Responses, system_name: str) -> tuple[Sample, ...]:
    texts = [*(sample.query for sample in dataset.samples), *dataset.beyond_limit.values()]
    known = Counter(map(plain_text, texts))
    given = [(text, responses.by_id[key]) for key, text in responses.texts.items()] or list(responses.by_query.items())
    _refuse_unknown(
        [text for text, _ in given if plain_text(text) not in known], "query", dataset, responses, system_name
    )
    answers = Counter(plain_text(text) for text, _ in given)
    for text in answers:
        if max(known[text], answers[text]) > 1:
            times = f"is {known[text]} times in the dataset and {answers[text]} times in the responses"
            what = f"not both files have ids, and the query {shown(text)} {times}"
            raise BadData([f"{responses.path}: query_id: {what}"], hint="give each response the query_id of its query")
    by_text = {plain_text(text): response for text, response in given}
    return tuple(s.model_copy(update={"response": by_text.get(plain_text(s.query))}) for s in dataset.samples)


def _texts(raw: RawRows, columns: ColumnMapping) -> dict[str, str]:
    """{query_id: the query's text} where every row has both."""
    pairs = [(columns.value("query_id", values), columns.value("query", values)) for _, values in raw.rows]
    whole = all(key is not None and isinstance(text, str) for key, text in pairs)
    return {str(key): str(text) for key, text in pairs} if whole else {}


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


def _open_dataset(
    data: Any, name: str, mapping: Mapping[str, str], streamed: bool
) -> tuple[RawRows, ColumnMapping, Iterator[NumberedRow]]:
    """The rows still to come, where they are read one by one."""
    if streamed:
        columns = columns_of(Path(data), name, mapping)
        raw, rows = stream(Path(data), name)
        return raw, columns, rows
    raw, columns = _open(data, name, mapping, "dataset")
    return raw, columns, raw.drain()


def columns_of(
    path: Path,
    name: str,
    mapping: Mapping[str, str],
    *,
    most_refused: int | None = None,
) -> ColumnMapping:
    """What the columns of a streamed file are, by its first rows and every later row with a column that those lack.

    A later row in which two columns of one field contradict each other is a bad row. Raises what ``ColumnMapper``
    raises, and NothingToEvaluate without rows.
    """
    raw, rows = stream(path, name)
    raw.most_refused = most_refused
    inner: dict[str, list[str]] = {}
    for path_inside in (*DOTTED_NAMES, *mapping.values()):
        inner.setdefault(path_inside.replace("[]", "").split(".")[0], []).append(path_inside)
    deciding, seen, text = list[NumberedRow](), set[str](), 0
    for number, values in rows:
        names = {name if value is not None else f"{name} (no value)" for name, value in values.items()}
        for column in inner.keys() & values.keys():
            if isinstance(values[column], Mapping | list):
                names |= {inside for inside in inner[column] if value_at(values, inside) is not None}
        if (len(deciding) < _MOST_COMPARED and text < _MOST_TEXT) or not names <= seen:
            deciding.append((number, values))
            text += sum(len(value) for value in values.values() if isinstance(value, str))
            seen |= names
            raw.check_width(len(seen) // 2)  # a column may be there with and without a value
    if not deciding:
        raw.check()
        raise NothingToEvaluate("the file holds no rows", where=str(path))
    try:
        first = RawRows(path, deciding, raw.columns, raw.cells, raw.counts_lines)
        return ColumnMapper(first, mapping, "dataset").map()
    except BadData as error:
        raise BadData([*error.problems, *raw.problems], hint=error.hint) from None


def _open(data: Any, name: str, mapping: Mapping[str, str], wanted: Wanted) -> tuple[RawRows, ColumnMapping]:
    if isinstance(data, str | Path):
        data = read(Path(data), name)
    raw = data if isinstance(data, RawRows) else rows_in(data)
    if not raw.rows:
        raw.check()
    for _, values in raw.rows if raw.cells else ():
        open_cells(values)
    try:
        return raw, ColumnMapper(raw, mapping, wanted).map()
    except BadData as error:
        raise BadData([*error.problems, *raw.problems], hint=error.hint) from None


@contextmanager
def _loading(data: Any, *, held: bool = True) -> Iterator[None]:
    """Rows that are held are many objects and no garbage: looking for cycles among them took 4 of 14 seconds.

    Raises TooLarge where memory does not suffice.
    """
    was_on = gc.isenabled()
    if held:
        gc.disable()
    try:
        yield
    except MemoryError:
        what = "does not fit into the memory of this process"
        where = str(data) if isinstance(data, str | Path) else None
        raise TooLarge(what, where=where, hint="evaluate it in parts") from None
    finally:
        if was_on:
            gc.enable()


def _key_field(raw: RawRows, columns: ColumnMapping) -> str:
    """``query_id``, or ``query`` where no row has an id of its own."""
    of_traces = raw.of_traces and columns.sources.get("query_id") == ("query_id",)
    for name in ("query",) if of_traces else ("query_id", "query"):
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
