"""The specification of a run: everything that determines it, apart from the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import AfterValidator, BeforeValidator, Discriminator, Tag, model_validator

from ragassay.core.declarations import Option
from ragassay.core.limits import LARGEST_WEIGHT, MAX_JUDGES, MAX_SAMPLES
from ragassay.core.models import Dollars, FrozenModel, Role, Usage
from ragassay.core.options import (
    COMPOSITES,
    CROSS_ENCODER,
    JUDGES,
    BudgetOptions,
    IntervalOptions,
    JobOptions,
    ParameterOptions,
    PerformanceOptions,
    judge_name,
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


class JudgeConfig(FrozenModel):
    """A judge: ``local``, a cross-encoder, the name of a plug-in's, or a model that LiteLLM can reach.

    It judges each row ``samples`` times. With the ``role`` of a reference it judges the share ``on`` of the queries, and its
    scores correct those of the other judges.
    """

    model: Annotated[str, MinLen(1), AfterValidator(lambda name: name.strip().removeprefix("llm:").strip())]
    samples: Annotated[int, Ge(1), Le(MAX_SAMPLES)] = 1
    role: Role = "judge"
    on: Annotated[float | None, Gt(0), Lt(1)] = None

    @model_validator(mode="after")
    def _reference_has_a_share(self) -> JudgeConfig:
        if self.role == "reference" and self.on is None:
            raise ValueError("a reference judge needs 'on', the share of the queries that it judges, such as on: 0.2")
        if self.role == "judge" and self.on is not None:
            raise ValueError("'on' is for a judge with role: reference; the others judge all rows")
        return self

    @property
    def cross_encoder(self) -> str | None:
        """Name or folder of the cross-encoder; None for another kind of judge."""
        return self.model.removeprefix(CROSS_ENCODER) if self.model.startswith(CROSS_ENCODER) else None

    @property
    def calls_model(self) -> bool:
        """Does it judge by calls to a language model, or by a plug-in that may make such calls?"""
        return self.model != "local" and self.cross_encoder is None

    @property
    def as_option(self) -> str:
        """The value of ``--judge`` for a judge of all rows, such as ``gpt-4o,samples=3``."""
        return self.model if self.samples == 1 else f"{self.model},samples={self.samples}"

    def __str__(self) -> str:
        """Such as ``gpt-4o x 3``, or ``reference gpt-4o on 20%``."""
        named = self.model if self.samples == 1 else f"{self.model} x {self.samples}"
        return named if self.on is None else f"reference {named} on {self.on:.0%}"


def judge_of_text(given: object) -> object:
    """``MODEL,samples=3`` as the mapping that it is short for; anything that is no text as it is."""
    if isinstance(given, Mapping) and "cross_encoder" in given and "model" not in given:
        rest = {key: value for key, value in given.items() if key != "cross_encoder"}
        return {**rest, "model": judge_name({"cross_encoder": given["cross_encoder"]})}
    if not isinstance(given, str):
        return given
    model, *options = given.split(",")
    judge: dict[str, str | float] = {"model": model}
    numbers: dict[str, Callable[[str], str | float]] = {"samples": int, "on": float}
    for option in options:
        key, _, text = option.strip().partition("=")
        judge[key] = text
        with suppress(ValueError):  # what is no number is refused as it is
            judge[key] = numbers.get(key, str)(text)
    return judge


JudgeOrText = Annotated[JudgeConfig, BeforeValidator(judge_of_text, json_schema_input_type=str | JudgeConfig)]


class EvaluationOptions(JobOptions, FrozenModel):
    """What a specification and the configuration document have in common."""

    judges: Annotated[
        tuple[JudgeOrText, ...],
        MaxLen(MAX_JUDGES),
        JUDGES,
    ] = ()
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

    judges: Annotated[tuple[JudgeOrText, ...], MinLen(1), MaxLen(MAX_JUDGES)] = (JudgeConfig(model="local"),)
    judge_prompt: JudgePrompt | None = None

    @property
    def scorers(self) -> tuple[JudgeConfig, ...]:
        """The judges of all rows, whose verdict the scores follow from."""
        return tuple(one for one in self.judges if one.role == "judge")

    @property
    def references(self) -> tuple[JudgeConfig, ...]:
        """The judges of a share of the rows, whose scores correct the others'."""
        return tuple(one for one in self.judges if one.role == "reference")

    @property
    def is_local(self) -> bool:
        """Does judging call no language model?"""
        return not any(one.calls_model for one in self.judges)

    @property
    def judged_by(self) -> str:
        """The judges as lists and trends name them."""
        return " + ".join(map(str, self.judges))

    @property
    def corrected_by(self) -> str:
        """What means are corrected by, where they are: ``labels``, or rows that reference judges judged."""
        return f"rows by {' + '.join(one.model for one in self.references)}" if self.references else "labels"
