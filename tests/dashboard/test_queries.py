"""The rows of a run as pages: filters, errors by kind, and one query."""

import html
import json
import re
import shutil

import pytest

import ragassay
from browsing import browsing
from provider import Answer, Provider, verdicts
from ragassay.core.settings import Settings
from ragassay.metrics.failures import failure
from ragassay.storage.folder import FolderStore


def rows(answers=("Paris.", "Rome.", "")):
    for n, text in enumerate(answers):
        yield {
            "query_id": f"q{n}",
            "query": f"Which city is number {n}?",
            "ground_truth_answer": "Paris.",
            "answer": text,
            "contexts": ["The first city is Paris. It lies on the Seine.", "Rome is another city."],
            "relevant_doc_ids": ["d1"],
            "retrieved_doc_ids": ["d2", "d1"],
            "category": "even" if n % 2 == 0 else "odd",
        }


ASKED = ("query_id", "query", "ground_truth_answer", "relevant_doc_ids", "category")


@pytest.fixture(scope="module")
def two_systems(tmp_path_factory):
    """A home with a run of five queries: ``old`` is right twice, ``new`` is right and fails once."""
    home = tmp_path_factory.mktemp("home")
    given = list(rows(("Paris.", "Rome.", "", "Paris.", "Oslo.")))
    old = [{key: value for key, value in row.items() if key == "query_id" or key not in ASKED} for row in given]
    new = [
        {**row, "answer": "Paris.", "retrieved_doc_ids": ["d1", "d9"], "latency_ms": 10.0 * n}
        for n, row in enumerate(old)
    ]
    new[4] = {"query_id": "q4", "error": "no answer in 30 s"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGASSAY_HOME", str(home))
        asked = [{key: row[key] for key in ASKED} for row in given]
        return home, ragassay.evaluate(
            asked, systems={"old": old, "new": new}, name="cities", max_failed_share=1.0
        ).run.id


@pytest.fixture
def run(two_systems, tmp_path, monkeypatch):
    home, run = two_systems
    shutil.copytree(home, tmp_path / "home")
    monkeypatch.setenv("RAGASSAY_HOME", str(tmp_path / "home"))
    return run


@pytest.fixture
def http(run):
    with browsing() as http:
        yield http


def results(run):
    return [
        row for rows in FolderStore(Settings().home).open(run).report_with_results().results.values() for row in rows
    ]


def shown(text):
    """(query id, system) of each row of a page of questions that matches."""
    return [
        (re.search(r"<small>(q\d+)", question)[1], system)
        for question in re.findall(r'<th scope="row">.*?</tr>', text, re.DOTALL)
        for system, other in re.findall(r'<td data-of="(\w+)"( class="other")?>', question)
        if not other
    ]


def linked(text, label):
    """The address behind a text."""
    return re.search(rf'href="([^"]*)"[^>]*>\s*{label}', text)[1].replace("&amp;", "&")


def test_errors_are_counted_by_kind_and_each_links_to_its_rows(run, http):
    text = http.get(f"/ui/runs/{run}/errors").text
    kinds = [failure(row) for row in results(run)]
    named = re.findall(r'class="mean" href="[^"]*queries\?failure=(\w+)">', text)
    assert set(named) == set(kinds) - {None}
    assert "response_failed" in named
    for name in named:
        listed = http.get(f"/ui/runs/{run}/queries?failure={name}").text
        assert len(shown(listed)) == kinds.count(name)
        first = re.search(rf'href="(/ui/runs/{run}/row\?failure={name}&amp;at=0)"', text)[1].replace("&amp;", "&")
        assert http.get(first).status_code == 200
    failed = re.search(r"response failed</a>.*?</tr>", text, re.DOTALL)[0]
    assert re.findall(
        r'class="mean"[^>]*>(\d)</a>\s*<small>of (\d), (\S+)\s% \(([\d.]+)\s% to ([\d.]+)\s%', failed
    ) == [
        ("0", "5", "0", "0", "43.4"),  # Wilson: z^2 / (n + z^2), 3.8415 / 8.8415
        ("1", "5", "20", "3.6", "62.4"),  # (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)
    ]


def test_questions_that_changed_between_two_systems_are_listed(run, http):
    """Right answers: old to q0 and q3, new to q0 to q3; to q4 new gives none."""
    listed = {
        name: {query_id for query_id, _ in shown(http.get(f"/ui/runs/{run}/queries?changed={name}").text)}
        for name in ("better", "worse", "wrong")
    }
    assert listed["better"] == {"q1", "q2"}
    assert listed["worse"] == set()
    assert "q0" not in listed["wrong"]
    text = http.get(f"/ui/runs/{run}/queries").text
    assert http.get(linked(text, "Got better")).status_code == 200
    assert http.get(f"/ui/runs/{run}/queries?changed=x").status_code == 422


def test_a_row_leads_back_to_the_page_of_questions_that_has_it():
    """30 questions of two systems are one page, though the last row is the sixtieth."""
    given = [{"query_id": f"q{n}", "query": f"Question {n}?", "ground_truth_answer": "Paris."} for n in range(30)]
    answers = [{"query_id": row["query_id"], "answer": "Paris."} for row in given]
    long = ragassay.evaluate(given, systems={"a": answers, "b": answers}, metrics=["exact_match"]).run.id
    with browsing() as http:
        text = http.get(f"/ui/runs/{long}/row?system=b&id=q29").text
        back = http.get(linked(text, "Rows")).text
        last = http.get(f"/ui/runs/{long}/row?at=59").text
        listed = http.get(linked(last, "Rows")).text
    for page in (back, listed):
        assert ("q29", "b") in shown(page)


def test_a_comparison_links_to_the_questions_that_changed_where_their_page_can_list_them(run, http):
    def links(*systems, **asked):
        """Where the links of a comparison lead, the first system being the baseline."""
        page = http.get("/ui/compare", params={"run": [f"{run}#{name}" for name in systems], **asked}).text
        return re.findall(rf'href="(/ui/runs/{run}/queries\?changed=\w+)"', page)

    addresses = links("old", "new")
    assert [address.partition("=")[2] for address in addresses] == ["worse", "better", "wrong"]
    assert {http.get(address).status_code for address in addresses} == {200}
    assert links("new", "old") == [], "what got worse there is against the run's first system"
    assert links("old", "new", metrics="mrr") == []


def test_a_run_in_which_nothing_failed_says_so():
    perfect = ragassay.evaluate(list(rows(("Paris.",))), metrics=["mrr"]).run.id
    with browsing() as http:
        assert "was not among the metrics" in http.get(f"/ui/runs/{perfect}/errors").text


def test_a_query_shows_the_lists_of_all_systems_and_what_they_took(run, http):
    text = http.get(f"/ui/runs/{run}/row?system=old&at=1").text
    lines = {name: re.sub(r"<[^>]+>", " ", cells).split() for name, cells in
             re.findall(r'<tr><th scope="row">(d\d)</th>(.*?)</tr>', text)}  # fmt: skip
    assert lines == {
        "d1": ["1", "2", "1"],
        "d2": "not judged 1 not retrieved".split(),
        "d9": "not judged not retrieved 2".split(),
    }
    assert re.search(r'latency</th><td class="n"></td><td class="n">10 ms', text)


def test_what_the_judge_was_sent_and_replied_is_shown(monkeypatch):
    def play(seen):
        return Answer(json.dumps(verdicts(seen)))

    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with Provider(then=play) as provider:
        asked = {"judge": "openai/a", "api_base": provider.url, "metrics": ["faithfulness"]}
        run = ragassay.evaluate(list(rows()), **asked).run.id
        sent = [message["content"] for seen in provider.log for message in seen.body["messages"]]
    calls = FolderStore(Settings().home).open(run).folder / "calls.jsonl"
    with browsing() as http:
        assert "raw=true" in http.get(f"/ui/runs/{run}/row?at=0").text
        text = http.get(f"/ui/runs/{run}/row?at=0&raw=true").text
        messages = re.findall(r'<pre class="raw"[^>]*>(.*?)</pre>', text, re.DOTALL)
        read = [html.unescape(message) for message in messages]
        assert read[1] in sent
        assert read[0] in sent
        assert json.loads(read[2])["answer"]
        assert len(read) == 3
        lines = [json.loads(line) for line in calls.read_text().splitlines()]
        for line in lines:
            line.pop("query_id", None)
        calls.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert "does not tell which reply" in http.get(f"/ui/runs/{run}/row?at=0&raw=true").text


def test_a_row_that_no_model_judged_says_so(run, http):
    assert "No model was asked" in http.get(f"/ui/runs/{run}/row?at=0&raw=true").text


@pytest.mark.parametrize("address", ["runs/{run}", "compare?run={run}%23old&run={run}%23new"])
def test_what_a_page_says_is_there_in_every_format(address, run, http):
    page = http.get(f"/ui/{address.format(run=run)}").text
    begins = {
        "html": b"<!doctype html>",
        "json": b"{",
        "parquet": b"PAR1",
        "pdf": b"%PDF",
        "xlsx": b"PK",
        "xml": b"<?xml",
    }
    rows_only = () if address.startswith("compare") else ("parquet", "xml")
    for form in ("csv", "html", "json", "md", "pdf", "summary.csv", "xlsx", *rows_only):
        answer = http.get(linked(page, form))
        assert answer.headers["content-disposition"].endswith(f'.{form}"')
        assert len(answer.content) > 100
        assert answer.content.startswith(begins.get(form, b""))
    assert http.get(linked(page, "pdf").replace("pdf", "docx")).status_code == 422


def test_a_list_of_runs_reads_a_report_again_when_it_changes(run):
    folder = FolderStore(Settings().home).open(run).folder
    with browsing() as http:
        assert re.search(r"<b>\d+\s%</b>", http.get("/ui/runs").text)
        report = folder / "report.json"
        report.write_text(report.read_text().replace('"accurate":', '"exact_match":'))
        assert not re.search(r"<b>\d+\s%</b>", http.get("/ui/runs").text)
