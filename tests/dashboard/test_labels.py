"""The labelling page: blind until answered, labels kept and exported, and what the commands make of them."""

import json
import re
from urllib.parse import urlencode

import pytest

import ragassay
from browsing import browsing
from ragassay.core.draws import draw_key
from ragassay.core.settings import Settings
from ragassay.evaluation.labelling import labels_of, report_of
from ragassay.storage.folder import FolderStore

CONTEXT = "Books may be kept for 21 days. Films may be kept for {n} days. The reading room opens at nine."
SAID = ["Books may be kept for 21 days.", "Every reader is given a blue umbrella.", "Films may be kept for long."]
GIVEN = [
    {
        "query_id": f"q{n}",
        "query": f"What may reader {n} do?",
        "answer": SAID[n % 3],
        "contexts": [CONTEXT.format(n=n + 30)],
    }
    for n in range(90)
]


def truth(query):
    """What people say: only what stands in the context, but for every ninth answer."""
    n = int(query[1:])
    return str(int((n % 3 == 0) ^ (n % 9 == 0)))


class Page:
    """The labelling page of a run, as somebody named Ada uses it."""

    def __init__(self, http, run):
        self.http, self.run, self.file = http, run, run.folder / "labels.jsonl"
        self.get, self.post = http.get, http.post

    def address(self, name="label", **asked):
        return f"/ui/runs/{self.run.record.id}/{name}?{urlencode(asked)}"

    def row(self, answer=None, **asked):
        """The row that a page, by default the next one, asks about."""
        text = (answer or self.get(self.address(**asked))).text
        return re.search(r'name="row" value="([^"]+)"', text)[1]

    def say(self, value, row=None, **asked):
        data = {"row": row or self.row(**asked), "value": value, "by": "Ada"}
        return self.post(self.address(**asked), data=data, follow_redirects=True)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAGASSAY_HOME", str(tmp_path_factory.mktemp("labels")))
        run = ragassay.evaluate(GIVEN, name="readers", metrics=["faithfulness", "accurate"]).run.id
        with browsing() as http:
            yield http, FolderStore(Settings().home).open(run)


@pytest.fixture
def page(labelled):
    http, run = labelled
    http.cookies.clear()
    (run.folder / "labels.jsonl").unlink(missing_ok=True)
    return Page(http, run)


def test_nothing_of_the_judge_is_shown_before_a_row_is_answered(page):
    before = page.get(page.address())
    assert "Do the contexts support what the answer says?" in before.text
    assert not re.search(r"The judge|supported, |A1|evidence:|\bnot found\b", before.text)
    row = page.row(before)
    after = page.say("1", row)
    chance = r"The judge: \d\.\d+, with a chance of \d\.\d+ that people say yes: (as|other than) you"
    assert re.search(rf"You: supported\.</strong> {chance}", after.text)
    assert f"row={row}" in str(after.url)
    assert 'rel="next"' in after.text
    assert page.get(str(after.url)).text == after.text  # the address restores it
    assert page.row() != row
    assert 'data-key="1"' in before.text
    assert 'data-key="1"' not in after.text  # a key that is pressed twice changes nothing
    changed = page.say("0", row)
    assert "You: not supported." in changed.text
    assert "1 of 90 rows labelled" in changed.text
    assert [json.loads(line)["value"] for line in page.file.read_text().splitlines()] == [1.0, 0.0]


def test_row_that_nobody_can_tell_is_passed_over_and_the_name_is_asked_once(page):
    row = page.row()
    refused = page.post(page.address(), data={"row": row, "value": "skip"})
    assert (refused.status_code, "your name is missing" in refused.text) == (422, True)
    after = page.say("skip")
    assert page.row(after) != row
    assert "1 skipped" in after.text
    assert 'value="Ada"' in after.text
    page.post(page.address(), data={"row": page.row(after), "value": "0.5"})
    assert labels_of(page.run)[-1].by == "Ada"


def test_labels_correct_the_page_the_report_and_what_the_commands_make_of_them(page, cli, tmp_path):
    """The whole loop, with the files and commands that the page names."""
    record = page.run.record
    order = sorted(
        (row["query_id"] for row in GIVEN), key=lambda query: draw_key(record.spec.seed, record.dataset.digest, query)
    )
    before = [{"query_id": query, "label": int(truth(query)), "by": "Bo"} for query in order[:54]]
    page.post(page.address("labels.jsonl"), content="\n".join(map(json.dumps, before)))
    for wanted in order[54:60]:
        row = page.row(size=60)
        assert row == wanted
        answer = page.say(truth(row), row, size=60)
    assert "60 of 60 rows labelled" in answer.text
    assert "Every row of this sample was shown" in page.get(page.address(size=60)).text
    mean = re.search(r"Mean by labels</dt><dd>(0\.\d+), 95 % interval (0\.\d+) to (0\.\d+)", answer.text).groups()
    balanced = re.search(r"balanced accuracy</dt><dd>(0\.\d+), 95 % interval", answer.text)[1]
    assert "Is the answer accurate?" in page.get(page.address(metric="accurate")).text
    shown = page.get(f"/ui/runs/{page.run.record.id}").text
    assert re.search(rf"corrected: {mean[0]} \[.*?\] by 60 labels", shown)
    labelled = report_of(page.run)
    metric = labelled.model_dump(mode="json")["systems"]["default"]["metrics"]["faithfulness"]
    assert sum(bool(row.ratings) for row in labelled.results["default"]) == 60
    (tmp_path / "labels.jsonl").write_bytes(page.get(page.address("labels.jsonl")).content)
    code, out, err = cli("judge", "agreement", "labels.jsonl", "--json")
    assert code == 0, err
    assert f"{json.loads(out)['balanced_accuracy']['value']:.2f}" == balanced
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, GIVEN)))
    asked = ("--metrics", "faithfulness", "--set", "labels=labels.jsonl", "--json")
    code, out, err = cli("evaluate", "data.jsonl", *asked)
    assert code == 0, err
    corrected = json.loads(out)["systems"]["default"]["metrics"]["faithfulness"]["corrected"]
    assert corrected == metric["corrected"]
    ends = corrected["value"], corrected["interval"]["low"], corrected["interval"]["high"]
    assert tuple(f"{end:.3f}" for end in ends) == mean


def test_what_is_no_answer_or_comes_from_another_site_is_refused(page):
    row, other = page.row(), {"Sec-Fetch-Site": "cross-site"}
    given = {"row": row, "value": "1", "by": "Ada"}
    assert page.post(page.address(), data=given, headers=other).status_code == 403
    assert page.post(page.address("labels.jsonl"), data={"lines": "{}"}, headers=other).status_code == 403
    assert page.post(page.address(), data=given | {"value": "0.7"}).status_code == 422
    assert page.post(page.address(), data=given | {"row": "q999"}).status_code == 404
    assert page.post(page.address(), content=b"\xff").status_code == 422
    assert labels_of(page.run) == []
