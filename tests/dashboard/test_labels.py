"""The labelling page: blind until answered, labels kept and exported, and what the commands make of them."""

import json
import re
from urllib.parse import urlencode

import pytest

import ragassay
from browsing import browsing
from ragassay.core.settings import Settings
from ragassay.evaluation.labelling import Labelling, labels_of, report_of
from ragassay.storage.folder import FolderRun, FolderStore

CONTEXT = "Books may be kept for 21 days. Films may be kept for {n} days. The reading room opens at nine."
SAID = ["Books may be kept for 21 days.", "Every reader is given a blue umbrella.", "Films may be kept for long."]
COUNT = 90


def given(count=COUNT):
    for n in range(count):
        yield {
            "query_id": f"q{n}",
            "query": f"What may reader {n} do?",
            "answer": f"{SAID[n % 3]}",
            "contexts": [CONTEXT.format(n=n + 30)],
        }


def truth(query):
    """What people say: only what stands in the context, but for every ninth answer."""
    n = int(query[1:])
    return str(int((n % 3 == 0) ^ (n % 9 == 0)))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("labels"))
        patched.setenv("RAGASSAY_HOME", ".ragassay")
        (run,) = [ragassay.evaluate(list(given()), name="readers", metrics=["faithfulness", "accurate"]).run.id]
        yield run, Settings().home.absolute()


@pytest.fixture
def page(run, monkeypatch):
    run_id, home = run
    monkeypatch.setenv("RAGASSAY_HOME", str(home))
    (FolderStore(home).open(run_id).folder / "labels.jsonl").unlink(missing_ok=True)
    with browsing() as http:
        yield http


def address(run, name="label", **asked):
    return f"/ui/runs/{run[0]}/{name}?{urlencode(asked)}"


def asked_row(answer):
    """The row that a page asks about."""
    return re.search(r'name="row" value="([^"]+)"', answer.text)[1]


def say(http, run, value, row=None, **asked):
    row = row or asked_row(http.get(address(run, **asked)))
    return http.post(address(run, **asked), data={"row": row, "value": value, "by": "Ada"}, follow_redirects=True)


def test_nothing_of_the_judge_is_shown_before_a_row_is_answered(run, page):
    before = page.get(address(run))
    assert "Do the contexts support what the answer says?" in before.text
    assert not re.search(r"The judge|supported, |A1|rests on|\bnot found\b", before.text)
    row = asked_row(before)
    after = say(page, run, "1", row)
    assert re.search(
        r"You: supported\.</strong> The judge: \d\.\d+, with a chance of \d\.\d+ that people say yes: (as|other than) you",
        after.text,
    )
    assert f"row={row}" in str(after.url)
    assert 'rel="next"' in after.text
    again = page.get(str(after.url))
    assert again.text == after.text  # the address restores it
    assert asked_row(page.get(address(run))) != row
    assert 'data-key="1"' in before.text
    assert 'data-key="1"' not in after.text  # a key that is pressed twice changes nothing
    changed = say(page, run, "0", row)
    assert "You: not supported." in changed.text
    assert "1 of 90 rows labelled" in changed.text
    home = FolderStore(run[1]).open(run[0]).folder / "labels.jsonl"
    assert [json.loads(line)["value"] for line in home.read_text().splitlines()] == [1.0, 0.0]


def test_a_row_that_nobody_can_tell_is_passed_over_and_the_name_is_asked_once(run, page):
    row = asked_row(page.get(address(run)))
    refused = page.post(address(run), data={"row": row, "value": "skip"})
    assert (refused.status_code, "your name is missing" in refused.text) == (422, True)
    after = say(page, run, "skip")
    assert asked_row(after) != row
    assert "1 skipped" in after.text
    assert 'value="Ada"' in after.text
    page.post(address(run), data={"row": asked_row(after), "value": "0.5"})
    assert labels_of(FolderRun(run[1] / "runs" / run[0]))[-1].by == "Ada"


def test_labels_correct_the_page_the_report_and_what_the_commands_make_of_them(run, page, cli, tmp_path):
    """The whole loop, with the files and commands that the page names."""
    report = FolderStore(run[1]).open(run[0]).report_with_results()
    order = Labelling(
        report.results["default"],
        "faithfulness",
        report.provenance.configuration,
        report.provenance.dataset.digest,
    )
    before = [{"query_id": query, "label": int(truth(query)), "by": "Bo"} for query in order.sample(54)]
    page.post(address(run, "labels.jsonl"), content="\n".join(map(json.dumps, before)))
    for _ in range(6):
        row = asked_row(page.get(address(run, size=60)))
        answer = say(page, run, truth(row), row, size=60)
    assert "60 of 60 rows labelled" in answer.text
    assert "Every row of this sample was shown" in page.get(address(run, size=60)).text
    mean = re.search(r"Mean by labels</dt><dd>(0\.\d+), 95 % interval (0\.\d+) to (0\.\d+)", answer.text).groups()
    balanced = re.search(r"balanced accuracy</dt><dd>(0\.\d+), 95 % interval", answer.text)[1]
    assert "Is the answer accurate?" in page.get(address(run, metric="accurate")).text
    shown = page.get(f"/ui/runs/{run[0]}").text
    assert re.search(rf"corrected: {mean[0]} \[.*?\] by 60 labels", shown)
    labelled = report_of(FolderStore(run[1]).open(run[0]))
    of_run = labelled.model_dump(mode="json")["systems"]["default"]
    assert sum(bool(row.ratings) for row in labelled.results["default"]) == 60
    (tmp_path / "labels.jsonl").write_bytes(page.get(address(run, "labels.jsonl")).content)
    code, out, err = cli("judge", "agreement", "labels.jsonl", "--json")
    assert code == 0, err
    assert f"{json.loads(out)['balanced_accuracy']:.2f}" == balanced
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, given())))
    code, out, err = cli(
        "evaluate", "data.jsonl", "--metrics", "faithfulness", "--set", "labels=labels.jsonl", "--json"
    )
    assert code == 0, err
    corrected = json.loads(out)["systems"]["default"]["metrics"]["faithfulness"]["corrected"]
    assert corrected == of_run["metrics"]["faithfulness"]["corrected"]
    ends = corrected["mean"], corrected["interval"]["low"], corrected["interval"]["high"]
    assert tuple(f"{end:.3f}" for end in ends) == mean


def test_exported_labels_are_imported_by_form_and_as_they_are(run, page):
    for _ in range(4):
        row = asked_row(page.get(address(run)))
        say(page, run, truth(row), row)
    lines = page.get(address(run, "labels.jsonl")).text
    assert {"query_id", "answer", "contexts", "faithfulness", "by"} <= json.loads(lines.splitlines()[0]).keys()
    file = FolderStore(run[1]).open(run[0]).folder / "labels.jsonl"
    file.unlink()
    assert "0 of 90 rows" in page.get(address(run)).text
    page.post(address(run, "labels.jsonl"), data={"lines": lines})
    assert page.get(address(run, "labels.jsonl")).text == lines
    file.unlink()
    answer = page.post(address(run, "labels.jsonl"), content=lines, headers={"Content-Type": "application/jsonl"})
    assert answer.status_code == 303
    assert page.get(address(run, "labels.jsonl")).text == lines
    wrong = page.post(address(run, "labels.jsonl"), content='{"query_id": "q999", "label": 1}')
    assert (wrong.status_code, "q999" in wrong.text) == (422, True)


def test_a_page_of_another_site_can_not_give_labels(run, page):
    row, other = asked_row(page.get(address(run))), {"Sec-Fetch-Site": "cross-site"}
    assert page.post(address(run), data={"row": row, "value": "1", "by": "Ada"}, headers=other).status_code == 403
    assert page.post(address(run, "labels.jsonl"), data={"lines": "{}"}, headers=other).status_code == 403
    assert labels_of(FolderRun(run[1] / "runs" / run[0])) == []


def test_a_value_that_is_no_answer_is_refused(run, page):
    row = asked_row(page.get(address(run)))
    assert page.post(address(run), data={"row": row, "value": "0.7", "by": "Ada"}).status_code == 422
    assert page.post(address(run), data={"row": "q999", "value": "1", "by": "Ada"}).status_code == 404
    assert page.post(address(run), content=b"\xff").status_code == 422


def test_a_run_without_a_judged_metric_says_what_to_evaluate_and_one_with_has_a_link(run, page):
    assert f'href="/ui/runs/{run[0]}/label"' in page.get(f"/ui/runs/{run[0]}").text
    rows = [{"query": "?", "relevant_doc_ids": ["d"], "retrieved_doc_ids": ["d"]}]
    retrieval = ragassay.evaluate(rows, metrics=["mrr"]).run.id
    answer = page.get(f"/ui/runs/{retrieval}/label")
    assert (answer.status_code, "no metric of this run can be labelled" in answer.text) == (422, True)
    assert "/label" not in page.get(f"/ui/runs/{retrieval}").text
