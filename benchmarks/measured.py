"""What benchmarks share: the part of a page that they write, the machine that they ran on, a provider that is a mock."""

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


def put(page: Path, name: str, text: str) -> None:
    """Write a text between the two markers that a page has for it."""
    begin, end = f"<!-- {name} measured -->\n", f"<!-- /{name} measured -->"
    before, rest = page.read_text().split(begin)
    page.write_text(f"{before}{begin}{text}{end}{rest.split(end)[1]}")


def load() -> float:
    """How many processes wanted a core in the last minute."""
    return os.getloadavg()[0]


def machine(load_before: float) -> str:
    """The day, and the machine with what it was busy with."""
    return (
        f"{time.strftime('%d %B %Y')}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"load {load_before:.1f} at the start and {load():.1f} at the end"
    )


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
