"""Chromium on the pages, each test in a context of its own, and a home with runs to look at."""

import functools
import json
import os
import shutil

import pytest
from playwright.sync_api import sync_playwright

import ragassay
from browsing import Home, browsing
from watching import Watched

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
COUNT = 52  # rows of a run: more than a page holds


@pytest.fixture(scope="module")
def chromium():
    """Ended with the file: while Playwright runs, nothing else in its thread can run a loop of asyncio."""
    if not CHROMIUM:
        pytest.skip("there is no Chromium: apt-get install chromium, or its path in CHROMIUM")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]) as browser,
    ):
        yield browser


def answers(right):
    for n in range(COUNT):
        yield {
            "query_id": f"q{n}",
            "query": f"Which city is number {n} on the long list that the railway company published?",
            "ground_truth_answer": f"The city is Paris {n}.",
            "answer": f"The city is Paris {n}. It lies on a river." if n % 20 < right else "I like turtles.",
            "contexts": [f"The city is Paris {n}. Trains run each hour.", "Rome is another city."],
            "relevant_doc_ids": ["d1"],
            "retrieved_doc_ids": ["d2", "d1"],
            "latency_ms": 100 + n,
            "cost_usd": 0.001,
            "category": "even" if n % 2 == 0 else "odd",
        }


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """Two nightly runs, the second better, one of two systems, and a dataset."""
    folder = tmp_path_factory.mktemp("browser")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("RAGASSAY_HOME", str(folder / "home"))
        evaluate = functools.partial(ragassay.evaluate, metrics=["faithfulness", "accurate", "correctness", "mrr"])
        runs = {f"night {right}": evaluate(list(answers(right)), name=f"night {right}").run.id for right in (8, 17)}
        systems = {}
        for name, right in (("before", 15), ("after", 12)):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers(right)))
            systems[name] = str(folder / f"{name}.jsonl")
        runs["both"] = evaluate(systems["before"], systems=systems, name="both").run.id
        ragassay.Datasets().import_(systems["before"], name="cities")
    return Home(str(folder / "home"), runs)


@pytest.fixture
def runs(home):
    return home.runs


@pytest.fixture
def site(home, monkeypatch):
    """The address of the pages of that home."""
    monkeypatch.setenv("RAGASSAY_HOME", home.folder)
    with browsing() as http:
        yield str(http.base_url).rstrip("/")


@pytest.fixture
def watched(chromium, site):
    """A page that is watched; what it did wrong fails the test at its end."""
    with chromium.new_context(base_url=site) as context:
        page = context.new_page()
        page.set_default_timeout(15_000)
        watching = Watched(page, site)
        yield watching
        watching.assert_quiet()
