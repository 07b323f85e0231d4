"""A job over HTTP, Celery and Redis gives the report that the command line gives; a small job does not wait for a large one."""

import html
import json
import re
import subprocess
import sys
import time

import pytest

from offline_runs import without_times
from service.chaos import stamping_provider
from service.running import Service, environment, rows, write_rows
from watching import browser, watched_page


@pytest.fixture(scope="module")
def provider():
    with stamping_provider(latency_s=0.05) as running:
        yield running


@pytest.fixture(scope="module")
def service(provider):
    with Service(api_base=provider.url, lease_s=60, sweep_s=15, preload="all", traced=False) as running:
        yield running.ready()


def test_a_job_gives_the_report_that_the_command_line_gives(service, provider, capsys):
    """All default metrics: the judged ones, the retrieval ones and the one from sentence embeddings."""
    made, before = rows(200), len(provider.log)
    began = time.monotonic()
    job = service.submit(made, dataset="questions", metrics=None, accurate=None)
    report = service.finished(job, within_s=120)
    with capsys.disabled():
        print(f"\n200 samples over the API in {time.monotonic() - began:.1f} s, imports included")
    assert len(provider.log) - before == 200, "one call for each sample"

    file = write_rows(service.folder / "questions.jsonl", made)
    done = subprocess.run(
        [sys.executable, "-m", "ragassay.cli", "evaluate", str(file), "--judge", "gpt-4o-mini", "--json"],
        env=environment(home=service.folder / "cli", api_base=provider.url),
        cwd=service.folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "semantic_similarity" in report["provenance"]["metrics"]
    assert without_times(report) == without_times(json.loads(done.stdout))

    page = service.client.get(f"/ui/runs/{job}/row?at=3&raw=true").text
    _, prompt, reply = map(html.unescape, re.findall(r'<pre class="raw"[^>]*>(.*?)</pre>', page, re.DOTALL))
    assert "thing number 3" in prompt
    assert reply in service.settled(job)

    status = service.job(job)
    assert status["progress"] == {"rows": 200, "done": 200, "failed": 0}
    assert status["uncertain_calls"] == 0


def test_a_small_job_beside_a_large_one_ends_within_ten_seconds_of_its_start(service, provider, capsys):
    service.finished(
        service.submit(rows(60, "first")), within_s=60
    )  # workers import their libraries with the first job
    large = service.submit(rows(2000, "large"))
    time.sleep(2)
    began = time.monotonic()
    report = service.finished(service.submit(rows(20, "small")))
    took = time.monotonic() - began
    progress = service.job(large)["progress"]
    with capsys.disabled():
        print(f"\n20 samples beside 2,000: {took:.1f} s; by then {progress['done']} of the 2,000 were done")
    assert len(report["results"]["default"]) == 20
    assert took < 10
    assert progress["done"] < 2000, "the large job was over, so this shows nothing"
    service.client.post(f"/v1/jobs/{large}/cancel").raise_for_status()
    calls = len(provider.log)
    time.sleep(2)
    more = len(provider.log) - calls
    with capsys.disabled():
        print(f"\n{more} calls were made after the job was cancelled")
    assert more <= 2 * 8, "no more than had been sent by then"
    assert service.job(large)["status"] == "cancelled"


def test_a_job_is_followed_in_a_browser_while_workers_are_at_it(service, provider):
    """The bar moves, row by row, until there is a report; nobody reloads the page."""
    job = service.submit(rows(160, "watched"), performance={"concurrency": 1, "batch": 10})
    with browser() as chromium, watched_page(chromium, service.url) as watched:
        watched.page.goto(f"/ui/jobs/{job}")
        bar, seen = watched.page.locator("progress"), set()
        while not watched.page.get_by_role("link", name="Read the report").is_visible():
            seen.add(int(bar.get_attribute("value")))
            watched.page.wait_for_timeout(50)
        assert watched.page.get_by_text("160 of 160").is_visible()
    assert any(0 < done < 160 for done in seen), seen
