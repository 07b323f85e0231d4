"""Pages of runs: what the list, one run, several side by side, trends and costs say first, and what can't be shown."""

import functools
import hashlib
import json
import re
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime

import httpx
import pytest

import ragassay
from browsing import browsing, linked, plain
from dashboard.cities import NAUGHTY, cities, rows
from polling import until
from provider import Answer, Provider
from ragassay.analysis import comparison
from ragassay.core.settings import Settings
from ragassay.dashboard.changes import against
from ragassay.dashboard.folder import FolderLibrary
from ragassay.dashboard.site import HERE
from ragassay.reporting import panels as panels_module
from ragassay.reporting.charts import Drawn, bars
from ragassay.reporting.document import Table
from ragassay.reporting.panels import panel
from ragassay.storage.folder import FolderStore

SIX = list(rows(["Paris.", *["It is unknown to me."] * 5]))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The pages of one run, and its report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGASSAY_HOME", str(tmp_path_factory.mktemp("home")))
        report = ragassay.evaluate(list(rows()), name="cities")
        with browsing() as http:
            yield http, report, Settings().home


@pytest.fixture
def pages(served):
    return served[0]


@pytest.fixture
def run(served):
    return served[1].run.id


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """The pages of two runs, and their ids: 4 of 20 answers are accurate, then 18."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGASSAY_HOME", str(tmp_path_factory.mktemp("nights")))
        runs = [ragassay.evaluate(list(cities(n)), name=f"night {n}").run.id for n in (4, 18)]
        with browsing() as http:
            yield http, runs


def test_against_a_run_that_was_deleted_shows_no_change(served):
    _, report, home = served
    assert against(FolderLibrary(FolderStore(home)), "accurate", "default", report.run.id, "gone") is None


def first_answer(http, address="/ui/runs"):
    return plain(re.search(r'<p class="answer">(.*?)</p>', http.get(address).text)[1])


def test_runs_are_found_by_what_they_are_about_and_only_those_named_are_shown(served, run, pages, monkeypatch):
    assert f'href="/ui/runs/{run}"' in pages.get("/ui/runs?q=CITIES").text
    assert "No run matches" in pages.get("/ui/runs?q=nowhere").text
    monkeypatch.setenv("RAGASSAY_HOME", str(served[2]))
    with browsing("another") as http:
        assert http.get(f"/ui/runs/{run}").status_code == 404
        empty = [http.get(f"/ui/{path}") for path in ("runs", "trends", "cost", "compare")]
    assert all(run not in answer.text and "ragassay evaluate" in answer.text for answer in empty)
    assert {answer.status_code for answer in empty} == {200}


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/ui/runs/none", 404, "there is no run"),
        ("/ui/runs/RUN/queries?sort=nope", 422, "nope"),
        ("/ui/runs/RUN/queries?where=bad", 422, "faithfulness&lt;0.5"),
        ("/ui/runs/RUN/row?id=q99", 404, "there is no row"),
        ("/ui/runs/RUN/row?id=q0&of=nobody", 404, "there is no row"),
        ("/ui/runs/RUN/row", 422, "id: "),
        ("/ui/runs/..%2f..%2fetc", 404, ""),
        ("/ui/compare?run=RUN", 422, "a comparison needs two systems"),
        ("/ui/cost?by=colour", 422, "dimension"),
        ("/ui/datasets/nothing", 422, "nothing"),
        ("/ui/datasets/%2e%2e%2fruns", 404, ""),
    ],
)
def test_what_can_not_be_shown_is_a_page_that_says_why(run, pages, path, status, said):
    answer = pages.get(path.replace("RUN", run))
    assert (answer.status_code, said in answer.text) == (status, True)


def test_bug_is_a_page_with_the_name_under_which_the_log_has_it(run, pages, monkeypatch, caplog):
    assert pages.get("/ui").headers["location"] == "/ui/runs"
    monkeypatch.setattr("ragassay.reporting.report.headline", lambda system: 1 / 0)
    broken = pages.get(f"/ui/runs/{run}")
    assert broken.status_code == 500
    name = re.search(r"urn:uuid:[0-9a-f-]+", broken.text)[0]
    assert "ZeroDivisionError" not in broken.text
    assert any(name in record.message and record.exc_info for record in caplog.records)


def test_web_page_elsewhere_can_not_reach_them(pages):
    assert pages.get("/ui/runs", headers={"Host": "evil.example"}).status_code == 421


def test_command_prints_an_address_that_answers_and_ends_on_ctrl_c(served, run, tmp_path, monkeypatch):
    monkeypatch.setenv("RAGASSAY_HOME", str(served[2]))
    command = [sys.executable, "-m", "ragassay.cli", "view", run, "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path
    ) as viewing:
        try:
            address = viewing.stdout.readline().strip()
            assert address.endswith(f"/ui/runs/{run}")

            def answers():
                with suppress(httpx.TransportError):
                    return httpx.get(address).status_code == 200

            until(answers, 30, "the page")
        finally:
            viewing.send_signal(2)
        assert viewing.wait(20) in (0, 130)


def test_run_with_a_failing_provider_is_incomplete_in_list_and_page(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    refused = Answer(status=400, message="no such deployment")
    with Provider(then=lambda seen: refused) as provider, pytest.warns(RuntimeWarning, match="faithfulness"):
        run = ragassay.evaluate(SIX, judge="openai/m", api_base=provider.url, metrics=["faithfulness"]).run.id
    with browsing() as http:
        listed, page = http.get("/ui/runs").text, http.get(f"/ui/runs/{run}").text
    assert '<span class="tag bad">incomplete</span>' in listed
    assert re.search(r'note bad"><strong>Incomplete:</strong> [^<]*faithfulness 100%[^<]*no such deployment', page)


def test_run_with_missed_gates_says_so_in_list_and_page():
    gates = [{"metric": "mrr", "min": 0.5}, {"metric": "exact_match", "min": 0.9}]
    assert not ragassay.gate(SIX, metrics=["mrr", "exact_match"], gates=gates).passed
    with browsing() as http:
        listed = http.get("/ui/runs").text
        page = http.get(re.search(r'href="(/ui/runs/[^"?]+)"', listed)[1]).text
    assert '<span class="tag bad">gates missed</span>' in listed
    assert '<span class="tag bad">1 of 2 gates missed</span>' in page
    assert re.search(r"exact_match &gt;= 0.900</b> default: [^<]*0\.167", page)


def test_partial_run_opens_on_the_rows_that_are_done():
    run = FolderStore(Settings().home).open(ragassay.evaluate(SIX, performance={"batch": 2}, metrics=["mrr"]).run.id)
    chunk = run.record.chunks()[-1]
    (run.folder / "results" / chunk.system / f"{chunk.number:05d}.jsonl").unlink()
    run.report_file.unlink()
    with browsing() as http:
        assert f'href="/ui/runs/{run.record.id}"' in http.get("/ui/runs").text
        page = http.get(f"/ui/runs/{run.record.id}").text
        listed = http.get(f"/ui/runs/{run.record.id}/queries").text
    assert "4 of 6 rows are done" in page
    assert re.findall(r"<small>(q\d)", listed) == ["q0", "q1", "q2", "q3"]


def test_first_page_says_what_the_newest_run_changed_and_what_to_fix_first(nights):
    page, said = nights[0].get("/ui/runs").text, first_answer(nights[0])
    changed = r"default is better than in the run before: accurate went from 20 % to 90 % \(\+0\.70, 95 % interval "
    assert re.match(rf"night 18 ?: {changed}", said)
    assert page.index("What to fix first") < page.index('aria-label="Runs"')
    assert re.search(r"<b>90\s%</b> <small>\[\d+\s%, \d+\s%\]", page)


def test_panels_of_ones_own_are_shown_and_a_broken_one_is_a_note(run, pages, monkeypatch):
    monkeypatch.setattr(panels_module.PANELS, "_things", {})
    drawn = {
        "tokens": lambda _: bars("Answers", "n", {NAUGHTY: Drawn(x=0, y=3.0, text="three")}),
        "a table": lambda _: Table("Own figures", ("name", "n"), ((NAUGHTY, "1"),)),
        "broken": lambda _: {}["no such thing"],
        "odd": lambda _: 3,
        "nothing to say": lambda _: None,
    }
    for name, draw in drawn.items():
        panel(name)(draw)
    page = pages.get(f"/ui/runs/{run}").text
    for said in ("Own figures", "Answers, n", "the panel broken raised KeyError", "the panel odd returned a int"):
        assert said in page
    assert "nothing to say" not in page
    assert "<script>alert" not in page


def test_every_format_of_a_run_and_a_comparison_is_linked(nights):
    http, runs = nights
    begins = {"html": b"<!doctype html>", "json": b"{", "parquet": b"PAR1", "pdf": b"%PDF", "xlsx": b"PK", "xml": b"<?"}
    compared = f"compare?run={runs[0]}&run={runs[1]}"
    for address, rows_only in ((f"runs/{runs[0]}", ("parquet", "xml")), (compared, ())):
        page = http.get(f"/ui/{address}").text
        for form in ("csv", "html", "json", "md", "pdf", "summary.csv", "xlsx", *rows_only):
            answer = http.get(linked(page, form))
            assert answer.headers["content-disposition"].endswith(f'.{form}"')
            assert answer.content.startswith(begins.get(form, b""))


def test_two_runs_are_compared_and_the_verdict_comes_first(nights):
    http, runs = nights
    page = http.get("/ui/compare", params={"run": runs}).text
    table = page.index("<h2>night 18 against night 4</h2>")
    assert page.index("is better than") < table < page.index('<th scope="row">accurate')
    assert re.search(r'<th scope="row">accurate.*?14/0/6.*?<span class="tag good">better</span>', page, re.DOTALL)
    assert re.findall(r'type="hidden" name="run" value="([^"]*)"', http.get("/ui/compare").text) == runs
    for field in ("baseline", "metrics"):
        refused = http.get("/ui/compare", params={"run": runs, field: "nothing"})
        assert (refused.status_code, "nothing" in refused.text) == (422, True)


def test_comparison_reads_all_rows_once(nights, monkeypatch):
    http, runs = nights
    asked = {"run": runs, "metrics": "correctness"}
    first = http.get("/ui/compare", params=asked).text
    monkeypatch.setattr("ragassay.analysis.comparison.compare", None)
    assert http.get("/ui/compare", params=asked).text == first


def test_comparison_of_many_rows_is_made_apart_and_its_page_asks_again_until_it_is_there(nights, monkeypatch):
    http, runs = nights
    begun, compare = threading.Event(), comparison.compare
    monkeypatch.setattr("ragassay.dashboard.library.MAX_ROWS_AT_ONCE", 39)  # they have 40
    monkeypatch.setattr("ragassay.analysis.comparison.compare", lambda *a, **k: begun.wait(30) and compare(*a, **k))
    asked = [{"run": runs, "metrics": "accurate", "baseline": name} for name in ("", "nothing", "night 18")]

    def page(n):
        answer = http.get("/ui/compare", params=asked[n])
        return None if "Refresh" in answer.headers else answer

    first = http.get("/ui/compare", params=asked[0])
    assert (first.status_code, first.headers["Refresh"]) == (200, "2")
    assert "All rows of night 4, " in first.text
    assert page(1) is page(2) is None  # the third waits for a place
    begun.set()
    assert "is better than" in until(lambda: page(0)).text
    assert until(lambda: page(1)).status_code == 422
    assert "<h2>night 4 against night 18</h2>" in until(lambda: page(2)).text


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """The pages of two runs of two systems, the newer first, and their ids: new goes from 10 to 15 right ones of 20."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGASSAY_HOME", str(tmp_path_factory.mktemp("releases")))
        evaluate = functools.partial(ragassay.evaluate, metrics=["accurate", "correctness"])
        asked, runs = list(cities(0)), []
        for right in (10, 15):
            dear = [{**row, "cost_usd": 0.003} for row in cities(right)]
            runs.append(evaluate(asked, systems={"old": list(cities(5)), "new": dear}, name=f"release {right}").run.id)
        runs.append(evaluate(list(cities(5, 4)), name="short").run.id)
        with browsing() as http:
            yield http, *runs


def test_two_runs_of_several_systems_are_compared_system_by_system_the_older_first(releases):
    http, before, after, _ = releases
    page = http.get("/ui/compare", params={"run": [after, before]}).text
    assert page == http.get("/ui/compare", params={"run": [before, after]}).text
    assert "<h2>new of release 15 against new of release 10</h2>" in page
    assert "old is unchanged since then: 25 % on the same 20 questions." in plain(page)
    turned = http.get("/ui/compare", params={"run": [before, after], "baseline": "new of release 15"}).text
    assert "<h2>new of release 10 against new of release 15</h2>" in turned
    assert http.get(linked(turned, "old</a>")).status_code == 200
    other = plain(http.get(linked(page, "old</a>")).text)
    assert "new: no change since then is shown, accurate went from 50 % to 75 %" in other
    changed = http.get(linked(page, "5 got better")).text
    titles = re.findall(r'<th scope="col">(new, [^<]*)</th>', changed)
    assert len(set(titles)) == 2  # also of runs in one minute
    assert changed.count("I like turtles.") == 5
    filters = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', changed))
    found = http.get(f"/ui/runs/{after}/queries", params={**filters, "text": "Paris 10"})
    assert (found.status_code, found.text.count("I like turtles.")) == (200, 1)
    row = http.get(linked(changed, "The city is Paris 10")).text
    measured = row[row.index("<h2>Measured</h2>") :]
    assert re.findall(r'<th scope="col">(new, [^<]*)</th>', measured) == titles
    row = plain(row)
    assert row.index("row 1 of 5") < row.index("Answers to compare") < row.index("I like turtles.")


def test_change_is_listed_only_for_the_same_questions(releases):
    http, before, after, short = releases
    page = http.get("/ui/compare", params={"run": [f"{short}#default", f"{after}#new"]}).text
    assert "got better</a>" not in page
    assert http.get(f"/ui/runs/{after}/queries", params={"since": f"{before}#new"}).status_code == 200
    for since in (f"{short}#default", f"{before}#none", before):
        refused = http.get(f"/ui/runs/{after}/queries", params={"system": "new", "changed": "worse", "since": since})
        assert (refused.status_code, "not the same questions" in refused.text) == (422, True)


def test_run_of_several_systems_is_compared_if_the_newest_run_has_none_to_compare_with(tmp_path):
    run = ragassay.evaluate(list(cities(0)), systems={"old": list(cities(2)), "new": list(cities(9))}).run.id
    (tmp_path / "elsewhere.jsonl").write_text(json.dumps(next(iter(rows()))))
    ragassay.evaluate(tmp_path / "elsewhere.jsonl")
    with browsing() as http:
        page = http.get("/ui/compare").text
    assert re.findall(r'type="hidden" name="run" value="([^"]*)"', page) == [run]


def test_cost_page_says_which_is_cheaper_whether_that_is_shown_and_what_more_accuracy_costs(releases):
    said = plain(releases[0].get("/ui/cost?system=old&system=new").text)
    assert "An accurate answer seems to cost less with old than with new. These data are too few to be sure" in said
    # 20 answers cost 0.04 USD more, of which 10 more are accurate
    assert re.search(
        r"With new instead of old in the run release 15, 1,000 more accurate answers cost 4 USD \(95 % interv", said
    )
    assert "1,000 more" not in releases[0].get("/ui/cost?system=old").text


def test_trend_begins_with_what_changed_since_and_how_sure_that_is(nights):
    http, runs = nights
    page = http.get("/ui/trends").text
    assert "is better than" in http.get(linked(page, "What changed in default")).text
    changed = rf"default is better than on {datetime.now(UTC).date()}: accurate went from 20 % to 90 % \(\+0\.70, 95 % interval "
    assert re.match(changed, first_answer(http, "/ui/trends"))
    assert page.count('class="whisker"') == 2
    assert all(f'href="/ui/runs/{run}"' in page for run in runs)


def test_what_an_accurate_answer_costs_stands_first_then_a_chart_and_the_table(nights):
    page = nights[0].get("/ui/cost").text
    said = r"1,000 accurate answers cost 1\.8\d USD \(95\s% interval [\d.]+ to [\d.]+\) with default\."
    known = re.search(said, page)[0]
    assert page.index(known) < page.index("Accuracy against cost") < page.index("By dataset and system")
    later = nights[0].get("/ui/cost?since=2100-01-01")
    assert (later.status_code, known in later.text) == (200, False)


def test_every_static_file_is_kept_by_browsers_under_the_digest_in_its_address_and_no_other(run, pages):
    named = set(
        re.findall(
            r'(?:href|src)="(/ui/static/[^"]*)"', pages.get("/ui/runs").text + pages.get(f"/ui/runs/{run}/label").text
        )
    )
    assert {address.partition("?")[0].rpartition("/")[2] for address in named} == {"icon.svg", "style.css", "label.js"}
    for address in named:
        file = pages.get(address)
        assert file.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert address.endswith(f"?v={hashlib.sha256(file.content).hexdigest()[:16]}")
        for other in (address.partition("?")[0], f"{address}0"):
            assert pages.get(other).headers["Cache-Control"] == "no-store"


def test_no_template_computes_a_number():
    """Formatting, conditions and the numbers of colours are theirs; counts and shares come from Python."""
    computed = {}
    for template in (HERE / "templates").glob("*.html"):
        text = re.sub(r"loop\.index0 % 6 \+ 1", "", template.read_text())
        for part in re.findall(r"\{\{.*?\}\}|\{% set.*?%\}", text, re.DOTALL):
            spoken = re.sub(r"\"[^\"]*\"|'[^']*'", "", part)
            if re.search(r"\w\s*[-+*/]\s*\(?\w|\|\s*(?:length|sum|count|max|min|round)\b(?!\s*>)", spoken):
                computed[template.name] = part
    assert not computed
