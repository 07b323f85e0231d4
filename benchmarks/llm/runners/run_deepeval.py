"""DeepEval's evaluate(): faithfulness, answer relevancy, contextual recall, and completeness by G-Eval.

For an environment of its own: ``pip install deepeval==4.3.1``.
"""

import os
import tempfile
import time

os.environ |= {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "DEEPEVAL_NO_INSPECT_PROMPT": "1",
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0",
    "ERROR_REPORTING": "0",
    "OPENAI_API_KEY": "sk-mock",
}

from common import Timer, arguments, items, number, write

chosen = arguments()
chosen.out, chosen.dataset = chosen.out.resolve(), chosen.dataset.resolve()
rows, began = items(chosen), time.monotonic()
os.chdir(tempfile.mkdtemp(prefix="deepeval-"))  # it writes into the working folder

import deepeval  # noqa: E402
from deepeval import evaluate  # noqa: E402
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig  # noqa: E402
from deepeval.metrics import AnswerRelevancyMetric, ContextualRecallMetric, FaithfulnessMetric, GEval  # noqa: E402
from deepeval.models import OpenAIModel  # noqa: E402
from deepeval.test_case import LLMTestCase, SingleTurnParams  # noqa: E402

model = OpenAIModel(model="gpt-4o-mini", api_key="sk-mock", base_url=f"{chosen.base_url}/v1")
completeness = GEval(
    name="Completeness",
    model=model,
    criteria="Decide whether the actual output covers every fact that the expected output states.",
    evaluation_params=[SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT, SingleTurnParams.EXPECTED_OUTPUT],
)
metrics = [
    FaithfulnessMetric(model=model),
    AnswerRelevancyMetric(model=model),
    ContextualRecallMetric(model=model),
    completeness,
]
cases = [
    LLMTestCase(
        name=row["id"],
        input=row["query"],
        actual_output=row["answer"],
        expected_output=row["ground_truth"],
        retrieval_context=row["contexts"],
    )
    for row in rows
]
import_s = time.monotonic() - began
with Timer() as timer:
    found = evaluate(
        cases,
        metrics=metrics,
        async_config=AsyncConfig(max_concurrent=chosen.concurrency),
        error_config=ErrorConfig(ignore_errors=True),
        display_config=DisplayConfig(print_results=False, show_indicator=False, inspect_after_run=False),
        cache_config=CacheConfig(write_cache=False),
    )
names = ["Faithfulness", "Answer Relevancy", "Contextual Recall", "Completeness [GEval]"]
scores = {row["id"]: dict.fromkeys(names) for row in rows}
for result in found.test_results:
    for one in result.metrics_data or []:
        scores[result.name][one.name] = None if one.error else number(one.score)
write(
    chosen,
    runner="deepeval",
    version=deepeval.__version__,
    metrics=names,
    items=len(rows),
    import_s=round(import_s, 2),
    scores=scores,
    **timer.fields,
)
