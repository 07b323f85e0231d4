"""``ragassay schedule``: what it refuses before it asks a service, and that other commands leave 'schedule:' alone."""

import json

import pytest

SCHEDULED = 'metrics: [mrr]\nschedule:\n  cron: "30 2 * * *"\n  dataset: faq\n'
ROW = {"query_id": "q1", "query": "When?", "relevant_doc_ids": ["a"], "retrieved_doc_ids": ["b", "a"]}


@pytest.fixture
def nobody(monkeypatch):
    monkeypatch.setenv("RAGASSAY_SERVER", "http://127.0.0.1:9")


def test_evaluate_and_gate_take_no_notice_of_a_schedule(cli, tmp_path):
    (tmp_path / "ragassay.yaml").write_text(f"data: rows.jsonl\n{SCHEDULED}gates:\n  - mrr: '>= 0.5'\n")
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW))
    assert cli("evaluate", "--config", "ragassay.yaml")[0] == 0
    assert cli("gate", "ragassay.yaml")[0] == 0


REFUSED = {
    "no times": ("metrics: [mrr]", (), "it is not said when"),
    "a name that is none": (SCHEDULED, ("--name", "a b"), "--name: "),
    "no such key": (SCHEDULED, ("--set", "schedule.data=rows.jsonl"), "schedule"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_not_be_planned_is_one_line(cli, tmp_path, nobody, case):
    text, options, what = REFUSED[case]
    (tmp_path / "ragassay.yaml").write_text(text)
    code, out, err = cli("schedule", "add", *options)
    assert (code, out) == (2, "")
    assert what in err
    assert err.count("\n") == 1


def test_where_no_service_answers_each_command_says_so(cli, tmp_path, nobody):
    (tmp_path / "ragassay.yaml").write_text(SCHEDULED)
    for command in (
        ("add",),
        ("list",),
        ("set", "nightly", "--pause"),
        *((verb, "nightly") for verb in ("show", "run", "remove")),
    ):
        code, _, err = cli("schedule", *command)
        assert code == 3
        assert err.startswith("error: no service answers at http://127.0.0.1:9")
