"""`ragassay evaluate` on many rows: rows per second, peak memory, and where the time goes.

    python benchmarks/rows.py [--rows 5000 100000] [--metrics NAME ...]

Rows are made from a seed: a question, an answer and a truth of a sentence each, three contexts, ids of documents retrieved
and relevant; about 300 characters of text. Each number of rows is evaluated by a process of its own, whose threads are looked
at 50 times a second: a part's share is that of the looks at which a thread was busy in it. ``--metrics`` chooses
metrics that take no judge; without it the default ones are computed, with the local judge.
Exits 1 where the most rows take 150 MB more than the fewest.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from measured import load, machine, table

MAX_MB = 150
LOOK_S = 0.02
NOUNS = "river bridge station archive market harbour library museum valley garden tower canal theatre forest".split()
NAMES = "Paris Lyon Turin Vienna Porto Ghent Bergen Krakow Split Tartu Bruges Graz Malmo Seville".split()
VERBS = "opened closed moved burned flooded grew reopened".split()
PARTS = {  # the first that is found, from the innermost call outwards
    "_run (minilm": "the model",
    "_pieces (minilm": "texts into word pieces",
    "_batches (minilm": "texts into word pieces",
    "(text.py": "reading sentences",
    "(matching.py": "matching words",
    "(local.py": "the verdict",
    "(judged.py": "the verdict",
    "finish (runner": "the report",
    "show (evaluate": "printing the report",
    "read (evaluate": "reading the rows",
    "create (folder": "writing the rows into the run",
    "samples (folder": "reading the rows of a chunk",
    "commit (folder": "writing results",
    "scores (chunk": "other metrics",
    "evaluate (engine": "the engine",
}
IDLE = ("wait (threading", "select (selectors", "_worker (thread.py")


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


def part_of(frame) -> str | None:
    """Which part of the work a thread is busy with; None for one that waits."""
    calls = []
    while frame is not None:
        calls.append(f"{frame.f_code.co_name} ({Path(frame.f_code.co_filename).name}")
        frame = frame.f_back
    if calls[0].startswith(IDLE):
        return None
    return next((part for call in calls for place, part in PARTS.items() if place in call), "the rest")


def one(arguments: list[str]) -> None:
    """Run the command line in this process, and print what it took as the last line of stderr."""
    from ragassay.cli import main

    parts: Counter[str] = Counter()
    me = threading.Event()

    def look() -> None:
        while not me.wait(LOOK_S):
            for thread, frame in sys._current_frames().items():
                if thread != threading.get_ident() and (part := part_of(frame)):
                    parts[part] += 1

    threading.Thread(target=look, daemon=True).start()
    sys.argv = ["ragassay", *arguments]
    began, code = time.perf_counter(), 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    me.set()
    used = resource.getrusage(resource.RUSAGE_SELF)
    scale = 1024 if sys.platform != "darwin" else 1 << 20
    took = {"wall_s": time.perf_counter() - began, "cpu_s": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / scale}
    shares = {part: n / parts.total() for part, n in parts.most_common()}
    print(json.dumps({"code": code, **took, "parts": shares}), file=sys.stderr)


def measure(rows: int, folder: Path, metrics: list[str]) -> dict:
    file, home = folder / f"{rows}.jsonl", folder / f"home-{rows}"
    write_rows(file, rows)
    chosen = ["--metrics", ",".join(metrics)] if metrics else []
    command = [sys.executable, __file__, "--one", "evaluate", str(file), *chosen]
    environment = os.environ | {"RAGASSAY_HOME": str(home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    found = json.loads(done.stderr.splitlines()[-1]) if done.stderr else {}
    if found.get("code", 1):
        sys.exit(f"{rows} rows failed: {done.stderr[-2000:]}")
    found |= {"rows": rows, "run_mb": sum(f.stat().st_size for f in home.rglob("*") if f.is_file()) / 2**20}
    print(json.dumps(found), file=sys.stderr, flush=True)
    return found


def told(runs: list[dict]) -> list[str]:
    """A table in Markdown, and the five largest parts of the last run."""
    names = ("rows", "wall_s", "cpu_s", "rate", "mb", "run_mb")
    figures = [run | {"rate": run["rows"] / run["cpu_s"]} for run in runs]
    head = ("rows", "s", "processor time, s", "rows per second of it", "peak memory, MB", "the run on disk, MB")
    parts = ", ".join(f"{part} {share:.0%}" for part, share in list(runs[-1]["parts"].items())[:5])
    lines = table(head, *([f"{run[name]:,.0f}" for name in names] for run in figures))
    return [*lines, "", f"The five largest parts at {runs[-1]['rows']:,} rows: {parts}."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000, 100_000])
    parser.add_argument("--metrics", nargs="+", default=[])
    parser.add_argument("--folder", type=Path, help="where data and runs are kept; else they are removed")
    parser.add_argument("--one", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return one(options.one)
    before = load()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        runs = [measure(rows, folder, options.metrics) for rows in options.rows]
    about = f"{machine(before)}; {', '.join(options.metrics) or 'default metrics, local judge'}."
    print(about, "", *told(runs), sep="\n", flush=True)
    more = runs[-1]["mb"] - runs[0]["mb"]
    sys.exit(f"{more:.0f} MB more for the most rows than for the fewest, wanted {MAX_MB}" if more > MAX_MB else 0)


if __name__ == "__main__":
    main()
