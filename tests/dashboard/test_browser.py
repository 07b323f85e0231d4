"""Chromium on every page: readable for all, without a mouse, and whatever systems, models and people write stays text."""

import functools
import json
import threading
from urllib.parse import urlencode

import httpx
import pytest

import ragassay
from api.projects import filled, keyed_server, made_key
from api_server import rows as few
from browsing import browsing
from dashboard.cities import cities
from live_traffic import received, set_rule, spans_of
from payloads import PAYLOADS
from ragassay.core.settings import Settings
from ragassay.live.traffic import LiveTraffic
from ragassay.storage.folder import FolderStore
from ragassay.storage.protocol import system_name
from watching import Watched, browser, watched_page

COUNT = 52  # rows of a run: more than a page holds
PAGES = {
    "runs": "/ui/runs",
    "no run": "/ui/runs?q=nowhere",
    "run": "/ui/runs/NIGHT",
    "run of two systems": "/ui/runs/BOTH",
    "queries": "/ui/runs/BOTH/queries?sort=correctness&text=number 3",
    "row": "/ui/runs/NIGHT/row?id=q51",
    "changed": "/ui/runs/NIGHT/queries?system=default&changed=better&since=BEFORE%23default",
    "changed row": "/ui/runs/NIGHT/row?id=q8&system=default&changed=better&since=BEFORE%23default",
    "label": "/ui/runs/NIGHT/label",
    "datasets": "/ui/datasets",
    "dataset": "/ui/datasets/cities",
    "compare the newest": "/ui/compare",
    "compare two": "/ui/compare?run=NIGHT&run=BEFORE",
    "compare three": "/ui/compare?run=BEFORE&run=NIGHT&run=BOTH",
    "trends": "/ui/trends",
    "cost": "/ui/cost",
    "problem": "/ui/runs/none",
}
ONLY_OF_SERVICE = ("submit", "live", "schedules", "alerts", "runs")
# elements that our pages have none of, attributes that do something, and addresses that lead elsewhere
MADE = """() => {
  const all = [...document.querySelectorAll("*")];
  const tags = new Set(("img image iframe object embed base audio video source style math form[action*=evil] template marquee "
    + "noscript foreignobject use animate dialog option[onload]").split(" "));
  const leads = (e) => ["href", "src", "action", "xlink:href", "srcset", "formaction", "ping"].some((name) => {
    const to = e.getAttribute(name);
    return to !== null && !(to.startsWith("#") || new URL(to, location).origin === location.origin);
  });
  return all.filter((e) => tags.has(e.localName.toLowerCase()) || leads(e)
    || (e.localName === "script" && !e.getAttribute("src")?.startsWith("/ui/static/"))
    || (e.localName === "link" && !e.getAttribute("href").startsWith("/ui/static/"))
    || (e.localName === "meta" && e.hasAttribute("http-equiv"))
    || [...e.attributes].some((a) => a.name.startsWith("on") || a.name === "style" || a.name === "autofocus" || a.name === "srcdoc")
  ).map((e) => e.outerHTML.slice(0, 200));
}"""
FOCUSED = "[document.activeElement.tagName, document.activeElement.matches(':focus-visible')]"


def hostile_rows():
    for n, text in enumerate(PAYLOADS):
        yield {
            "query_id": f"q{n} {text}",
            "query": text,
            "ground_truth_answer": text,
            "answer": f"{text} Sentence {n} says more.",
            "contexts": [text, f"Sentence {n} says more. {text}"],
            "retrieved_doc_ids": [text, "d1"],
            "relevant_doc_ids": [text],
            **dict.fromkeys(("category", "difficulty", "model", "route"), text),
            "cost_usd": 0.001,
            "latency_ms": 100 + n,
            **({"error": text} if n % 10 == 9 else {}),
        }


def hostile_judge(sample, units):
    """Its every word is a payload."""
    text = PAYLOADS[int(sample.query_id.split()[0][1:])]
    sentences = [
        {"id": one, "support": "not_found", "truth": "absent", "evidence": [], "why": text} for one in units.answer
    ]
    facts = [{"id": one, "covered": "partly", "evidence": [], "why": text} for one in units.facts]
    return {"answer": sentences, "facts": facts, "relevance": "mostly", "refusal": False, "why": text}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two nightly runs, the second better, one of two systems, two of payloads, and datasets: its runs by name."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAGASSAY_HOME", str(tmp_path_factory.mktemp("home")))
        for n, text in enumerate(PAYLOADS[:2]):
            given = [{**row, "split": row["query"]} for row in hostile_rows()]
            ragassay.Datasets().import_(given[n:], name="hostile", description=text)
        evaluate = functools.partial(ragassay.evaluate, metrics=["faithfulness", "accurate", "correctness"])
        runs = {}
        for name, text in zip(("hostile", "other"), PAYLOADS[9:11], strict=True):
            runs[name] = evaluate(list(hostile_rows()), name=text, judge=hostile_judge).run.id
        runs |= {
            f"night {right}": evaluate(list(cities(right, COUNT)), name=f"night {right}").run.id for right in (8, 17)
        }
        systems = {"before": list(cities(15, COUNT)), "after": list(cities(12, COUNT))}
        runs["both"] = evaluate(systems["before"], systems=systems, name="both").run.id
        ragassay.Datasets().import_(systems["before"], name="cities")
        yield Settings().home, runs


@pytest.fixture(scope="module")
def runs(made):
    return made[1]


@pytest.fixture(scope="module")
def keyed():
    with keyed_server() as served:
        yield served


@pytest.fixture(scope="module")
def site(made):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAGASSAY_HOME", str(made[0]))
        with browsing() as http:
            yield str(http.base_url).rstrip("/")


@pytest.fixture(scope="module")
def owned(keyed):
    """A project's things by kind, with live traffic of the stream shop, and its key."""
    ids, key = filled(keyed, "a", "seen")
    live = LiveTraffic(keyed.jobs.of("a"), keyed.settings)
    set_rule(live)
    live.store.append(received(*(spans_of(n) for n in range(6))))
    for _ in range(4):
        live.tick_all()
        keyed.work()
    return ids, key


@pytest.fixture(scope="module")
def chromium(site, owned):  # in this order: a server can't be ended while Playwright runs
    with browser() as running:
        yield running


@pytest.fixture
def watched(chromium, site):
    with watched_page(chromium, site) as watching:
        yield watching


@pytest.fixture
def page(watched):
    return watched.page


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


def test_names_stay_in_sight_where_a_wide_table_is_scrolled_on_a_phone(page, runs):
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"/ui/compare?run={runs['night 8']}&run={runs['night 17']}")
    table = page.get_by_role("region", name="night 17 against night 8", exact=True)
    assert table.evaluate("element => (element.scrollLeft = 300, element.scrollLeft)") == 300
    name = table.get_by_role("rowheader", name="accurate")
    assert name.bounding_box()["x"] == table.bounding_box()["x"]
    outcome = table.get_by_text("better").first
    assert outcome.bounding_box()["x"] > name.bounding_box()["x"]


def test_what_is_watched_for_is_seen(chromium, site):
    """Else silence would mean nothing."""
    with chromium.new_context(base_url=site) as context:
        watched = Watched(context.new_page(), site)
        watched.page.goto("/ui/datasets")
        watched.page.evaluate("Object.assign(document.querySelector('h1').style, {color: '#eee', width: '3000px'})")
        assert any("color-contrast" in one for one in watched.barriers())
        assert watched.overflow() > 1000
        watched.page.evaluate("alert(1)")
        image = "<img src=http://127.0.0.1:9/x onerror=alert(2)>"
        watched.page.evaluate(f"document.body.insertAdjacentHTML('beforeend', '{image}')")
        watched.page.evaluate("setTimeout(() => { throw new Error('broken') })")
        watched.page.wait_for_timeout(300)
        for one in ("opened a dialog: 1", "asked another host", "Content Security Policy", "script failed: broken"):
            assert one in " ".join(watched.wrong), watched.wrong


def test_two_runs_are_ticked_compared_and_read_down_to_a_row_and_back_by_keys(page):
    page.goto("/ui/compare")
    assert tab_to(page, page.get_by_role("link", name="Skip to content")) == 1
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
    page.goto("/ui/runs")
    for name in ("night 17", "night 8"):  # as they are listed, so that the older is the second
        tab_to(page, page.get_by_role("checkbox", name=f"compare {name}"))
        page.keyboard.press("Space")
    page.goto("/ui/runs#runs")
    tab_to(page, page.get_by_role("button", name="Compare the ticked runs"))
    page.keyboard.press("Enter")
    there(page, page.get_by_role("heading", name="night 17 against night 8", exact=True))
    comparison = page.url
    tab_to(page, page.get_by_role("link", name="22 got better"))  # 17, 17 and 12 are right after 8, 8 and 8
    page.keyboard.press("Enter")
    there(page, page.get_by_text("22 questions"))
    tab_to(page, page.get_by_role("link", name="The city is Paris 8.").first)
    page.keyboard.press("Enter")
    there(page, page.get_by_role("heading", name="Answers to compare"))
    assert page.get_by_text("I like turtles.").is_visible()
    page.go_back()
    page.go_back()
    assert page.url == comparison


def test_ten_rows_are_labelled_by_keys_alone(page, made):
    home, runs = made
    page.goto(f"/ui/runs/{runs['night 17']}/label")
    tab_to(page, page.get_by_label("Your name, kept"))
    page.keyboard.type("Ada")
    tab_to(page, page.locator("[data-key='1']"), 2)
    for n in range(1, 11):
        page.keyboard.press("Enter" if n == 1 else str(1 + n % 2))
        there(page, page.get_by_text(f"{n} of 52 rows"))
        page.keyboard.press("Enter")
        there(page, page.locator("[data-key='1']"))
    kept = FolderStore(home).open(runs["night 17"]).folder / "labels.jsonl"
    labels = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len({label["query_id"] for label in labels}) == 10
    assert {label["by"] for label in labels} == {"Ada"}
    assert len({label["value"] for label in labels}) == 2


def test_sixty_payloads_in_every_field_are_read_as_written_and_do_nothing_on_any_page(watched, page, runs):
    run, other = runs["hostile"], runs["other"]
    where = f"/ui/runs/{run}"
    paths = ["/ui/runs", where, f"{where}/queries", f"{where}/queries?from=50", f"{where}/label"]
    paths += [f"/ui/compare?run={run}&run={other}", "/ui/trends", "/ui/cost?by=category", "/ui/cost?by=model"]
    questions = {f"{where}/row?{urlencode({'id': row['query_id']})}": row["query"] for row in hostile_rows()}
    paths += questions
    paths += [f"{where}/label?{urlencode({'row': row['query_id']})}" for row in list(hostile_rows())[::8]]
    paths += ["/ui/datasets", "/ui/datasets/hostile", "/ui/datasets/hostile?from=50", "/ui/compare"]
    fields = {  # of an address, in turn
        "/ui/runs": ("q",),
        f"{where}/queries": ("text", "category", "where", "sort", "system"),
        "/ui/trends": ("metric", "system"),
        "/ui/compare": ("run",),
        "/ui/cost": ("by", "system"),
        f"{where}/label": ("metric",),
        "/ui/datasets": ("q",),
        "/ui/datasets/hostile": ("version",),
    }
    places = [(place, field) for place, names in fields.items() for field in names]
    for n, text in enumerate(PAYLOADS[::2]):
        place, field = places[n % len(places)]
        paths.append(f"{place}?{urlencode({field: text[:200]})}")
    assert len(PAYLOADS) >= 60
    for text in PAYLOADS:
        with pytest.raises(ValueError, match="system name"):
            system_name(text)
    found = {}
    for path in paths:
        page.goto(path, wait_until="domcontentloaded")
        if elements := page.evaluate(MADE):
            found[path] = elements
        if path in questions:
            assert page.locator("h1").text_content() == questions[path]
        watched.assert_quiet()
    assert not found
    page.goto(f"{where}/label")
    page.get_by_label("Your name, kept").fill(PAYLOADS[9])
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Next row").wait_for()
    assert page.evaluate(MADE) == []


def test_key_opens_the_door_and_a_job_is_followed_to_its_report(chromium, keyed, owned):
    ids, key = owned
    body = {"samples": few(40), "metrics": ["mrr"], "performance": {"batch": 10}}
    job = httpx.post(f"{keyed.url}/v1/jobs", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=60).json()[
        "id"
    ]
    with watched_page(chromium, keyed.url) as watched:
        page = watched.page
        page.goto(f"/ui/jobs/{job}")
        found = watched.in_the_way()
        page.get_by_label("API key").fill(key)
        page.keyboard.press("Enter")
        page.get_by_text("0 of 40").wait_for()
        found += watched.in_the_way()
        work = threading.Thread(target=keyed.work)
        work.start()
        page.get_by_role("link", name="report").wait_for()
        work.join()
        assert page.get_by_text("40 of 40").is_visible()
        for name in (*ONLY_OF_SERVICE, f"schedules/{ids['schedule']}", "live/shop", f"live/{ids['stream']}"):
            page.goto(f"/ui/{name}")
            found += watched.in_the_way()
    assert not found


def test_docs_are_swagger_ui_of_this_server_alone_and_its_requests_are_answered(chromium, keyed):
    with watched_page(chromium, keyed.url) as watched:
        page = watched.page
        page.goto("/docs")
        page.locator(".opblock").nth(47).wait_for(timeout=60_000)
        page.get_by_role("button", name="Authorize").click()
        page.locator(".auth-container input").fill(made_key(keyed, "a").key)
        page.get_by_role("button", name="Apply credentials").click()
        page.locator(".btn-done").click()
        operation = page.locator("#operations-catalog-listMetrics")
        operation.locator(".opblock-summary-control").click()
        operation.get_by_role("button", name="Try it out").click()
        operation.get_by_role("button", name="Execute").click()
        operation.get_by_text('"recall@k"').first.wait_for()
