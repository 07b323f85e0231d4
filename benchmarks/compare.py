"""`ragassay compare` of two runs of many rows, and `ragassay trend` over many runs: processor time and peak memory.

    python benchmarks/compare.py [--rows 100000] [--runs 100]

Of each of two systems 1,000 rows of `rows.py` are evaluated by the default metrics and the local judge, and written again
and again, under other ids and with other questions, into a run of so many rows; a process of its own compares the two. For
the trend a run of 1,000 rows is evaluated once and copied under other ids.
Exits 1 above 15 s or 1 GB for the comparison, or 1 s for the trend.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from measured import load, machine, ragassay, table
from rows import write_rows

from ragassay.core.models import Result
from ragassay.evaluation.aggregate import aggregate
from ragassay.storage.folder import FolderRun, FolderStore

EVALUATED = 1000
MAX_S, MAX_MB, MAX_TREND_S = 15, 1000, 1


def write_pair(folder: Path) -> tuple[Path, Path]:
    """Two files of the same 1,000 questions; the second has other answers to a tenth of them."""
    first, second, draw = folder / "a.jsonl", folder / "b.jsonl", random.Random(1)
    write_rows(first, EVALUATED)
    with first.open() as rows, second.open("w") as file:
        for row in map(json.loads, rows):
            if draw.random() < 0.1:
                row["answer"] = row["ground_truth_answer"] if draw.random() < 0.6 else "Nothing is known about that."
            file.write(json.dumps(row | {"latency_ms": round(draw.uniform(40, 800), 1)}) + "\n")
    return first, second


def evaluated(data: Path, home: Path) -> FolderRun:
    """The run of these rows."""
    ragassay(home, "evaluate", str(data))
    return FolderRun(max((home / "runs").iterdir(), key=lambda run: run.stat().st_mtime))


def multiplied(run: FolderRun, rows: int) -> str:
    """The id of a run of ``rows`` rows: those of ``run`` again and again, with questions of their own."""
    record, (system,), report = run.record, run.record.systems, run.report()
    dataset = record.dataset.model_copy(update={"rows": rows})
    wider = record.model_copy(update={"id": f"{record.id}x", "dataset": dataset})
    many = FolderStore(run.folder.parents[1]).create(wider, (), {})
    first = [row for chunk in record.chunks() for row in run.results(chunk)]

    def row(n: int) -> Result:
        one = first[n % len(first)]
        return one.model_copy(update={"query_id": f"r{n}", "query": f"{one.query} ({n})"})

    for chunk in many.record.chunks():
        begin = chunk.number * record.chunk_size
        many.commit(chunk, [row(n) for n in range(begin, min(begin + record.chunk_size, rows))])
    provenance = report.provenance.model_copy(update={"dataset": dataset})
    results = {system: many.rows(system)}
    many.save_report(aggregate(many.record.id, record.created_at, provenance, results, expected=rows))
    return many.record.id


def compared(rows: int, home: Path) -> dict[str, float]:
    home.mkdir()
    return ragassay(home, "compare", *[multiplied(evaluated(data, home), rows) for data in write_pair(home)])


def trend(runs: int, home: Path) -> dict[str, float]:
    home.mkdir()
    write_rows(home / "rows.jsonl", EVALUATED)
    first = evaluated(home / "rows.jsonl", home).folder
    for n in range(1, runs):
        name = f"20260101T{n:06d}{first.name[15:]}"
        shutil.copytree(first, first.parent / name)
        for file in ("run.json", "report.json"):
            document = json.loads((first.parent / name / file).read_text())
            (document["run"] if file == "report.json" else document)["id"] = name
            (first.parent / name / file).write_text(json.dumps(document))
    return ragassay(home, "trend", "accurate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    before = load()
    with tempfile.TemporaryDirectory() as temporary:
        pair, series = compared(options.rows, Path(temporary, "pair")), trend(options.runs, Path(temporary, "trend"))
    figures = {
        f"`compare`, two runs of {options.rows:,} rows": pair,
        f"`trend`, {options.runs} runs of 1,000 rows": series,
    }
    lines = [(of, f"{u['wall_s']:.1f}", f"{u['cpu_s']:.1f}", f"{u['mb']:,.0f}") for of, u in figures.items()]
    head = ("command", "s", "processor time, s", "peak memory, MB")
    print(f"{machine(before)}.", "", *table(head, *lines), sep="\n", flush=True)
    slow = pair["cpu_s"] > MAX_S or pair["mb"] > MAX_MB or series["cpu_s"] > MAX_TREND_S
    sys.exit(f"wanted {MAX_S} s and {MAX_MB} MB for the comparison, {MAX_TREND_S} s for the trend" if slow else 0)


if __name__ == "__main__":
    main()
