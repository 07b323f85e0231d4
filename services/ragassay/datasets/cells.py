"""Turns what a file holds into what a field takes: by the field's kind, never by what a value happens to look like.

In CSV every value is text: a list comes as JSON or as Python prints it; ids and numbers also joined with commas or ``|``.
A text is never cut: it may hold either; but contexts in files that DeepEval saved are joined with ``|``. An answer ``12``
stays text and the id ``007`` stays ``007``.
"""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, Literal

from ragassay.core.validation import shown
from ragassay.datasets.conversations import answer_text
from ragassay.datasets.source import NotJson, ValueProblem, parse

ValueKind = Literal["text", "id", "label", "number", "flag", "texts", "list", "object", "grades", "messages"]

_FIELDS_BY_KIND: dict[ValueKind, str] = {
    "text": "query description answer error",
    "id": "query_id primary_relevant conversation_id",
    "messages": "history",
    "label": "category difficulty split best_route model route",
    "number": "input_tokens output_tokens cost_usd latency_ms first_token_ms retrieval_latency_ms "
    "generation_latency_ms dwell_ms",
    "flag": "answerable retrieval_needed",
    "texts": "ground_truth_answer key_facts contexts reference_contexts",
    "list": "relevant_doc_ids retrieved_doc_ids doc_ids_before_reranking retrieved_scores clicks",
    "object": "subtopics doc_timestamps labels metadata reference_labels",
    "grades": "relevance_scores",
}
KINDS = {name: kind for kind, names in _FIELDS_BY_KIND.items() for name in names.split()}
_IS_LIST = re.compile(r"\[\s*(?:[\"'{]|\]$)")
_IS_OBJECTS = re.compile(r"\s*\[\s*\{\s*[\"']")
_CONTAINERS = ("metadata", "inputs", "vars", "expectations")
_DEEPEVAL = frozenset(("input", "actual_output", "expected_output", "context", "source_file"))
_DEEPEST = 64


def value_of(field: str, value: Any, *, cells: bool) -> Any:
    """What ``field`` is to be given for ``value``; None where a cell is blank. Raises ValueProblem.

    ``cells``: the value is the text of a CSV cell. What pydantic checks is left to pydantic.
    """
    kind = KINDS[field]
    if cells and isinstance(value, str):
        value = _from_cell("messages" if field == "query" and _IS_OBJECTS.match(value) else kind, value)
    if field == "answer":
        return answer_text(value)
    if kind == "texts" and isinstance(value, Mapping | int | float):
        raise ValueProblem(f"should be a text or a list of texts, is {shown(value)}")
    if kind == "number" and isinstance(value, bool):
        raise ValueProblem(f"should be a number, is {shown(value)}")
    if kind == "label" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if kind == "object" and value is not None:
        if not isinstance(value, Mapping):
            raise ValueProblem(f"should be an object, is {shown(value)}")
        return plain(value)
    if kind == "grades" and isinstance(value, dict):
        return {str(key): grade for key, grade in value.items() if grade is not None}
    return value


def joined_columns(header: Collection[str]) -> tuple[str, ...]:
    """The columns of a CSV whose texts are joined with ``|``: those with contexts in a file that DeepEval saved."""
    return ("context", "retrieval_context") if _DEEPEVAL.issubset(header) else ()


def open_cells(values: dict[str, Any], joined: Collection[str] = ()) -> dict[str, Any]:
    """The row, with objects in place of the cells that print them, in columns that hold objects elsewhere.

    Cells of ``joined`` columns become lists of texts.
    """
    for column in joined:
        if column in values and not _IS_LIST.match(values[column]):
            values[column] = values[column].split("|")
    for column in _CONTAINERS:
        if values.get(column, "").lstrip().startswith("{"):
            with suppress(ValueProblem):  # text that begins with a brace
                values[column] = _literal(values[column].strip(), "an object")
    return values


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
    if isinstance(value, int) and -(2**63) <= value < 2**63:
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
    if kind in ("id", "label", "number", "flag"):
        return cell
    if kind == "object" or (kind == "grades" and cell[0] == "{"):
        return _literal(cell, "an object")
    if kind == "texts":  # a list only if it clearly is one: a text may begin with a bracket, as in "[1] Paris is ..."
        return _literal(cell, "a list") if _IS_LIST.match(cell) else [cell]
    if cell[0] == "[" or kind == "messages":
        return _literal(cell, "a list")
    return [piece.strip() for piece in cell.split("|" if "|" in cell else ",")]


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
        tokens = [token.type for token in tokenize.generate_tokens(io.StringIO(cell).readline)]
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError, tokenize.TokenError):
        raise ValueProblem(f"should be {wanted}, as JSON or as Python prints it, is {shown(cell)}") from None
    words = [kind for kind in tokens if kind not in (tokenize.NL, tokenize.COMMENT)]
    if (tokenize.STRING, tokenize.STRING) in pairwise(words):
        # Python joins 'a' 'b' into one text, so the elements of a printed array would run together
        raise ValueProblem(f"has texts without a comma between them, as a printed array; write JSON: {shown(cell)}")
    return value
