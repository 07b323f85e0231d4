"""Names of columns: ours, those of other tools that are accepted as they are, and how a dotted name is followed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from ragassay.models import Response, Sample

RESPONSE_FIELDS = tuple(name for name in Response.model_fields if name != "metadata")
SAMPLE_FIELDS = tuple(name for name in Sample.model_fields if name not in ("metadata", "response"))
FIELDS = (*SAMPLE_FIELDS, *RESPONSE_FIELDS)

ALIASES: dict[str, tuple[str, ...]] = {
    "query_id": ("id", "request_id", "example id", "example_id"),
    "query": ("user_input", "question", "input", "inputs.question", "inputs.query", "vars.query", "vars.question"),
    "answer": ("response", "actual_output", "actualOutput", "outputs"),
    "ground_truth_answer": (
        "reference", "ground_truth", "expected_output", "expectedOutput", "expected_response",
        "expectations.expected_response", "reference_answer",
    ),
    "key_facts": ("expectations.expected_facts", "expected_facts"),
    "contexts": ("retrieved_contexts", "retrieval_context", "retrievalContext"),
    "retrieved_doc_ids": ("retrieved_context_ids", "doc_uri", "document.id"),
    "reference_contexts": (
        "expected_retrieved_context", "expectations.expected_retrieved_context", "expected_chunks",
    ),
    "relevant_doc_ids": ("reference_context_ids", "relevant_docs", "qrels"),
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
"""Accepted as they are. ``context`` and ``output`` are missing: they mean one thing here and another there."""

SECONDS = "completion_time"
ABSENT = object()


def reach(row: Mapping[str, Any], path: str) -> Any:
    """The value at a path; None where there is none. Dots reach into objects, and through lists to all entries.

    A column that is really called ``a.b`` comes before an object ``a`` with an entry ``b``.
    """
    value = find(row, path)
    return None if value is ABSENT else value


def find(row: Mapping[str, Any], path: str) -> Any:
    """As ``reach``, but ABSENT where there is no such entry and None where it is null."""
    if path in row:
        return row[path]
    return _walk(row, path.replace("[]", "").split("."))


def _walk(value: Any, steps: list[str]) -> Any:
    for n, step in enumerate(steps):
        if isinstance(value, list):
            entries = [_walk(entry, steps[n:]) for entry in value]
            return ABSENT if all(e is ABSENT for e in entries) else [None if e is ABSENT else e for e in entries]
        if not isinstance(value, Mapping) or step not in value:
            return ABSENT
        value = value[step]
    return value


def near(name: str) -> str | None:
    """The field that a column's name comes close to, its spelling, case and punctuation forgiven.

    None for entries of objects: what they mean, the object's own name says.
    """
    if "." in name:
        return None
    written = _letters(name)
    close = difflib.get_close_matches(written, _KNOWN, n=1, cutoff=0.8)
    return _KNOWN.get(written) or (_KNOWN[close[0]] if close else None)


def field_of(alias: str) -> str | None:
    """The field that an accepted name stands for; None for names of ours and unknown ones."""
    return next((ours for ours, names in ALIASES.items() if alias in names), None)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_KNOWN = {_letters(name): ours for ours, names in ALIASES.items() for name in names if "." not in name}
_KNOWN |= {_letters(name): name for name in FIELDS}
