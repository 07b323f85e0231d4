"""`ragassay evaluate` on many rows: rows per second and peak memory.

    python benchmarks/rows.py [--rows 5000 100000] [--metrics NAME ...]

Rows are made from a seed: a question, an answer and a truth of a sentence each, three contexts, ids of documents retrieved
and relevant; about 300 characters of text. Each number of rows is evaluated by a process of its own. ``--metrics`` chooses
metrics that take no judge; without it the default ones are computed, with the local judge.
Exits 1 where the most rows take 150 MB more than the fewest.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from measured import load, machine, ragassay, table

MAX_MB = 150
NOUNS = "river bridge station archive market harbour library museum valley garden tower canal theatre forest".split()
NAMES = "Paris Lyon Turin Vienna Porto Ghent Bergen Krakow Split Tartu Bruges Graz Malmo Seville".split()
VERBS = "opened closed moved burned flooded grew reopened".split()


def write_rows(path: Path, count: int, seed: int = 20261122) -> None:
    """Rows of JSON Lines, always the same."""
    draw = random.Random(seed)
    with path.open("w") as file:
        for n in range(count):
            name, noun, verb = draw.choice(NAMES), draw.choice(NOUNS), draw.choice(VERBS)
            year = draw.randint(1800, 2020)
            fact = f"The {noun} of {name} {verb} in {year}."
            wrong = f"The {noun} of {name} {verb} in {year + draw.choice((0, 0, 0, 7))}."
            lies = "The {} of {} lies by the old road number {}."
            other = [lies.format(draw.choice(NOUNS), draw.choice(NAMES), draw.randint(1, 99)) for _ in "ab"]
            ids = draw.sample(range(1_000_000), 5)
            row = {
                "query_id": f"r{n:06d}",
                "query": f"When was it that the {noun} of {name} {verb}?",
                "answer": wrong,
                "ground_truth_answer": fact,
                "contexts": draw.sample([fact, *other], 3),
                "retrieved_doc_ids": [f"d{one}" for one in ids],
                "relevant_doc_ids": [f"d{ids[draw.randint(0, 4)]}"],
                "category": noun,
                "latency_ms": round(draw.uniform(50, 900), 1),
                "cost_usd": round(draw.uniform(0.0001, 0.002), 6),
            }  # fmt: skip
            file.write(json.dumps(row) + "\n")


def measure(rows: int, folder: Path, metrics: list[str]) -> dict[str, float]:
    file, home = folder / f"{rows}.jsonl", folder / f"home-{rows}"
    write_rows(file, rows)
    used = ragassay(home, "evaluate", str(file), *(["--metrics", ",".join(metrics)] if metrics else []))
    run_mb = sum(f.stat().st_size for f in home.rglob("*") if f.is_file()) / 2**20
    return {"rows": rows, **used, "rate": rows / used["cpu_s"], "run_mb": run_mb}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000, 100_000])
    parser.add_argument("--metrics", nargs="+", default=[])
    options = parser.parse_args()
    before = load()
    with tempfile.TemporaryDirectory() as folder:
        runs = [measure(rows, Path(folder), options.metrics) for rows in options.rows]
    about = f"{machine(before)}; {', '.join(options.metrics) or 'default metrics, local judge'}."
    names = ("rows", "wall_s", "cpu_s", "rate", "mb", "run_mb")
    head = ("rows", "s", "processor time, s", "rows per second of it", "peak memory, MB", "the run on disk, MB")
    print(about, "", *table(head, *([f"{run[name]:,.0f}" for name in names] for run in runs)), sep="\n", flush=True)
    more = runs[-1]["mb"] - runs[0]["mb"]
    sys.exit(f"{more:.0f} MB more for the most rows than for the fewest, wanted {MAX_MB}" if more > MAX_MB else 0)


if __name__ == "__main__":
    main()
