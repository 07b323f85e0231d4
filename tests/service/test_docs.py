"""Every command of docs/service.md works, as it stands there, one after the other."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.running import ROOT, Service

PAGE = (ROOT / "docs" / "service.md").read_text()
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.S | re.M)
SHOWN = re.findall(r"^```text\n(.*?)^```", PAGE, re.S | re.M)


@pytest.fixture(scope="module")
def finished():
    """The page's commands after the first, run in one shell against the service that the first starts."""
    with Service(preload="nothing") as service:
        commands = "\n".join(BLOCKS[1:]).replace("http://127.0.0.1:8400", service.url)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            env={**os.environ, "PATH": path, "COLUMNS": "120"}, cwd=service.folder, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        yield service, done


def test_the_first_command_is_the_one_that_the_tests_start():
    assert BLOCKS[0] == "ragassay serve\n"


def test_every_command_works(finished):
    _, done = finished
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""


def test_what_is_shown_is_what_comes(finished):
    service, done = finished
    started, mean, alerts = SHOWN
    assert [line.split()[:3] for line in started.splitlines()] == [line.split()[:3] for line in service.info]
    assert '"status":"finished"' in (service.folder / "events.txt").read_text().splitlines()[-2]
    assert mean in done.stdout
    assert alerts in done.stdout
    assert json.loads((service.folder / "comparison.json").read_text())["kind"] == "comparison"
    assert len(json.loads((service.folder / "trend.json").read_text())["systems"]["default"]["points"]) == 2
    assert '"next":"1"' in done.stdout
    assert '"status":409' in done.stdout  # the job that was cancelled had ended
    assert '"status":"ready"' in done.stdout
