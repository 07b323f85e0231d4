"""The OpenAPI document: complete, true, and kept by the server."""

import re
import subprocess
import sys
from importlib.metadata import version

import jsonschema
import pytest

from api_server import rows
from ragassay.api.app import create_app
from ragassay.api.submission import JobRequest
from ragassay.config import GatedConfig
from ragassay.core.models import Sample
from ragassay.core.settings import Settings

PROBLEM = {"$ref": "#/components/schemas/Problem"}


@pytest.fixture(scope="module")
def document():
    return create_app(None, Settings()).openapi()


@pytest.fixture
def operations(document):
    return {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def check(document, schema, value):
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(value)


def test_every_operation_is_named_and_described(document, operations):
    assert sorted(operations) == [
        "addToDataset", "addWebhook", "cancelJob", "changeSchedule", "compareJobs", "createSchedule", "deleteDataset",
        "deleteSchedule", "deleteStream", "deleteWebhook", "followJob", "getCosts", "getDataset",
        "getGates", "getJob", "getReport", "getRequest", "getSchedule", "getStream", "getTrend", "health",
        "listAlerts", "listDatasets", "listJobs", "listKeys", "listMetrics", "listRequests", "listResults", "listRows",
        "listScheduledRuns", "listSchedules", "listStreams", "listSystems", "listVersions", "listWebhooks",
        "listWindows", "makeKey", "prometheusMetrics", "putStream", "readiness", "resumeJob", "retryJob", "revokeKey",
        "runSchedule", "sendTraces", "submitJob", "testWebhook", "uploadDataset",
    ]  # fmt: skip
    assert document["info"]["version"] == version("ragassay")
    for _, _, operation in operations.values():
        assert operation["summary"]
        assert operation["description"]
        assert operation["tags"]
        for parameter in operation.get("parameters", []):
            assert parameter["description"]


def test_every_schema_that_is_named_is_there(document):
    named = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert named <= set(document["components"]["schemas"])
    assert not {"HTTPValidationError", "ValidationError"} & set(document["components"]["schemas"])


def test_every_error_is_a_problem(operations):
    for name, (_, _, operation) in operations.items():
        if name == "sendTraces":  # as OTLP says
            continue
        errors = {status: each for status, each in operation["responses"].items() if status >= "4"}
        assert set(errors) == {"4XX", "5XX"}, name
        for each in errors.values():
            assert each["content"] == {"application/problem+json": {"schema": PROBLEM}}


def test_answers_fit_their_schemas(document, operations, served):
    job = served.submit(rows(3), gates=[{"mrr": ">= 0.9"}])["id"]
    other = served.submit(rows(3))["id"]
    served.work()
    served.jobs.store.heartbeat("worker", "host:1", for_s=60)
    bodies = {"compareJobs": {"json": {"jobs": [job, other]}}, "getTrend": {"params": {"metric": "mrr"}}}
    for name in (
        "getJob",
        "listJobs",
        "getReport",
        "listResults",
        "listMetrics",
        "listSystems",
        "getGates",
        "listAlerts",
        "listWebhooks",
        *bodies,
        "health",
        "readiness",
    ):
        method, path, operation = operations[name]
        answer = served.http.request(method, path.format(job=job), **bodies.get(name, {}))
        assert answer.status_code == 200
        check(document, operation["responses"]["200"]["content"]["application/json"]["schema"], answer.json())


def test_the_body_is_the_configuration_of_an_evaluation_its_gates_and_rows():
    ours = JobRequest.model_json_schema()["properties"]
    theirs = GatedConfig.model_json_schema()["properties"]
    assert ours.keys() - theirs.keys() == {"samples", "dataset", "systems"}
    assert {key for key in theirs if ours[key] != theirs[key]} == {"judge", "baseline"}


def test_the_rows_are_documented_as_samples(document):
    row = document["components"]["schemas"]["JobRequest"]["properties"]["samples"]["items"]
    assert {"$ref": "#/components/schemas/Sample"} in row["anyOf"]
    assert document["components"]["schemas"]["Sample"]["properties"].keys() == Sample.model_fields.keys()


def test_docs_is_a_page_that_links_the_document_and_loads_nothing(served):
    page = served.http.get("/docs")
    assert 'href="/openapi.json"' in page.text
    assert "<script" not in page.text
    assert served.http.get("/redoc").status_code == 404


@pytest.mark.timeout(240)
def test_generated_requests_never_break_the_server_and_answers_conform(served):
    served.submit(rows(2))
    checks = (
        "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
        "response_schema_conformance,unsupported_method,negative_data_rejection,use_after_free"
    )
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/openapi.json", "--checks", checks,
         "--max-examples", "12", "--seed", "1", "--phases", "examples,coverage,fuzzing", "--no-color",
         "--exclude-operation-id", "readiness", "--exclude-operation-id", "followJob", "--generation-database", "none",
         "--suppress-health-check", "filter_too_much"],  # of its own generator: names of datasets are seldom drawn
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
