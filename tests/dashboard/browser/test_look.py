"""Every page, light and dark, wide and narrow: readable for all, nothing to scroll sideways, nothing asked elsewhere."""

import pytest

from watching import Watched

PAGES = {
    "runs": "/ui/runs",
    "no run": "/ui/runs?q=nowhere",
    "run": "/ui/runs/NIGHT",
    "run of two systems": "/ui/runs/BOTH",
    "queries": "/ui/runs/BOTH/queries?sort=correctness&text=number 3",
    "row": "/ui/runs/NIGHT/row?at=51",
    "errors": "/ui/runs/NIGHT/errors",
    "label": "/ui/runs/NIGHT/label",
    "datasets": "/ui/datasets",
    "dataset": "/ui/datasets/cities",
    "compare, to choose": "/ui/compare",
    "compare": "/ui/compare?run=BEFORE&run=NIGHT&run=BOTH",
    "trends": "/ui/trends",
    "cost": "/ui/cost",
    "problem": "/ui/runs/none",
}


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_a_page_is_accessible_and_fits(watched, runs, path):
    for word, name in (("NIGHT", "night 17"), ("BEFORE", "night 8"), ("BOTH", "both")):
        path = path.replace(word, runs[name])
    page = watched.page
    page.goto(path)
    found = page_barriers(watched, "light", 1280)
    found += page_barriers(watched, "light", 390)
    found += page_barriers(watched, "dark", 1280, ["color-contrast"])
    assert not found


def page_barriers(watched, scheme, width, rules=None):
    """What is in the way of a reader with such a window; the dark differs in its colours alone, which no width changes."""
    watched.page.emulate_media(color_scheme=scheme)
    watched.page.set_viewport_size({"width": width, "height": 900})
    wider = watched.overflow()
    sideways = [f"wider than the window by {wider} px"] if wider > 0 else []
    return [f"{scheme}, {width} px: {one}" for one in watched.barriers(rules) + sideways]


def test_what_is_watched_for_is_seen(chromium, site):
    """Else silence would mean nothing."""
    with chromium.new_context(base_url=site) as context:
        watched = Watched(context.new_page(), site)
        page = watched.page
        page.goto("/ui/runs")
        page.evaluate(
            "document.querySelector('h1').style.color = '#eee'; document.querySelector('h1').style.width = '3000px'"
        )
        assert any("color-contrast" in one for one in watched.barriers())
        assert watched.overflow() > 1000
        page.evaluate("alert(1)")
        page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<img src=http://127.0.0.1:9/x onerror=alert(2)>')"
        )
        page.evaluate("setTimeout(() => { throw new Error('broken') })")
        page.wait_for_timeout(300)
        said = " ".join(watched.wrong)
        for one in ("opened a dialog: 1", "asked another host", "Content Security Policy", "script failed: broken"):
            assert one in said, watched.wrong
