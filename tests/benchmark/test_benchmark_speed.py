"""What a benchmark of usual size takes."""

import json
import resource
import subprocess
import sys

from offline_runs import write_jsonl
from ragassay.core.package_data import folder
from ragassay.datasets.load import load

CORES, MOST_S = 2, 60


def test_a_hundred_queries_on_three_built_in_strategies_fit_into_a_minute_of_two_cores(tmp_path):
    handbook = folder("datasets") / "handbook"
    asked = [
        sample.model_dump(mode="json", exclude_defaults=True) for sample in load(handbook / "queries.json").samples
    ]
    again = [{**row, "query_id": f"again-{row['query_id']}", "query": f"Please say: {row['query']}"} for row in asked]
    write_jsonl(tmp_path / "hundred.jsonl", [*asked, *again][:100])
    systems = {kind: {"kind": kind, "answer": "extractive"} for kind in ("bm25", "dense", "hybrid")}
    document = {"data": "hundred.jsonl", "corpus": str(handbook / "corpus.jsonl"), "systems": systems}
    (tmp_path / "ragassay.yaml").write_text(json.dumps(document))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "ragassay.cli", "evaluate", "--json"], cwd=tmp_path, capture_output=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = json.loads(done.stdout)
    assert [system["queries"] for system in report["systems"].values()] == [100] * 3
    assert {"faithfulness", "semantic_similarity", "ndcg@10"} <= report["systems"]["dense"]["metrics"].keys()
    took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert took_s < CORES * MOST_S, took_s  # processor time, so that it holds on a machine that is busy
