"""The pages as the service serves them: who may see them, the project's jobs alone, and a job while it runs."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from api.projects import BOOTSTRAP, caller, filled, keyed_server, made_key, marked
from api_server import rows
from payloads import PAYLOADS
from polling import until
from ragassay.analysis import comparison
from ragassay.core.errors import NotFound
from ragassay.dashboard.site import AT_ONCE

MARK = "marked-of-a"


@pytest.fixture(scope="module")
def keyed():
    with keyed_server(wrong_keys=3, key_requests_per_minute=0) as served:
        yield served


@pytest.fixture(scope="module")
def keys(keyed):
    """The id of a finished job of project A, and keys: of A, of A that may only read, of B."""
    made = (made_key(keyed, "a"), made_key(keyed, "a", ("read",)), made_key(keyed, "b"))
    a, reader, b = (one.key for one in made)
    body = {"name": f"{MARK} job", "samples": marked(MARK), "metrics": ["mrr"], "gates": [{"mrr": ">= 0"}]}
    answer = httpx.post(f"{keyed.url}/v1/jobs", json=body, headers={"Authorization": f"Bearer {a}"}, timeout=60)
    keyed.work()
    return answer.json()["id"], a, reader, b


def browser(served):
    return httpx.Client(base_url=served.url, trust_env=False, timeout=30, headers={"Sec-Fetch-Site": "same-origin"})


@contextmanager
def signed_in(served, key, **more):
    with browser(served) as http:
        answer = http.post("/ui/sign-in", data={"key": key, **more})
        assert answer.status_code == 303, answer.text
        yield http


def test_without_keys_the_pages_show_jobs_and_ask_for_nothing(served):
    job = served.submit(rows(3), metrics=["mrr", "recall@1"], name=PAYLOADS[0] + PAYLOADS[9])["id"]
    http = served.http
    assert http.get(f"/ui/runs/{job}").headers["location"] == f"/ui/jobs/{job}"
    assert "0 of 3 rows done" in http.get("/ui/runs").text
    served.work()
    for address in (f"/ui/runs/{job}", "/ui/runs?q=alert", f"/ui/jobs/{job}", f"/ui/runs/{job}/queries?sort=mrr"):
        text = http.get(address).text
        assert "<script>alert" not in text
        assert "<img" not in text
    assert "Sign out" not in http.get("/ui/runs").text
    row = http.get(f"/ui/runs/{job}/row?id=q1").text
    assert "River number 1 reaches the sea" in row
    assert "It rains a lot there." in row  # of the sample, which the row does not hold


def test_the_list_of_jobs_says_what_needs_attention_in_the_service(served):
    served.jobs.store.heartbeat("worker", "host:1", for_s=60)
    warnings = served.http.get("/readyz").json()["warnings"]
    assert re.findall('<p class="note half">(.*?)</p>', served.http.get("/ui/runs").text) == warnings != []
    served.jobs.store.heartbeat("beat", "host:3", for_s=60)
    assert "scheduler is running" not in served.http.get("/ui/runs").text


def test_who_is_not_signed_in_is_sent_to_the_door_and_back(keyed, keys):
    job, key, *_ = keys
    with browser(keyed) as http:
        answer = http.get(f"/ui/runs/{job}/queries?sort=mrr")
        assert answer.status_code == 303
        assert MARK not in http.get(answer.headers["location"]).text
        back = http.post("/ui/sign-in", data={"key": key, "next": f"/ui/runs/{job}/queries?sort=mrr"})
        assert back.headers["location"] == f"/ui/runs/{job}/queries?sort=mrr"
        cookie = back.headers["set-cookie"]
        assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/ui", "Max-Age=43200"))
        assert key not in cookie
        assert MARK in http.get(back.headers["location"]).text
        assert http.get("/v1/jobs").status_code == 401  # the cookie is none of the API's keys


@pytest.mark.parametrize("address", ["https://evil.example/", "//evil.example", "/ui/sign-in?next=x", "/\\evil", ""])
def test_the_door_leads_to_our_own_pages_alone(keyed, keys, address):
    with browser(keyed) as http:
        assert http.post("/ui/sign-in", data={"key": keys[1], "next": address}).headers["location"] == "/ui/runs"


def test_a_project_sees_what_is_its_own_alone(keyed, keys):
    ids, own = filled(keyed, "of-pages", "seen-on-pages")
    things = {"schedules": ids["schedule"], "datasets": ids["dataset"], "live": ids["stream"]}
    run, job = f"/ui/runs/{ids['job']}", f"/ui/jobs/{ids['job']}"
    named = [run, job, *(f"{run}/{rest}" for rest in ("queries", "row?id=q0", "label", "labels.jsonl"))]
    named += [f"/ui/compare?run={ids['job']}", *(f"/ui/{kind}/{name}" for kind, name in things.items())]
    for key, there in ((own, True), (keys[3], False)):
        with signed_in(keyed, key) as http:
            for address in named:  # of a project's own, some can't be shown for other reasons
                answer = http.get(address)
                assert answer.status_code != 404 if there else answer.status_code in (404, 422), address
                assert there or "seen-on-pages" not in answer.text, address
            for kind, name in {"runs": "seen-on-pages", **things, "alerts": "seen-on-pages.example"}.items():
                assert (name in http.get(f"/ui/{kind}").text) is there, kind
    with signed_in(keyed, keys[3]) as http:
        label = {"row": "q1", "value": "1", "by": "Ada"}
        changes = [*(f"{job}/{verb}" for verb in ("cancel", "resume", "retry")), f"{run}/label?metric=mrr"]
        assert [http.post(address, data=label).status_code for address in changes] == [404] * 4
    for options, there in (({"project": "of-pages"}, True), ({}, False)):
        with signed_in(keyed, BOOTSTRAP, **options) as http:
            assert ("seen-on-pages" in http.get("/ui/runs").text) is there
    with browser(keyed) as http:
        for kind in (*things, "alerts"):
            assert http.get(f"/ui/{kind}").headers["location"].startswith("/ui/sign-in"), kind


def test_neither_a_key_that_may_only_read_nor_a_page_of_another_site_changes_anything(keyed, keys):
    job, key, reader, _ = keys
    changes = [f"/ui/jobs/{job}/{verb}" for verb in ("cancel", "resume", "retry")]
    with signed_in(keyed, reader) as http:
        assert http.get(f"/ui/jobs/{job}").status_code == 200
        for address in changes:
            answer = http.post(address)
            assert (answer.status_code, "lacks the scope" in answer.text) == (403, True)
    with signed_in(keyed, key) as http:
        for address in (*changes, "/ui/sign-out", "/ui/sign-in"):
            assert http.post(address, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert http.get("/ui/runs").status_code == 200


def test_a_session_ends_by_signing_out_and_with_its_key(keyed):
    first, second = made_key(keyed, "a"), made_key(keyed, "a")
    with signed_in(keyed, first.key) as http, signed_in(keyed, second.key) as other:
        cookie = http.cookies["ragassay_session"]
        stored = str(keyed.jobs.store.redis.keys("ra:session:*"))
        assert cookie not in stored
        http.post("/ui/sign-out")
        http.cookies.set("ragassay_session", cookie)
        assert http.get("/ui/runs").status_code == 303
        assert other.get("/ui/runs").status_code == 200
        keyed.access.revoke(second.id)
        assert other.get("/ui/runs").status_code == 303


def test_slow_analyses_hold_up_no_status_login_list_or_report_without_labels(keyed, keys, monkeypatch):
    job, key, *_ = keys
    begun, done = [], threading.Event()

    def compare(*_, **__):
        begun.append(job)
        done.wait(60)
        raise NotFound("it was slow")

    monkeypatch.setattr("ragassay.analysis.comparison.compare", compare)
    with caller(keyed, key) as http, signed_in(keyed, key) as pages, ThreadPoolExecutor(50) as pool:
        labelled = http.post("/v1/jobs", json={"samples": rows(3), "metrics": ["faithfulness"]}).json()["id"]
        keyed.work()
        label = {"row": "q1", "value": "1", "by": "Ada"}
        assert pages.post(f"/ui/runs/{labelled}/label", data=label).status_code == 303
        assert pages.get("/ui/runs").status_code == 200  # what it says of the newest run is held from here on
        asked = [pool.submit(pages.get, f"/ui/compare?run={job}") for _ in range(45)]  # more than there are threads
        asked += [pool.submit(http.post, "/v1/comparisons", json={"jobs": [job]}) for _ in range(5)]
        try:
            until(lambda: len(begun) >= AT_ONCE)
            for path in (f"/v1/jobs/{job}", f"/v1/jobs/{job}/report"):
                assert http.get(path).status_code == 200
            with signed_in(keyed, key) as another:
                assert another.get("/ui/runs").status_code == 200
            with pytest.raises(httpx.ReadTimeout):  # labels correct its means, so it waits for its turn
                http.get(f"/v1/jobs/{labelled}/report", timeout=1)
            assert len(begun) == AT_ONCE
        finally:
            done.set()
    assert {one.result().status_code for one in asked} == {404}


def test_a_comparison_of_many_rows_is_made_once_for_all_its_requests_and_again_after_an_error(keyed, keys, monkeypatch):
    job, key, _, other = keys
    begun, done, compare = [], threading.Event(), comparison.compare

    def slow(*given, **terms):
        begun.append(job)
        assert done.wait(60)
        if len(begun) == 1:
            raise NotFound("it was slow")
        return compare(*given, **terms)

    monkeypatch.setattr("ragassay.dashboard.library.MAX_ROWS_AT_ONCE", 0)
    monkeypatch.setattr("ragassay.analysis.comparison.compare", slow)
    with caller(keyed, key) as http, signed_in(keyed, key) as pages, signed_in(keyed, other) as stranger:
        second = http.post("/v1/jobs", json={"samples": rows(3), "metrics": ["mrr"]}).json()["id"]
        keyed.work()

        def page():
            answer = pages.get("/ui/compare", params={"run": [job, second]})
            return None if "Refresh" in answer.headers else answer

        assert [page() for _ in range(3)] == [None] * 3
        assert len(begun) == 1
        done.set()
        assert "it was slow" in until(page).text
        assert "Comparison of " in until(page).text
        assert page().status_code == 200
        assert stranger.get("/ui/compare", params={"run": [job, second]}).status_code == 404
        assert len(begun) == 2


def test_wrong_keys_are_counted_at_the_door(keyed):
    with browser(keyed) as http:
        answers = [http.post("/ui/sign-in", data={"key": "ra_" + "0" * 12 + "_" + "0" * 48}) for _ in range(5)]
    assert answers[0].status_code == 401
    assert answers[-1].status_code == 429
    assert "too many wrong keys" in answers[-1].text


def test_a_form_above_its_limit_is_refused_whatever_its_length_is_said_to_be(served):
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    for content in (b"k" * 10_001, (b"k" * 6_000 for _ in range(2))):
        answer = served.http.post("/ui/sign-in", content=content, headers=headers)
        assert answer.status_code == 413
        assert "larger than 10,000 bytes" in answer.text
        assert "send less at a time" in answer.text


def test_a_running_job_is_followed_and_cancelled(served):
    job = served.submit(rows(3), metrics=["mrr"])["id"]
    page = served.http.get(f"/ui/jobs/{job}").text
    assert "0 of 1 chunks" in page
    assert "Cancel the job" in page
    assert served.http.post(f"/ui/jobs/{job}/cancel").status_code == 303
    ended = served.http.get(f"/ui/jobs/{job}").text
    assert "cancelled" in ended
    assert "Cancel the job" not in ended
    assert "not paused" in served.http.post(f"/ui/jobs/{job}/resume").text


def test_a_job_has_labels_as_long_as_its_report_and_no_more_than_fit(served, monkeypatch):
    monkeypatch.setattr("ragassay.evaluation.labelling.MAX_LABELS", 1)
    job = served.submit(rows(3), metrics=["faithfulness"])["id"]
    served.work()
    address = f"/ui/runs/{job}/label?metric=faithfulness"
    assert served.http.post(address, data={"row": "q1", "value": "1", "by": "Ada"}).status_code == 303
    more = served.http.post(address, data={"row": "q2", "value": "1", "by": "Ada"})
    assert (more.status_code, "1 labels" in more.text) == (413, True)
    assert '"q1"' in served.http.get(f"/ui/runs/{job}/labels.jsonl").text
    whole = served.http.get(f"/v1/jobs/{job}/report").json()
    part = served.http.get(f"/v1/jobs/{job}/report", params={"fields": "query_id"}).json()
    corrected = [one["systems"]["default"]["metrics"]["faithfulness"]["corrected"] for one in (whole, part)]
    assert (corrected[0]["corrected_by"], corrected[0]) == (1, corrected[1])
    assert [bool(row["ratings"]) for row in whole["results"]["default"]] == [False, True, False]
    assert served.jobs.store.redis.ttl(served.jobs.store.key(job, "labels.jsonl")) > 0


def test_a_stored_dataset_is_submitted_once_however_often_the_button_is_pressed(served):
    assert "No dataset is stored yet" in served.http.get("/ui/submit").text
    table = "id,question,answer,ground_truth\nq0,Where?,There.,There.\n"
    served.http.put("/v1/datasets/small", content=table, headers={"Content-Type": "text/csv"})
    page = served.http.get("/ui/submit").text
    once = page.partition('name="once" value="')[2].partition('"')[0]
    form = {"dataset": "small", "name": "by hand", "metrics": "token_f1", "once": once}
    answers = [served.http.post("/ui/submit", data=form) for _ in range(2)]
    assert {answer.headers["location"] for answer in answers} == {answers[0].headers["location"]}
    served.work()
    assert "by hand" in served.http.get(answers[0].headers["location"]).text
    wrong = served.http.post("/ui/submit", data={**form, "metrics": "token_f2", "once": "another"})
    assert wrong.status_code == 422
    assert "token_f1" in wrong.text
    assert 'name="name" maxlength="200" value="by hand"' in wrong.text


def test_a_paused_job_shows_what_is_done_and_goes_on_under_a_new_budget(served):
    job = served.submit(rows(60), metrics=["mrr"], budget={"tokens": 900})["id"]
    served.work(most=1)
    served.jobs.store.transition(job, "paused", fields={"error": "the budget of 1 USD is reached"})
    served.work()
    served.jobs.finalize(job)
    page = served.http.get(f"/ui/jobs/{job}").text
    for part in ("the budget of 1 USD is reached", f'href="/ui/runs/{job}"', "1 of 2 chunks"):
        assert part in page
    assert "Where does river number" in served.http.get(f"/ui/runs/{job}/queries").text
    for budget, status in (("none", 422), ("2.5", 303)):
        assert served.http.post(f"/ui/jobs/{job}/resume", data={"budget_usd": budget}).status_code == status
    served.work()
    assert "finished" in served.http.get(f"/ui/jobs/{job}").text
    assert "n=60" in served.http.get(f"/ui/runs/{job}").text


def test_files_of_swagger_ui_are_kept_by_browsers_under_their_digests(served):
    page = served.http.get("/docs").text
    named = re.findall(r'(?:href|src)="(/[^"]*)"', page)
    assert {address.partition("?")[0].rpartition(".")[2] for address in named} == {"css", "js", "svg"}
    for address in named:
        assert "immutable" in served.http.get(address).headers["Cache-Control"]
