"""Pages over several runs: systems side by side, trends, and what accurate answers cost."""

import html
import re
from datetime import UTC, datetime

import pytest

import ragassay
from browsing import browsing, linked, plain
from dashboard.cities import twenty


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The pages of two runs, and their ids: 4 of 20 answers are accurate, then 18."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGASSAY_HOME", str(tmp_path_factory.mktemp("home")))
        runs = [ragassay.evaluate(list(twenty(n)), name=f"night {n}").run.id for n in (4, 18)]
        with browsing() as http:
            yield http, runs


@pytest.fixture
def http(served):
    return served[0]


@pytest.fixture
def runs(served):
    return served[1]


def test_two_runs_are_compared_and_the_verdict_comes_first(http, runs):
    page = http.get("/ui/compare", params={"run": runs}).text
    table = page.index("<h2>night 18 against night 4</h2>")
    assert page.index("is better than") < table
    assert re.search(r'<th scope="row">accurate.*?14/0/6.*?<span class="tag good">better</span>', page, re.DOTALL)
    assert "Accuracy against what it takes" in page
    assert page.index(">night 4, 20") < table
    assert table < page.index('<th scope="row">accurate') < page.index('<th scope="row">correctness')
    assert f'value="{runs[0]}"' in http.get("/ui/compare").text


def test_regressions_lead_to_the_rows_of_both_systems(http, runs):
    page = http.get("/ui/compare", params={"run": runs[::-1]}).text
    links = re.findall(r'href="(/ui/runs/[^"]*/row[^"]*)"', page)
    assert {link.split("/")[3] for link in links} == set(runs)
    assert http.get(html.unescape(links[0])).status_code == 200


def test_trend_begins_with_what_changed_since_and_how_sure_that_is(http, runs):
    page = http.get("/ui/trends").text
    assert "is better than" in http.get(linked(page, "What changed in default")).text
    today = datetime.now(UTC).date()
    assert re.fullmatch(
        rf"default is better than on {today}: accurate went from 20 % to 90 % "
        r"\(\+0\.70, 95 % interval \+0\.\d+ to \+0\.\d+\)\.",
        plain(re.search(r'<p class="answer">([^<]*)', page)[1]),
    )
    assert page.count('class="whisker"') == 2
    assert all(f'href="/ui/runs/{run}"' in page for run in runs)


def test_what_an_accurate_answer_costs_stands_first_then_a_chart_and_the_table(http):
    page = http.get("/ui/cost").text
    known = re.search(
        r"1,000 accurate answers cost 1\.8\d USD \(95\s% interval [\d.]+ to [\d.]+\) with default\.", page
    )
    assert page.index(known[0]) < page.index("Accuracy against cost") < page.index("By dataset and system")
    assert "22 of 40" in page
    later = http.get("/ui/cost?since=2100-01-01")
    assert (later.status_code, known[0] in later.text) == (200, False)
