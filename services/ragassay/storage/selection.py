"""Which rows of an evaluation are shown, and in which order: decided on their columns alone."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field, ValidationError

from ragassay.core.errors import BadInput, UnknownName
from ragassay.core.models import FrozenModel, Result
from ragassay.core.paging import bad_cursor
from ragassay.core.validation import problems
from ragassay.metrics.failures import FailureName
from ragassay.storage.columns import FAILED, FIGURES, LABELS, columns, label_column, label_value, texts

_BOUND = re.compile(r"([^<>=\s(][^<>=(]*(?:\([^()]*\)\s*)?)(<=|>=|<|>|=)\s*(\S+)")
_COMPARE = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal}


@dataclass(frozen=True)
class Bound:
    """A bound on a figure: ``faithfulness<0.5``. A row without the figure does not meet it."""

    name: str
    operator: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Bound:
        """The condition in a text; raises ValueError."""
        match = _BOUND.fullmatch(text.strip())
        try:
            bound = float(match[3]) if match else math.nan
        except ValueError:
            bound = math.nan
        if match is None or not math.isfinite(bound):
            raise ValueError("should be a figure and a bound, such as faithfulness<0.5 or latency_ms>=2000")
        return cls(match[1].rstrip(), match[2], bound)


def _can_be_read(text: str) -> str:
    Bound.parse(text)
    return text


class Selection(FrozenModel):
    """Rows of an evaluation: of a system, by category and so on. ``sort`` is a figure, with ``-`` from the largest down."""

    system: Annotated[str | None, Field(max_length=64, description="only rows of this system")] = None
    category: Annotated[str | None, Field(max_length=1000, description="only rows of this category")] = None
    difficulty: Annotated[str | None, Field(max_length=1000, description="only rows of this difficulty")] = None
    failed: Annotated[
        bool | None,
        Field(
            description="only rows whose response failed, or that lack a score because something failed; false: only the others"
        ),
    ] = None
    failure: Annotated[
        FailureName | None, Field(description="only rows that failed for this cause, or in this way")
    ] = None
    where: Annotated[
        tuple[Annotated[str, Field(max_length=200), AfterValidator(_can_be_read)], ...],
        Field(
            max_length=20,
            description="only rows within a bound, such as `faithfulness<0.5` or `latency_ms>=2000`; may be repeated. A row "
            "without the figure is left out",
        ),
    ] = ()
    text: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="only rows with this in id, query, answer or ground truth"),
    ] = None
    sort: Annotated[
        str | None,
        Field(
            max_length=200,
            description="a metric or figure such as `latency_ms`, from the least up, with `-` before it from the largest "
            "down; rows without it come last. Default: system by system in the dataset's order",
        ),
    ] = None

    @classmethod
    def given(cls, **values: Any) -> Selection:
        """The selection with these values; raises BadInput for one that does not fit."""
        try:
            return cls(**values)
        except ValidationError as error:
            first = problems(error, cls)[0]
            raise BadInput(first.what, where=first.place) from None

    @property
    def takes_all(self) -> bool:
        """Is every row wanted, in the dataset's order?"""
        return self.model_copy(update={"system": None}) == Selection()

    @property
    def tag(self) -> str:
        """Tells pages of one order and choice from those of another."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]

    def resolved(self, metrics: Iterable[str]) -> Resolved:
        """It, with each name that of a figure of the rows; raises UnknownName."""
        known = {name.lower(): name for name in (*FIGURES, *metrics)}

        def name_of(name: str, where: str) -> str:
            if name.lower() not in known:
                raise UnknownName("figure of the rows", name, known.values(), where=where)
            return known[name.lower()]

        conditions = tuple(Bound.parse(text) for text in self.where)
        named = tuple(Bound(name_of(one.name, "where"), one.operator, one.bound) for one in conditions)
        sort = self.sort and name_of(self.sort.removeprefix("-"), "sort")
        return Resolved(self, named, sort, descending=bool(self.sort and self.sort.startswith("-")))

    def of(self, systems: Mapping[str, Sequence[Result]], metrics: Iterable[str]) -> Iterable[Result]:
        """The rows among those in memory; raises UnknownName."""
        if self.system is not None and self.system not in systems:
            raise UnknownName("system", self.system, systems)
        if self.system is None and self.takes_all:
            return chain.from_iterable(systems.values())
        chosen = self.resolved(metrics)
        rows = [row for name, of_system in systems.items() if self.system in (None, name) for row in of_system]
        if not rows:
            return []
        table = columns(rows)
        wanted = chosen.wanted(table.__getitem__, np.ones(len(rows), dtype=bool))
        if self.text is not None:
            wanted &= np.array([self.text.casefold() in text for text in texts(rows)])
        places = np.flatnonzero(wanted)
        key = None if chosen.sort is None else table[chosen.sort][places]
        return [rows[place] for place in chosen.ordered(places, key)]


@dataclass(frozen=True)
class Resolved:
    """A selection whose names are those of figures that there are."""

    selection: Selection
    conditions: tuple[Bound, ...]
    sort: str | None
    descending: bool

    def wanted(self, column: Callable[[str], Any], there: Any) -> Any:
        """Which of the rows that are ``there`` are wanted as far as columns, each by its name, tell: all but the text."""
        asked, mask = self.selection, there.copy()
        for label in LABELS:
            if (value := getattr(asked, label)) is not None:
                mask &= column(label_column(label)) == label_value(value)
        if asked.failed is not None:
            mask &= (column(FAILED) > 0) == asked.failed
        for one in self.conditions:
            mask &= _COMPARE[one.operator](column(one.name), one.bound)
        return mask

    def ordered(self, places: Any, key: Any) -> Any:
        """The places in the order asked for; rows without the figure last, equal ones in the order of places."""
        if key is None:
            return np.sort(places)
        return places[np.lexsort((places, -key if self.descending else key))]


def cursor_at(cursor: str | None, tag: str) -> int | None:
    """The place that a page of a sorted list ended at; raises BadInput for a cursor of another list, or none at all."""
    if cursor is None:
        return None
    place, _, of = cursor.partition("-")
    if not (place.isascii() and place.isdecimal()) or len(place) > 12:
        raise bad_cursor(cursor)
    if of != tag:
        raise BadInput(
            "the cursor is of another order or choice of rows", where="cursor", hint="begin without a cursor"
        )
    return int(place)
