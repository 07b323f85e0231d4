"""One tool, one process, one evaluation: runners.py TOOL QRELS RUN METRIC...; prints one line of JSON with the means.

Each tool reads the two files with its own reader and computes the values of every query.
"""

import json
import sys
from pathlib import Path


def ranx(qrels, run, metrics):
    import ranx

    theirs = {"P": "precision", "R": "recall", "Hit": "hit_rate", "MRR": "mrr", "MAP": "map", "NDCG": "ndcg"}
    keys = {m: "{}@{}".format(theirs[m.split("@")[0]], m.split("@")[1]) for m in metrics}
    judged, ranked = ranx.Qrels.from_file(qrels, kind="trec"), ranx.Run.from_file(run, kind="trec")
    values = ranx.evaluate(judged, ranked, list(keys.values()), return_mean=False, save_results_in_run=False)
    return {m: float(values[key].mean()) for m, key in keys.items()}


def pytrec_eval(qrels, run, metrics):
    import pytrec_eval

    theirs = {"P": "P", "R": "recall", "Hit": "success", "MAP": "map_cut", "NDCG": "ndcg_cut"}
    keys = {m: f"{theirs[m.split('@')[0]]}_{m.split('@')[1]}" if m[:3] != "MRR" else "recip_rank" for m in metrics}
    with Path(qrels).open() as file:
        judged = pytrec_eval.parse_qrel(file)
    with Path(run).open() as file:
        ranked = pytrec_eval.parse_run(file)
    values = pytrec_eval.RelevanceEvaluator(judged, set(keys.values())).evaluate(ranked)
    for m in metrics:
        if m.startswith("MRR"):  # trec_eval's has no cutoff
            least = 1 / int(m.split("@")[1]) - 1e-12
            for row in values.values():
                row["recip_rank"] = row["recip_rank"] if row["recip_rank"] >= least else 0.0
    return {m: sum(row[key] for row in values.values()) / len(values) for m, key in keys.items()}


def ir_measures(qrels, run, metrics):
    import ir_measures

    theirs = {"Hit": "Success", "MRR": "RR", "MAP": "AP", "NDCG": "nDCG"}
    measures = {
        m: ir_measures.parse_measure(theirs.get(m.split("@")[0], m.split("@")[0]) + "@" + m.split("@")[1])
        for m in metrics
    }
    judged, ranked = ir_measures.read_trec_qrels(qrels), ir_measures.read_trec_run(run)
    values = {}
    for row in ir_measures.iter_calc(list(measures.values()), judged, ranked):
        values.setdefault(row.measure, []).append(row.value)
    return {m: sum(values[measure]) / len(values[measure]) for m, measure in measures.items()}


if __name__ == "__main__":
    tool, qrels, run, *metrics = sys.argv[1:]
    print(json.dumps({"means": globals()[tool](qrels, run, metrics)}))
