"""The service's pages: the door, a job that is followed while it runs, and what only a service has."""

import threading

import httpx
import pytest

from api.projects import keyed_server, made_key
from api_server import rows
from watching import watched_page

ONLY_HERE = {
    "submit": "/ui/submit",
    "live": "/ui/live",
    "schedules": "/ui/schedules",
    "alerts": "/ui/alerts",
    "jobs": "/ui/runs",
}


@pytest.fixture(scope="module")
def keyed():
    with keyed_server() as served:
        yield served


@pytest.fixture
def at_the_door(keyed, chromium):  # in this order: the server can't be ended while Playwright runs
    with watched_page(chromium, keyed.url) as watched:
        yield watched


def test_a_key_opens_the_door_and_a_job_is_followed_to_its_report(at_the_door, keyed):
    key, page = made_key(keyed, "a", name="all").key, at_the_door.page
    body = {"samples": rows(120), "metrics": ["mrr"], "performance": {"batch": 10}}
    job = httpx.post(f"{keyed.url}/v1/jobs", json=body, headers={"Authorization": f"Bearer {key}"}).json()["id"]
    page.goto(f"/ui/jobs/{job}")
    found = at_the_door.in_the_way()
    page.get_by_label("API key").fill(key)
    page.keyboard.press("Enter")
    page.get_by_text("0 of 120").wait_for()
    found += at_the_door.in_the_way()
    work = threading.Thread(target=keyed.work)
    work.start()
    page.get_by_role("link", name="report").wait_for()
    work.join()
    assert page.get_by_text("120 of 120").is_visible()
    for address in ONLY_HERE.values():
        page.goto(address)
        found += at_the_door.in_the_way()
    assert not found
