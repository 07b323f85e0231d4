"""The keywords of ``evaluate``, ``compare`` and ``gate``, as an editor and a type checker see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Required, TypedDict


class EvalOptions(TypedDict, total=False):
    """Keys of ``ragassay.yaml``. A section is a mapping of its keys: ``statistics={"confidence": 0.9}``."""

    name: str | None
    judges: Sequence[Any]
    judge_prompt: str | Path | None
    judge_mode: Literal["verdict", "probe"]
    api_base: str | None
    embeddings: str | None
    bertscore_model: str | None
    history_tokens: int
    seed: int
    accurate: str
    criteria: Mapping[str, str]
    composites: Mapping[str, Any]
    relevant_from: float | None
    max_grade: float
    graded: bool
    max_failed_share: float
    parameters: Mapping[str, Any]
    prices: Mapping[str, Any]
    budget: Mapping[str, Any]
    statistics: Mapping[str, Any]
    performance: Mapping[str, Any]
    corpus: str | Path | None
    format: Literal["auto", "json", "jsonl", "csv", "tsv", "parquet", "trec", "traces"]
    map: Mapping[str, str | Sequence[str]]
    duplicates: Literal["error", "keep_first"]
    limit: int | None
    labels: str | Path | None
    plugins: Sequence[str]
    output: str | Path | Sequence[str | Path]


class RunOptions(EvalOptions, total=False):
    """And what is evaluated, and how: ``judge``, ``systems``, and a ``config`` that the others change."""

    judge: Any
    systems: Mapping[str, Any] | None
    config: str | Path | None


class BenchmarkOptions(RunOptions, total=False):
    """And several ``datasets`` in place of data; each system is compared with ``baseline``."""

    datasets: Required[Mapping[str, Any]]
    baseline: str | None
