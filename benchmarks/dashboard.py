"""The pages of `ragassay view` on a run of many rows, beside thousands of other runs: milliseconds and memory, over HTTP.

    python benchmarks/dashboard.py [--rows 100000] [--runs 2000] [--requests 300] [--folder DIR] [--page docs/dashboard.md]

500 rows are evaluated with the local judge, and their results repeated under other ids and with other figures until there
are enough, twice: a run and its baseline. Small runs are copies of one of three rows. Then a server is started and asked: each
page for the first time, and again. Between two looks at the server's memory, ``--requests`` different pages are asked for. The
table goes into PAGE, between its two markers. Exits 1 where the queries' first page takes a second or more, the next page 150 ms
or more, or memory grows by more than 30 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import httpx
from measured import load, machine, put
from rows import write_rows

FIRST_S, NEXT_MS, MORE_MB = 1.0, 150, 30
EVALUATED = 500
TIMES = 15


def evaluated(folder: Path, rows: int) -> str:
    import ragassay

    write_rows(folder / f"{rows}.jsonl", rows)
    return ragassay.evaluate(str(folder / f"{rows}.jsonl"), name=f"{rows} rows").run.id


def build(home: Path, source: str, rows: int, name: str, seed: int) -> str:
    """A run of so many rows: the results of ``source`` again and again."""
    from ragassay import reports
    from ragassay.models import Sample
    from ragassay.runs.provenance import provenance
    from ragassay.store.folder import FolderStore
    from ragassay.store.run_ids import new_run_id

    draw, store = random.Random(seed), FolderStore(home)
    of = store.open(source)
    results = [row for chunk in of.record.chunks() for row in of.results(chunk) or ()]
    given = [of.sample(row.query_id, row.system) for row in results]
    dataset = of.record.dataset.model_copy(update={"rows": rows, "name": name})
    spec = of.record.spec.model_copy(update={"name": name})
    systems = {system: one.model_copy(update={"rows": rows}) for system, one in of.record.systems.items()}
    about = {"id": new_run_id(name), "dataset": dataset, "systems": systems, "spec": spec}
    record = of.record.model_copy(update=about)

    def sample(n: int) -> Sample:
        one = given[n % len(given)]
        assert one is not None
        return one.model_copy(update={"query_id": f"r{n:06d}", "query": f"{one.query} ({n})"})

    samples = [sample(n) for n in range(rows)]
    responses = {system: {one.query_id: one.response for one in samples if one.response} for system in systems}
    run = store.create(record, samples, responses)
    scored = [name for name, score in results[0].scores.items() if score.value is not None]
    for chunk in record.chunks():
        made = []
        for n in range(chunk.number * record.chunk_size, chunk.number * record.chunk_size + record.rows_in(chunk)):
            one = results[n % len(results)]
            scores = dict(one.scores)
            for metric in scored:
                if metric != "accurate" and (value := scores[metric].value) is not None and 0 < value <= 1:
                    scores[metric] = scores[metric].model_copy(update={"value": value * draw.uniform(0.8, 1)})
            more = {"query_id": f"r{n:06d}", "query": samples[n].query, "scores": scores}
            made.append(one.model_copy(update={**more, "latency_ms": draw.uniform(50, 900)}))
        run.commit(chunk, made)
    parts = {name: run.evaluated(record.chunks()) for name in record.systems}
    run.save_report(reports.build(record.id, record.created_at, provenance(record), parts, expected=rows))
    return record.id


def copies(home: Path, source: str, count: int) -> None:
    """So many runs like ``source``."""
    folder = home / "runs" / source
    for n in range(count):
        name = f"{source[:-4]}{n:04d}"
        if name != source:
            shutil.copytree(folder, home / "runs" / name)
            for file in ("run.json", "report.json"):
                path = home / "runs" / name / file
                path.write_text(path.read_text().replace(source, name))
            (home / "runs" / name / "summary.json").unlink(missing_ok=True)
            (home / "runs" / name / "costs.json").unlink(missing_ok=True)


def memory_mb(pid: int) -> float:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def measure(home: Path, run: str, baseline: str, rows: int, requests: int) -> tuple[list[str], list[str]]:
    """Lines of a table, and what misses its limit."""
    page = f"/ui/runs/{run}/queries"
    pages = {
        "queries, first page": page,
        "next page": f"{page}?from=50",
        "the last page": f"{page}?from={rows - 100}",
        "worst faithfulness first": f"{page}?sort=faithfulness",
        "next page of these": f"{page}?sort=faithfulness&from=50",
        "faithfulness from 0.2 to 0.5, slowest first": f"{page}?where=faithfulness>=0.2&where=faithfulness<=0.5&sort=-latency_ms",
        "of one category, with a text": f"{page}?category=river&text=vienna",
        "with a text that every row has": f"{page}?text=when was it",
        "of one kind of failure": f"{page}?failure=ranking_miss",
        "worse in correctness than a baseline of as many rows": f"{page}?baseline={baseline}&worse=correctness",
        "next page of these ": f"{page}?baseline={baseline}&worse=correctness&from=50",
        "errors": f"/ui/runs/{run}/errors",
        "one query": f"/ui/runs/{run}/row?sort=faithfulness&at=7",
        "one query beside the baseline's": f"/ui/runs/{run}/row?baseline={baseline}&at=7",
        "the run": f"/ui/runs/{run}",
        "runs": "/ui/runs",
        "runs with a text": "/ui/runs?q=100000",
    }
    command = [sys.executable, "-m", "ragassay.cli", "view", "--no-browser"]
    environment = os.environ | {"RAGASSAY_HOME": str(home)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        try:
            url = server.stdout.readline().strip().removesuffix("/ui/runs")
            http = httpx.Client(base_url=url, trust_env=False, timeout=600)
            until_ready(http)
            began = memory_mb(server.pid)
            lines = ["| page | first time, ms | again, ms (median of 15) |", "|---|---|---|"]
            taken: dict[str, tuple[float, float]] = {}
            for name, address in pages.items():
                first = asked(http, address)
                taken[name] = first, statistics.median(asked(http, address) for _ in range(TIMES))
                lines.append(f"| {name.strip()} | {taken[name][0]:,.0f} | {taken[name][1]:,.0f} |")
            warm = memory_mb(server.pid)
            draw = random.Random(1)
            for n in range(requests):
                start = draw.randrange(rows)
                more = ["sort=faithfulness", "sort=-latency_ms", f"text=({n}", f"where=latency_ms>{n}"][n % 4]
                asked(http, f"{page}?{more}&from={0 if n % 4 == 2 else start // 2}")
                asked(http, f"/ui/runs/{run}/row?at={start}")
            after = memory_mb(server.pid)
            begin, size = time.perf_counter(), 0
            with http.stream("GET", f"{page}?sort=faithfulness&as=csv") as file:
                for part in file.iter_bytes():
                    size += len(part)
            csv_s, csv_mb = time.perf_counter() - begin, memory_mb(server.pid)
        finally:
            server.send_signal(2)
    memory = (
        f"Memory of the server: {began:.0f} MB at the start, {warm:.0f} MB after the pages above, {after:.0f} MB after "
        f"{2 * requests} other pages, {csv_mb:.0f} MB after the whole table as CSV ({size / 2**20:.0f} MB in {csv_s:.0f} s)."
    )
    lines += ["", memory]
    first_s, next_ms = (
        taken["queries, first page"][0] / 1000,
        max(taken[n][0] for n in taken if n.startswith("next page")),
    )
    missed = [f"the first page took {first_s:.2f} s"] if first_s >= FIRST_S else []
    missed += [f"the next page took {next_ms:.0f} ms"] if next_ms >= NEXT_MS else []
    missed += [f"memory grew by {after - warm:.0f} MB"] if after - warm > MORE_MB else []
    return lines, missed


def until_ready(http: httpx.Client) -> httpx.Response:
    for _ in range(200):
        with suppress(httpx.TransportError):
            return http.get("/ui/static/style.css")
        time.sleep(0.1)
    sys.exit("the server does not answer")


def asked(http: httpx.Client, address: str) -> float:
    """Milliseconds until a page is there, whole."""
    began = time.perf_counter()
    answer = http.get(address)
    took = 1000 * (time.perf_counter() - began)
    if answer.status_code != 200:
        sys.exit(f"{address}: {answer.status_code}")
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--folder", type=Path, help="where the runs are kept, and used again; else they are removed")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    before = load()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        home, made = folder / "home", folder / "made.json"
        os.environ["RAGASSAY_HOME"] = str(home)
        if not made.exists():
            source = evaluated(folder, EVALUATED)
            copies(home, evaluated(folder, 3), options.runs)
            ids = [build(home, source, options.rows, name, seed) for seed, name in enumerate(("baseline", "candidate"))]
            made.write_text(json.dumps(ids))
        baseline, run = json.loads(made.read_text())
        lines, missed = measure(home, run, baseline, options.rows, options.requests)
    about = f"{machine(before)}; a run of {options.rows:,} rows among {options.runs:,} others.\n\n"
    text = "\n".join(lines) + "\n"
    print(about + text, flush=True)
    if options.page:
        put(options.page, "dashboard", about + text)
    sys.exit("; ".join(missed) or 0)


if __name__ == "__main__":
    main()
