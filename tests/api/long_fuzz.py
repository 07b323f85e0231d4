"""Schemathesis over the whole document in all its phases, against the real server and Redis, with a worker: ``make fuzz``.

FUZZ_CASES is how many requests at least (default 5000), FUZZ_SEED the seed. Not collected by ``make test``, which has a
short form in test_openapi.py.
"""

import os
import re
import subprocess
import sys
import time

import pytest

from api_server import rows

LEAST, SEED = int(os.environ.get("FUZZ_CASES", "5000")), os.environ.get("FUZZ_SEED", "1")
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,unsupported_method,negative_data_rejection,use_after_free,ensure_resource_availability"
)


def fuzzed(url, examples, config=None):
    """How many requests were made; fails where an answer does not conform."""
    chosen = [] if config is None else ["--config-file", str(config)]
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *chosen, "run", f"{url}/openapi.json", "--checks", CHECKS,
         "--max-examples", str(examples), "--seed", SEED, "--no-color", "--exclude-operation-id", "followJob",
         "--phases", "examples,coverage,fuzzing,stateful", "--generation-database", "none", "--request-timeout", "60",
         "--suppress-health-check", "filter_too_much"],  # of its own generator: names of datasets are seldom drawn
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
    print(done.stdout[done.stdout.index("= SUMMARY =") :])
    return int(re.findall(r"([\d,]+) generated", done.stdout)[-1].replace(",", ""))


@pytest.mark.timeout(3600)
def test_thousands_of_generated_requests_never_break_the_server_and_answers_conform(served, worker, tmp_path, capsys):
    job = served.submit(rows(2), gates=[{"mrr": ">= 0.5"}])["id"]
    served.http.put("/v1/datasets/kept", content='{"query":"Which?"}', headers={"Content-Type": "application/x-ndjson"})
    served.jobs.store.heartbeat("worker", "host:1", for_s=3600)
    there = tmp_path / "schemathesis.toml"  # requests about what is there, beside those about what is not
    there.write_text(f'[parameters]\n"path.job" = "{job}"\n"path.dataset" = "kept"\n')
    began = time.monotonic()
    with capsys.disabled():
        cases = fuzzed(served.url, LEAST // 50) + fuzzed(served.url, LEAST // 50, there)
        print(f"{cases} requests in {time.monotonic() - began:.0f} s")
    assert cases >= LEAST
    assert served.http.get("/healthz").status_code == 200
