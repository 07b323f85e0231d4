"""What is wrong with a row, so that one line tells a user what to mend and where."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import ValidationError

from ragassay.core.validation import place_of, problems, shown


class ValueProblem(ValueError):
    """A value that can't be what its field needs. ``what`` completes the sentence "field: ..."."""

    def __init__(self, what: str, *, at: str = "") -> None:
        self.what, self.at = what, at
        super().__init__(what)


def plain_words(error: ValidationError) -> list[tuple[str, str]]:
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


def field_of_place(place: str) -> str:
    """The field in a place such as ``contexts[2]`` or ``relevance_scores.d1``."""
    return re.split(r"[.\[]", place, maxsplit=1)[0]
