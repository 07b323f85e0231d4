"""The specification of a run: everything that determines it, apart from the data."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Gt, Le, MaxLen, MinLen
from pydantic import Discriminator, Tag

from ragassay.core.declarations import Option
from ragassay.core.limits import LARGEST_WEIGHT
from ragassay.core.models import Dollars, FrozenModel, Usage
from ragassay.core.options import (
    COMPOSITES,
    BudgetOptions,
    IntervalOptions,
    JobOptions,
    ParameterOptions,
    PerformanceOptions,
)


class Price(FrozenModel):
    """What a model costs, in USD per million tokens."""

    input_per_1m: Dollars
    output_per_1m: Dollars


class Budget(BudgetOptions, FrozenModel):
    """The most that judge calls may spend. None: no cap."""

    def over(self, spent: Usage, wanted: Usage) -> str | None:
        """The cap that ``wanted`` would exceed after ``spent``; None when it fits. A cost must be known where USD are capped."""
        if self.usd is not None and spent.cost_usd is None:
            return "the budget in USD can't be kept: some of what is spent has no known price"
        if self.usd is not None and (spent.cost_usd or 0.0) + (wanted.cost_usd or 0.0) > self.usd:
            return f"the budget of {self.usd:g} USD is reached: {spent.cost_usd or 0.0:.4f} USD are spent"
        tokens = spent.input_tokens + spent.output_tokens
        if self.tokens is not None and tokens + wanted.input_tokens + wanted.output_tokens > self.tokens:
            return f"the budget of {self.tokens:,} tokens is reached: {tokens:,} are spent"
        return None


class JudgeParameters(ParameterOptions, FrozenModel):
    """What the judge's model is sent beside the messages."""


class HarmonicMean(FrozenModel):
    """The harmonic mean of metrics, by their names."""

    harmonic_mean: Annotated[tuple[str, ...], MinLen(1), MaxLen(20)]


def _composite_kind(given: object) -> str:
    harmonic = isinstance(given, HarmonicMean) or (isinstance(given, dict) and "harmonic_mean" in given)
    return "(harmonic_mean)" if harmonic else "(weights)"


Weight = Annotated[float, Gt(0), Le(LARGEST_WEIGHT)]
Composite = Annotated[
    Annotated[HarmonicMean, Tag("(harmonic_mean)")]
    | Annotated[dict[str, Weight], MinLen(1), MaxLen(20), Tag("(weights)")],
    Discriminator(_composite_kind),
]


class EvaluationOptions(JobOptions, FrozenModel):
    """What a specification and the configuration document have in common."""

    composites: Annotated[dict[str, Composite], MaxLen(20), COMPOSITES] = {}  # noqa: RUF012 - a default of a model

    parameters: Annotated[
        JudgeParameters,
        Option("what the judge's model is sent beside the messages; what its provider refuses is left out, and told"),
    ] = JudgeParameters()
    prices: Annotated[
        dict[str, Price],
        Option(
            "USD per million tokens, by model: `input_per_1m` and `output_per_1m`",
            example="prices: {my-model: {input_per_1m: 0.15, output_per_1m: 0.60}}",
        ),
    ] = {}  # noqa: RUF012 - a default of a model
    budget: Annotated[
        Budget,
        Option("the most that judge calls, and answers of built-in systems, may spend; then the run waits"),
    ] = Budget()


class JudgePrompt(FrozenModel):
    """Instructions for the judge in a user's words: the file's name, and its text."""

    name: str
    text: str


class JobSpec(IntervalOptions, PerformanceOptions, EvaluationOptions):
    """Everything that determines an evaluation, apart from the data: the effective configuration of a report.

    ``metrics`` None stands for the default ones whose inputs at least one row has. ``prices`` add to, or override,
    the bundled table. ``max_missing`` is the largest share of failed rows per metric that still counts as success.
    ``graded`` False makes every relevant document count 1. ``judge_prompt`` takes the place of ours.
    """

    judge_prompt: JudgePrompt | None = None

    @property
    def judges(self) -> tuple[str, ...]:
        """All that judge each row: the judge, and the further members of a jury."""
        return (self.judge, *self.jury)

    @property
    def judged_by(self) -> str:
        """The judge as lists and trends name it: a jury by all its members."""
        return " + ".join(self.judges)

    def for_members(self) -> tuple[JobSpec, ...]:
        """The specification with each judge alone."""
        return tuple(self.model_copy(update={"judge": name, "jury": ()}) for name in self.judges)

    @property
    def corrected_by(self) -> str:
        """What means are corrected by, where they are: ``labels``, or rows that a model judged as well."""
        return f"rows by {self.judged_by}" if self.judge_share else "labels"
