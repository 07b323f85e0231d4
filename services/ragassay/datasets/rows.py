"""Makes samples of the rows of a file, and notes every row that can't be one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, TypeAlias

from pydantic import ValidationError

from ragassay.core.models import Sample
from ragassay.core.validation import place_of, problems, shown
from ragassay.datasets.cells import plain, value_of
from ragassay.datasets.columns import (
    FIELDS_BY_ALIAS,
    RESPONSE_FIELDS,
    SAMPLE_FIELDS,
    ColumnMapping,
    field_of_place,
    map_option,
    near,
    value_at,
)
from ragassay.datasets.conversations import open_conversation
from ragassay.datasets.source import Source, ValueProblem

Duplicates = Literal["error", "keep_first"]
FirstRows: TypeAlias = dict[str, tuple[Source, int]]  # by id: the source and the row that had it first
MAX_HINTS = 100  # unknown columns that are compared with the known ones
NO_QUERY = "-"  # the query of a row that holds a response to a query of a dataset


class RowBuilder:
    """Turns the rows of one source into samples; what is wrong with a row is noted, and raised when all were seen.

    ``responses_by``: the rows are responses to queries of a dataset, which are known by this field, ``query_id`` or
    ``query``; no other field of the query is read, but the history, which may end with the answer. ``kept`` gathers the
    columns that are unknown. ``first_rows``: of all sources of a dataset.
    """

    def __init__(
        self,
        source: Source,
        columns: ColumnMapping,
        duplicates: Duplicates,
        first_rows: FirstRows,
        max_grade: float | None = None,
        responses_by: str | None = None,
    ) -> None:
        self.source, self.columns, self.duplicates, self.max_grade = source, columns, duplicates, max_grade
        self.kept: dict[str, None] = {}
        self.dropped_ids = self.rows_with_drops = 0
        self._responses_by, self._key = responses_by, responses_by or "query_id"
        self._first_rows = first_rows
        about_query = SAMPLE_FIELDS if responses_by is None else (responses_by, "history")
        self._sample_fields = [name for name in about_query if name in columns.sources]
        self._response_fields = [name for name in RESPONSE_FIELDS if name in columns.sources]

    def sample(self, index: int, number: int, values: Any) -> Sample | None:
        """The row as a sample; None, with its problems noted, when it can't be one. ``index`` counts from 0."""
        bad: dict[str, str] = {}
        fields = values if self.source.canonical else self._values(index, values, bad)
        sample = None
        try:
            sample = Sample.model_validate(fields)
        except ValidationError as error:
            misfits = {field_of_place(place) for place in bad}
            bad |= {place: what for place, what in format_errors(error) if field_of_place(place) not in misfits}
        if sample:
            first = self._first_rows.setdefault(key := getattr(sample, self._key), (self.source, number))
            if first != (self.source, number):
                bad[self._key] = f"{shown(key)} is used already in {first[0].place(first[1])}"
            bad |= grade_problem(sample, self.max_grade)
        for place, what in bad.items():
            guessed = self.columns.guesses.get(place)
            option = f"; {map_option(place, guessed)}" if guessed else ""
            self.source.add_problem(number, f"{self.columns.label(place)}: {what}{option}")
        return None if bad else sample

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
        for ours, columns in self.columns.guesses.items():
            what = f"{columns[0]} is" if len(columns) == 1 else f"{' and '.join(columns)} are"
            options = " or ".join(f"--{map_option(ours, [column])}" for column in columns)
            warnings.append(f"{what} kept as metadata; did you mean {ours}? {options}")
        guessed = {column.partition(".")[0] for columns in self.columns.guesses.values() for column in columns}
        for name in islice(self.kept, MAX_HINTS):
            alias, meant = FIELDS_BY_ALIAS.get(name), near(name)
            if alias and alias in self.columns.sources:
                warnings.append(f"{name} is kept as metadata, since {alias} is read from {self.columns.sources[alias]}")
            elif meant and meant not in self.columns.sources and name not in guessed:
                warnings.append(f"{name} is kept as metadata; did you mean {meant}? --{map_option(meant, [name])}")
        return warnings

    def _values(self, index: int, values: Mapping[str, Any], bad: dict[str, str]) -> dict[str, Any]:
        """The values of a sample; what can't be read is noted in ``bad``."""
        fields = self._fields(self._sample_fields, values, bad)
        if "query" in fields and self.columns.sources["query"] == self.columns.sources.get("query_id"):
            fields["query"] = str(fields["query"])
        response = self._fields(self._response_fields, values, bad)
        try:
            open_conversation(fields, response)
        except ValueProblem as error:
            bad["history"] = error.what
        of_row, of_response = self.columns.left_over(values)
        path = "response.metadata"
        if self._responses_by is None:
            fields["metadata"] = self._metadata(values, self.columns.metadata, of_row, bad)
        elif not self.columns.nested:
            path, of_response = self.columns.metadata, of_row
        nested = values.get("response") if self.columns.nested else None
        if not isinstance(nested, Mapping | None):
            bad["response"] = f"should be an object, as in other rows, is {shown(nested)}"
        is_flat = self._responses_by is not None and not self.columns.nested
        if response or is_flat or nested is not None:  # a nested one that is null: the system gave none
            self._drop_duplicates(response)
            response["metadata"] = self._metadata(values, path, of_response, bad)
            fields["response"] = response
        if self._responses_by == "query_id":
            fields["query"] = NO_QUERY
        else:
            fields.setdefault("query_id", f"q_{index}")
        return fields

    def _fields(self, names: Iterable[str], values: Mapping[str, Any], bad: dict[str, str]) -> dict[str, Any]:
        fields = {}
        for name in names:
            value = self.columns.value(name, values)
            try:
                value = None if value is None else value_of(name, value, cells=self.source.cells)
            except ValueProblem as error:
                bad[name + error.at] = error.what
                continue
            if value is not None:
                fields[name] = _in_ms(value) if name == "latency_ms" and self.columns.in_seconds else value
        return fields

    def _metadata(
        self, values: Mapping[str, Any], path: str, left: Mapping[str, Any], bad: dict[str, str]
    ) -> dict[str, Any]:
        """The row's own metadata, less what became a field of ours, and the unknown columns."""
        metadata: dict[str, Any] = {}
        self.kept |= dict.fromkeys(f"response.{name}" if path == "response.metadata" else name for name in left)
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

    def _drop_duplicates(self, response: dict[str, Any]) -> None:
        """Keep the first of each document id, and the scores that go with those."""
        if self.duplicates == "error":
            return
        ids, scores = response.get("retrieved_doc_ids"), response.get("retrieved_scores")
        if isinstance(before := response.get("doc_ids_before_reranking"), list):
            response["doc_ids_before_reranking"] = list(dict.fromkeys(map(str, before)))
        if not isinstance(ids, list) or (isinstance(scores, list) and len(scores) != len(ids)):
            return
        first = sorted({str(each): n for n, each in reversed(list(enumerate(ids)))}.values())
        if dropped := len(ids) - len(first):
            response["retrieved_doc_ids"] = [ids[n] for n in first]
            if isinstance(scores, list):
                response["retrieved_scores"] = [scores[n] for n in first]
            self.dropped_ids += dropped
            self.rows_with_drops += 1


def grade_problem(sample: Sample, max_grade: float | None) -> dict[str, str]:
    """{place: what is wrong} of the first grade above ``max_grade``; empty if there is none."""
    for document, grade in (sample.relevance_scores or {}).items():
        if max_grade and grade > max_grade:
            what = f"is {grade:g}, above max_grade, which is {max_grade:g}; where grades go further, set max_grade"
            return {f"relevance_scores.{document}": what}
    return {}


def _in_ms(seconds: Any) -> Any:
    """Anything but a number is passed on: pydantic refuses it."""
    try:
        return float(seconds) * 1000
    except (TypeError, ValueError, OverflowError):
        return seconds


def format_errors(error: ValidationError) -> Iterator[tuple[str, str]]:
    """(field, what is wrong) of a row; a ``response.`` in front is cut."""
    for problem in problems(error):
        location, what = problem.location[problem.location[:1] == ("response",) :], problem.what
        if not location:  # a rule over several fields names the first of them itself
            name, _, what = what.partition(" ")
            location = (name,)
        yield place_of(location), what
