"""Makes samples and responses of a file's rows by a plan, and notes every row that can't be one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import ValidationError

from ragassay.data.cells import open_cell, passes, plain, value_of
from ragassay.data.columns import RESPONSE_FIELDS, SAMPLE_FIELDS, field_of, near
from ragassay.data.plan import Plan
from ragassay.data.problems import Misfit, field_of_place, plain_words, shown
from ragassay.data.source import Source
from ragassay.models import Response, Sample

Duplicates = Literal["error", "keep_first"]

_Reading = tuple[str, str | None, bool]  # field, its column where that is a plain one, handed on as it is

_CONTAINERS = ("metadata", "inputs", "vars", "expectations")
_TEXT_KEYS = ("text", "content", "page_content")


def open_containers(source: Source) -> None:
    """In CSV, columns that by name hold objects, such as ``inputs``, become the objects that their cells print."""
    for name in _CONTAINERS:
        if source.cells and name in source.columns:
            for _, values in source.rows:
                if name in values:
                    values[name] = open_cell(values[name])


class Assembly:
    """Turns the rows of one source into nouns.

    What is wrong with a row is refused at the source, so that nothing raises before all rows were seen. ``kept``
    gathers the columns that nobody knows, ``ignored`` those of a file of responses that describe the query.
    """

    def __init__(self, source: Source, plan: Plan, duplicates: Duplicates) -> None:
        self.source, self.plan, self.duplicates = source, plan, duplicates
        self.kept: dict[str, None] = {}
        self.ignored: dict[str, None] = {}
        self.dropped_ids = self.rows_with_drops = 0
        self._seen: dict[str, int] = {}
        self._unread: dict[str, None] = {}
        self._sample_fields = self._readings(SAMPLE_FIELDS)
        self._response_fields = self._readings(RESPONSE_FIELDS)

    def sample(self, index: int, number: int, values: dict[str, Any]) -> Sample | None:
        """The row as a sample; None, with its problems noted, when it can't be one. ``index`` counts from 0."""
        bad: dict[str, str] = {}
        given = self._fields(self._sample_fields, values, bad)
        response = self._fields(self._response_fields, values, bad)
        _pair_grades(given, bad)
        given.setdefault("query_id", f"q_{index}")
        of_row, of_response = self.plan.left_over(values)
        self._keep((*of_row, *(f"response.{name}" for name in of_response)))
        given["metadata"] = self._metadata(values, self.plan.metadata, of_row, bad)
        if response or self._has_nested(values, bad):
            self._drop_duplicates(response)
            response["metadata"] = self._metadata(values, "response.metadata", of_response, bad)
            given["response"] = response
        sample = self._valid(Sample, given, bad)
        self._claim(given["query_id"], "query_id", number, bad)
        self._report(number, bad)
        return None if bad else sample

    def response(self, number: int, values: dict[str, Any], key_field: str) -> tuple[str, Response] | None:
        """The row as (key, response), the key being the row's ``key_field``; None, with its problems noted."""
        bad: dict[str, str] = {}
        given = self._fields(self._response_fields, values, bad)
        key = self._key(key_field, values, bad)
        of_row, of_response = self.plan.left_over(values)
        base = "response.metadata" if self.plan.nested else self.plan.metadata
        left = of_response if self.plan.nested else of_row
        self._keep(left)
        self.ignored |= dict.fromkeys(of_row if self.plan.nested else ())
        self._drop_duplicates(given)
        self._has_nested(values, bad)
        given["metadata"] = self._metadata(values, base, left, bad)
        response = self._valid(Response, given, bad)
        if key is not None:
            self._claim(key, key_field, number, bad)
        self._report(number, bad)
        return (key, response) if response is not None and key is not None and not bad else None

    def query_id(self, index: int, values: dict[str, Any]) -> str:
        """The id of a row that is not read otherwise."""
        raw = self.plan.value("query_id", values)
        value = value_of("query_id", raw, cells=self.source.cells) if raw is not None else None
        return f"q_{index}" if value is None else str(value)

    def warnings(self) -> list[str]:
        """What the user should know although every row could be read."""
        said = []
        if self.dropped_ids:
            said.append(
                f"repeated document ids dropped: {self.dropped_ids} in {self.rows_with_drops} rows; "
                "the first of each stays, contexts stay all"
            )
        if self._unread:
            paths = self.plan.sources["contexts"]
            said.append(
                f"contexts are objects, of which only the text is read and not {', '.join(self._unread)}; "
                f"--map retrieved_doc_ids={paths[0]}.KEY takes ids from there"
            )
        if self.plan.nested and self.kept and not self._response_fields:
            said.append("response is an object of which no entry is known; --map answer=response.KEY says which it is")
        for name in self.kept:
            alias, meant = field_of(name), near(name)
            if alias and alias in self.plan.sources:
                said.append(f"{name} is kept as metadata, since {alias} is read from {self.plan.mapped[alias]}")
            elif meant and meant not in self.plan.sources:
                said.append(f"{name} is kept as metadata; did you mean {meant}? --map {meant}={name}")
        return said

    def _readings(self, names: Iterable[str]) -> list[_Reading]:
        cells, found = self.source.cells, []
        for name in names:
            paths = self.plan.sources.get(name, ())
            if paths:
                plain_column = paths[0] if len(paths) == 1 and not re.search(r"[.\[]", paths[0]) else None
                found.append((name, plain_column, passes(name, cells=cells)))
        return found

    def _fields(self, readings: list[_Reading], values: Mapping[str, Any], bad: dict[str, str]) -> dict[str, Any]:
        given = {}
        for name, column, as_it_is in readings:
            raw = self.plan.value(name, values) if column is None else values.get(column)
            if raw is None:
                continue
            if as_it_is:
                given[name] = raw
                continue
            try:
                value = value_of(name, raw, cells=self.source.cells)
            except Misfit as error:
                bad[name + error.at] = error.what
                continue
            if value is not None:
                given[name] = _in_ms(value) if name in self.plan.in_seconds else value
        if isinstance(given.get("contexts"), list):
            self._note_unread(given["contexts"])
        return given

    def _note_unread(self, contexts: list[Any]) -> None:
        for context in contexts:
            if isinstance(context, dict):
                self._unread |= {str(key): None for key in context if key not in _TEXT_KEYS}

    def _keep(self, left: Iterable[str]) -> None:
        for name in left:
            self.kept.setdefault(name)

    def _metadata(
        self, values: Mapping[str, Any], path: str, left: Mapping[str, Any], bad: dict[str, str]
    ) -> dict[str, Any]:
        """The row's own metadata, less what became a field of ours, and the columns that nobody knows."""
        found: dict[str, Any] = {}
        try:
            found = self.plan.metadata_of(values, path)
            for name, value in left.items():
                entry = plain(value, f".{name}")
                if found.setdefault(name, entry) != entry:
                    bad[f"metadata.{name}"] = "is a column and an entry of metadata, with different values"
        except Misfit as error:
            bad["metadata" + error.at] = error.what
        return found

    def _has_nested(self, values: Mapping[str, Any], bad: dict[str, str]) -> bool:
        nested = values.get("response") if self.plan.nested else None
        if not isinstance(nested, Mapping | None):
            bad["response"] = f"should be an object, as in other rows, is {shown(nested)}"
        return nested is not None

    def _drop_duplicates(self, response: dict[str, Any]) -> None:
        """Keep the first of each document id, and the scores that go with those."""
        ids, scores = response.get("retrieved_doc_ids"), response.get("retrieved_scores")
        if self.duplicates == "error" or not isinstance(ids, list):
            return
        first: dict[str, int] = {}
        for n, each in enumerate(ids):
            first.setdefault(str(each), n)
        if len(first) == len(ids) or (isinstance(scores, list) and len(scores) != len(ids)):
            return
        response["retrieved_doc_ids"] = [ids[n] for n in first.values()]
        if isinstance(scores, list):
            response["retrieved_scores"] = [scores[n] for n in first.values()]
        self.dropped_ids += len(ids) - len(first)
        self.rows_with_drops += 1

    def _valid(self, noun: type[Any], given: dict[str, Any], bad: dict[str, str]) -> Any:
        try:
            return noun.model_validate(given)
        except ValidationError as error:
            misfits = {field_of_place(place) for place in bad}
            bad |= {place: what for place, what in plain_words(error) if field_of_place(place) not in misfits}
        return None

    def _key(self, field: str, values: Mapping[str, Any], bad: dict[str, str]) -> str | None:
        raw = self.plan.value(field, values)
        value = value_of(field, raw, cells=self.source.cells) if raw is not None else None
        if isinstance(value, int) and not isinstance(value, bool) and field == "query_id":
            return str(value)
        if isinstance(value, str) and value:
            return value
        bad[field] = "is missing" if value in (None, "") else f"should be text, is {shown(value)}"
        return None

    def _claim(self, key: Any, field: str, number: int, bad: dict[str, str]) -> None:
        if field in bad:
            return
        first = self._seen.setdefault(str(key), number)
        if first != number:
            bad[field] = f"{shown(str(key))} is used already in {self.source.place(first)}"

    def _report(self, number: int, bad: Mapping[str, str]) -> None:
        for place, what in bad.items():
            self.source.refuse(number, f"{self.plan.label(place)}: {what}")


def _in_ms(seconds: Any) -> Any:
    """What is no number is passed on: pydantic says so."""
    try:
        return float(seconds) * 1000
    except (TypeError, ValueError, OverflowError):
        return seconds


def _pair_grades(given: dict[str, Any], bad: dict[str, str]) -> None:
    """Grades may be a list beside ``relevant_doc_ids``; they become {id: grade}."""
    grades = given.get("relevance_scores")
    if not isinstance(grades, list):
        return
    del given["relevance_scores"]
    ids = given.get("relevant_doc_ids")
    if "relevant_doc_ids" in bad:
        return
    if not isinstance(ids, list):
        bad["relevance_scores"] = "is a list, so a list relevant_doc_ids has to say what each grade belongs to"
    elif len(ids) != len(grades):
        bad["relevance_scores"] = f"has {len(grades)} entries, relevant_doc_ids {len(ids)}"
    elif len({str(each) for each in ids}) < len(ids):
        bad["relevant_doc_ids"] = "names a document twice, so its grade is not clear"
    else:
        given["relevance_scores"] = {str(each): grade for each, grade in zip(ids, grades, strict=True)}
