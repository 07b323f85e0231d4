"""Every page, light and dark, wide and narrow: readable for all, nothing to scroll sideways, nothing asked elsewhere."""

from watching import Watched

PAGES = {
    "runs": "/ui/runs",
    "no run": "/ui/runs?q=nowhere",
    "run": "/ui/runs/NIGHT",
    "run of two systems": "/ui/runs/BOTH",
    "queries": "/ui/runs/BOTH/queries?sort=correctness&text=number 3",
    "errors": "/ui/runs/BOTH/errors",
    "row": "/ui/runs/NIGHT/row?at=51",
    "row with prompt and reply": "/ui/runs/NIGHT/row?at=3&raw=true",
    "label": "/ui/runs/NIGHT/label",
    "datasets": "/ui/datasets",
    "dataset": "/ui/datasets/cities",
    "compare, to choose": "/ui/compare",
    "compare": "/ui/compare?run=BEFORE&run=NIGHT&run=BOTH",
    "trends": "/ui/trends",
    "cost": "/ui/cost",
    "problem": "/ui/runs/none",
}


def test_each_page_is_accessible_and_fits(watched, runs):
    """All in one context: another one for each page takes as long as to look at it."""
    found = {}
    for name, path in PAGES.items():
        for word, run in (("NIGHT", "night 17"), ("BEFORE", "night 8"), ("BOTH", "both")):
            path = path.replace(word, runs[run])
        watched.page.goto(path)
        if barriers := watched.in_the_way():
            found[name] = barriers
    assert not found


def test_what_is_watched_for_is_seen(chromium, site):
    """Else silence would mean nothing."""
    with chromium.new_context(base_url=site) as context:
        watched = Watched(context.new_page(), site)
        page = watched.page
        page.goto("/ui/datasets")
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
