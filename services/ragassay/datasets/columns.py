"""Decides which column of a file is which of our fields: native names first, then other tools', and ``--map`` over all.

The decision is made once for a file, by its header or its first 1,000 rows, and can be printed. Where names can't decide,
nothing is guessed: the error prints the ``--map`` that decides.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from ragassay.core.errors import BadData, BadSettings, UnknownName
from ragassay.core.formatting import listed
from ragassay.core.models import Response, Sample
from ragassay.core.validation import shown
from ragassay.datasets.conversations import answer_text
from ragassay.datasets.guesses import MAX_ROWS, guesses
from ragassay.datasets.source import Source, separator_hint

Wanted = Literal["dataset", "responses"]
MapOption: TypeAlias = Mapping[str, str | Sequence[str]]
"""{our field: their column, or columns of which each file has one}."""

RESPONSE_FIELDS = tuple(name for name in Response.model_fields if name not in ("metadata", "timing"))
SAMPLE_FIELDS = tuple(name for name in Sample.model_fields if name not in ("metadata", "response"))
FIELDS = (*SAMPLE_FIELDS, *RESPONSE_FIELDS)

ALIASES: dict[str, tuple[str, ...]] = {
    "query_id": ("id", "request_id", "example id", "example_id"),
    "query": ("user_input", "question", "input", "inputs.question", "inputs.query", "vars.query", "vars.question"),
    "history": (
        "chat_history", "conversation_history", "messages", "turns", "inputs.messages", "inputs.chat_history",
        "inputs.history",
    ),
    "conversation_id": (
        "thread_id", "session_id", "metadata.conversation_id", "metadata.thread_id", "metadata.session_id",
    ),
    "answer": ("response", "actual_output", "actualOutput", "outputs"),
    "ground_truth_answer": (
        "reference.answer", "reference.output", "reference_outputs.answer", "reference_outputs.output", "reference",
        "ground_truth", "expected_output", "expectedOutput", "expected_response", "expectations.expected_response",
        "reference_answer", "ground_truths",
    ),
    "key_facts": ("expectations.expected_facts", "expected_facts"),
    "contexts": (
        "retrieved_contexts", "retrieval_context", "retrievalContext", "source_documents", "outputs.contexts",
    ),
    "retrieved_doc_ids": ("retrieved_context_ids", "doc_uri", "document.id"),
    "reference_contexts": (
        "expected_retrieved_context", "expectations.expected_retrieved_context", "expected_chunks",
    ),
    "relevant_doc_ids": ("reference_context_ids", "relevant_chunk_ids", "relevant_docs", "qrels"),
    "relevance_scores": ("relevant_docs", "qrels"),
    "category": ("metadata.category", "query_style"),
    "difficulty": ("metadata.difficulty",),
    "description": ("metadata.description",),
    "split": ("metadata.split",),
    "input_tokens": ("input_token_count", "prompt_tokens"),
    "output_tokens": ("output_token_count", "completion_tokens"),
    "cost_usd": ("token_cost", "llm.cost.total"),
    "latency_ms": ("completion_time",),
}  # fmt: skip
"""Accepted as they are. ``context``, ``output`` and ``OUTPUTS`` are missing: they mean one thing here, another there."""
OUTPUTS = ("outputs.answer", "outputs.output", "outputs.response")  # in LangSmith's datasets they are the reference
FIELDS_BY_ALIAS = {alias: ours for ours, names in reversed(ALIASES.items()) for alias in names}  # the first field wins

SECONDS = "completion_time"
_IN_NESTED = {"answer": ("output",), "contexts": ("context",)}  # inside a response they mean one thing
_GOLD_BESIDE = ("actual_output", "actualOutput", "retrieval_context", "retrievalContext")
_GOLD_PERHAPS = ("expected_output", "expectedOutput")
_USUAL = {
    "dataset": ("query", "answer", "contexts", "ground_truth_answer", "reference_contexts"),
    "responses": ("answer", "contexts"),
}  # the fields that are looked for in columns with other names
_NUMBERED = re.compile(r"(.*[^\W\d_])[ _.-]?(\d+)")
_LISTED = ("contexts", "context", *ALIASES["contexts"])


@dataclass(frozen=True)
class ColumnMapping:
    """The column that each of our fields is read from; a dotted name reaches into objects.

    ``metadata`` is the column of a row's own metadata; ``nested``: responses are objects in the column ``response``;
    ``in_seconds``: latencies are. ``guesses``: columns that may hold a field that is not read.
    """

    sources: Mapping[str, str]
    metadata: str = "metadata"
    nested: bool = False
    in_seconds: bool = False
    warnings: tuple[str, ...] = ()
    guesses: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def taken(self) -> frozenset[str]:
        """The columns and dotted names from which fields are read."""
        return frozenset(path.replace("[]", "") for path in self.sources.values())

    @cached_property
    def _opened(self) -> frozenset[str]:
        """Names of columns, and dotted names, inside which the value of a field lies."""
        steps = [path.split(".") for path in self.taken]
        inside = {".".join(s[:n]) for s in steps for n in range(1, len(s))}
        return frozenset(inside | ({"response"} if self.nested else set()))

    @cached_property
    def _of_metadata(self) -> frozenset[str]:
        return frozenset((self.metadata, "response.metadata") if self.nested else (self.metadata,))

    def label(self, place: str) -> str:
        """A field, or a place in one, as an error names it: with the user's column where that has another name."""
        ours = field_of_place(place)
        path = self.sources.get(ours, ours)
        return place if path == ours else f"{place} (column {path})"

    def value(self, ours: str, values: Mapping[str, Any]) -> Any:
        """The value that a row has for a field, or None."""
        return value_at(values, self.sources[ours]) if ours in self.sources else None

    def left_over(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What no field takes of a row, and of its nested ``response``: {column or dotted name: value}.

        Of a list of objects with a field nothing is left.
        """
        of_row: dict[str, Any] = {} if values.keys() <= self.taken else dict(self._rest("", values))
        names = [name for name in of_row if name.startswith("response.")] if self.nested else ()
        return of_row, {name.removeprefix("response."): of_row.pop(name) for name in names}

    def _rest(self, inside: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for key, value in values.items():
            path = inside + key
            if value is None or path in self.taken or path in self._of_metadata:
                continue
            if path not in self._opened or not isinstance(value, Mapping | list):
                yield path.removeprefix("metadata."), value
            elif isinstance(value, Mapping):
                yield from self._rest(f"{path}.", value)


class ColumnMapper:
    """Decides what the columns of a source are, by its header and its first rows: samples, or a system's responses.

    ``mapping`` is {our field: their column}; if it names several for a field, the source is to have one of them. The columns
    of fields ``elsewhere`` may be missing: they are in another file. Raises UnknownName and BadSettings for a mapping that
    does not fit.
    """

    def __init__(
        self,
        source: Source,
        rows: Sequence[Mapping[str, Any]],
        mapping: MapOption,
        wanted: Wanted,
        elsewhere: Collection[str] = (),
    ) -> None:
        self._source, self._path, self._rows, self._wanted = source, source.path, rows, wanted
        self._columns = list(dict.fromkeys((*source.columns, *(name for values in rows for name in values))))
        self._filled = {name for values in rows for name, value in values.items() if value is not None}
        self._in_seconds = {theirs for name, theirs in _pairs(mapping) if name == SECONDS}
        self._given = self._by_field(mapping, elsewhere)
        self._nested = "response" not in self._given.values() and any(
            isinstance(v.get("response"), Mapping) for v in rows
        )
        self._sources: dict[str, str] = {}
        self._warnings: list[str] = []

    def map(self) -> ColumnMapping:
        """The columns; raises BadData if the names can't decide."""
        columns = {ours: self._given.get(ours) or self._column_of(ours) for ours in FIELDS}
        self._sources = {ours: column for ours, column in columns.items() if column}
        for name in ("output", *OUTPUTS):
            self._map_ambiguous(name, self._meaning_of_output)
        self._map_ambiguous("context", self._meaning_of_context)
        if self._are_judgments():
            self._sources["query"], self._source.judged_only = self._sources["query_id"], True
            self._warnings.append("judgments hold no texts, so the id of a query stands for its text")
        self._require_input()
        seconds = self._in_seconds if "latency_ms" in self._given else {SECONDS, f"response.{SECONDS}"}
        in_seconds = self._sources.get("latency_ms") in seconds
        if in_seconds and self._has("latency_ms"):
            self._warnings.append(
                f"{SECONDS} is read as seconds, as DeepEval gives it; if it is in ms: --map latency_ms={SECONDS}"
            )
        metadata = self._given.get("metadata", "metadata")
        return ColumnMapping(self._sources, metadata, self._nested, in_seconds, tuple(self._warnings), self._guesses())

    def _are_judgments(self) -> bool:
        """Are the rows judgments of queries, whose texts are elsewhere, and nothing else?"""
        judged = self._has("query_id") and self._has("relevant_doc_ids", "relevance_scores")
        no_query = self._wanted == "dataset" and not self._has("query", "history", *RESPONSE_FIELDS)
        return judged and no_query and set(self._columns) <= set(self._sources.values())

    def _by_field(self, mapping: MapOption, elsewhere: Collection[str]) -> dict[str, str]:
        """The mapping by our own names; raises UnknownName for a name that no column may have, BadSettings."""
        by_field: dict[str, str] = {}
        missing: dict[str, BadSettings] = {}
        for name, theirs in _pairs(mapping):
            ours, where = FIELDS_BY_ALIAS.get(name, name), f"map {name}={theirs}"
            if name in ALIASES["relevance_scores"] and self._holds(theirs, Mapping, "{"):
                ours = "relevance_scores"
            if ours not in (*FIELDS, "metadata"):
                unknown = UnknownName("field", name, FIELDS, where=where)
                unknown.option = "map"
                if meant := near(name):
                    unknown.hint = f"did you mean {meant}={theirs}? our name stands on the left"
                raise unknown
            if theirs not in self._columns and not self._fills(theirs):
                what = f"{self._path} has no column {shown(theirs)}"
                hint = f"its columns are {self._listed()}; if another file has it, add map {ours}=COLUMN for this one"
                if one := _one_list(theirs.split(",")):
                    hint = f"numbered columns are read as one list: map {ours}={one}"
                missing.setdefault(ours, BadSettings(what, where=where, hint=hint, option="map"))
                continue
            if ours in by_field:
                hint = f"{ours}={by_field[ours]} is given too"
                raise BadSettings(f"{ours} is named twice", where=where, hint=hint, option="map")
            by_field[ours] = theirs
        for ours, error in missing.items():
            if ours not in by_field and ours not in elsewhere:
                raise error
        return by_field

    def _guesses(self) -> dict[str, list[str]]:
        """Columns that may hold a usual field that is not read, or texts read from objects, by their names and values."""
        usual, lists = _USUAL[self._wanted], _numbered(self._columns)
        objects = {o: c for o, c in self._sources.items() if o in usual and self._is_object(c)}
        taken = set(self._sources.values())
        known = {*taken, *FIELDS} - set(objects.values())
        rows = [
            {name: value for name, value in with_lists(values, lists).items() if name not in known}
            for values in self._rows[:MAX_ROWS]
        ]
        guessed = guesses(rows, [ours for ours in usual if ours in objects or not self._has(ours)])
        places = {ours: [path.replace("[]", "") for path in paths] for ours, paths in guessed.items()}
        return {ours: free for ours, paths in places.items() if (free := [path for path in paths if path not in taken])}

    def _listed(self) -> str:
        return listed(map(shown, self._columns), max_names=12) or "none"

    def _fills(self, path: str) -> bool:
        """Does any row have a value there?"""
        head = path.replace("[]", "").split(".")[0]
        is_inside = head != path and head in self._filled
        return path in self._filled or (is_inside and any(value_at(v, path) is not None for v in self._rows))

    def _has(self, *fields: str) -> bool:
        """Is one of these fields read from a column that holds a value?"""
        return any(self._fills(self._sources[ours]) for ours in fields if ours in self._sources)

    def _column_of(self, ours: str) -> str | None:
        """The column of a field by its native name, else by that of another tool; first one with a value."""
        names = [ours, *(name for name in ALIASES.get(ours, ()) if self._may_mean(ours, name))]
        if self._nested and ours in RESPONSE_FIELDS:
            nested = [f"response.{name}" for name in (*names, *_IN_NESTED.get(ours, ()))]
            names = [ours, nested[0], *names[1:], *nested[1:]]
        names = [name for name in names if name not in self._given.values()]
        return next(filter(self._fills, names), None) or next((name for name in names if name in self._columns), None)

    def _may_mean(self, ours: str, name: str) -> bool:
        if name.startswith("metadata."):
            return self._wanted == "dataset"  # in a file of responses, metadata is about the response
        if ours == "query" and self._holds(name, Mapping):
            return False
        if name == "outputs":
            return not any(map(self._fills, (*OUTPUTS, "outputs.contexts")))
        if name in ALIASES["history"]:
            return self._holds(name, list, "[")
        if name in ALIASES["relevance_scores"]:
            return (ours == "relevance_scores") == self._holds(name, Mapping, "{")
        return not (self._nested and name == "response")

    def _holds(self, path: str, kind: type[Any], begins: str = "\0") -> bool:
        """Is the first value there of this kind, or a cell that begins as one does?"""
        value = self._first(path)
        return isinstance(value, kind) or (isinstance(value, str) and value.lstrip().startswith(begins))

    def _is_object(self, path: str) -> bool:
        """Is the first value there an object, and no message?"""
        return isinstance(answer_text(self._first(path)), Mapping)

    def _first(self, path: str) -> Any:
        return next((value for values in self._rows if (value := value_at(values, path)) is not None), None)

    def _map_ambiguous(self, name: str, meaning: Callable[[], tuple[str, str]]) -> None:
        """Decide a column that means one thing here and another there, unless ``--map`` says or better ones are there."""
        if name in self._given.values() or self._first(name) is None or self._is_object(name):
            return
        ours, other = meaning()
        if ours in self._given or self._has(ours):
            return
        self._sources[ours] = name
        if self._wanted == "dataset" and other:
            parts = [column for column in self._columns if _one_list([column]) == name and column not in self._filled]
            read = f"{listed(parts)} are read as {ours}" if parts else f"{name} is read as {ours}"
            self._warnings.append(f"{read}; if that is wrong: --map {other}={name}")

    def _meaning_of_output(self) -> tuple[str, str]:
        """The answer if there is a reference or any other part of a response; else the reference."""
        run = self._wanted == "responses" or self._has(*RESPONSE_FIELDS) or "answer" in self._given
        is_answer = run or self._has("ground_truth_answer", "key_facts")
        return ("answer", "") if is_answer else ("ground_truth_answer", "answer")

    def _meaning_of_context(self) -> tuple[str, str]:
        """Gold in DeepEval and what was retrieved elsewhere; the other columns decide."""
        retrieved, gold = ("contexts", "reference_contexts"), ("reference_contexts", "contexts")
        if self._has("contexts") or any(name in self._columns for name in _GOLD_BESIDE):
            return gold
        if self._has("reference_contexts") or self._wanted == "responses":
            return retrieved
        run, perhaps_gold = self._has(*RESPONSE_FIELDS), any(name in self._columns for name in _GOLD_PERHAPS)
        if run == perhaps_gold:
            what = "may be what was retrieved or the reference (gold) contexts, and the other columns do not decide"
            raise BadData(
                [f"{self._path}: context: {what}"],
                hint="say map contexts=context if it was retrieved, map reference_contexts=context if it is gold",
                option="map",
            )
        return retrieved if run else gold

    def _require_input(self) -> None:
        """Raise BadData without a column for the query of a sample, or for any part of a response."""
        is_dataset = self._wanted == "dataset"
        if self._has("query", "history") if is_dataset else self._has(*RESPONSE_FIELDS):
            return
        needed, what = ("query", "it") if is_dataset else ("answer", "any part of a response")
        guessed = {needed: [], **self._guesses()}
        hint = f"name the columns: {' '.join(map(map_option, guessed, guessed.values()))}"
        if len(self._columns) == 1 and (separated := separator_hint(self._columns[0])):
            hint = separated
        elif is_dataset and not guessed["query"] and self._has("query_id") and self._has(*RESPONSE_FIELDS):
            hint += "; if the questions are in another file, these are the responses of a system"
        raise BadData(
            [f"{self._path}: {needed}: no column holds {what}; the columns are {self._listed()}"],
            hint=hint,
            option="map",
        )


def map_option(ours: str, columns: Sequence[str]) -> str:
    """The option that reads a field from a column, its value as a shell takes it; the user chooses among several."""
    if len(columns) == 1:
        return f"map {shlex.quote(f'{ours}={columns[0]}')}"
    return f"map {ours}=COLUMN" + (f" ({' or '.join(map(shown, columns))})" if columns else "")


def _pairs(mapping: MapOption) -> list[tuple[str, str]]:
    return [
        (ours, column)
        for ours, theirs in mapping.items()
        for column in ([theirs] if isinstance(theirs, str) else theirs)
    ]


def lists_in_columns(columns: Collection[str], mapping: MapOption) -> frozenset[str]:
    """Names of lists that stand in several columns, to be read as one: ``context`` for ``context_1`` and ``context_2``.

    They are lists of contexts, or named in ``mapping`` as if they were columns; none of whose columns is named there.
    """
    named = {column for _, column in _pairs(mapping)}
    single = {match[1] for column in named if (match := _NUMBERED.fullmatch(column))}
    return (_numbered(columns) & {*_LISTED, *named}) - single


def _numbered(columns: Collection[str]) -> frozenset[str]:
    counts = Counter(match[1] for column in columns if (match := _NUMBERED.fullmatch(column)))
    return frozenset(name for name, count in counts.items() if count > 1 and name not in columns)


def _one_list(columns: Iterable[str]) -> str:
    """The name that numbered columns have in common: ``context`` for ``context_1`` and ``context_2``; else empty."""
    names = {match[1] if (match := _NUMBERED.fullmatch(column.strip())) else "" for column in columns}
    return names.pop() if len(names) == 1 else ""


def with_lists(values: Mapping[str, Any], lists: Collection[str]) -> dict[str, Any]:
    """The row with one list in place of its numbered columns, in the order of the numbers and without empty entries.

    A row that has a column of the list's own name keeps it, and the others beside it.
    """
    row, lists = dict(values), {name for name in lists if name not in values}
    found = [match for column in values if (match := _NUMBERED.fullmatch(column)) and match[1] in lists]
    for match in sorted(found, key=lambda match: int(match[2])):
        value = row.pop(match[0])
        entries = row.setdefault(match[1], [])
        entries += [] if value in (None, "") else [value]
    return row


def value_at(row: Mapping[str, Any], path: str) -> Any:
    """The value at a path; None where there is none. Dots reach into objects, and through lists to all entries.

    A column that is really called ``a.b`` comes before an object ``a`` with an entry ``b``.
    """
    if path in row or "." not in path:
        return row.get(path)
    return _walk(row, path.replace("[]", "").split("."))


def _walk(value: Any, steps: list[str]) -> Any:
    for n, step in enumerate(steps):
        if isinstance(value, list):
            entries = [_walk(entry, steps[n:]) for entry in value]
            return None if all(entry is None for entry in entries) else entries
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def near(name: str) -> str | None:
    """The field that a column's name comes close to, its spelling, case and punctuation forgiven.

    None for entries of objects: what they mean, the object's own name says.
    """
    if "." in name:
        return None
    close = difflib.get_close_matches(_letters(name), _KNOWN, n=1, cutoff=0.8)
    return _KNOWN[close[0]] if close else None


def field_of_place(place: str) -> str:
    """The field in a place such as ``contexts[2]`` or ``relevance_scores.d1``."""
    return re.split(r"[.\[]", place, maxsplit=1)[0]


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_KNOWN = {_letters(name): ours for name, ours in FIELDS_BY_ALIAS.items() if "." not in name}
_KNOWN |= {_letters(name): name for name in FIELDS}
