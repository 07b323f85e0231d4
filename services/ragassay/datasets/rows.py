"""Makes samples and responses of the rows of a file, and notes every row that can't be one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Literal

from pydantic import ValidationError

from ragassay.core.models import Response, Sample
from ragassay.core.validation import place_of, problems, shown
from ragassay.datasets.cells import plain, value_of
from ragassay.datasets.columns import (
    FIELDS_BY_ALIAS,
    RESPONSE_FIELDS,
    SAMPLE_FIELDS,
    ColumnMapping,
    field_of_place,
    near,
    value_at,
)
from ragassay.datasets.conversations import last_question, open_conversation
from ragassay.datasets.source import Source, ValueProblem

Duplicates = Literal["error", "keep_first"]
MAX_HINTS = 100  # unknown columns that are compared with the known ones


class RowBuilder:
    """Turns the rows of one source into samples or responses.

    What is wrong with a row is noted, so that nothing raises before all rows were seen. ``kept`` gathers the columns
    that are unknown, ``beyond_limit`` {query_id: query} of the rows that are left out, ``ignored`` the columns of a file
    of responses that describe the query.
    """

    def __init__(
        self, source: Source, columns: ColumnMapping, duplicates: Duplicates, max_grade: float | None = None
    ) -> None:
        self.source, self.columns, self.duplicates, self.max_grade = source, columns, duplicates, max_grade
        self.kept: dict[str, None] = {}
        self.beyond_limit: dict[str, str] = {}
        self.ignored: dict[str, None] = {}
        self.dropped_ids = self.rows_with_drops = 0
        self._first_rows: dict[str, int] = {}
        self._sample_fields = [name for name in SAMPLE_FIELDS if columns.sources.get(name)]
        self._response_fields = [name for name in RESPONSE_FIELDS if columns.sources.get(name)]

    def sample(self, index: int, number: int, values: dict[str, Any]) -> Sample | None:
        """The row as a sample; None, with its problems noted, when it can't be one. ``index`` counts from 0."""
        bad: dict[str, str] = {}
        fields = self._fields(self._sample_fields, values, bad)
        response = self._fields(self._response_fields, values, bad)
        fields.setdefault("query_id", f"q_{index}")
        try:
            open_conversation(fields, response)
        except ValueProblem as error:
            bad["history"] = error.what
        of_row, of_response = self.columns.left_over(values)
        self.kept |= dict.fromkeys((*of_row, *(f"response.{name}" for name in of_response)))
        fields["metadata"] = self._metadata(values, self.columns.metadata, of_row, bad)
        if response or self._has_nested(values, bad):
            self._drop_duplicates(response)
            response["metadata"] = self._metadata(values, "response.metadata", of_response, bad)
            fields["response"] = response
        sample = self._valid(Sample, fields, bad)
        if sample and self.max_grade:
            bad |= grade_problem(sample, self.max_grade)
        self._check_unique(fields["query_id"], "query_id", number, bad)
        self._refuse(number, bad)
        return None if bad else sample

    def canonical(self, number: int, values: dict[str, Any]) -> Sample | None:
        """The row as a sample if its keys are those of a Sample; None, with its problems noted, when it can't be one."""
        bad: dict[str, str] = {}
        sample: Sample | None = self._valid(Sample, values, bad)
        if sample:
            self._check_unique(sample.query_id, "query_id", number, bad)
        self._refuse(number, bad)
        return None if bad else sample

    def response(self, number: int, values: dict[str, Any], key_field: str) -> tuple[str, Response] | None:
        """The row as (key, response), the key being the row's ``key_field``; None, with its problems noted."""
        bad: dict[str, str] = {}
        fields = self._fields(self._response_fields, values, bad)
        key = self._key(key_field, values, bad)
        of_row, of_response = self.columns.left_over(values)
        if self.columns.nested:
            path, left = "response.metadata", of_response
            self.ignored |= dict.fromkeys(of_row)
        else:
            about_query = {name for name in of_row if FIELDS_BY_ALIAS.get(name) in SAMPLE_FIELDS}
            self.ignored |= dict.fromkeys(name for name in of_row if name in about_query)
            path = self.columns.metadata
            left = {name: value for name, value in of_row.items() if name not in about_query}
        self.kept |= dict.fromkeys(left)
        self._drop_duplicates(fields)
        self._has_nested(values, bad)
        fields["metadata"] = self._metadata(values, path, left, bad)
        response = self._valid(Response, fields, bad)
        if key is not None:
            self._check_unique(key, key_field, number, bad)
        self._refuse(number, bad)
        return (key, response) if response is not None and key is not None and not bad else None

    def leave_out(self, index: int, values: dict[str, Any]) -> None:
        """Note id and query of a row that is not read otherwise; what is wrong with it does not matter."""
        query_id = query = None
        with suppress(ValueProblem):
            query_id = self._value("query_id", values)
            query = self.columns.value("query", values)
        self.beyond_limit[f"q_{index}" if query_id is None else str(query_id)] = str(query or "")

    def warnings(self) -> list[str]:
        """What the user should know although every row could be read."""
        warnings = []
        if self.dropped_ids:
            warnings.append(
                f"repeated document ids dropped: {self.dropped_ids} in {self.rows_with_drops} rows; "
                "the first of each stays, contexts stay all"
            )
        if self.columns.nested and self.kept and not self._response_fields:
            warnings.append("response is an object of which no entry is known; --map answer=response.KEY names it")
        for name in islice(self.kept, MAX_HINTS):
            alias, meant = FIELDS_BY_ALIAS.get(name), near(name)
            if alias and alias in self.columns.sources:
                warnings.append(f"{name} is kept as metadata, since {alias} is read from {self.columns.sources[alias]}")
            elif meant and meant not in self.columns.sources:
                warnings.append(f"{name} is kept as metadata; did you mean {meant}? --map {meant}={name}")
        return warnings

    def _value(self, name: str, values: Mapping[str, Any]) -> Any:
        """What a row has for a field, as pydantic takes it; None where it has nothing. Raises ValueProblem."""
        given = self.columns.value(name, values)
        return None if given is None else value_of(name, given, cells=self.source.cells)

    def _fields(self, names: Iterable[str], values: Mapping[str, Any], bad: dict[str, str]) -> dict[str, Any]:
        fields = {}
        for name in names:
            try:
                value = self._value(name, values)
            except ValueProblem as error:
                bad[name + error.at] = error.what
                continue
            if value is not None:
                fields[name] = _in_ms(value) if name in self.columns.in_seconds else value
        return fields

    def _metadata(
        self, values: Mapping[str, Any], path: str, left: Mapping[str, Any], bad: dict[str, str]
    ) -> dict[str, Any]:
        """The row's own metadata, less what became a field of ours, and the unknown columns."""
        metadata: dict[str, Any] = {}
        try:
            own = value_of("metadata", value_at(values, path), cells=True) or {}
            metadata = {key: value for key, value in own.items() if f"{path}.{key}" not in self.columns.taken}
            for name, value in left.items():
                entry = plain(value, f".{name}")
                if metadata.setdefault(name, entry) != entry:
                    bad[f"metadata.{name}"] = "is a column and an entry of metadata, with different values"
        except ValueProblem as error:
            bad["metadata" + error.at] = error.what
        return metadata

    def _has_nested(self, values: Mapping[str, Any], bad: dict[str, str]) -> bool:
        nested = values.get("response") if self.columns.nested else None
        if not isinstance(nested, Mapping | None):
            bad["response"] = f"should be an object, as in other rows, is {shown(nested)}"
        return nested is not None

    def _drop_duplicates(self, response: dict[str, Any]) -> None:
        """Keep the first of each document id, and the scores that go with those."""
        if self.duplicates == "error":
            return
        ids, scores = response.get("retrieved_doc_ids"), response.get("retrieved_scores")
        if isinstance(before := response.get("doc_ids_before_reranking"), list):
            response["doc_ids_before_reranking"] = list(dict.fromkeys(map(str, before)))
        if not isinstance(ids, list) or (isinstance(scores, list) and len(scores) != len(ids)):
            return
        first = {str(each): n for n, each in reversed(list(enumerate(ids)))}
        if dropped := len(ids) - len(first):
            response["retrieved_doc_ids"] = [ids[n] for n in sorted(first.values())]
            if isinstance(scores, list):
                response["retrieved_scores"] = [scores[n] for n in sorted(first.values())]
            self.dropped_ids += dropped
            self.rows_with_drops += 1

    def _valid(self, model: type[Any], fields: dict[str, Any], bad: dict[str, str]) -> Any:
        try:
            return model.model_validate(fields)
        except ValidationError as error:
            misfits = {field_of_place(place) for place in bad}
            bad |= {place: what for place, what in format_errors(error) if field_of_place(place) not in misfits}
        return None

    def _key(self, field: str, values: Mapping[str, Any], bad: dict[str, str]) -> str | None:
        try:
            value = last_question(self._value(field, values))
        except ValueProblem as error:
            bad[field + error.at] = error.what
            return None
        if isinstance(value, int) and not isinstance(value, bool) and field == "query_id":
            return str(value)
        if isinstance(value, str) and value:
            return value
        bad[field] = "is missing" if value in (None, "") else f"should be text, is {shown(value)}"
        return None

    def _check_unique(self, key: Any, field: str, number: int, bad: dict[str, str]) -> None:
        if field in bad:
            return
        first = self._first_rows.setdefault(str(key), number)
        if first != number:
            bad[field] = f"{shown(str(key))} is used already in {self.source.place(first)}"

    def _refuse(self, number: int, bad: Mapping[str, str]) -> None:
        for place, what in bad.items():
            self.source.add_problem(number, f"{self.columns.label(place)}: {what}")


def grade_problem(sample: Sample, max_grade: float) -> dict[str, str]:
    """{place: what is wrong} of the first grade above ``max_grade``; empty if there is none."""
    for document, grade in (sample.relevance_scores or {}).items():
        if grade > max_grade:
            what = f"is {grade:g}, above max_grade, which is {max_grade:g}; where grades go further, set max_grade"
            return {f"relevance_scores.{document}": what}
    return {}


def _in_ms(seconds: Any) -> Any:
    """Anything but a number is passed on: pydantic refuses it."""
    try:
        return float(seconds) * 1000
    except (TypeError, ValueError, OverflowError):
        return seconds


def format_errors(error: ValidationError) -> list[tuple[str, str]]:
    """(field, what is wrong) of a row, once per field; a ``response.`` in front is cut."""
    by_place: dict[str, str] = {}
    for problem in problems(error):
        location, what = problem.location, problem.what
        if location[:1] == ("response",):
            location = location[1:]
        if problem.kind == "tuple_type" and len(location) == 1 and location[0] != "retrieved_scores":
            what = f"should be text or a list, is {shown(problem.value)}"
        elif problem.kind == "string_type" and len(location) == 1 and isinstance(problem.value, Mapping):
            what += " (--map with a dotted name takes one of them)"
        if not location:  # a rule over several fields names the first of them itself
            name, _, what = what.partition(" ")
            location = (name,)
        by_place.setdefault(place_of(location), what)
    return list(by_place.items())
