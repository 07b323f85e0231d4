"""No route gives one project a byte of another's; generated over the OpenAPI document, so that new routes are tried too."""

import itertools

import pytest

from api.projects import BOOTSTRAP, caller, filled, keyed_server, made_key, marked
from api_server import problem, rows
from ragassay.api.app import create_app
from ragassay.core.settings import Settings
from ragassay.service.access import SCOPES

MARK = "marked-of-a"
DOCUMENT = create_app(None, Settings.model_construct()).openapi()
ROUTES = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if path.startswith("/v1")
}
UNKNOWN = {"job": "0" * 32, "dataset": "nothing-of-this-name", "key": "0" * 12}
UNKNOWN |= {"stream": "nothing-received", "trace": "0" * 32}
UNKNOWN |= {"schedule": "nothing-planned", "webhook": "wh_" + "0" * 32}
# Bodies and queries that are right in form, so that what is refused is refused for whose it is. {job} is the id of a job.
BODIES = {
    "submitJob": {"samples": rows(1), "metrics": ["mrr"]},
    "compareJobs": {"jobs": ["{job}"]},
    "makeKey": {"name": "another"},
    "createSchedule": {"name": "weekly", "cron": "0 3 * * 1", "job": {"dataset": "{dataset}", "metrics": ["token_f1"]}},
    "changeSchedule": {"paused": True},
    "putStream": {"rate": 0.5, "job": {"metrics": ["token_f1"]}},
    "addToDataset": {"dataset": "{dataset}"},
    "sendTraces": {"resourceSpans": []},
    "addWebhook": {"url": "https://another.example/hook"},
}
UPLOADS = {"uploadDataset": ("text/csv", "id,question,answer\nq1,What?,That.\n")}
QUERIES = {"getTrend": {"metric": "mrr"}}
NAMED_BY_THE_CALLER = {"uploadDataset", "putStream"}  # whose path names a thing of the caller's, new or old
_numbers = itertools.count()


@pytest.fixture(scope="module")
def served():
    with keyed_server(wrong_keys=10**6, key_requests_per_minute=0) as served:
        yield served


@pytest.fixture(scope="module")
def of_a(served):
    """{path parameter: the id of a thing of project A}; nobody changes them here."""
    return filled(served, "a", MARK)[0]


@pytest.fixture(scope="module")
def of_b(served):
    return filled(served, "b", "of-b")


@pytest.fixture(scope="module")
def of_own(served):
    """To be looked at alone; other tests give things of b the ids of things of a."""
    return filled(served, "own", "own")


def asked(http, name, ids, **query):
    """Send the request of an operation, with ids where it names things. A new thing needs an id, a new body an example."""
    method, path, operation = ROUTES[name]
    options = {"params": {**QUERIES.get(name, {}), **query}}
    if name in UPLOADS:
        kind, options["content"] = UPLOADS[name]
        options["headers"] = {"Content-Type": kind}
    elif "requestBody" in operation:
        options["json"] = _named(BODIES[name], ids)
    return http.request(method, path.format(**ids), **options)


def _named(value, ids):
    if isinstance(value, dict):
        return {key: _named(each, ids) for key, each in value.items()}
    if isinstance(value, list):
        return [_named(each, ids) for each in value]
    return value.format(**ids) if isinstance(value, str) and value.startswith("{") else value


def stranger(served, scopes=SCOPES):
    """A caller of a project that nobody has used."""
    return caller(served, made_key(served, f"new-{next(_numbers)}", scopes).key)


def names_a_thing(name):
    _, path, _ = ROUTES[name]
    return name not in NAMED_BY_THE_CALLER and ("{" in path or "{job}" in str(BODIES.get(name)))


def shows(answer, ids):
    """What an answer shows of A: its marked text, or the ids of its things where nobody asked with them."""
    return [text for text in (MARK, *ids) if text in answer.text or text in str(answer.headers)]


@pytest.mark.parametrize("name", [name for name in ROUTES if names_a_thing(name)])
def test_what_another_project_has_is_not_there(served, of_a, name):
    with stranger(served) as http:
        answer = asked(http, name, of_a)
        document = problem(answer, 404)
        assert shows(answer, []) == []
        unknown = problem(asked(http, name, UNKNOWN), 404)
    for kind, its_id in of_a.items():
        document = {key: text.replace(its_id, UNKNOWN[kind]) for key, text in document.items() if isinstance(text, str)}
    assert document == {key: text for key, text in unknown.items() if isinstance(text, str)}


@pytest.mark.parametrize("name", ROUTES)
def test_what_a_project_has_is_there_for_it_and_shows_nothing_of_another(served, of_a, of_own, name):
    ids, key = of_own if ROUTES[name][0] == "GET" else filled(served, f"own-{next(_numbers)}", "own")
    by_name = name in NAMED_BY_THE_CALLER
    with stranger(served) if by_name else caller(served, key) as http:
        answer = asked(http, name, of_a if by_name else ids)
    assert answer.status_code < 300 or answer.status_code in (409, 422), answer.text
    named = ("dataset", "stream") if by_name else ()
    assert shows(answer, [its_id for kind, its_id in of_a.items() if kind not in named]) == []


def parameters_of(name):
    """(where, parameter) for each text that a request may hold beside its path."""
    _, _, operation = ROUTES[name]
    for each in operation.get("parameters", ()):
        if each["in"] == "query" and "string" in str(each["schema"]):
            yield "query", each["name"], "array" in str(each["schema"])
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = DOCUMENT["components"]["schemas"].get(content.get("schema", {}).get("$ref", "").rpartition("/")[2], {})
    for key, value in schema.get("properties", {}).items():
        if "string" in str(value) or "anyOf" in value:
            yield "body", key, "array" in str(value)


@pytest.mark.parametrize(
    ("name", "where", "parameter", "many"), [(name, *each) for name in ROUTES for each in parameters_of(name)]
)
def test_no_parameter_leads_to_another_project(served, of_a, of_b, name, where, parameter, many):
    ids, key = of_b
    with caller(served, key) as http:
        for its_id in of_a.values():
            for value in (its_id, [its_id]) if many else (its_id,):
                if where == "query":
                    answer = asked(http, name, ids, **{parameter: value})
                else:
                    method, path, _ = ROUTES[name]
                    body = {**_named(BODIES[name], ids), parameter: value}
                    answer = http.request(method, path.format(**ids), json=body)
                assert answer.status_code < 500
                assert shows(answer, []) == []
        served.queue.sent.clear()


@pytest.mark.parametrize("name", ROUTES)
def test_each_route_needs_its_scope(served, name):
    method, path, _ = ROUTES[name]
    reads = method == "GET" or name == "compareJobs"
    scope = "admin" if path.startswith("/v1/keys") else "read" if reads else "submit"
    with stranger(served, [other for other in SCOPES if other != scope]) as http:
        assert problem(asked(http, name, UNKNOWN), 403)["detail"] == f"this key lacks the scope {scope!r}"


@pytest.mark.parametrize("name", ROUTES)
def test_no_route_opens_without_a_good_key(served, of_a, name):
    revoked, good = made_key(served, "a"), made_key(served, "a").key
    served.access.revoke(revoked.id)
    other = good[:-1] + ("0" if good[-1] != "0" else "1")
    for key in (None, revoked.key, other, good.replace("ra_", ""), BOOTSTRAP[:-1]):
        with caller(served, key) as http:
            answer = asked(http, name, of_a)
        problem(answer, 401)
        assert shows(answer, []) == []


def test_a_job_can_not_be_measured_by_another_projects_job(served, of_a, of_b):
    _, key = of_b
    body = {"samples": marked("of-b"), "metrics": ["mrr"]}
    of_gates = {"gates": [{"metric": "mrr", "max_drop": 0.1}], "baseline": of_a["job"]}
    with caller(served, key) as http:
        for asks in (of_gates, {**of_gates, "baseline": f"{of_a['job']}#default"}):
            assert (
                problem(http.post("/v1/jobs", json={**body, **asks}), 404)["detail"]
                == f"there is no job {of_a['job']!r}"
            )
        rows_of_a = {"dataset": of_a["dataset"], "metrics": ["token_f1"]}
        plan = {"name": "of-theirs", "cron": "0 3 * * 1", "job": rows_of_a}
        for path, asks in (("jobs", rows_of_a), ("schedules", plan)):
            assert problem(http.post(f"/v1/{path}", json=asks), 404)["where"] == "dataset"


def test_the_same_idempotency_key_and_body_make_a_job_in_each_project(served):
    body, ids = {"samples": rows(1), "metrics": ["mrr"]}, []
    for project in ("one", "two", "one"):
        with caller(served, made_key(served, project).key, **{"Idempotency-Key": "nightly"}) as http:
            ids.append(http.post("/v1/jobs", json=body).json()["id"])
    assert ids[0] == ids[2] != ids[1]


def test_rows_of_the_same_content_are_kept_for_each_project(served):
    keys = [made_key(served, project).key for project in ("rows-1", "rows-2")]
    for key in keys:
        with caller(served, key, **{"Content-Type": "text/csv"}) as http:
            assert http.put("/v1/datasets/same", content="id,question\nq1,What?\n").status_code == 201  # new to each
    with caller(served, keys[0]) as http:
        http.delete("/v1/datasets/same")
    with caller(served, keys[1]) as http:
        assert len(http.get("/v1/datasets/same/rows").json()["rows"]) == 1


def test_the_bootstrap_key_acts_in_the_project_that_it_names(served, of_a):
    with caller(served, BOOTSTRAP, **{"X-Ragassay-Project": "a"}) as http:
        assert http.get(f"/v1/jobs/{of_a['job']}").json()["name"] == f"{MARK} job"
    with caller(served, BOOTSTRAP) as http:
        problem(http.get(f"/v1/jobs/{of_a['job']}"), 404)
    with caller(served, BOOTSTRAP, **{"X-Ragassay-Project": "a b"}) as http:
        problem(http.get("/v1/jobs"), 422)


def test_nothing_of_a_was_changed(served, of_a):
    """Runs last, after all that the others tried."""
    with caller(served, made_key(served, "a").key) as http:

        def listed(path, name):
            return http.get(f"/v1/{path}").json()[name]

        assert [(job["id"], job["status"]) for job in listed("jobs", "jobs")] == [(of_a["job"], "finished")]
        (version,) = listed(f"datasets/{of_a['dataset']}/versions", "datasets")
        assert (version["rows"], version["description"]) == (4, f"{MARK} description")
        assert of_a["key"] in [key["id"] for key in listed("keys", "keys")]
        (schedule,) = listed("schedules", "schedules")
        assert (schedule["created_at"], schedule["paused"]) == (schedule["changed_at"], False)
        assert listed(f"schedules/{of_a['schedule']}/runs", "runs") == []
        (webhook,) = listed("webhooks", "webhooks")
        assert (webhook["id"], webhook["url"]) == (of_a["webhook"], f"https://{MARK}.example/hook")
