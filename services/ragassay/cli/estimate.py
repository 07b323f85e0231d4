"""What an evaluation would take, said before it is begun."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ragassay.models import Usage
    from ragassay.runs import Inputs, Session
    from ragassay.specification import JobSpec


def estimate(session: Session, spec: JobSpec, inputs: Inputs, *, err: bool = False) -> Usage:
    """Print what an evaluation would take, and call nobody; returns that of its judge calls.

    Raises BadSettings for a cap on USD that can't be kept.
    """
    from dataclasses import replace

    from ragassay import runs
    from ragassay.judges.registered import JUDGES
    from ragassay.ledger import DryLedger, of_unknown_price
    from ragassay.models import Usage

    tools, answers = session.tools(spec, DryLedger()), DryLedger()
    sources = {name: system.source for name, system in inputs.systems.items()}
    live = session.systems(sources, replace(tools, ledger=answers))
    calls = asyncio.run(runs.estimate(spec, inputs, tools, live))
    name, rows, systems = inputs.dataset.name, len(inputs.samples), len(inputs.systems)
    typer.echo(f"{name}: {rows} rows x {systems} systems, judge {tools.judge.name}", err=err)
    if spec.budget.usd is not None and any(one.cost_usd is None for one in (*calls, *answers.estimates)):
        raise of_unknown_price()
    for system, source in sources.items():
        if source.called:
            typer.echo(f"{rows} requests to the system {system}, whose cost is not known before", err=err)
    own = answers.estimates if any(source.built for source in sources.values()) else []
    if own:
        whole = Usage.total(own)
        most = "of unknown cost" if whole.cost_usd is None else f"at most about {whole.cost_usd:.4f} USD"
        typer.echo(
            f"{whole.calls} answer calls of the systems, at most about {whole.input_tokens:,} input and "
            f"{whole.output_tokens:,} output tokens, {most}",
            err=err,
        )
    if spec.judge in JUDGES:
        typer.echo(f"what the judge {spec.judge} asks and spends is not known before", err=err)
        return Usage(cost_usd=None)
    if not calls:
        typer.echo("0 judge calls, 0 USD", err=err)
        return Usage()
    spent, made = sum(call.input_tokens for call in calls), sum(call.output_tokens for call in calls)
    typer.echo(f"{len(calls)} judge calls, at most about {spent:,} input and {made:,} output tokens", err=err)
    if spec.criteria:
        without = session.tools(spec.model_copy(update={"criteria": {}}), DryLedger())
        afresh = session.systems(sources, replace(without, ledger=DryLedger()))  # those above belong to the first loop
        plain = asyncio.run(runs.estimate(spec, inputs, without, afresh))
        more = spent - sum(call.input_tokens for call in plain), made - sum(call.output_tokens for call in plain)
        named = ", ".join(spec.criteria)
        typer.echo(f"of these, {more[0]:,} input and {more[1]:,} output tokens are for criteria: {named}", err=err)
    # A reply that can't be used is asked for once more; one that was cut off gets twice the room.
    price = [call.cost_usd for call in calls]
    cost = None if None in price else tools.prices.cost(spec.judge.removeprefix("llm:"), 2 * spent, 3 * made)
    unknown = "cost unknown: the model has no price; none of it is counted as 0 USD"
    typer.echo(unknown if cost is None else f"at most about {cost:.4f} USD if every call had to be made twice", err=err)
    return Usage(calls=len(calls), input_tokens=spent, output_tokens=made, cost_usd=cost)
