"""What an evaluation would take, from the code that makes the calls; no call is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragassay.core.eval_config import RunConfig
from ragassay.core.models import Response, Sample, Usage
from ragassay.evaluation.evaluate import ScoringConfig, respond, to_judge
from ragassay.evaluation.inputs import Inputs
from ragassay.evaluation.prepare import choose_metrics
from ragassay.evaluation.runtime import Runtime
from ragassay.judges.panel import Panel
from ragassay.llm.journal import CostEstimator
from ragassay.systems.builtin import BuiltIn, extract
from ragassay.systems.runner import LiveSystem


@dataclass(frozen=True)
class CallEstimates:
    """The most that each call would take: of each judge, by its name, and of the answers of built-in systems."""

    config: ScoringConfig
    by_judge: dict[str, list[Usage]]
    answers: list[Usage]


async def estimate_calls(runtime: Runtime, spec: RunConfig, inputs: Inputs) -> CallEstimates:
    """What the calls of an evaluation would take.

    Built-in systems retrieve, and sentences of the passages stand in for the answers of their model; for the answer of a
    system that is called stand ground truth or query.
    """
    answers, joined = CostEstimator(), inputs.joined()
    sources = {name: system.source for name, system in inputs.systems.items()}
    for name, system in runtime.systems(sources, runtime.scoring(spec), answers).items():
        joined[name] = await _answered(inputs.samples, system)
    config = runtime.scoring(spec, choose_metrics(spec, joined, inputs.dataset.name))
    judged = [list(to_judge(rows, config).values()) for rows in joined.values()]
    by_judge: dict[str, list[Usage]] = {}
    for rater in config.panel.raters:
        calls = CostEstimator()
        for rows in judged:
            await Panel([rater]).rate(rows, calls)
        by_judge[rater.name] = calls.estimates
    return CallEstimates(config, by_judge, answers.estimates)


async def _answered(samples: Sequence[Sample], system: BuiltIn | LiveSystem) -> list[Sample]:
    if isinstance(system, LiveSystem):
        texts = [sample.ground_truth_answer[0] if sample.ground_truth_answer else sample.query for sample in samples]
        responses: list[Response | None] = [Response(answer=text) for text in texts]
    else:
        responses = [sample.response for sample in await respond(samples, system)]
        for n, (sample, response) in enumerate(zip(samples, responses, strict=True)):
            if system.config.answer is not None and response is not None and response.answer is None:
                extracted = extract(sample.query, response.contexts or ())
                responses[n] = response.model_copy(update={"answer": extracted})
    return [
        sample.model_copy(update={"response": response}) for sample, response in zip(samples, responses, strict=True)
    ]
