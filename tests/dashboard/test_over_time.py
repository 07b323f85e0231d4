"""Pages over several runs: systems side by side, trends, what accurate answers cost, and panels of one's own."""

import csv
import html
import io
import json
import re

import numpy as np
import pytest

import ragassay
from browsing import browsing
from ragassay.reporting import panels as panels_module
from ragassay.reporting.charts import Drawn, bars, histogram
from ragassay.reporting.panels import panel
from ragassay.reporting.tables import Table

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
    verdict = page.index("is better than")
    assert verdict < page.index("At a glance")
    assert re.search(r'<td class="good" data-of="night 18"><b>0\.900</b>.*?better\*\*\*', page, re.DOTALL)
    assert "Accuracy against what it takes" in page
    assert "won/lost/tied" in page
    assert page.index(">night 4, 20") < page.index("At a glance")
    assert page.index('<th scope="row">accurate <small>20 pairs</small>') < page.index('<th scope="row">correctness')


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


def test_a_trend_shows_its_points_with_intervals_and_what_changed_since(runs):
    with browsing() as http:
        page = http.get("/ui/trends").text
    assert page.count('class="whisker"') == 2
    for run in runs:
        assert f'href="/ui/runs/{run}"' in page
    link = re.search(r'href="(/ui/compare[^"]*)">default: the newest run', page)[1]
    with browsing() as http:
        assert "is better than" in http.get(html.unescape(link)).text
    assert "no change of level found over 2 runs" in page


def exported(http, address):
    """The lines of the file that a page's link gives."""
    link = re.search(r'href="([^"]*)" download>csv<', http.get(address).text)
    answer = http.get(html.unescape(link[1]))
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_a_comparison_is_exported_as_it_is_asked_for():
    runs = [ragassay.evaluate(list(answers(n)), name=f"=night({n})").run.id for n in (4, 18)]
    with browsing() as http:
        compared = exported(http, f"/ui/compare?run={runs[0]}&run={runs[1]}&metrics=accurate")
    assert {(line["a"], line["b"]) for line in compared} == {("'=night(4)", "'=night(18)")}
    (accurate,) = compared  # the metrics that are asked for
    assert (accurate["metric"], accurate["mean_a"], accurate["mean_b"]) == ("accurate", "0.2", "0.9")
    assert (accurate["wins"], accurate["outcome"]) == ("14", "better")
    assert float(accurate["low"]) < 0.7 < float(accurate["high"])


@pytest.mark.parametrize("path", ["trends", "cost", "compare"])
def test_an_empty_folder_says_what_to_do(path):
    with browsing() as http:
        answer = http.get(f"/ui/{path}")
    assert answer.status_code == 200
    assert "ragassay evaluate" in answer.text


def test_what_an_accurate_answer_costs_stands_first_and_where_the_money_goes(runs):
    with browsing() as http:
        page = http.get("/ui/cost").text
    known = re.search(
        r"An accurate answer of default cost 0\.0018\d* USD \(95\s%: .*?\): (\d+) accurate answers of 40", page
    )
    assert known
    assert page.index(known[0]) < page.index("Where the money went") < page.index("by day")
    assert "0.040 USD" in page


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
        first = page.partition('id="first"')[2]
        assert first.count("<small>old, q") == 5  # of the eighteen that are wrong
        assert first.count("<small>new, q") == 3
        answer = ragassay.evaluate(list(answers(20))).run.id
        alone = http.get(f"/ui/runs/{answer}").text
    assert "Read these" not in alone


def counted(page, title):
    """What the columns of a histogram say, and where they lead: (words, address)."""
    figure = page.partition(f"<figcaption>{title}")[2].partition("</figure>")[0]
    return [(text, html.unescape(to)) for to, text in re.findall(r'<a href="([^"]*)" aria-label="([^"]*)">', figure)]


def test_a_run_shows_how_its_latencies_and_costs_are_distributed_and_each_column_leads_to_its_rows():
    given = {name: list(answers(18)) for name in ("old", "new")}
    given["new"][3] |= {"latency_ms": 60_000}
    given["new"][4] |= {"latency_ms": None, "cost_usd": 0.01}
    run = ragassay.evaluate(given["old"], systems=given).run.id
    with browsing() as http:
        page = http.get(f"/ui/runs/{run}").text
        columns = counted(page, "Latency of a response: how many rows")
        # 100 to 119 ms: 19 / 20 = 0.95, so columns of 1 ms
        assert columns[0][0] == "old, 100 to 101 ms: 1 of 20"
        assert [text for text, _ in columns if text.startswith("new")] == [
            *(f"new, {low} to {low + 1} ms: 1 of 19" for low in range(100, 120) if low not in (103, 104)),
            "new, 120 ms or more: 1 of 19",
        ]
        for text, address in columns[::8]:
            assert f"of {text.rpartition(': ')[2].partition(' ')[0]}</span>" in http.get(address).text
    assert "39 of 40 rows report it" in page
    assert counted(page, "Cost of a query: how many rows")[-1][0] == "new, 0.00105 USD or more: 1 of 20"


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


@pytest.mark.parametrize(
    "values",
    [
        [5.0],
        [0.0] * 9,
        [7.0] * 99 + [8.0],
        [-3.0, 4.0, np.nan],
        [1e-7, 3e-6, 2e-3],
        [float(n) for n in range(1000)],
        [100.0] * 50 + [1e6],
    ],
)
def test_columns_of_a_histogram_count_each_value_once_within_the_chart(values):
    chart = histogram("t", "ms", {"a": np.array(values), "b": np.array([np.nan])})
    line, nothing = chart.lines
    known = [value for value in values if value == value]
    assert sum(int(mark.text.split(": ")[1].split(" of ")[0]) for mark in line.marks) == len(known)
    assert nothing.marks == ()
    assert 1 <= len(line.marks) <= 22
    assert all(mark.x - mark.width / 2 >= 64 and mark.x + mark.width / 2 <= 700 for mark in line.marks)
    assert all(16 <= mark.y < 216 for mark in line.marks)
    assert all(text.isdecimal() or "," in text for _, text in chart.y_ticks)
    assert chart.x_ticks == tuple(sorted(chart.x_ticks))
    assert histogram("t", "ms", {"a": np.array([np.nan])}) is None
    assert histogram("t", "ms", {}) is None
