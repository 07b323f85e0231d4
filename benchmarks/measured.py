"""What benchmarks share: the machine that they ran on, a provider that is a mock."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

MOCK = Path(__file__).resolve().parent / "llm" / "mock_server.py"


def load() -> float:
    """How many processes wanted a core in the last minute."""
    return os.getloadavg()[0]


def machine(load_before: float) -> str:
    """The day, and the machine with what it was busy with."""
    return (
        f"{time.strftime('%d %B %Y')}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"load {load_before:.1f} at the start and {load():.1f} at the end"
    )


def ragassay(home: Path, *arguments: str) -> dict[str, float]:
    """Run a command line in a process of its own, on the runs in ``home``: seconds, processor time and peak memory."""
    began = time.perf_counter()
    environment = os.environ | {"RAGASSAY_HOME": str(home)}
    process = subprocess.Popen(
        [sys.executable, "-c", "from ragassay.cli import main; main()", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"ragassay {' '.join(arguments)} failed with exit code {os.waitstatus_to_exitcode(status)}")
    scale = 1024 if sys.platform != "darwin" else 1 << 20
    wall = time.perf_counter() - began
    return {"wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / scale}


@contextmanager
def mock_provider(latency_ms: float, faults: Mapping[str, float] = MappingProxyType({})) -> Iterator[str]:
    """The root of a mock server that answers after so long; ``faults`` in percent of the calls."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        port = Path(folder) / "port"
        shares = [f"--p{name}={share}" for name, share in faults.items()]
        server = subprocess.Popen([sys.executable, MOCK, "--port-file", port, f"--latency-ms={latency_ms}", *shares])
        try:
            while not port.exists():
                time.sleep(0.02)
            yield f"http://127.0.0.1:{port.read_text()}"
        finally:
            server.terminate()
            server.wait()
