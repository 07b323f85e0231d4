"""Loads a system's recorded responses, and joins them to the samples of a dataset by id or by the query's text."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragassay.core.errors import BadData
from ragassay.core.formatting import listed
from ragassay.core.models import Response, Sample
from ragassay.core.validation import shown
from ragassay.datasets.columns import RESPONSE_FIELDS, SAMPLE_FIELDS, ColumnMapping
from ragassay.datasets.dataset import Dataset, Responses, digest_of_responses, plain_text
from ragassay.datasets.load import check_options, loading, with_columns
from ragassay.datasets.readers import open_source
from ragassay.datasets.rows import Duplicates, RowBuilder
from ragassay.datasets.source import NumberedRow, Source

logger = logging.getLogger("ragassay")


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
    responses: dict[str, Response] = {}
    texts: dict[str, Any] = {}
    with loading(data):
        source = open_source(data, format)
        reading, columns = with_columns(source, mapping or {}, "responses")
        rows = list(reading)
        key_field = _key_field(source, rows, columns)
        builder = RowBuilder(source, columns, duplicates)
        for number, values in rows:
            if built := builder.response(number, values, key_field):
                responses[built[0]] = built[1]
                if key_field == "query_id":
                    texts[built[0]] = columns.value("query", values)
    source.check()
    has_texts = key_field == "query_id" and all(isinstance(text, str) for text in texts.values())
    used, mapped = (*RESPONSE_FIELDS, key_field), columns.sources
    return Responses(
        path=source.path,
        by_id=responses if key_field == "query_id" else {},
        by_query=responses if key_field == "query" else {},
        texts=texts if has_texts else {},
        digest=digest_of_responses(responses),
        mapped={ours: theirs for ours, theirs in mapped.items() if ours in used},
        kept=tuple(builder.kept),
        ignored=(*(mapped[ours] for ours in SAMPLE_FIELDS if ours in mapped and ours not in used), *builder.ignored),
        warnings=(*columns.warnings, *builder.warnings()),
    )


def _key_field(source: Source, rows: Sequence[NumberedRow], columns: ColumnMapping) -> str:
    """``query_id``, or ``query`` if no row has an id of its own."""
    of_traces = source.of_traces and columns.sources.get("query_id") == "query_id"
    for name in ("query",) if of_traces else ("query_id", "query"):
        if any(columns.value(name, values) is not None for _, values in rows):
            return name
    raise BadData(
        [f"{source.path}: query_id: no column holds it, nor the query's text, so no response can be joined"],
        hint="say which: --map query_id=COLUMN",
    )


def load_named_responses(
    query_ids: Sequence[str], given: Sequence[object], *, name: str = "samples"
) -> dict[str, Responses]:
    """For each system, its responses among ``given``: for each row ``{system: response}``, or None.

    Raises BadData with a line for every one that can't be read: ``samples: responses.v2: row 3: latency_ms: ...``.
    """
    by_system: dict[str, list[NumberedRow]] = {}
    bad: list[str] = []
    for number, (query_id, responses) in enumerate(zip(query_ids, given, strict=True), 1):
        if responses is not None and not isinstance(responses, dict):
            bad.append(f"{name}: row {number}: responses: should be {{system: response}}, is {shown(responses)}")
            continue
        for system, response in (responses or {}).items():
            if response is not None and not isinstance(response, dict):
                bad.append(f"{name}: row {number}: responses.{system}: should be an object, is {shown(response)}")
            elif response:
                by_system.setdefault(system, []).append((number, {**response, "query_id": query_id}))
    if bad:
        raise BadData(bad, hint="write the rows' responses as 'responses': {'v1': {'answer': ...}, 'v2': ...}")
    return {
        system: load_responses(Source(Path(f"{name}: responses.{system}"), rows, counts_lines=False))
        for system, rows in by_system.items()
    }


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


def _refuse_unknown(unknown: list[str], ours: str, dataset: Dataset, responses: Responses, system_name: str) -> None:
    if not unknown:
        return
    what = f"{listed(map(shown, unknown))}: not in the dataset {dataset.path}"
    no_ids = ours == "query_id" and "query_id" not in dataset.mapped
    raise BadData(
        [f"{responses.path}: {ours}: system {system_name!r} answers {what}"],
        hint="the dataset has no query_id column, so its ids are q_0, q_1 ..." if no_ids else None,
    )
