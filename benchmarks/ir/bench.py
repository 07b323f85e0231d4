"""Retrieval metrics beside other tools, whole processes: TREC files to per-query values of seven metrics.

bench.py PEERS_PYTHON [--sizes 1000:15,10000:7,100000:3] [--data FOLDER] [--page PAGE]

In each round every tool runs once, in rotated order; a ratio is taken inside a round and the median of the rounds is
reported, so that a machine that gets slower for a while does not favour anyone. Wall and peak memory come from the
operating system's accounts of the finished process. The means of all tools must agree to 1e-9. The table goes into PAGE,
between its two markers. Exits 1 when a target is missed. Memory readings can't go below this process's own, so it imports
little.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from measured import load, machine, put

HERE = Path(__file__).parent
METRICS = "P@5 P@10 R@10 Hit@10 MRR@10 MAP@10 NDCG@10".split()
PEERS = ("pytrec_eval", "ir_measures", "ranx")
LEAST = {1000: {"pytrec_eval": 1.5}, 10_000: {"pytrec_eval": 4}, 100_000: {"pytrec_eval": 8, "ranx": 25}}
FLOOR = "import sys\nfor p in sys.argv[1:]:\n f=open(p,'rb',0)\n b=bytearray(1<<20)\n while n:=f.readinto(b): b.count(b'\\n',0,n)"


def run(command):
    """Wall and CPU seconds, peak MB and the printed means of one process."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"failed: {' '.join(command)}")
    scale = 1024 if sys.platform != "darwin" else 1 << 20
    means = json.loads(printed.splitlines()[-1])["means"] if printed else {}
    return {"wall": wall, "cpu": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / scale, "means": means}


def measure(python, folder, queries, rounds):
    """The rounds of each tool, with ratios of wall time taken inside a round."""
    files = [str(folder / "qrels.txt"), str(folder / "run.txt")]
    commands = {tool: [python, str(HERE / "runners.py"), tool, *files, *METRICS] for tool in PEERS}
    commands["ragassay"] = [str(Path(sys.executable).with_name("ragassay")), "trec", *files, *METRICS, "--json"]
    commands["floor"] = [sys.executable, "-c", FLOOR, *files]
    names, rows = list(commands), {name: [] for name in commands}
    if queries <= 1000:
        for command in commands.values():  # compiled code and files are cached from here on
            run(command)
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            rows[name].append(run(commands[name]))
            print(
                f"{folder.name} round {number + 1}: {name} {rows[name][-1]['wall']:.3f} s", file=sys.stderr, flush=True
            )
    for name in PEERS:
        theirs, ours = rows[name][0]["means"], rows["ragassay"][0]["means"]
        if any(abs(theirs[m] - ours[m]) > 1e-9 for m in METRICS):
            sys.exit(f"{name} and ragassay do not agree: {theirs} {ours}")
    return rows


def median(rows, key):
    return statistics.median(row[key] for row in rows)


def table(queries, rows):
    """A table in Markdown, and the targets that were missed."""
    missed = []
    lines = [
        f"\n{queries:,} queries, {len(rows['ragassay'])} rounds:\n",
        "| | wall s (min to max) | CPU s | peak MB | ragassay is faster |",
        "|---|---|---|---|---|",
    ]
    for name, found in rows.items():
        walls, times = [row["wall"] for row in found], ""
        if name in PEERS:
            ratios = [theirs["wall"] / ours["wall"] for theirs, ours in zip(found, rows["ragassay"], strict=True)]
            times = f"{statistics.median(ratios):.1f} times ({min(ratios):.1f} to {max(ratios):.1f})"
            if statistics.median(ratios) < LEAST.get(queries, {}).get(name, 0):
                missed.append(f"{queries:,} queries: {times} faster than {name}, wanted {LEAST[queries][name]}")
        lines.append(
            f"| {name if name != 'floor' else 'only reading and counting lines'} | {median(found, 'wall'):.2f} "
            f"({min(walls):.2f} to {max(walls):.2f}) | {median(found, 'cpu'):.2f} | {median(found, 'mb'):,.0f} | {times} |"
        )
    memory = median(rows["ragassay"], "mb") / median(rows["pytrec_eval"], "mb")
    if queries == max(LEAST) and memory > 0.5:
        missed.append(f"{queries:,} queries: {memory:.2f} of pytrec_eval's memory, wanted 0.5")
    return "\n".join(lines), missed


def processor():
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            model = line.split(":")[1].strip()
            break
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", help="python of the environment that has requirements.txt")
    parser.add_argument("--sizes", default="1000:15,10000:7,100000:3", help="queries:rounds, ...")
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    pinned = [line for line in (HERE / "requirements.txt").read_text().split() if "==" in line]
    before, parts, missed = load(), [], []
    for size in options.sizes.split(","):
        queries, rounds = map(int, size.split(":"))
        folder = options.data / str(queries)
        if not (folder / "done").exists():
            subprocess.run([sys.executable, str(HERE / "generate.py"), str(folder), str(queries)], check=True)
            (folder / "done").touch()
        text, short = table(queries, measure(options.peers, folder, queries, rounds))
        print(text, flush=True)
        parts.append(text)
        missed += short
    parts.insert(0, f"{machine(before)}, {processor()}; {', '.join(pinned).replace('==', ' ')}.")
    if options.page:
        put(options.page, "retrieval", "\n".join([*parts, ""]))
    print("\n".join(missed) or "all targets met", file=sys.stderr)
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
