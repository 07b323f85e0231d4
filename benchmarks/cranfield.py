"""MAP and nDCG@10 of BM25 and of the hybrid retriever on the Cranfield collection, whose figures others have published.

The collection is not part of this repository. FOLDER holds corpus.jsonl and queries.jsonl (``_id``, ``text``; the corpus
also ``title``) and qrels_smart.trec (``qid 0 docid 1``, the relevant documents of the SMART distribution):

    python benchmarks/cranfield.py FOLDER           print the figures
    python benchmarks/cranfield.py FOLDER --keep    also write them to benchmarks/cranfield.json, which docs/baseline.md shows
"""

import argparse
import datetime
import json
import tempfile
from collections import defaultdict
from pathlib import Path

from ragassay import stats
from ragassay.metrics import parse
from ragassay.metrics.ranked import Ranked
from ragassay.strategies.corpus import Corpus
from ragassay.strategies.options import RetrievalConfig
from ragassay.strategies.retrieval import build

METRICS = ("map", "ndcg@10")
DEPTH = 1000
OPTIONS = {
    "bm25": {"kind": "bm25", "k1": 1.2, "b": 0.75, "depth": DEPTH},
    "hybrid": {"kind": "hybrid", "k1": 1.2, "b": 0.75, "depth": DEPTH},
    # as examples/retrieval/hybrid.yaml, which was tuned on the handbook and never on this collection
    "hybrid with feedback": {"kind": "hybrid", "rrf_k": 30, "feedback": 3, "feedback_weight": 0.6, "depth": DEPTH},
}


def measure(folder: Path) -> dict:
    """Mean, 95 % interval and the values of each metric for each retriever, over the queries with a judgment."""
    corpus = Corpus.read(folder / "corpus.jsonl")
    relevant: dict[str, dict[str, float]] = defaultdict(dict)
    for line in (folder / "qrels_smart.trec").read_text().splitlines():
        qid, _, doc, grade = line.split()
        relevant[qid][doc] = float(grade)
    rows = map(json.loads, (folder / "queries.jsonl").read_text().splitlines())
    queries = {row["_id"]: row["text"] for row in rows if row["_id"] in relevant}
    found = {"documents": len(corpus.passages), "queries": len(queries), "retrievers": {}}
    values, cache = {}, tempfile.TemporaryDirectory()
    for name, options in OPTIONS.items():
        retriever = build(RetrievalConfig(**options), corpus, cache=Path(cache.name))
        lists = [[hit.id for hit in retriever.search(text, DEPTH).hits] for text in queries.values()]
        ranked = Ranked.build(lists, [relevant[qid] for qid in queries])
        values[name] = {
            metric: parse(metric).function(ranked, **({"k": 10} if "@" in metric else {})) for metric in METRICS
        }
        figures = {}
        for metric, column in values[name].items():
            interval = stats.bootstrap_interval(column)
            figures[metric] = {"mean": float(column.mean()), "low": interval.low, "high": interval.high}
        found["retrievers"][name] = {"options": options, **figures}
    cache.cleanup()
    return found


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("folder", type=Path, metavar="FOLDER")
    reader.add_argument("--keep", action="store_true")
    asked = reader.parse_args()
    found = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), **measure(asked.folder)}
    text = json.dumps(found, indent=2) + "\n"
    if asked.keep:
        Path(__file__).with_suffix(".json").write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
