"""What an evaluation would take, said before it is begun."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import typer

from ragassay.core.eval_config import RunConfig
from ragassay.core.models import Usage
from ragassay.evaluation.estimate import estimate_calls
from ragassay.evaluation.inputs import Inputs
from ragassay.evaluation.runtime import Runtime
from ragassay.judges.custom import JUDGES
from ragassay.llm import Prices
from ragassay.llm.budget import of_unknown_price


def estimate(runtime: Runtime, spec: RunConfig, inputs: Mapping[str, Inputs], *, err: bool = False) -> None:
    """Print what the evaluation of each dataset, and of all, would take. Makes no call.

    Raises BadSettings for a cap on USD that can't be kept.
    """
    whole = Usage.total([_estimate(runtime, spec, one, err=err) for one in inputs.values()])
    if len(inputs) > 1:
        typer.echo(f"all {len(inputs)} datasets: {whole.calls} judge calls, {_max_cost(whole.cost_usd)}", err=err)


def _estimate(runtime: Runtime, spec: RunConfig, inputs: Inputs, *, err: bool) -> Usage:
    """What the judge calls of one dataset would take at the most."""
    estimated, rows, systems = asyncio.run(estimate_calls(runtime, spec, inputs)), len(inputs.samples), inputs.systems
    lines = [f"{inputs.dataset.name}: {rows} rows x {len(systems)} systems, judge {estimated.config.panel.name}"]
    for name, calls in {"MODEL": estimated.answers, **estimated.by_judge}.items():
        if spec.budget.usd is not None and _unpriced(calls):
            raise of_unknown_price(name.removeprefix("llm:"))
    called = [name for name, system in systems.items() if system.source.called]
    lines += [f"{rows} requests to the system {name}, whose cost is not known before" for name in called]
    if estimated.answers and any(system.source.built for system in systems.values()):
        used = Usage.total(estimated.answers)
        lines += [f"{used.calls} answer calls of the systems, {_tokens(used)}, {_max_cost(used.cost_usd)}"]
    unknown = [name for name in estimated.by_judge if name in JUDGES]
    lines += [f"what the judge {name} asks and spends is not known before" for name in unknown]
    for line in lines:
        typer.echo(line, err=err)
    if unknown and not any(estimated.by_judge.values()):
        return Usage(cost_usd=None)
    max_usage = print_calls(estimated.by_judge, estimated.config.prices, err=err)
    return max_usage.model_copy(update={"cost_usd": None}) if unknown else max_usage


def print_calls(by_judge: Mapping[str, Sequence[Usage]], prices: Prices, *, err: bool) -> Usage:
    """Print how many calls the judges would make, and tokens and cost at the most; returns these."""
    by_model = {name.removeprefix("llm:"): Usage.total(calls) for name, calls in by_judge.items() if calls}
    used, cost = Usage.total(by_model.values()), None
    if not any(map(_unpriced, by_judge.values())):
        # A reply that can't be used is asked for once more; one that was cut off gets twice the tokens.
        costs = [prices.cost(model, 2 * one.input_tokens, 3 * one.output_tokens) for model, one in by_model.items()]
        cost = None if None in costs else sum(filter(None, costs), start=0.0)
    typer.echo(f"{used.calls} judge calls, {_tokens(used) if used.calls else '0 USD'}", err=err)
    if not used.calls:
        return used
    unknown = "cost unknown: the model has no price; none of it is counted as 0 USD"
    typer.echo(unknown if cost is None else f"{_max_cost(cost)} if every call had to be made twice", err=err)
    return used.model_copy(update={"cost_usd": cost})


def _unpriced(calls: Sequence[Usage]) -> bool:
    return any(call.cost_usd is None for call in calls)


def _tokens(used: Usage) -> str:
    return f"at most about {used.input_tokens:,} input and {used.output_tokens:,} output tokens"


def _max_cost(usd: float | None) -> str:
    return "of unknown cost" if usd is None else f"at most about {usd:.4f} USD"
