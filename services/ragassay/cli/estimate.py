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


def estimate(runtime: Runtime, spec: EvalConfig, inputs: Inputs, *, err: bool = False) -> Usage:
    """Print what an evaluation would take, and call nobody; returns that of its judge calls.

    Raises BadSettings for a cap on USD that can't be kept.
    """
    from ragassay.core.models import Usage
    from ragassay.evaluation.estimate import estimate_calls
    from ragassay.judges.custom import JUDGES
    from ragassay.llm.budget import of_unknown_price

    estimated = asyncio.run(estimate_calls(runtime, spec, inputs))
    by_judge, answers, panel = estimated.by_judge, estimated.answers, estimated.config.panel
    sources = {name: system.source for name, system in inputs.systems.items()}
    calls = [call for of in by_judge.values() for call in of]
    name, rows, systems = inputs.dataset.name, len(inputs.samples), len(inputs.systems)
    typer.echo(f"{name}: {rows} rows x {systems} systems, judge {panel.name}", err=err)
    if spec.budget.usd is not None and _unpriced([*calls, *answers]):
        raise of_unknown_price(
            next((judge.removeprefix("llm:") for judge, of in by_judge.items() if _unpriced(of)), "MODEL")
        )
    for system, source in sources.items():
        if source.called:
            typer.echo(f"{rows} requests to the system {system}, whose cost is not known before", err=err)
    own = answers if any(source.built for source in sources.values()) else []
    if own:
        whole = Usage.total(own)
        most = "of unknown cost" if whole.cost_usd is None else f"at most about {whole.cost_usd:.4f} USD"
        typer.echo(
            f"{whole.calls} answer calls of the systems, at most about {whole.input_tokens:,} input and "
            f"{whole.output_tokens:,} output tokens, {most}",
            err=err,
        )
    unknown = [judge for judge in by_judge if judge in JUDGES]
    for judge in unknown:
        typer.echo(f"what the judge {judge} asks and spends is not known before", err=err)
    if unknown and not calls:
        return Usage(cost_usd=None)
    if not calls:
        typer.echo("0 judge calls, 0 USD", err=err)
        return Usage()
    spent, made = _tokens(calls)
    typer.echo(f"{len(calls)} judge calls, at most about {spent:,} input and {made:,} output tokens", err=err)
    if spec.criteria:
        without = asyncio.run(estimate_calls(runtime, spec.model_copy(update={"criteria": {}}), inputs))
        plain = _tokens([call for of in without.by_judge.values() for call in of])
        named = ", ".join(spec.criteria)
        more = f"of these, {spent - plain[0]:,} input and {made - plain[1]:,} output tokens are for criteria: {named}"
        typer.echo(more, err=err)
    told = print_most(by_judge, estimated.config.prices, err=err)
    return told.model_copy(update={"cost_usd": None}) if unknown else told


def _unpriced(calls: Sequence[Usage]) -> bool:
    return any(call.cost_usd is None for call in calls)


def _tokens(calls: Sequence[Usage]) -> tuple[int, int]:
    return sum(call.input_tokens for call in calls), sum(call.output_tokens for call in calls)


def print_most(calls: Mapping[str, Sequence[Usage]], prices: Prices, *, err: bool = False) -> Usage:
    """Print what the calls of each model would cost at the most; returns their tokens and that cost."""
    from ragassay.core.models import Usage

    costs: list[float | None] = []
    for model, of in ((model, of) for model, of in calls.items() if of):
        spent, made = _tokens(of)
        # A reply that can't be used is asked for once more; one that was cut off gets twice the room.
        price = [call.cost_usd for call in of]
        costs.append(None if None in price else prices.cost(model.removeprefix("llm:"), 2 * spent, 3 * made))
    cost = None if None in costs else sum(one for one in costs if one is not None)
    unknown = "cost unknown: the model has no price; none of it is counted as 0 USD"
    typer.echo(unknown if cost is None else f"at most about {cost:.4f} USD if every call had to be made twice", err=err)
    every = [call for of in calls.values() for call in of]
    spent, made = _tokens(every)
    return Usage(calls=len(every), input_tokens=spent, output_tokens=made, cost_usd=cost)
