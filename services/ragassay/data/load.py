"""Loads datasets and recorded responses: a file, its columns, its rows; and joins the two on query_id."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from ragassay.data.cells import plain
from ragassay.data.columns import RESPONSE_FIELDS, SAMPLE_FIELDS
from ragassay.data.dataset import Dataset, Responses, digest_of_responses, digest_of_samples
from ragassay.data.formats import read
from ragassay.data.plan import Plan
from ragassay.data.planner import Planner, Wanted
from ragassay.data.problems import Misfit, shown
from ragassay.data.rows import Assembly, Duplicates, open_containers
from ragassay.data.source import Source
from ragassay.errors import BadData, BadSettings
from ragassay.models import Response, Sample

logger = logging.getLogger("ragassay")
_NAMED = 5


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
    _check_options(duplicates, limit)
    samples: list[Sample] = []
    beyond: dict[str, str] = {}
    with _no_collections():
        source, plan = _open(Path(path), format, mapping or {}, "dataset")
        assembly = Assembly(source, plan, duplicates)
        for index, (number, values) in enumerate(source.drain()):
            if limit is not None and index >= limit:
                beyond[assembly.query_id(index, values)] = str(plan.value("query", values) or "")
            elif sample := assembly.sample(index, number, values):
                samples.append(sample)
    metadata = _metadata(source)
    _refuse(source)
    return Dataset(
        name=source.name or source.path.stem,
        path=source.path,
        samples=tuple(samples),
        digest=digest_of_samples(samples),
        mapped=plan.mapped,
        kept=tuple(assembly.kept),
        description=source.description,
        metadata=metadata,
        warnings=(*source.warnings, *plan.warnings, *assembly.warnings()),
        beyond_limit=beyond,
        judged_only=source.judged_only,
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
    _check_options(duplicates, None)
    with _no_collections():
        source, plan = _open(Path(path), format, mapping or {}, "responses")
        key_field = _key_field(source, plan)
        assembly = Assembly(source, plan, duplicates)
        rows = [assembly.response(number, values, key_field) for number, values in source.drain()]
    found: dict[str, Response] = dict(row for row in rows if row is not None)
    _refuse(source)
    used = (*RESPONSE_FIELDS, key_field)
    return Responses(
        path=source.path,
        by_id=found if key_field == "query_id" else {},
        by_query=found if key_field == "query" else {},
        digest=digest_of_responses(found),
        mapped={ours: theirs for ours, theirs in plan.mapped.items() if ours in used},
        kept=tuple(assembly.kept),
        ignored=(*(plan.mapped[o] for o in SAMPLE_FIELDS if o in plan.mapped and o not in used), *assembly.ignored),
        warnings=(*plan.warnings, *assembly.warnings()),
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
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    what = f"{', '.join(shown(key) for key in unknown[:_NAMED])}{more}: not in the dataset {dataset.path}"
    no_ids = ours == "query_id" and "query_id" not in dataset.mapped
    raise BadData(
        [f"{responses.path}: {ours}: system {system_name!r} answers {what}"],
        hint="the dataset has no query_id column, so its ids are q_0, q_1 ..." if no_ids else None,
    )


def _check_options(duplicates: str, limit: int | None) -> None:
    if duplicates not in get_args(Duplicates):
        raise BadSettings(f"should be error or keep_first, is {shown(duplicates)}", where="--duplicates")
    if limit is not None and limit < 1:
        raise BadSettings(f"should be at least 1, is {limit}", where="--limit")


def _open(path: Path, name: str, mapping: Mapping[str, str], wanted: Wanted) -> tuple[Source, Plan]:
    source = read(path, name)
    if not source.rows:
        _refuse(source)
    open_containers(source)
    try:
        return source, Planner(source, mapping, wanted).plan()
    except BadData as error:
        raise BadData([*error.problems, *source.problems], hint=error.hint) from None


@contextmanager
def _no_collections() -> Iterator[None]:
    """Rows are many objects and no garbage: looking for cycles among them all again and again took 4 of 14 seconds."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _key_field(source: Source, plan: Plan) -> str:
    """``query_id``, or ``query`` where no row has an id."""
    for name in ("query_id", "query"):
        if any(plan.value(name, values) is not None for _, values in source.rows):
            return name
    raise BadData(
        [f"{source.path}: query_id: no column holds it, nor the query's text, so no response can be joined"],
        hint="say which: --map query_id=COLUMN",
    )


def _metadata(source: Source) -> dict[str, object]:
    try:
        return {str(key): plain(value, f".{key}") for key, value in source.metadata.items()}
    except Misfit as error:
        source.refuse(0, f"metadata{error.at}: {error.what}")
        return {}


def _refuse(source: Source) -> None:
    if source.findings:
        raise BadData(source.problems, hint=source.hint)
