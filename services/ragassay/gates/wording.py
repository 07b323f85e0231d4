"""Gates in words: what one is called, and numbers short enough to read and long enough to differ."""

from __future__ import annotations

from ragassay.gates.figures import Figure
from ragassay.gates.rule import Condition, Gate


def name_of(gate: Gate, condition: Condition, system: str, cut: str | None) -> str:
    """Such as ``hybrid, category=factual: mrr >= 0.700``."""
    worse = "drop" if Figure.parse(gate.metric).better == "higher" else "rise"
    rule = {
        "min": lambda: f">= {number(gate.min or 0.0)}",
        "max": lambda: f"<= {number(gate.max or 0.0)}",
        "max_drop": lambda: f"{worse} <= {number(gate.max_drop or 0.0)}",
        "relative_drop": lambda: f"{worse} <= {(gate.relative_drop or 0.0) * 100:g} %",
        "significant": lambda: f"has no significant {worse}",
    }[condition]()
    also = ", if significant" if gate.significant and condition != "significant" else ""
    bound = ", by its interval" if gate.on == "interval" else ""
    return f"{system}{f', {cut}' if cut else ''}: {gate.metric} {rule}{also}{bound}"


def number(value: float, beside: float | None = None) -> str:
    """Three decimals; more where the number is tiny, or would look equal to the one that it is compared with."""
    text = f"{value:.3g}" if value and abs(value) < 0.001 else f"{value:.3f}"
    if beside is not None and value != beside and text == f"{beside:.3f}":
        return f"{value:.6g}"
    return text
