"""What benchmarks share: the machine that they ran on, providers that are mocks, services, commands."""

from __future__ import annotations

import os
import platform
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))  # its provider and its service

from provider import Answer, Provider, Seen, good, hang, malformed, status, tokens  # noqa: E402
from service.running import Service  # noqa: E402

__all__ = ["FaultyProvider", "Provider", "Service", "load", "machine", "ragassay", "table"]

FAULTS = {"429": status(429, {"Retry-After": "1"}), "malformed": malformed, "hang": hang}


def load() -> float:
    """How many processes wanted a core in the last minute."""
    return os.getloadavg()[0]


def machine(load_before: float) -> str:
    """The day, and the machine with what it was busy with."""
    return (
        f"{time.strftime('%d %B %Y')}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"load {load_before:.1f} at the start and {load():.1f} at the end"
    )


def table(head: Sequence[object], *rows: Sequence[object]) -> list[str]:
    """The lines of a table in Markdown."""
    return [f"| {' | '.join(map(str, cells))} |" for cells in (head, ["---"] * len(head), *rows)]


def ragassay(home: Path, *arguments: str) -> dict[str, float]:
    """Run a command line in a process of its own, on the runs in ``home``: seconds, processor time and peak memory."""
    began, command = time.perf_counter(), [sys.executable, "-m", "ragassay.cli", *arguments]
    environment = os.environ | {"RAGASSAY_HOME": str(home)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, ended, used = os.wait4(process.pid, 0)
    if ended:
        sys.exit(f"ragassay {' '.join(arguments)} failed with exit code {os.waitstatus_to_exitcode(ended)}")
    scale = 1024 if sys.platform != "darwin" else 1 << 20
    wall = time.perf_counter() - began
    return {"wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / scale}


class FaultyProvider(Provider):
    """A provider that answers after so long; ``shares``: faults in percent of the calls, the same ones in each run."""

    def __init__(self, latency_ms: float, shares: Mapping[str, float] = MappingProxyType({})) -> None:
        super().__init__(then=self._answer, latency_s=latency_ms / 1000)
        self.shares, self.injected = shares, Counter[str]()

    def _answer(self, seen: Seen) -> Answer:
        drawn = 100 * random.Random(f"7-{seen.n}").random()
        for fault, share in self.shares.items():
            if drawn < share:
                self.injected[fault] += 1
                return FAULTS[fault](seen)
            drawn -= share
        return good(seen)

    def tokens(self) -> dict[str, int]:
        """Those of all prompts, with the forms of replies; and of all replies, as good ones."""
        forms = sum(-(-len(str(seen.body.get("response_format", ""))) // 4) for seen in self.log)
        prompt, completion = (sum(pair) for pair in zip(*(tokens(seen, good(seen)) for seen in self.log), strict=True))
        return {"prompt": prompt + forms, "completion": completion}
