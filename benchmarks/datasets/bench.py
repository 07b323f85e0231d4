"""Processor seconds and memory of ``ragassay data import``, ``describe`` and ``split`` on rows that it makes itself.

    python benchmarks/datasets/bench.py [ROWS] [WORDS]

WORDS is how many words the ground truth of a row has. Exits 1 when the three take more than 30 processor seconds or any
of them more than 1 GB.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS, BYTES = 30.0, 10**9
COMMANDS = (
    ("import", "rows.jsonl", "--name", "rows"),
    ("describe", "rows"),
    ("split", "rows", "--seed", "7", "--by", "category"),
)


def write(path: Path, rows: int, words: int) -> None:
    draw = random.Random(1)
    known = ["".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(draw.randint(3, 9))) for _ in range(5000)]
    with path.open("w") as file:
        for n in range(rows):
            row = {
                "query_id": f"Q{n:06d}",
                "query": " ".join(draw.choices(known, k=12)) + "?",
                "ground_truth_answer": " ".join(draw.choices(known, k=words)),
                "key_facts": [" ".join(draw.choices(known, k=8)) for _ in range(2)],
                "relevant_doc_ids": [f"d{n // 3}-{part}" for part in range(3)],
                "category": draw.choice(["factual", "conceptual", "procedural"]),
                "difficulty": draw.choice(["easy", "medium", "hard"]),
                "metadata": {"source": draw.choice(known)},
            }
            file.write(json.dumps(row) + "\n")


def main() -> None:
    rows, words = (int(sys.argv[n]) if len(sys.argv) > n else default for n, default in ((1, 100_000), (2, 25)))
    total, most = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "rows.jsonl", rows, words)
        size = (Path(folder) / "rows.jsonl").stat().st_size
        print(f"{rows:,} rows, {size / 1e6:.0f} MB")
        for command in COMMANDS:
            process = subprocess.Popen(
                [sys.executable, "-m", "ragassay.cli", "data", *command],
                cwd=folder,
                env={**os.environ, "RAGASSAY_HOME": "home"},
                stdout=subprocess.DEVNULL,
            )
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                sys.exit(f"{command[0]}: exit {process.returncode}")
            seconds, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
            print(f"{command[0]:10} {seconds:5.1f} processor seconds, {memory / 1e6:4.0f} MB of memory")
            total, most = total + seconds, max(most, memory)
    print(f"{'together':10} {total:5.1f} processor seconds, {most / 1e6:4.0f} MB at the most")
    sys.exit(total > SECONDS or most > BYTES)


if __name__ == "__main__":
    main()
