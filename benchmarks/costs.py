"""`ragassay cost` over many reports: seconds with the records beside them, and what one report takes without.

    python benchmarks/costs.py [--runs 400 10000] [--rows 100 5000]

A run of two systems on 100 rows is evaluated once; longer reports repeat its rows, and the other reports are copies under
other ids and on other days, in a folder and in a Redis of its own. Processor seconds of this process, the better of two.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import zstandard

from ragassay import evaluate
from ragassay.cost_records import CostRecord, read_report_costs
from ragassay.costs import asked
from ragassay.job_costs import MOST_REPORTS, JobCosts
from ragassay.local.redis import find_server
from ragassay.python.costs import cost_report_of_runs
from ragassay.reports import build
from ragassay.store.folder import FolderRun, FolderStore
from ragassay.store.redis import RedisStore

NOW = datetime(2026, 11, 22, tzinfo=UTC)
CATEGORIES = ("factual", "conceptual", "procedural", "comparative", "troubleshooting")


def rows(count: int) -> list[dict[str, object]]:
    """Rows with costs and tokens; every third answer is another row's."""
    return [
        {
            "query_id": f"q{n}",
            "query": f"Where does river number {n} flow into the sea?",
            "ground_truth_answer": f"River number {n} reaches the sea at harbour {n}.",
            "answer": f"River number {n + (n % 3 == 0)} reaches the sea at harbour {n + (n % 3 == 0)}.",
            "contexts": [f"River number {n} reaches the sea at harbour {n}.", "It rains a lot there."],
            "category": CATEGORIES[n % len(CATEGORIES)],
            "model": "gpt-4o-mini",
            "input_tokens": 900 + n % 50,
            "output_tokens": 40 + n % 9,
        }
        for n in range(count)
    ]


def best(work: Callable[[], object], times: int = 2) -> float:
    """Processor seconds of the fastest time."""
    took = []
    for _ in range(times):
        before = time.process_time()
        work()
        took.append(time.process_time() - before)
    return min(took)


def earlier(content: bytes) -> bytes:
    """The report as it was written before reports had sums."""
    document = orjson.loads(content)
    del document["between"]
    for system in document["systems"].values():
        del system["spending"]
    return orjson.dumps(document)


def copies(record: CostRecord, count: int) -> list[CostRecord]:
    """The record on as many days, the newest last."""
    days = [NOW - timedelta(hours=24 * (count - n) * min(1, 400 / count)) for n in range(count)]
    made = [{"run": f"{n:032x}", "created_at": day.isoformat(timespec="milliseconds")} for n, day in enumerate(days)]
    return [record.model_copy(update=update) for update in made]


def in_folder(run: FolderRun, record: CostRecord, home: Path, count: int) -> float:
    """Seconds of the cost report over so many runs; their reports are links to one file."""
    for one in copies(record, count):
        folder = home / "runs" / one.run
        folder.mkdir(parents=True)
        (folder / "report.json").hardlink_to(run.report_file)
        (folder / "run.json").hardlink_to(run.folder / "run.json")
        FolderRun(folder)._save_costs(one)
    return best(lambda: cost_report_of_runs(home, asked(), NOW))


def in_redis(record: CostRecord, url: str, count: int) -> float:
    """Seconds of the cost report over so many jobs, of which the newest are read."""
    store = RedisStore(url)
    store.redis.flushall()
    pipe = store.redis.pipeline(transaction=False)
    for one in copies(record, count):
        created_ms = int(datetime.fromisoformat(one.created_at).timestamp() * 1000)
        pipe.hset(store.key(one.run, "meta"), mapping={"status": "finished", "created_ms": created_ms})
        content = one.model_dump_json(exclude_defaults=True).encode()
        pipe.set(store.key(one.run, "costs"), zstandard.compress(content))
        pipe.zadd("ra:jobs", {one.run: created_ms})
    pipe.execute()
    return best(lambda: JobCosts(store).report(asked(), NOW))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, nargs="+", default=[400, 10_000])
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 5000])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home, socket = Path(name), Path(name) / "redis.sock"
        os.environ["RAGASSAY_HOME"] = str(home / "made")
        options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", name]
        server = subprocess.Popen([find_server(), *options], stdout=subprocess.DEVNULL)
        try:
            print("| a report of | its record | all of it | its figures and sums | one of an earlier version |")
            print("|---|---|---|---|---|")
            made = rows(100)
            evaluate(made, systems={"a": made, "b": made}, metrics=["correctness", "accurate"])
            run = FolderStore(home / "made").open("last")
            for count in given.rows:
                repeat(run, count)
                print(f"| 2 x {count:,} rows | {' | '.join(one_report(run))} |", flush=True)
            print("\n| reports | runs in a folder | jobs in Redis |")
            print("|---|---|---|")
            for count in given.runs:
                seconds = in_folder(run, run.costs(), home / str(count), count)
                jobs = in_redis(run.costs(), f"unix://{socket}", count)
                read = f" (the newest {MOST_REPORTS:,})" if count > MOST_REPORTS else ""
                print(f"| {count:,} | {seconds:.2f} s | {jobs:.2f} s{read} |", flush=True)
        finally:
            server.terminate()
            server.wait()


def repeat(run: FolderRun, count: int) -> None:
    """Make the run's report one on so many rows, which repeat those that it has."""
    report = run.report()
    dataset = report.provenance.dataset.model_copy(update={"rows": count})
    systems = {
        name: [one.results[n % len(one.results)].model_copy(update={"query_id": f"q{n}"}) for n in range(count)]
        for name, one in report.systems.items()
    }
    provenance = report.provenance.model_copy(update={"dataset": dataset})
    run.save_report(build(report.run.id, report.run.created_at, provenance, systems, expected=count))


def one_report(run: FolderRun) -> list[str]:
    """Milliseconds that reading takes: of the record, of the report, and of what a record is made from."""
    record, content = run.costs(), run.report_file.read_bytes()
    packed, old = record.model_dump_json(exclude_defaults=True), earlier(content)
    seconds = (
        best(lambda: CostRecord.model_validate_json(packed), 20),
        best(run.report),
        best(lambda: read_report_costs(content, "")),
        best(lambda: read_report_costs(old, "")),
    )
    sizes = (len(packed), len(content))
    shown = [f"{one * 1000:,.1f} ms" for one in seconds]
    return [f"{one} ({size / 1000:,.0f} kB)" for one, size in zip(shown, sizes, strict=False)] + shown[2:]


if __name__ == "__main__":
    sys.exit(main())
