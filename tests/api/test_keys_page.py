"""The commands of docs/service.md about keys work as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from api.projects import PEPPER, keyed_server

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
SECTION = PAGE.partition("## Keys and projects\n")[2].partition("\n## ")[0]


def test_the_commands_of_the_page_work(tmp_path):
    commands = "\n".join(re.findall(r"^```sh\n(.*?)^```", SECTION, re.S | re.M))
    folder = tmp_path / "home" / "service" / "redis"
    folder.mkdir(parents=True)
    with keyed_server(bootstrap_key=None) as served:
        (folder / "address").write_text(served.redis.url)  # as ``ragassay serve`` does
        shown = f"{commands}\ncurl -sS http://127.0.0.1:8400/v1/jobs -H 'Authorization: Bearer '$KEY"
        shown = shown.replace("http://127.0.0.1:8400", served.url).replace("$(openssl rand -hex 32)", PEPPER)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        settings = {"PATH": path, "RAGASSAY_HOME": str(tmp_path / "home"), "COLUMNS": "120"}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", shown],
            env={**os.environ, **settings}, cwd=tmp_path, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    jobs, *lines = done.stdout.splitlines()
    assert jobs.startswith('{"jobs":[],"next":null}')
    assert "CI of search" in done.stdout
    assert "submit, read" in done.stdout
    assert '{"systems":[]}' in done.stdout
    assert lines[-1].endswith("}")
    assert '"detail":"the key is missing or wrong"' in lines[-1]
