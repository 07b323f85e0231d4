"""The configuration that ``ragassay init`` writes: every key with its default and what it does."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from pydantic import BaseModel

from ragassay.config.document import SECTIONS, Configuration

_HEAD = """\
# What ragassay evaluates here, and how. Every value below is the default, so a line may go.
# `ragassay evaluate` and `ragassay gate` read this file; the command line beats RAGASSAY_* and .env, which beat it.
"""
_EXAMPLES = {
    "data": "data: queries.jsonl",
    "corpus": "corpus: corpus.jsonl",
    "systems": "systems: {ours: responses/ours.jsonl, bm25: {kind: bm25, answer: extractive}}",
    "map": "map: {answer: reply}",
    "output": "output: [report.json, report.md]",
    "metrics": "metrics: [ndcg@10, mrr, faithfulness, correctness, accurate]",
    "stop_when": "stop_when: correctness width <= 0.1",
    "prices": "prices: {my-model: {input_per_1m: 0.15, output_per_1m: 0.60}}",
    "baseline": "baseline: last-release.json",
    "gates": """\
gates:
  - mrr: ">= 0.70"
  - latency_ms.p95: "<= 2000"
  - metric: faithfulness
    min: 0.8
    coverage: 0.95
  - metric: correctness
    max_drop: 0.02
    significant: true""",
}


def template() -> str:
    """YAML that loads as the defaults; a key that has none is empty."""
    return "\n".join([_HEAD, *_lines(Configuration(), "")])


def _lines(model: BaseModel, indent: str) -> list[str]:
    lines: list[str] = []
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        about = (field.description or "").replace("`", "")
        lines += textwrap.wrap(about, 110, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
        if name in _EXAMPLES:
            lines += textwrap.indent(_EXAMPLES[name], f"{indent}#   ").splitlines()
        if name in SECTIONS:
            lines += [f"{name}:", *_lines(value, "  ")]
        else:
            lines += [f"{indent}{name}:{_plain(value)}", ""]
    return lines


def _plain(value: Any) -> str:
    return "" if value is None else f" {value if isinstance(value, str) else json.dumps(value)}"
