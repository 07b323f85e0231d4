"""RAGAS's evaluate() with its own client for OpenAI: faithfulness, answer relevancy, answer correctness, context recall.

For an environment of its own: ``pip install ragas==0.4.3 'langchain-community<0.4' 'langchain<1' 'langchain-core<1'
'langchain-openai<1'``.
"""

import os
import time
import warnings

os.environ |= {"RAGAS_DO_NOT_TRACK": "true", "OPENAI_API_KEY": "sk-mock"}
warnings.filterwarnings("ignore")

from common import Timer, arguments, items, number, write  # noqa: E402 - after the variables

chosen = arguments()
rows, began = items(chosen), time.monotonic()

import openai  # noqa: E402
import ragas  # noqa: E402
from langchain_openai import OpenAIEmbeddings  # noqa: E402
from ragas import EvaluationDataset, SingleTurnSample, evaluate  # noqa: E402
from ragas.embeddings import LangchainEmbeddingsWrapper  # noqa: E402
from ragas.llms import llm_factory  # noqa: E402
from ragas.metrics import AnswerCorrectness, Faithfulness, LLMContextRecall, ResponseRelevancy  # noqa: E402
from ragas.run_config import RunConfig  # noqa: E402

url = f"{chosen.base_url}/v1"
llm = llm_factory("gpt-4o-mini", client=openai.AsyncOpenAI(base_url=url, api_key="sk-mock"))
embeddings = LangchainEmbeddingsWrapper(
    OpenAIEmbeddings(base_url=url, api_key="sk-mock", check_embedding_ctx_length=False)
)
metrics = [
    Faithfulness(llm=llm),
    ResponseRelevancy(llm=llm, embeddings=embeddings),
    AnswerCorrectness(llm=llm, embeddings=embeddings),
    LLMContextRecall(llm=llm),
]
samples = [
    SingleTurnSample(
        user_input=row["query"],
        retrieved_contexts=row["contexts"],
        response=row["answer"],
        reference=row["ground_truth"],
    )
    for row in rows
]
import_s = time.monotonic() - began
with Timer() as timer:
    config = RunConfig(max_workers=chosen.concurrency)
    found = evaluate(EvaluationDataset(samples=samples), metrics=metrics, run_config=config, show_progress=False)
scores = {
    row["id"]: {metric.name: number(each.get(metric.name)) for metric in metrics}
    for row, each in zip(rows, found.scores, strict=True)
}
write(
    chosen,
    runner="ragas",
    version=ragas.__version__,
    metrics=[metric.name for metric in metrics],
    items=len(rows),
    import_s=round(import_s, 2),
    scores=scores,
    **timer.fields,
)
