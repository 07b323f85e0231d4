"""The pages of runs in a folder: what they show, and what text of a run can't make them do."""

import html
import json
import re
import subprocess
import sys

import httpx
import pytest

import ragassay
from browsing import browsing
from polling import until
from provider import Answer, Provider, verdicts
from ragassay.core.settings import Settings
from ragassay.storage.folder import FolderStore


@pytest.fixture
def pages(run):
    with browsing() as http:
        yield http


def rows(texts=("Paris.", "Rome.", "")):
    for n, text in enumerate(texts):
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


@pytest.fixture
def run():
    report = ragassay.evaluate(list(rows()), name="cities")
    return report.run.id


def test_a_run_is_found_by_what_it_is_about(run, pages):
    assert f'href="/ui/runs/{run}"' in pages.get("/ui/runs?q=CITIES").text
    assert "No run matches" in pages.get("/ui/runs?q=nowhere").text


def test_a_folder_without_runs_says_how_to_make_one():
    with browsing() as http:
        assert "ragassay evaluate" in http.get("/ui/runs").text


def test_a_run_shows_each_mean_with_its_interval_and_what_is_missing(run, pages):
    text = pages.get(f"/ui/runs/{run}").text
    report = FolderStore(Settings().home).open(run).report()
    (system,) = report.systems.values()
    for name, mean in system.metrics.items():
        shown = re.search(rf">{re.escape(name)}</a>.*?</tr>", text, re.DOTALL)
        assert shown, name
        if mean.value is not None:
            assert f"{mean.value:.3f}" in shown[0] or f"{mean.value:.3g}" in shown[0], name
        assert f"n={mean.n}" in shown[0], name
        for reason in mean.missing:
            assert reason in html.unescape(shown[0]), name


def test_rows_are_filtered_sorted_and_turned_page_by_page_and_the_address_says_so(run, pages):
    found = pages.get(f"/ui/runs/{run}/queries", params={"category": "even", "sort": "-correctness"}).text
    assert re.findall(r"<small>(q\d)", found) == ["q0", "q2"]
    assert re.findall(r"<small>(q\d)", pages.get(f"/ui/runs/{run}/queries?where=correctness<0.5").text) == ["q1", "q2"]
    row = re.search(rf'href="(/ui/runs/{run}/row[^"]*)">Which city is number 2', found)[1].replace("&amp;", "&")
    assert "Which city is number 2?" in pages.get(row).text


def test_a_row_shows_what_each_sentence_rests_on_and_links_to_it(run, pages):
    text = pages.get(f"/ui/runs/{run}/row?at=0&text=number 0").text
    assert 'href="#C1.1"' in text
    assert 'id="C1.1"' in text
    assert "supported" in text
    assert re.search(r"d1</th>\s*<td>\s*<span class=\"tag good\">1</span>", text)


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/ui/runs/none", 404, "there is no run"),
        ("/ui/runs/RUN/queries?sort=nope", 422, "nope"),
        ("/ui/runs/RUN/queries?where=bad", 422, "faithfulness&lt;0.5"),
        ("/ui/runs/RUN/row?at=99", 404, "no such row"),
        ("/ui/runs/RUN/row?at=x", 422, "at:"),
        ("/ui/runs/..%2f..%2fetc", 404, ""),
    ],
)
def test_what_can_not_be_shown_is_a_page_that_says_why(run, pages, path, status, said):
    answer = pages.get(path.replace("RUN", run))
    assert answer.status_code == status
    assert said in answer.text


def test_judge_sd_and_a_divided_jury_are_shown(monkeypatch):
    def play(seen):
        reply, supported = verdicts(seen), seen.body["model"].endswith("a")
        for entry in reply["answer"]:
            entry |= {"support": "supported" if supported else "not_found", "evidence": ["C1.1"] if supported else []}
        return Answer(json.dumps(reply))

    given = [{"query_id": "q1", "query": "Who?", "answer": "Ann did.", "contexts": ["Ann did."]}]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with Provider(then=play) as provider:
        asked = {"api_base": provider.url, "metrics": ["faithfulness"]}
        jury = ragassay.evaluate(given, name="jury", **asked | {"judges": ["openai/a", "openai/b"]}).run.id
        noisy = ragassay.evaluate(given, name="noisy", **asked | {"judges": ["openai/a,samples=2"]}).run.id
    with browsing() as http:
        assert "judge sd" in http.get(f"/ui/runs/{noisy}").text
        row = http.get(f"/ui/runs/{jury}/row", params={"system": "default", "at": 0}).text
    assert re.search("members of the jury are divided: A1 support: (supported|not_found) 1", row)


def test_only_the_runs_that_were_named_are_shown(run):
    with browsing("another") as http:
        assert run not in http.get("/ui/runs").text
        assert http.get(f"/ui/runs/{run}").status_code == 404


def test_a_web_page_elsewhere_can_not_reach_them(pages):
    answer = pages.get("/ui/runs", headers={"Host": "evil.example"})
    assert answer.status_code == 421


def test_the_command_prints_an_address_that_answers_and_ends_on_ctrl_c(run, tmp_path):
    command = [sys.executable, "-m", "ragassay.cli", "view", run, "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path
    ) as viewing:
        try:
            address = viewing.stdout.readline().strip()
            assert address.endswith(f"/ui/runs/{run}")

            def answers():
                try:
                    return httpx.get(address).status_code == 200
                except httpx.TransportError:
                    return False

            until(answers, 30, "the page")
        finally:
            viewing.send_signal(2)
        assert viewing.wait(20) in (0, 130)


def test_an_address_that_is_none_and_a_bug_are_pages_too(run, pages, monkeypatch, caplog):
    assert pages.get("/ui").headers["location"] == "/ui/runs"
    nowhere = pages.get("/ui/nowhere/at/all")
    assert (nowhere.status_code, "there is no page" in nowhere.text) == (404, True)
    monkeypatch.setattr("ragassay.reporting.failing.headline", lambda system: 1 / 0)
    broken = pages.get(f"/ui/runs/{run}")
    assert broken.status_code == 500
    name = re.search(r"urn:uuid:[0-9a-f-]+", broken.text)[0]
    assert "ZeroDivisionError" not in broken.text
    assert any(name in record.message and record.exc_info for record in caplog.records)
