"""``ragassay compare`` of files that nobody has evaluated yet."""

import json

import pytest

from offline_runs import write_jsonl


def row(n, *, right):
    return {
        "question": f"Question {n}?",
        "answer": f"It is {n}." if right else "It is something else.",
        "contexts": [f"It is {n}."],
        "ground_truth": f"It is {n}.",
    }


@pytest.fixture
def versions(cli, tmp_path, monkeypatch):
    """v1.jsonl is right on 2 of 8 questions, v2.jsonl on all, in another order and with a note of its own."""
    monkeypatch.setattr("ragassay.evaluation.runtime.embedder", lambda *_: (None, "the tests need no model"))
    write_jsonl(tmp_path / "v1.jsonl", [row(n, right=n < 2) for n in range(8)])
    write_jsonl(tmp_path / "v2.jsonl", [{**row(n, right=True), "note": n} for n in (5, 2, 7, 0, 1, 6, 3, 4)])
    return cli


def test_two_files_are_evaluated_and_compared_under_their_names_whatever_their_order(versions, tmp_path):
    code, out, err = versions("compare", "v1.jsonl", "v2.jsonl", "--json")
    assert code == 0, err
    assert err.splitlines() == ["evaluating v1: 8 queries, judge local", "evaluating v2: 8 queries, judge local"]
    found = json.loads(out)
    pair = found["pairs"][0]
    assert (found["baseline"], pair["b"], list(found["sides"])) == ("v1", "v2", ["v1", "v2"])
    assert (pair["matching"]["paired"], pair["matching"]["same_dataset"]) == (8, True)
    assert (pair["metrics"]["accurate"]["wins"], pair["metrics"]["accurate"]["losses"]) == (6, 0)
    assert found["warnings"] == []
    assert {side["run"] for side in found["sides"].values()} == {p.name for p in (tmp_path / "home" / "runs").iterdir()}


def test_options_of_the_evaluation_and_a_configuration_reach_the_files(versions, tmp_path):
    (tmp_path / "settings.yaml").write_text("seed: 7\ndata: nowhere.jsonl\nsystems: {old: nowhere.jsonl}\n")
    options = ["--config", "settings.yaml", "--map", "answer=reply", "--metrics", "rouge_l", "--examples", "0"]
    for name in ("v1", "v2"):
        rows = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        write_jsonl(tmp_path / f"{name}.jsonl", [{**r, "reply": r.pop("answer")} for r in rows])
    code, out, err = versions("compare", "v1.jsonl", "v2.jsonl", *options, "--json")
    assert code == 0, err
    assert (json.loads(out)["seed"], json.loads(out)["metrics"]) == (7, ["rougeL"])


def test_nothing_is_evaluated_where_one_of_the_files_can_not_be_read(versions, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"question": ""}\n')
    code, _, err = versions("compare", "v1.jsonl", "bad.jsonl")
    assert code == 2
    assert "bad.jsonl:1" in err
    assert not (tmp_path / "home" / "runs").exists()


@pytest.mark.parametrize("ids", ["neither", "old", "new"])
def test_systems_alone_take_the_questions_of_the_first_ones_file(ids, versions, tmp_path):
    named = {"old": "v1", "new": "v2"}.get(ids)
    for name in ("v1", "v2"):
        rows = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        own = [{"id": f"x{n}", **row} if name == named else row for n, row in enumerate(rows)]
        write_jsonl(tmp_path / f"{name}.jsonl", own)
    command = ["evaluate", "--system", "old=v1.jsonl", "--system", "new=v2.jsonl", "--metrics", "accurate,correctness"]
    code, out, err = versions(*command, "--json")
    assert code == 0, err
    means = {name: system["metrics"]["accurate"]["value"] for name, system in json.loads(out)["systems"].items()}
    assert means == {"old": 2 / 8, "new": 1.0}
    pair = json.loads(versions("compare", "last", "--json")[1])["pairs"][0]
    assert (pair["a"], pair["b"], pair["matching"]["paired"]) == ("old", "new", 8)
