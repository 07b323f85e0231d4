"""What an evaluation would take, said before it is begun."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ragassay.core.eval_config import EvalConfig
    from ragassay.core.models import Usage
    from ragassay.evaluation.inputs import Inputs
    from ragassay.evaluation.runtime import Runtime
    from ragassay.llm import Prices

_NO_PRICE = "cost unknown: the model has no price; none of it is counted as 0 USD"


def estimate(runtime: Runtime, spec: EvalConfig, inputs: Mapping[str, Inputs], *, err: bool = False) -> None:
    """Print what the evaluation of each dataset, and of all, would take. Makes no call.

    Raises BadSettings for a cap on USD that can't be kept.
    """
    from ragassay.core.models import Usage

    whole = Usage.total([_estimate(runtime, spec, one, err=err) for one in inputs.values()])
    if len(inputs) > 1:
        typer.echo(f"all {len(inputs)} datasets: {whole.calls} judge calls, {_most(whole.cost_usd)}", err=err)


def _estimate(runtime: Runtime, spec: EvalConfig, inputs: Inputs, *, err: bool) -> Usage:
    """What the judge calls of one dataset would take at the most."""
    from ragassay.core.models import Usage
    from ragassay.evaluation.estimate import estimate_calls
    from ragassay.judges.custom import JUDGES
    from ragassay.llm.budget import of_unknown_price

    estimated = asyncio.run(estimate_calls(runtime, spec, inputs))
    by_judge, answers = estimated.by_judge, estimated.answers
    rows, systems = len(inputs.samples), inputs.systems
    judge = estimated.config.panel.name
    typer.echo(f"{inputs.dataset.name}: {rows} rows x {len(systems)} systems, judge {judge}", err=err)
    if spec.budget.usd is not None and _unpriced(answers):
        raise of_unknown_price("MODEL")
    for name, calls in by_judge.items():
        if spec.budget.usd is not None and _unpriced(calls):
            raise of_unknown_price(name.removeprefix("llm:"))
    for name, system in systems.items():
        if system.source.called:
            typer.echo(f"{rows} requests to the system {name}, whose cost is not known before", err=err)
    if answers and any(system.source.built for system in systems.values()):
        used = Usage.total(answers)
        typer.echo(f"{used.calls} answer calls of the systems, {_tokens(used)}, {_most(used.cost_usd)}", err=err)
    unknown = [name for name in by_judge if name in JUDGES]
    for name in unknown:
        typer.echo(f"what the judge {name} asks and spends is not known before", err=err)
    if unknown and not any(by_judge.values()):
        return Usage(cost_usd=None)
    most = print_calls(by_judge, estimated.config.prices, err=err)
    return most.model_copy(update={"cost_usd": None}) if unknown else most


def print_calls(by_judge: Mapping[str, Sequence[Usage]], prices: Prices, *, err: bool) -> Usage:
    """Print how many calls the judges would make, and tokens and cost at the most; returns these."""
    from ragassay.core.models import Usage

    used = Usage.total([call for calls in by_judge.values() for call in calls])
    if not used.calls:
        typer.echo("0 judge calls, 0 USD", err=err)
        return Usage()
    typer.echo(f"{used.calls} judge calls, {_tokens(used)}", err=err)
    return _print_most(by_judge, prices, err=err)


def _unpriced(calls: Sequence[Usage]) -> bool:
    return any(call.cost_usd is None for call in calls)


def _tokens(used: Usage) -> str:
    return f"at most about {used.input_tokens:,} input and {used.output_tokens:,} output tokens"


def _most(usd: float | None) -> str:
    return "of unknown cost" if usd is None else f"at most about {usd:.4f} USD"


def _print_most(calls: Mapping[str, Sequence[Usage]], prices: Prices, *, err: bool) -> Usage:
    """Print what the calls of each model would cost at the most; returns their tokens and that cost."""
    from ragassay.core.models import Usage

    costs: list[float | None] = []
    for model, made in calls.items():
        if made:
            used = Usage.total(made)
            # A reply that can't be used is asked for once more; one that was cut off gets twice the tokens.
            price = prices.cost(model.removeprefix("llm:"), 2 * used.input_tokens, 3 * used.output_tokens)
            costs.append(None if _unpriced(made) else price)
    known = [cost for cost in costs if cost is not None]
    cost = sum(known) if len(known) == len(costs) else None
    typer.echo(_NO_PRICE if cost is None else f"{_most(cost)} if every call had to be made twice", err=err)
    return Usage.total([call for made in calls.values() for call in made]).model_copy(update={"cost_usd": cost})
