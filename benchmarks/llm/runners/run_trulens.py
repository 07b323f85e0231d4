"""TruLens's BatchEvaluator: its triad of groundedness, answer and context relevance, and agreement with the ground truth.

For an environment of its own: ``pip install trulens-core==2.16.0 trulens-feedback==2.16.0
trulens-providers-openai==2.16.0``. Groundedness cuts sentences with NLTK's punkt_tab, which it downloads; where it can't,
Punkt without that data cuts them here. Its pace of 60 calls a minute is lifted: it would be all that is measured.
"""

import time
import warnings
from importlib import metadata

warnings.filterwarnings("ignore")

from common import Timer, arguments, items, number, write  # noqa: E402 - after the filter

chosen = arguments()
rows, began = items(chosen), time.monotonic()

import nltk  # noqa: E402
from trulens.core import BatchEvaluator, Metric, Selector  # noqa: E402
from trulens.feedback import GroundTruthAgreement, llm_provider  # noqa: E402
from trulens.providers.openai import OpenAI  # noqa: E402

if not nltk.download("punkt_tab", quiet=True):
    llm_provider.sent_tokenize = nltk.tokenize.PunktSentenceTokenizer().tokenize

url = f"{chosen.base_url}/v1"
provider = OpenAI(model_engine="gpt-4o-mini", api_key="sk-mock", base_url=url, rpm=6000)
truth = [{"query": row["query"], "expected_response": row["ground_truth"]} for row in rows]
query, answer = Selector.from_column("query"), Selector.from_column("answer")
metrics = [
    Metric(
        name="groundedness",
        implementation=provider.groundedness_measure_with_cot_reasons,
        selectors={"source": Selector.from_column("contexts"), "statement": answer},
    ),
    Metric(
        name="answer_relevance",
        implementation=provider.relevance_with_cot_reasons,
        selectors={"prompt": query, "response": answer},
    ),
    Metric(
        name="context_relevance",
        implementation=provider.context_relevance_with_cot_reasons,
        selectors={"question": query, "context": Selector.from_column("contexts", collect_list=False)},
    ),
    Metric(
        name="agreement",
        implementation=GroundTruthAgreement(truth, provider=provider).agreement_measure,
        selectors={"prompt": query, "response": answer},
    ),
]
import_s = time.monotonic() - began
with Timer() as timer:
    found = BatchEvaluator(metrics, max_workers=chosen.concurrency).evaluate(rows)
names = [metric.name for metric in metrics]
scores = {
    each["id"]: {name: number(each[name]) if each[name] != -1 else None for name in names}  # -1: no score in the reply
    for each in found.to_dict(orient="records")
}
write(
    chosen,
    runner="trulens",
    version=metadata.version("trulens-core"),
    metrics=names,
    items=len(rows),
    import_s=round(import_s, 2),
    scores=scores,
    **timer.fields,
)
