"""Sides of a comparison that nobody has evaluated yet are evaluated first; then all of them are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ragassay.analysis import comparison
from ragassay.analysis.models import Comparison
from ragassay.analysis.sides import Side
from ragassay.core.errors import BudgetReached
from ragassay.core.eval_config import Budget, EvalConfig
from ragassay.core.models import Usage
from ragassay.core.report import ReportWithResults
from ragassay.datasets.readers import FORMATS
from ragassay.evaluation.inputs import Inputs


@dataclass(frozen=True)
class Unevaluated:
    """Rows with responses, and how they are to be evaluated; ``system`` and ``name`` as a ``Side`` has them."""

    inputs: Inputs
    spec: EvalConfig
    system: str | None = None
    name: str | None = None

    @property
    def rows(self) -> int:
        """How many there are to evaluate, over all systems."""
        return len(self.inputs.samples) * len(self.inputs.systems)


def evaluate_and_compare(
    sides: Sequence[Side | Unevaluated],
    evaluate: Callable[[Unevaluated, EvalConfig], ReportWithResults],
    *,
    alpha: float,
    correction: str,
    examples: int,
    **options: Any,
) -> tuple[Comparison, list[ReportWithResults]]:
    """The comparison of reports and of rows, and the reports of the rows, which ``evaluate`` makes one after the other.

    It is handed the specification to use: the side's own, whose budget is what earlier sides left of it. ``options`` are
    those of ``comparison.compare``, whose terms are checked first; raises what that and ``evaluate`` raise, and
    BudgetReached.
    """
    comparison.check_terms(alpha, correction, examples)
    made: list[ReportWithResults] = []
    chosen: list[Side] = []
    for side in sides:
        if isinstance(side, Unevaluated):
            made.append(evaluate(side, side.spec.model_copy(update={"budget": _left(side.spec.budget, made)})))
            side = Side(made[-1], side.system, side.name)
        chosen.append(side)
    result = comparison.compare(chosen, alpha=alpha, correction=correction, examples=examples, **options)
    return result, made


def _left(budget: Budget, made: Sequence[ReportWithResults]) -> Budget:
    """What of a budget the runs before have left; raises BudgetReached when that is nothing."""
    evaluations = [system.evaluation for report in made for system in report.systems.values()]
    spent = Usage.total(usage for one in evaluations for usage in (one.usage, one.waste))
    spent = Usage.total((spent, *(report.interrupted for report in made)))
    if over := budget.over(spent, Usage(input_tokens=1, cost_usd=1e-9)):
        raise BudgetReached(over, hint="the runs so far are kept; compare them with the rest, under a new budget")
    tokens = spent.input_tokens + spent.output_tokens
    return Budget(
        usd=None if budget.usd is None else budget.usd - (spent.cost_usd or 0.0),
        tokens=None if budget.tokens is None else budget.tokens - tokens,
    )


def is_data(path: Path) -> bool:
    """Does a file hold rows, to judge by its extension and, where that is .json, by what is no document of ours?"""
    suffix = path.suffix.lower()
    if not path.is_file() or not any(suffix in form.extensions for form in FORMATS.values()):
        return False
    if suffix not in FORMATS["json"].extensions:
        return True
    try:
        document = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return not (isinstance(document, dict) and isinstance(document.get("kind"), str))
