"""What the judge was sent for a row, and what it replied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragassay.core.formatting import quantity
from ragassay.core.models import Result, Sample
from ragassay.core.protocols import Purpose, Reply
from ragassay.core.report import Report
from ragassay.judges.instructions import instructions
from ragassay.judges.prompt import render_prompt
from ragassay.judges.verdict import number_units, with_recent_turns


@dataclass(frozen=True)
class Raw:
    """What the judge was sent for a row, and what came: titles with texts; ``why``: why something is not shown."""

    messages: tuple[tuple[str, str], ...]
    replies: tuple[tuple[str, str], ...]
    why: tuple[str, ...]


def raw(row: Result, sample: Sample | None, calls: Sequence[tuple[Purpose, Reply]], report: Report) -> Raw:
    """The prompt, made again from what the run keeps, and the replies that it keeps."""
    spec, why = report.provenance.configuration, []
    if not calls and not (row.evaluation.calls or row.evaluation.cache_hits):
        return Raw((), (), ("No model was asked about this row: what scored it calls none.",))
    ours = instructions(spec.judge_prompt)
    messages: tuple[tuple[str, str], ...] = ()
    if sample is None:
        why.append("The run does not keep what this row was judged on, so its prompt can't be made again.")
    elif ours.version not in str(report.provenance.judge):
        why.append("The instructions have changed since this run, so its prompt can't be made again.")
    else:
        recent = with_recent_turns(sample, spec.history_tokens)
        prompt = render_prompt(recent, number_units(recent, spec.criteria), ours.version)
        messages = (("Instructions", ours.text), ("Prompt", prompt))
    if not calls:
        why.append(
            "This run does not tell which reply was about which row. Evaluate again, and it will: replies come from the "
            "cache, at no cost."
        )
    return Raw(messages, tuple((_about(purpose, reply), reply.text) for purpose, reply in calls), tuple(why))


def _about(purpose: Purpose, reply: Reply) -> str:
    used = reply.usage
    tokens = f"{used.input_tokens:,} tokens in, {used.output_tokens:,} out" if used.input_tokens else ""
    cost = f"{quantity(used.cost_usd)} USD" if used.cost_usd else ""
    taken = ["from the cache"] if used.cache_hits else [f"{quantity(used.latency_ms)} ms"] if used.latency_ms else []
    ended = "" if reply.finish_reason == "stop" else f"ended by {reply.finish_reason}"
    return ", ".join(filter(None, (purpose, reply.model, tokens, cost, *taken, ended)))
