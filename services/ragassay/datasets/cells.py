"""Turns what a file holds into what a field takes: by the field's kind, never by what a value happens to look like.

In CSV every value is text: a list comes as JSON or as Python prints it; ids and numbers also joined with commas or ``|``.
A text is never cut: it may hold either. An answer ``12`` stays text and the id ``007`` stays ``007``.
"""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
import warnings
from collections.abc import Mapping
from typing import Any, Literal

from ragassay.core.validation import shown
from ragassay.datasets.source import ValueProblem
from ragassay.datasets.strict_json import NotJson, parse

ValueKind = Literal["text", "id", "label", "number", "count", "flag", "texts", "ids", "numbers", "object", "grades"]

KINDS: dict[str, ValueKind] = {
    "query_id": "id", "query": "text", "ground_truth_answer": "texts", "key_facts": "texts", "relevant_doc_ids": "ids",
    "relevance_scores": "grades", "primary_relevant": "id", "reference_contexts": "texts", "category": "label",
    "difficulty": "label", "description": "text", "split": "label", "answerable": "flag", "best_route": "label",
    "retrieval_needed": "flag", "subtopics": "object", "doc_timestamps": "object", "labels": "object",
    "metadata": "object", "answer": "text", "contexts": "texts", "retrieved_doc_ids": "ids",
    "doc_ids_before_reranking": "ids", "retrieved_scores": "numbers", "model": "label",
    "input_tokens": "count", "output_tokens": "count",
    "cost_usd": "number", "latency_ms": "number", "first_token_ms": "number",
    "retrieval_latency_ms": "number", "generation_latency_ms": "number",
    "first_call_ms": "number", "route": "label", "clicks": "ids", "dwell_ms": "number", "error": "text",
    "reference_labels": "object",
}  # fmt: skip
_AS_IT_IS = frozenset(("text", "id", "flag", "texts", "ids", "numbers"))
_IS_LIST = re.compile(r"\[\s*(?:[\"'{]|\]$)")
_CONTAINERS = ("metadata", "inputs", "vars", "expectations")
_DEEPEST = 64
_WIDEST = 2**63


def value_of(field: str, value: Any, *, cells: bool) -> Any:
    """What ``field`` is to be given for ``value``; None where a cell is blank. Raises ValueProblem.

    ``cells``: the value is the text of a CSV cell. What pydantic checks is left to pydantic.
    """
    kind = KINDS[field]
    if cells and isinstance(value, str):
        value = _from_cell(kind, value)
    if value is None or kind in _AS_IT_IS:
        return value
    if kind in ("number", "count") and isinstance(value, bool):
        raise ValueProblem(f"should be a number, is {shown(value)}")
    if kind == "label" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if kind == "object":
        if not isinstance(value, Mapping):
            raise ValueProblem(f"should be an object, is {shown(value)}")
        return plain(value)
    if kind == "grades" and isinstance(value, dict):
        return {str(key): grade for key, grade in value.items() if grade is not None}
    return value


def open_cell(cell: Any) -> Any:
    """The object that a cell prints; the cell itself where it prints none."""
    try:
        return _literal(cell.strip(), "an object") if isinstance(cell, str) and cell.lstrip()[:1] == "{" else cell
    except ValueProblem:
        return cell


def open_cells(values: dict[str, Any]) -> None:
    """Put the objects in place of the cells that print them, in columns that hold objects elsewhere."""
    for column in _CONTAINERS:
        if column in values:
            values[column] = open_cell(values[column])


def plain(value: Any, at: str = "", depth: int = 0) -> Any:
    """A copy that any JSON writer takes, without nulls inside objects. Raises ValueProblem with the place inside."""
    if value is None or isinstance(value, str | bool):
        return value
    if depth > _DEEPEST:
        raise ValueProblem(f"is nested more than {_DEEPEST} levels deep")
    if isinstance(value, Mapping):
        return {str(key): plain(entry, f"{at}.{key}", depth + 1) for key, entry in value.items() if entry is not None}
    if isinstance(value, list | tuple):
        return [plain(entry, f"{at}[{n}]", depth + 1) for n, entry in enumerate(value)]
    if isinstance(value, int) and -_WIDEST <= value < _WIDEST:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int):
        raise ValueProblem("holds a whole number of more than 64 bits; write it as text", at=at)
    raise ValueProblem(f"is {shown(value)}, which JSON does not have", at=at)


def _from_cell(kind: ValueKind, cell: str) -> Any:
    if kind == "text":
        return cell
    cell = cell.strip()
    if not cell:
        return None
    if kind in ("id", "label", "number", "count", "flag"):
        return cell
    if kind == "object":
        return _literal(cell, "an object")
    if kind == "grades" and cell[0] == "{":
        return _literal(cell, "an object")
    if kind == "texts":
        return _texts(cell)
    if cell[0] == "[":
        return _literal(cell, "a list")
    return [piece.strip() for piece in cell.split("|" if "|" in cell else ",")]


def _texts(cell: str) -> Any:
    """A list only if it clearly is one: a text may well begin with a bracket, as in ``[1] Paris is ...``."""
    return _literal(cell, "a list") if _IS_LIST.match(cell) else [cell]


def may_be_joined(field: str, cell: object) -> bool:
    """Is the cell one text that may be meant as several, joined with ``|``? A Markdown table or code is not."""
    if KINDS[field] != "texts" or not isinstance(cell, str) or _IS_LIST.match(cell.strip()):
        return False
    return "|" in cell.strip("| ") and "\n" not in cell and "`" not in cell


def _literal(cell: str, wanted: str) -> Any:
    """A list or an object, written as JSON or as Python prints it."""
    try:
        value = parse(cell)
    except NotJson:
        value = _python(cell, wanted)
    if not isinstance(value, dict if wanted == "an object" else list):
        raise ValueProblem(f"should be {wanted}, is {shown(value)}")
    return value


def _python(cell: str, wanted: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown escape in the user's text is harmless
            value = ast.literal_eval(cell)
        joined = _joins_texts(cell)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError, tokenize.TokenError):
        likely = cell[0] == ("{" if wanted == "an object" else "[")
        what = f"looks like {wanted}, but is neither JSON nor Python:" if likely else f"should be {wanted}, is"
        raise ValueProblem(f"{what} {shown(cell)}") from None
    if joined:  # Python joins 'a' 'b' into one text; so the elements of a printed array would silently run together
        raise ValueProblem(
            f"has texts without a comma between them, as a printed array; write it as JSON: {shown(cell)}"
        )
    return list(value) if isinstance(value, tuple) else value


def _joins_texts(cell: str) -> bool:
    before = tokenize.ENDMARKER
    for token in tokenize.generate_tokens(io.StringIO(cell).readline):
        if token.type in (tokenize.NL, tokenize.COMMENT):
            continue
        if token.type == tokenize.STRING == before:
            return True
        before = token.type
    return False
