"""Pages over several runs: systems side by side, trends, what accurate answers cost, and panels of one's own."""

import html
import json
import re
from datetime import UTC, datetime

import pytest

import ragassay
from browsing import browsing
from ragassay.core.settings import Settings
from ragassay.evaluation.labelling import HumanLabel, add_labels
from ragassay.reporting import panels as panels_module
from ragassay.reporting.charts import Drawn, bars
from ragassay.reporting.document import Table
from ragassay.reporting.panels import panel
from ragassay.storage.folder import FolderStore

NAUGHTY = "<script>alert(1)</script>"


def answers(right, cost=0.001, systems=1):
    for n in range(20):
        good = n < right
        yield {
            "query_id": f"q{n}",
            "query": f"Which city is number {n}? {NAUGHTY}",
            "ground_truth_answer": f"The city is Paris {n}.",
            "answer": f"The city is Paris {n}." if good else "I like turtles.",
            "contexts": [f"The city is Paris {n}."],
            "latency_ms": 100 + n,
            "cost_usd": cost,
            "category": "even" if n % 2 == 0 else "odd",
        }


@pytest.fixture
def runs():
    return [ragassay.evaluate(list(answers(n)), name=f"night {n}").run.id for n in (4, 18)]


def test_two_runs_are_compared_and_the_verdict_comes_first(runs):
    with browsing() as http:
        page = http.get("/ui/compare", params={"run": runs}).text
    table = page.index("<h2>night 18 against night 4</h2>")
    assert page.index("is better than") < table
    assert re.search(r'<th scope="row">accurate.*?14/0/6.*?<span class="tag good">better</span>', page, re.DOTALL)
    assert "Accuracy against what it takes" in page
    assert page.index(">night 4, 20") < table
    assert table < page.index('<th scope="row">accurate') < page.index('<th scope="row">correctness')


def test_regressions_lead_to_the_rows_of_both_systems(runs):
    with browsing() as http:
        page = http.get("/ui/compare", params={"run": runs[::-1]}).text
        links = re.findall(r'href="(/ui/runs/[^"]*/row[^"]*)"', page)
        assert {link.split("/")[3] for link in links} == set(runs)
        assert http.get(links[0].replace("&amp;", "&")).status_code == 200


@pytest.mark.parametrize(
    ("both", "asked", "status", "said"),
    [
        (False, {"run": "20200101-000000-none"}, 404, "there is no run"),
        (False, {}, 422, "a comparison needs two systems"),
        (True, {"baseline": "nobody"}, 422, "nobody"),
        (True, {"metrics": "nothing"}, 422, "nothing"),
    ],
)
def test_a_comparison_that_cant_be_made_says_why(runs, both, asked, status, said):
    with browsing() as http:
        answer = http.get("/ui/compare", params={"run": runs if both else runs[:1], **asked})
    assert (answer.status_code, said in answer.text) == (status, True)


def test_without_runs_to_compare_it_says_how_to_make_them_and_else_lists_them(runs):
    with browsing() as http:
        assert f'value="{runs[0]}"' in http.get("/ui/compare").text
    with browsing("another") as http:
        assert "ragassay evaluate" in http.get("/ui/compare").text


def test_a_trend_begins_with_what_changed_since_and_how_sure_that_is(runs):
    with browsing() as http:
        page = http.get("/ui/trends").text
        link = re.search(r'href="(/ui/compare[^"]*)">What changed in default', page)[1]
        assert "is better than" in http.get(html.unescape(link)).text
    said = html.unescape(re.search(r'<p class="answer">([^<]*)', page)[1]).replace("\u00a0", " ")
    today = datetime.now(UTC).date()
    assert re.fullmatch(
        rf"default is better than on {today}: accurate went from 20 % to 90 % "
        r"\(\+0\.70, 95 % interval \+0\.\d+ to \+0\.\d+\)\.",
        said,
    )
    assert page.count('class="whisker"') == 2
    assert all(f'href="/ui/runs/{run}"' in page for run in runs)


def test_first_page_says_that_an_interval_is_before_the_correction_if_the_correction_leaves_the_verdict_open():
    """10 answers get better and 2 worse: p is 79 * 2 / 4096 = 0.0386 alone, above 0.05 among several metrics."""
    old = list(answers(20))
    for n in range(10):
        old[n]["answer"] = "I like turtles."
    new = list(answers(20))
    for n in (10, 11):
        new[n]["answer"] = "I like turtles."
    run = ragassay.evaluate(list(answers(0)), systems={"old": old, "new": new}).run.id

    def answer(http):
        found = re.search(r'<p class="answer">(.*?)</p>', http.get("/ui/runs").text)[1]
        return html.unescape(re.sub("<[^>]*>", "", found)).replace("\u00a0", " ")

    labels = [
        HumanLabel(system=system, query_id=f"q{n}", metric="accurate", value=1.0, by="me", at="2026-01-01T00:00:00Z")
        for system in ("old", "new")
        for n in range(12)
    ]
    with browsing() as http:
        said = answer(http)
        add_labels(FolderStore(Settings().home).open(run), labels)
        labelled = answer(http)
    assert "new may answer accurately more often than old, but 20 queries are too few to be sure" in said
    assert re.search(r"Difference \+0\.40, 95 % interval \+0\.\d+ to \+0\.\d+ before the correction\.$", said)
    assert "Difference" not in labelled, "labels correct it, and the shares are the judge's"


def test_first_page_says_what_the_newest_run_changed_and_what_to_fix_first(runs):
    with browsing() as http:
        page = http.get("/ui/runs").text
    said = html.unescape(re.sub("<[^>]*>", "", re.search(r'<p class="answer">(.*?)</p>', page)[1]))
    assert said.startswith("night 18: default is better than in the run before: accurate went from 0.200 to 0.900, 95")
    assert page.index("What to fix first") < page.index('aria-label="Runs"')
    assert re.search(r"<b>90\s%</b> <small>\[\d+\s%, \d+\s%\]", page)


@pytest.mark.parametrize("path", ["trends", "cost", "compare"])
def test_an_empty_folder_says_what_to_do(path):
    with browsing() as http:
        answer = http.get(f"/ui/{path}")
    assert answer.status_code == 200
    assert "ragassay evaluate" in answer.text


def test_what_an_accurate_answer_costs_stands_first_then_a_chart_and_the_table(runs):
    with browsing() as http:
        page = http.get("/ui/cost").text
    known = re.search(
        r"1,000 accurate answers cost 1\.8\d USD \(95\s% interval [\d.]+ to [\d.]+\) with default\.", page
    )
    assert known
    assert page.index(known[0]) < page.index("Accuracy against cost") < page.index("By dataset and system")
    assert "22 of 40" in page


def test_days_of_the_address_are_asked_for_and_nonsense_is_refused(runs):
    with browsing() as http:
        assert http.get("/ui/cost?since=2100-01-01").status_code == 200
        answer = http.get("/ui/cost?by=colour")
        assert (answer.status_code, "dimension" in answer.text) == (422, True)
        assert http.get("/ui/cost?since=yesterday").status_code in (400, 422)


def test_a_run_of_two_systems_says_which_is_better_and_which_ten_rows_to_read_first(tmp_path):
    systems = {"old": tmp_path / "old.jsonl", "new": tmp_path / "new.jsonl"}
    for path, right in zip(systems.values(), (2, 17), strict=True):
        path.write_text("\n".join(map(json.dumps, answers(right))))
    run = ragassay.evaluate(list(answers(0)), systems=systems).run.id
    with browsing() as http:
        page = http.get(f"/ui/runs/{run}").text
        assert "new answers accurately more often than old: 85\N{NO-BREAK SPACE}% against 10" in page
        assert page.index("new is better than old on") < page.index("All rows")
        first = page.partition("<h2>Read these first</h2>")[2]
        assert first.count("<small>old q") == 5  # of the eighteen that are wrong
        assert first.count("<small>new q") == 3
        answer = ragassay.evaluate(list(answers(20))).run.id
        alone = http.get(f"/ui/runs/{answer}").text
    assert "Read these" not in alone


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(panels_module.PANELS, "_things", {})

    @panel("tokens")
    def _tokens(report):
        return bars("Answers", "n", {NAUGHTY: Drawn(x=0, y=3.0, text="three")})

    @panel("a table")
    def _table(report):
        return Table("Own figures", ("name", "n"), ((NAUGHTY, "1"),))

    @panel("broken")
    def _broken(report):
        raise KeyError("no such thing")

    @panel("odd")
    def _odd(report):
        return 3

    @panel("nothing to say")
    def _nothing(report):
        return None


def test_panels_of_ones_own_are_shown_and_a_broken_one_is_a_note(registered, runs):
    with browsing() as http:
        page = http.get(f"/ui/runs/{runs[0]}").text
    assert "Own figures" in page
    assert "Answers, n" in page
    assert "the panel broken raised KeyError" in page
    assert "the panel odd returned a int" in page
    assert "nothing to say" not in page
    assert "<script>alert" not in page
