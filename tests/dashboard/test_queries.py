"""The rows of a run as pages: filters, errors by kind, and one query."""

import html
import re
from itertools import pairwise

import pytest

import ragassay
from browsing import browsing, linked, plain
from dashboard.cities import rows
from ragassay.metrics.failures import failure

ASKED = ("query_id", "query", "ground_truth_answer", "relevant_doc_ids", "category")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The pages of a run of five queries, its address, and its rows: ``old`` is right twice, ``new`` is right and fails once."""
    given = list(rows(("Paris.", "Rome.", "", "Paris.", "Oslo.")))
    old = [{key: value for key, value in row.items() if key == "query_id" or key not in ASKED} for row in given]
    new = [
        {**row, "answer": "Paris.", "retrieved_doc_ids": ["d1", "d9"], "latency_ms": 10.0 * n}
        for n, row in enumerate(old)
    ]
    new[4] = {"query_id": "q4", "error": "no answer in 30 s"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGASSAY_HOME", str(tmp_path_factory.mktemp("home")))
        asked = [{key: row[key] for key in ASKED} for row in given]
        report = ragassay.evaluate(asked, systems={"old": old, "new": new}, name="cities", max_failed_share=1.0)
        with browsing() as http:
            yield http, f"/ui/runs/{report.run.id}", [*report.results["old"], *report.results["new"]]


@pytest.fixture
def http(served):
    return served[0]


@pytest.fixture
def run(served):
    return served[1]


def shown(text):
    """(query id, system) of each row of a page of questions that matches."""
    return [
        (re.search(r"<small>(q\d+)", question)[1], system)
        for question in re.findall(r'<th scope="row">.*?</tr>', text, re.DOTALL)
        for system, other in re.findall(r'<td data-of="(\w+)"( class="other")?>', question)
        if not other
    ]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("category=even&sort=-correctness&system=old", [("q0", "old"), ("q2", "old"), ("q4", "old")]),
        ("where=correctness<0.5&system=old", [("q1", "old"), ("q2", "old"), ("q4", "old")]),
        ("changed=better", [(f"q{n}", system) for n in (1, 2) for system in ("old", "new")]),
        ("changed=worse", []),
        ("changed=wrong&system=old", []),  # to q4 new gives no answer, which is not known to be wrong
        ("text=number 3&system=new", [("q3", "new")]),
    ],
)
def test_rows_are_filtered_and_sorted_and_the_first_leads_to_its_row(asked, expected, run, http):
    page = http.get(f"{run}/queries?{asked}").text
    assert shown(page) == expected
    if expected:
        row = http.get(linked(page, "Which city")).text
        assert f"Which city is number {expected[0][0][1]}?" in row


def test_errors_are_counted_by_kind_and_each_links_to_its_rows(served, run, http):
    text = http.get(run).text
    kinds = [failure(row) for row in served[2]]
    named = re.findall(r'class="mean" href="[^"]*queries\?failure=(\w+)">', text)
    assert set(named) == set(kinds) - {None}
    assert "response_failed" in named
    for name in named:
        assert len(shown(http.get(f"{run}/queries?failure={name}").text)) == kinds.count(name)
    failed = plain(re.search(r"response failed</a>.*?</tr>", text, re.DOTALL)[0])
    assert failed.endswith("0 of 5, 0 % 1 of 5, 20 %")


def test_row_shows_its_evidence_the_lists_of_all_systems_and_what_they_took(run, http):
    text = http.get(f"{run}/row?system=old&id=q1").text
    lines = {
        name: plain(cells)
        for name, cells in re.findall(r'<tr><th scope="row">(d\d)\s*</th>(.*?)</tr>', text, re.DOTALL)
    }
    assert lines == {"d1": "1 2 1", "d2": "not judged 1 not retrieved", "d9": "not judged not retrieved 2"}
    assert "latency 10 ms" in plain(text)
    first = http.get(f"{run}/row?system=old&id=q0").text
    assert 'href="#C1.1"' in first
    assert "C1.1: context sentence" in first
    assert 'id="C1.1"' in first
    assert "supported" in first
    assert re.search(r"d1\s*</th>\s*<td>\s*<span class=\"tag good\">1</span>", first)
    compared = http.get(f"{run}/row?system=old&id=q4").text.partition("Answers to compare")[2]
    assert plain(compared).startswith("new response failed no answer in 30 s")


@pytest.mark.parametrize(
    "asked", ["sort=-latency_ms", "where=correctness<0.9", "system=new&sort=-latency_ms", "text=number"]
)
def test_list_names_each_row_by_its_id_and_previous_and_next_walk_through_the_selection(asked, run, http):
    page = http.get(f"{run}/queries?{asked}").text
    listed = [html.unescape(link) for link in re.findall(r'href="([^"]*/row\?[^"]*)"', page)]
    assert all("at=" not in link and re.search(r"[?&]id=q\d(&|$)", link) for link in listed)
    first = row_of(http, linked(page, "Which city"))
    while 'rel="prev"' in first:
        first = row_of(http, re.search(r'rel="prev" href="([^"]*)"', first)[1])
    walked, total = [first], int(re.search(r"row 1 of (\d+)", first)[1])
    while 'rel="next"' in walked[-1]:
        walked.append(row_of(http, re.search(r'rel="next" href="([^"]*)"', walked[-1])[1]))
    assert len(walked) == total == len({named(text) for text in walked})
    assert {named(text) for text in walked} == {(one[1], one[0]) for one in shown(page)}
    for before, text in pairwise(walked):
        assert named(row_of(http, re.search(r'rel="prev" href="([^"]*)"', text)[1])) == named(before)


def row_of(http, address):
    return http.get(html.unescape(address)).raise_for_status().text


def named(row):
    """The system and query of a row's page."""
    return tuple(
        re.search(r"(old|new), (q\d)", plain(re.search(r'<p class="about">.*?</p>', row, re.DOTALL)[0])).groups()
    )
