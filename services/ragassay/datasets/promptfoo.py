"""Reads results that ``promptfoo eval --output results.json`` (or ``.jsonl``) writes: a row a test, a system a provider."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ragassay.core.protocols import digest

_TRUTH_VARS = ("reference", "ground_truth", "expected", "expected_output", "expected_answer", "truth", "answer")
_TRUTH_ASSERTIONS = ("factuality", "model-graded-factuality", "context-recall", "similar", "equals")
_CONTEXT_VARS = ("context", "contexts", "retrieved_contexts", "documents")
_VARIABLE = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def results_in(document: object) -> list[Mapping[str, Any]] | None:
    """The results of a document that promptfoo wrote; None for any other document."""
    results = document.get("results") if isinstance(document, Mapping) else None
    if isinstance(results, Mapping):
        results = results.get("results")
    return results if isinstance(results, list) and are_results(results) else None


def are_results(rows: Sequence[object]) -> bool:
    """Are these, one at least, results that promptfoo wrote?"""
    ours = (isinstance(one, Mapping) and isinstance(one.get("vars"), Mapping) and "provider" in one for one in rows)
    return bool(rows) and all(ours)


def read_results(results: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """A row for each test, its variables and ground truth, and the responses of each system, if there are several.

    Those of one system alone are in the rows. A system is a provider, or a provider and a prompt if there are several
    prompts.
    """
    several = len({one.get("promptIdx") for one in results}) > 1
    systems: dict[str, list[dict[str, Any]]] = {}
    for one in results:
        provider = one["provider"]
        name = str((provider.get("label") or provider.get("id")) if isinstance(provider, Mapping) else provider)
        name = _NOT_A_NAME.sub("-", name).strip("-.")[:50] or "provider"
        system = f"{name}-prompt{(one.get('promptIdx') or 0) + 1}" if several else name
        systems.setdefault(system, []).append(_response(one))
    rows = {_test(one): _question(one) for one in results}
    if len(systems) > 1:
        return list(rows.values()), systems
    for response in next(iter(systems.values())):
        rows[response["query_id"]].update(response)
    return list(rows.values()), {}


def _test(result: Mapping[str, Any]) -> str:
    """The id of a test: its number, or the beginning of its variables' digest if results have no numbers."""
    number = result.get("testIdx")
    return f"test-{number if isinstance(number, int) else digest(result['vars'])[:12]}"


def _question(result: Mapping[str, Any]) -> dict[str, Any]:
    variables = result["vars"]
    others = {name: value for name, value in variables.items() if name not in _CONTEXT_VARS}  # each response has them
    row = {"query_id": _test(result), "vars": others}
    truth = next((variables[name] for name in _TRUTH_VARS if variables.get(name)), None) or _asserted(result)
    return row if truth is None else {**row, "ground_truth_answer": truth}


def _asserted(result: Mapping[str, Any]) -> str | None:
    """The text that an assertion on the answer expects, its variables filled in."""
    case = result.get("testCase")
    assertions = case.get("assert") if isinstance(case, Mapping) else None
    for one in assertions if isinstance(assertions, list) else ():
        if isinstance(one, Mapping) and one.get("type") in _TRUTH_ASSERTIONS and isinstance(one.get("value"), str):
            return _VARIABLE.sub(lambda match: str(result["vars"].get(match[1], match[0])), one["value"])
    return None


def _response(result: Mapping[str, Any]) -> dict[str, Any]:
    reply = result.get("response") or {}
    output = reply.get("output") if isinstance(reply, Mapping) else reply
    usage = (reply.get("tokenUsage") if isinstance(reply, Mapping) else None) or {}
    contexts = next((result["vars"][name] for name in _CONTEXT_VARS if result["vars"].get(name)), None)
    provider = result["provider"]
    row: dict[str, Any] = {
        "query_id": _test(result),
        "vars": result["vars"],
        "answer": output if output is None or isinstance(output, str) else orjson.dumps(output).decode(),
        "contexts": [contexts] if isinstance(contexts, str) else contexts,
        "model": provider.get("id") if isinstance(provider, Mapping) else provider,
        "input_tokens": usage.get("prompt"),
        "output_tokens": usage.get("completion"),
        "cost_usd": result.get("cost"),
        "latency_ms": result.get("latencyMs"),
        "error": None if output is not None else str(result.get("error") or "no output"),
    }
    return {name: value for name, value in row.items() if value is not None}
