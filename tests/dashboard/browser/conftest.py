"""Chromium on the pages, each test in a context of its own, and homes with runs to look at."""

import fcntl
import functools
import json
import os

import pytest

import ragassay
from browsing import Home, browsing
from watching import browser, watched_page

COUNT = 52  # rows of a run: more than a page holds


@pytest.fixture(scope="module")
def chromium():
    """Ended with the file."""
    with browser() as running:
        yield running


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
def made_once(tmp_path_factory):
    """Makes a home, by name: once for all processes that run tests, of which the first does it and the others wait."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def home(name, make):
        folder = shared / name
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as lock, pytest.MonkeyPatch.context() as patched:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = folder / "runs.json"
            if not known.exists():
                patched.chdir(folder)
                patched.setenv("RAGASSAY_HOME", str(folder / "home"))
                known.write_text(json.dumps(make()))
        return Home(str(folder / "home"), json.loads(known.read_text()))

    return home


@pytest.fixture(scope="session")
def home(made_once):
    """Two nightly runs, the second better, one of two systems, and a dataset."""

    def make():
        evaluate = functools.partial(ragassay.evaluate, metrics=["faithfulness", "accurate", "correctness", "mrr"])
        runs = {f"night {right}": evaluate(list(answers(right)), name=f"night {right}").run.id for right in (8, 17)}
        systems = {"before": list(answers(15)), "after": list(answers(12))}
        runs["both"] = evaluate(systems["before"], systems=systems, name="both").run.id
        ragassay.Datasets().import_(systems["before"], name="cities")
        return runs

    return made_once("pages", make)


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
    with watched_page(chromium, site) as watching:
        yield watching
