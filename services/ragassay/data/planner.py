"""Decides which column of a file is which of ours: native names first, then other tools' names, and ``--map`` over all.

The decision is made once per file, from all of its rows, and can be printed; no row is read differently from another.
Where names can't decide, nothing is guessed: the error prints the ``--map`` that decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from ragassay.data.columns import ABSENT, ALIASES, FIELDS, RESPONSE_FIELDS, SECONDS, field_of, find, near, reach
from ragassay.data.plan import Plan
from ragassay.data.problems import shown
from ragassay.data.source import Source
from ragassay.errors import BadData, BadSettings, UnknownName

Wanted = Literal["dataset", "responses"]

_GOLD_BESIDE = ("actual_output", "actualOutput", "retrieval_context", "retrievalContext")
_GOLD_PERHAPS = ("expected_output", "expectedOutput")


class Planner:
    """Makes the plan for one file. ``wanted``: rows of a dataset, or a system's responses to be joined."""

    def __init__(self, source: Source, mapping: Mapping[str, str], wanted: Wanted) -> None:
        self.source, self.mapping, self.wanted = source, mapping, wanted
        self.census = Census(source)
        self.nested = "response" not in mapping.values() and any(
            isinstance(values.get("response"), Mapping) for _, values in source.rows
        )
        self.sources: dict[str, tuple[str, ...]] = {}
        self.warnings: list[str] = []

    def plan(self) -> Plan:
        """Raises UnknownName and BadSettings for a mapping that does not fit, BadData for what can't be decided."""
        self._check_mapping()
        for ours in FIELDS:
            self._look_for(ours, ALIASES.get(ours, ()))
        self._place_output()
        self._place_context()
        self._require()
        seconds = frozenset(
            ours for ours, paths in self.sources.items() if ours not in self.mapping and any(map(_is_in_seconds, paths))
        )
        if seconds and self._has(*seconds):
            self.warnings.append(
                f"{SECONDS} is read as seconds, as DeepEval gives it; if it is in ms: --map latency_ms={SECONDS}"
            )
        return Plan(self.sources, self.mapping.get("metadata", "metadata"), self.nested, seconds, tuple(self.warnings))

    def _check_mapping(self) -> None:
        for ours, theirs in self.mapping.items():
            where = f"--map {ours}={theirs}"
            if ours not in (*FIELDS, "metadata"):
                unknown = UnknownName("field", ours, FIELDS, where=where)
                meant = field_of(ours) or near(ours)
                unknown.hint = f"did you mean {meant}={theirs}? our name stands on the left" if meant else unknown.hint
                raise unknown
            if not self.census.has(theirs):
                raise BadSettings(
                    f"{self.source.path} has no column {shown(theirs)}",
                    where=where,
                    hint=f"its columns are {listed(self.census.columns)}",
                )

    def _look_for(self, ours: str, aliases: Iterable[str]) -> None:
        """Find the sources of a field: the mapped one; else native names, and other tools' names.

        A native name wins: another one is a source beside it only if no row gives the two different values.
        """
        if ours in self.mapping:
            self.sources[ours] = (self.mapping[ours],)
            return
        aliases = [name for name in aliases if self._may_mean(ours, name)]
        native, foreign = [ours], list(aliases)
        if self.nested and ours in RESPONSE_FIELDS:
            native.append(f"response.{ours}")
            foreign += [f"response.{name}" for name in aliases]
        taken = set(self.mapping.values())
        tiers = [[path for path in tier if path not in taken] for tier in (native, foreign)]
        ours_filled, filled = ([path for path in tier if self.census.fills(path)] for tier in tiers)
        if ours_filled:
            filled = [*ours_filled, *(path for path in filled if not self._contradicts(path, ours_filled))]
            self._refuse_contradiction(ours, ours_filled)
        elif self._matters(ours):
            self._refuse_contradiction(ours, filled)
        present = [path for tier in tiers for path in tier if self.census.has(path)]
        if filled or present:
            self.sources[ours] = tuple(filled or present[:1])

    def _may_mean(self, ours: str, name: str) -> bool:
        if name.startswith("metadata."):
            return self.wanted == "dataset"  # in a file of responses, metadata is about the response
        if name in ALIASES["relevance_scores"]:
            return (ours == "relevance_scores") == self.census.holds_objects(name)
        return not (self.nested and name == "response")

    def _matters(self, ours: str) -> bool:
        return self.wanted == "dataset" or ours in ("query_id", "query", *RESPONSE_FIELDS)

    def _contradicts(self, path: str, others: list[str]) -> bool:
        """Does any row have a value there and another value at one of the others? Another unit always does."""
        if _is_in_seconds(path):
            return True
        for _, values in self.source.rows:
            value = reach(values, path)
            if value is not None and any(reach(values, each) not in (None, value) for each in others):
                return True
        return False

    def _refuse_contradiction(self, ours: str, paths: list[str]) -> None:
        for number, values in self.source.rows if len(paths) > 1 else ():
            given = [(path, value) for path in paths if (value := reach(values, path)) is not None]
            for path, value in given[1:]:
                if value != given[0][1]:
                    raise BadData(
                        [f"{self.source.where(number)}: {ours}: the columns {given[0][0]} and {path} differ here"],
                        hint=" or ".join(f"--map {ours}={each}" for each in paths) + " decides",
                    )

    def _has(self, *fields: str) -> bool:
        """Is one of these fields read from a column that holds a value?"""
        return any(self.census.fills(path) for ours in fields for path in self.sources.get(ours, ()))

    def _is_open(self, name: str) -> bool:
        """Does the file have this column, with a value, and does no ``--map`` say what it is?"""
        return name not in self.mapping.values() and self.census.fills(name)

    def _place_output(self) -> None:
        """``output`` is a recorded answer beside a reference or a run; in a dataset without either, the reference."""
        if self.nested:
            self._look_for("answer", (*ALIASES["answer"], "output"))
        if not self._is_open("output"):
            return
        run = self.wanted == "responses" or self._has(*RESPONSE_FIELDS)
        if run or self._has("ground_truth_answer", "key_facts") or "answer" in self.mapping:
            self._look_for("answer", (*ALIASES["answer"], "output"))
        elif "ground_truth_answer" not in self.mapping:
            self._look_for("ground_truth_answer", (*ALIASES["ground_truth_answer"], "output"))
            self.warnings.append(
                "output is read as ground_truth_answer, because no other column holds a response; "
                "if it is a recorded answer: --map answer=output"
            )

    def _place_context(self) -> None:
        """``context`` is gold in DeepEval and what was retrieved elsewhere; the other columns decide."""
        if self.nested:
            self._look_for("contexts", (*ALIASES["contexts"], "context"))
        if not self._is_open("context"):
            return
        meaning = self._meaning_of_context()
        other = "reference_contexts" if meaning == "contexts" else "contexts"
        if meaning not in self.mapping:
            self._look_for(meaning, (*ALIASES[meaning], "context"))
        if self.wanted == "dataset" and "context" in self.sources.get(meaning, ()):
            self.warnings.append(f"context is read as {meaning}; if that is wrong: --map {other}=context")

    def _meaning_of_context(self) -> str:
        if self._has("contexts") or any(self.census.has(name) for name in _GOLD_BESIDE):
            return "reference_contexts"
        if self._has("reference_contexts") or self.wanted == "responses":
            return "contexts"
        run, perhaps_gold = self._has(*RESPONSE_FIELDS), any(self.census.has(name) for name in _GOLD_PERHAPS)
        if run == perhaps_gold:
            what = "may be what was retrieved or the reference (gold) contexts, and the other columns do not decide"
            raise BadData(
                [f"{self.source.path}: context: {what}"],
                hint="say --map contexts=context if it was retrieved, --map reference_contexts=context if it is gold",
            )
        return "contexts" if run else "reference_contexts"

    def _require(self) -> None:
        columns, path = self.census.columns, self.source.path
        if self.wanted == "dataset" and not self._has("query"):
            raise BadData(
                [f"{path}: query: no column holds it; the columns are {listed(columns)}"],
                hint=self._guess("query", columns),
            )
        if self.wanted == "responses" and not self._has(*RESPONSE_FIELDS):
            raise BadData(
                [f"{path}: answer: no column holds any part of a response; the columns are {listed(columns)}"],
                hint=self._guess("answer", columns),
            )

    def _guess(self, ours: str, columns: list[str]) -> str:
        """What to do where the column we need is not there."""
        if len(columns) == 1 and (mark := next((m for m in ";\t|," if m in columns[0]), None)):
            return f"are the columns separated by {mark!r}? write them with commas, or with tabs and --format tsv"
        meant = next((name for name in columns if near(name) == ours), None)
        return f"did you mean {shown(meant)}? --map {ours}={meant}" if meant else f"say which: --map {ours}=COLUMN"


class Census:
    """Which columns a file has, and which of them hold a value at all."""

    def __init__(self, source: Source) -> None:
        self._rows = [values for _, values in source.rows]
        present, filled = dict.fromkeys(source.columns), set()
        for values in self._rows:
            for name, value in values.items():
                present[name] = None
                if value is not None:
                    filled.add(name)
        self.columns, self._filled = list(present), filled
        self._present = frozenset(present)

    def has(self, path: str) -> bool:
        """Is there such a column, or an entry of that dotted name in any row?"""
        return path in self._present or (
            self._may_hold(path) and any(find(values, path) is not ABSENT for values in self._rows)
        )

    def fills(self, path: str) -> bool:
        """Does any row have a value there?"""
        return path in self._filled or (
            self._may_hold(path) and any(reach(values, path) is not None for values in self._rows)
        )

    def holds_objects(self, path: str) -> bool:
        """Is the first value there an object, or a cell that reads like one?"""
        rows = self._rows if self.fills(path) else []
        value = next((v for values in rows if (v := reach(values, path)) is not None), None)
        return isinstance(value, Mapping) or (isinstance(value, str) and value.lstrip().startswith("{"))

    def _may_hold(self, path: str) -> bool:
        head = path.replace("[]", "").split(".")[0]
        return head != path and head in self._filled


def _is_in_seconds(path: str) -> bool:
    return path.split(".")[-1] == SECONDS


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names for a message, the first ones only."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(shown(name) for name in names[:most]) or "none") + more
