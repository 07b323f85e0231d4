"""pydantic's errors on a document as one line: file and line, what is wrong, which key was meant."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel, ValidationError

from ragassay.config.model import ProjectConfig, section_of, sections
from ragassay.core.errors import BadSettings, and_more
from ragassay.core.validation import UNKNOWN_KIND, FieldProblem, Location, problems, suggestion
from ragassay.systems.functions import OURS, SYSTEMS


def first_problem(
    error: ValidationError, where: Callable[[Location], str], model: type[BaseModel] = ProjectConfig
) -> BadSettings:
    """The first thing in a document of ``model`` that is wrong, in plain words; how many more there are."""
    found = problems(error, model)
    # A key that is misspelt is also one that is missing: the misspelling comes first.
    first = next((problem for problem in found if problem.unknown_key), found[0])
    at = where(first.location)
    message = first.what if at.startswith("--") else first.message
    hint = _right_place(first) if model is ProjectConfig and first.unknown_key else None
    if first.kind == UNKNOWN_KIND and isinstance(first.value, dict):
        hint = suggestion(first.value["kind"], (*OURS, *SYSTEMS.names()))
    return BadSettings(f"{message}{and_more(len(found) - 1)}", where=at, hint=hint or first.hint)


def _right_place(problem: FieldProblem) -> str | None:
    """Where a key belongs that stands in the wrong section."""
    *around, key = map(str, problem.location)
    if around and around[0] not in sections():
        return None
    if key in ProjectConfig.model_fields:
        return "it belongs at the top"
    return f"it belongs in {section}" if (section := section_of(key)) else None
