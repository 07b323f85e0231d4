"""The pages without a mouse."""

import json
from pathlib import Path

import pytest

from ragassay.core.settings import Settings
from ragassay.storage.folder import FolderStore

FOCUSED = "[document.activeElement.tagName, document.activeElement.matches(':focus-visible')]"


def tab_to(page, locator, most=60):
    """Moves the focus by Tab until the element has it, and finds it visible on the way; its place in the order."""
    for step in range(1, most):
        page.keyboard.press("Tab")
        tag, visible = page.evaluate(FOCUSED)
        assert visible, f"the focus on {tag} can't be seen"
        if locator.evaluate("element => element === document.activeElement"):
            return step
    pytest.fail(f"Tab did not reach {locator} in {most} steps")


def there(page, locator):
    """Waits until the element is visible and the page's scripts have run, so that its keys work."""
    locator.wait_for()
    page.wait_for_load_state()


def test_content_is_the_first_thing_to_go_to(watched):
    page = watched.page
    page.goto("/ui/runs")
    assert tab_to(page, page.get_by_role("link", name="Skip to content")) == 1
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_two_runs_are_ticked_compared_and_read_down_to_a_row_and_back(watched, runs):
    page = watched.page
    page.goto("/ui/compare")
    for name in ("night 17", "night 8"):  # as they are listed, so that the older is the second
        tab_to(page, page.get_by_role("checkbox", name=name))
        page.keyboard.press("Space")
    tab_to(page, page.get_by_role("button", name="Compare"))
    page.keyboard.press("Enter")
    there(page, page.get_by_role("heading", name="night 8 against night 17", exact=True))
    comparison = page.url
    first = page.get_by_role("link", name="the whole row").first
    tab_to(page, first)
    page.keyboard.press("Enter")
    there(page, page.get_by_role("heading", name="Answer", exact=True))
    page.go_back()
    assert page.url == comparison
    assert page.get_by_role("heading", name="night 8 against night 17", exact=True).is_visible()


def test_ten_rows_are_labelled_by_keys_alone(watched, home, runs):
    page, run = watched.page, runs["night 17"]
    page.goto(f"/ui/runs/{run}/label")
    tab_to(page, page.get_by_label("Your name, kept"))
    page.keyboard.type("Ada")
    tab_to(page, page.locator("[data-key='1']"), 2)
    for n in range(1, 11):
        page.keyboard.press("Enter" if n == 1 else str(1 + n % 2))
        there(page, page.get_by_text(f"{n} of 52 rows"))
        page.keyboard.press("Enter")
        there(page, page.locator("[data-key='1']"))
    kept = (Path(FolderStore(Settings().home).open(run).folder) / "labels.jsonl").read_text().splitlines()
    labels = [json.loads(line) for line in kept]
    assert len({label["query_id"] for label in labels}) == 10
    assert {label["by"] for label in labels} == {"Ada"}
    assert len({label["value"] for label in labels}) == 2
