"""MLflow's genai.evaluate(): groundedness, relevance to the query, correctness and sufficiency of what was retrieved.

For an environment of its own: ``pip install mlflow==3.17.2``. Its scorers take contexts from a trace, so the answer is
given by a function with a span for retrieval.
"""

import os
import tempfile
import time

os.environ |= {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_MODEL_CATALOG_URI": "",  # prices from the package; fetched, they would be timed too
    "OPENAI_API_KEY": "sk-mock",
}

from common import Timer, arguments, items, write

chosen = arguments()
os.environ |= {
    "OPENAI_API_BASE": f"{chosen.base_url}/v1",
    "MLFLOW_GENAI_EVAL_MAX_WORKERS": str(chosen.concurrency),
}
rows, began = items(chosen), time.monotonic()

import mlflow  # noqa: E402
from mlflow.entities import Document, SpanType  # noqa: E402
from mlflow.genai.scorers import Correctness, RelevanceToQuery, RetrievalGroundedness, RetrievalSufficiency  # noqa: E402

by_query = {row["query"]: row for row in rows}


@mlflow.trace(span_type=SpanType.RETRIEVER)
def retrieve(question: str) -> list[Document]:
    return [Document(page_content=context) for context in by_query[question]["contexts"]]


@mlflow.trace
def answer(question: str) -> str:
    retrieve(question)
    return by_query[question]["answer"]


data = [
    {"inputs": {"question": row["query"]}, "expectations": {"expected_response": row["ground_truth"]}} for row in rows
]
model = "openai:/gpt-4o-mini"
scorers = [
    RetrievalGroundedness(model=model),
    RelevanceToQuery(model=model),
    Correctness(model=model),
    RetrievalSufficiency(model=model),
]
folder = tempfile.mkdtemp(prefix="mlflow-")
mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
mlflow.create_experiment("peers", artifact_location=folder)
mlflow.set_experiment("peers")
import_s = time.monotonic() - began
with Timer() as timer:
    found = mlflow.genai.evaluate(data=data, predict_fn=answer, scorers=scorers)
names = [scorer.name for scorer in scorers]
YES = {"yes": 1.0, "no": 0.0}
ids = {row["query"]: row["id"] for row in rows}
scores = {}
for each in found.result_df.to_dict(orient="records"):
    scores[ids[each["request"]["question"]]] = {name: YES.get(each.get(f"{name}/value")) for name in names}
write(
    chosen,
    runner="mlflow",
    version=mlflow.__version__,
    metrics=names,
    items=len(rows),
    import_s=round(import_s, 2),
    scores=scores,
    **timer.fields,
)
