"""The OpenAPI document: complete, true, and kept by the server."""

import os
import re
import subprocess
import sys
from importlib.metadata import version

import pytest

from api_server import rows
from ragassay.api.app import create_app
from ragassay.core.settings import Settings

PROBLEM = {"$ref": "#/components/schemas/Problem"}
# ``make fuzz`` sets them, for the long form: all phases, and also requests about what is not there
CASES, SEED = int(os.environ.get("FUZZ_CASES", "0")), os.environ.get("FUZZ_SEED", "1")
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,unsupported_method,negative_data_rejection,use_after_free"
)


@pytest.fixture(scope="module")
def document():
    return create_app(None, Settings()).openapi()


def test_every_operation_is_named_and_described_and_its_errors_are_problems(document):
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations) == 48
    assert document["info"]["version"] == version("ragassay")
    for operation in operations:
        assert operation["summary"]
        assert operation["description"]
        assert operation["tags"]
        for parameter in operation.get("parameters", []):
            assert parameter["description"]
        errors = {status: each for status, each in operation["responses"].items() if status >= "4"}
        assert set(errors) == {"4XX", "5XX"}, operation["operationId"]
        if operation["operationId"] != "sendTraces":  # whose errors are OTLP's
            assert all(each["content"] == {"application/problem+json": {"schema": PROBLEM}} for each in errors.values())


def fuzzed(url, config):
    """How many requests were made; fails where an answer does not conform."""
    examples, phases = (
        (CASES // 50, "examples,coverage,fuzzing,stateful") if CASES else (4, "examples,coverage,fuzzing")
    )
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *config, "run", f"{url}/openapi.json", "--checks", CHECKS,
         "--max-examples", str(examples), "--seed", SEED, "--phases", phases, "--no-color",
         "--exclude-operation-id", "followJob", "--generation-database", "none", "--request-timeout", "60",
         "--suppress-health-check", "filter_too_much"],  # of its own generator: names of datasets are seldom drawn
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
    print(done.stdout[done.stdout.index("= SUMMARY =") :])
    return int(re.findall(r"([\d,]+) generated", done.stdout)[-1].replace(",", ""))


@pytest.mark.timeout(3600 if CASES else 600)
def test_generated_requests_never_break_the_server_and_answers_conform(served, tmp_path):
    job = served.submit(rows(2), gates=[{"mrr": ">= 0.5"}])["id"]
    served.work()
    served.http.put("/v1/datasets/kept", content='{"query":"Which?"}', headers={"Content-Type": "application/x-ndjson"})
    served.jobs.store.heartbeat("worker", "host:1", for_s=3600)
    there = tmp_path / "schemathesis.toml"
    there.write_text(f'[parameters]\n"path.job" = "{job}"\n"path.dataset" = "kept"\n')
    configs = [["--config-file", str(there)], *([[]] if CASES else [])]
    assert sum(fuzzed(served.url, config) for config in configs) >= CASES
    assert served.http.get("/healthz").status_code == 200
