"""``/metrics`` as Prometheus reads it: every number against what was done, and who may read it."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from api.projects import BOOTSTRAP, caller, keyed_server, made_key
from api_server import problem, rows, serving
from job_workers import expire_leases
from ragassay import observability
from ragassay.core.settings import Settings
from redis_server import RedisServer

PAGE = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
METRICS_KEY = "0123456789abcdef-of-the-scraper"


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch):
    monkeypatch.setattr("ragassay.api.prometheus.KEPT_S", -1.0)
    observability.take_counted()


def scraped(http, **options):
    answer = http.get("/metrics", **options)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return list(text_string_to_metric_families(answer.text))


def numbers(http):
    """Samples by name, without the prefix, and the values of their labels by their names' alphabet."""
    return {
        (sample.name.removeprefix("ragassay_"), *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in scraped(http)
        for sample in family.samples
        if sample.name.startswith("ragassay_")
    }


def test_jobs_chunks_and_rows_are_counted_from_submission_to_the_end(served):
    job = served.submit(rows(60))["id"]
    waiting = numbers(served.http)
    assert waiting["jobs", "queued"] == 1
    assert (waiting["chunks_waiting",], waiting["chunks_leased",], waiting["rows_total",]) == (2, 0, 0)
    assert 0 <= waiting["unclaimed_seconds",] <= waiting["chunk_age_seconds",] < 60
    served.work(most=1)  # one of two chunks: 50 rows
    running = numbers(served.http)
    assert (running["jobs", "running"], running["chunks_waiting",], running["rows_total",]) == (1, 1, 50)
    served.work()
    served.jobs.cancel(served.submit(rows(1))["id"])
    ended = numbers(served.http)
    assert (ended["chunks_total",], ended["rows_total",], ended["rows_failed_total",]) == (2, 60, 0)
    assert (ended["jobs_ended_total", "finished"], ended["jobs_ended_total", "cancelled"]) == (1, 1)
    assert sum(ended["jobs", status] for status in ("queued", "running", "paused", "finalizing")) == 0
    assert job not in served.http.get("/metrics").text


def test_leases_that_ran_out_late_schedules_and_jobs_that_wait_for_a_provider_are_there(served):
    store = served.jobs.store
    for role, name in (("worker", "a:1:3"), ("worker", "b:2:2"), ("beat", "b:3:1")):
        store.heartbeat(role, name, for_s=60)
    job = served.submit(rows(3))["id"]
    store.claim(job)
    expire_leases(store, job)
    served.jobs.tick()
    assert store.wait_for_provider(store.claim(job), "the provider failed", wait_s=60, outage_timeout_s=600)
    now_ms = store.redis.time()[0] * 1000
    store.redis.sadd("ra:schedules", "a")
    for name, late_s in (("hourly", 60), ("nightly", 600), ("yearly", -600)):
        store.redis.zadd("ra:p:{a}:due", {name: now_ms - late_s * 1000})
    seen = numbers(served.http)
    assert (seen["workers",], seen["worker_processes",], seen["beats",]) == (2, 5, 1)
    assert (seen["leases_expired_total",], seen["jobs_waiting",]) == (1, 1)
    assert (seen["chunk_age_seconds",], seen["outage_seconds",] < 60) == (0, True)  # it waits for something else
    assert 600 <= seen["schedule_overdue_seconds",] < 660


def test_requests_are_counted_by_the_template_of_their_route(served):
    before = numbers(served.http)
    job = served.submit(rows(1))["id"]
    for method, path in (
        ("GET", f"/v1/jobs/{job}"),
        ("GET", "/v1/jobs/" + "0" * 32),
        ("GET", "/no/where"),
        ("BREW", "/v1/jobs"),
    ):
        served.http.request(method, path)
    after = numbers(served.http)
    more = {key[1:]: after[key] - before.get(key, 0) for key in after if key[0] == "http_requests_total"}
    assert more["POST", "/v1/jobs", "202"] == more["GET", "/v1/jobs/{job}", "200"] == 1
    assert more["GET", "/v1/jobs/{job}", "404"] == more["GET", "none", "404"] == 1
    assert {key[0] for key, count in more.items() if count} == {"GET", "POST", "other"}
    assert job not in served.http.get("/metrics").text


def test_without_redis_the_api_still_has_its_own_numbers(redis):
    with RedisServer() as server, serving(server.url) as served:
        assert numbers(served.http)["redis_up",] == 1
        server.kill()
        seen = numbers(served.http)
        assert seen["redis_up",] == 0
        assert ("workers",) not in seen
        assert seen["http_requests_total", "GET", "/metrics", "200"] == 1
        server.start()
        assert numbers(served.http)["redis_up",] == 1


def test_who_may_read_them(redis):
    with keyed_server() as served:
        with caller(served) as stranger, caller(served, made_key(served, "a").key) as operator_of_a:
            problem(stranger.get("/metrics"), 401)
            assert "bootstrap" in problem(operator_of_a.get("/metrics"), 403)["hint"]
        assert scraped(served.http)
    with serving(redis.url, Settings.model_construct(bootstrap_key=BOOTSTRAP, metrics_key=METRICS_KEY)) as served:
        problem(served.http.get("/metrics"), 401)  # the operator's key is not the scraper's
        with caller(served, METRICS_KEY) as scraper:
            assert scraped(scraper)
            problem(scraper.get("/v1/jobs"), 401)  # and reads nothing else


def test_the_page_has_every_metric_with_its_labels_and_no_other(served):
    served.submit(rows(3))
    served.work()
    observability.count("provider_requests", "m", "answered")
    rows_ = re.findall(r"^\| `(ragassay_\w+)` \| (\w+) \|([^|]*)\| [^|]+ \|$", PAGE, re.M)
    exported, labels = {}, {}
    for family in scraped(served.http):
        if family.name.startswith("ragassay_"):
            exported[family.name + ("_total" if family.type == "counter" else "")] = family.type
            labels |= {sample.name: set(sample.labels) - {"le"} for sample in family.samples}
    assert {name: kind for name, kind, _ in rows_} == exported
    for name, kind, named in rows_:
        seen = labels.get(f"{name}_count" if kind == "histogram" else name)
        assert seen is None or seen == set(re.findall(r"`(\w+)`", named)), name
