"""What a runner is called with, and what it writes down."""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any


def arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser()
    options.add_argument("--base-url", required=True, help="root of the mock server")
    options.add_argument("--dataset", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--concurrency", type=int, default=16)
    return options.parse_args()


def items(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in chosen.dataset.read_text(encoding="utf-8").splitlines()]


def number(value: Any) -> float | None:
    """A score as others give it; None where it is none."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


class Timer:
    """Wall and CPU time of the measured part, and how long its main thread waited for a core."""

    def __enter__(self) -> Timer:
        self._began, self._cpu, self._waited = time.monotonic(), time.process_time(), _waited()
        return self

    def __exit__(self, *exc: object) -> None:
        self.fields = {
            "wall_s": round(time.monotonic() - self._began, 3),
            "eval_cpu_s": round(time.process_time() - self._cpu, 3),
            "runq_wait_s": round(_waited() - self._waited, 3),
        }


def _waited() -> float:
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def write(chosen: argparse.Namespace, **result: Any) -> None:
    chosen.out.write_text(json.dumps(result), encoding="utf-8")
