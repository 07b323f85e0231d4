"""``ragassay compare`` as a user types it."""

import json

import pytest

from offline_runs import write_jsonl

QUERIES = [{"query_id": f"q{n}", "query": f"Question {n}?", "relevant_doc_ids": ["d1"]} for n in range(8)]
OTHERS = [{"query_id": f"x{n}", "query": f"Another {n}?", "relevant_doc_ids": ["d1"]} for n in range(8)]


def responses(path, rank, queries=QUERIES):
    """A system that finds the relevant document at ``rank`` for every query."""
    ids = [f"n{n}" for n in range(1, rank)] + ["d1"]
    return write_jsonl(
        path, [{"query_id": q["query_id"], "retrieved_doc_ids": ids, "cost_usd": 0.01 * rank} for q in queries]
    )


@pytest.fixture
def two(cli, tmp_path):
    """A run with the systems a (rank 2) and b (rank 1), and a run of b alone in report.json; returns its id."""
    write_jsonl(tmp_path / "data.jsonl", QUERIES)
    responses(tmp_path / "a.jsonl", 2), responses(tmp_path / "b.jsonl", 1)
    cli("evaluate", "data.jsonl", "--system", "b=b.jsonl", "--metrics", "mrr", "-o", "report.json")
    code, out, err = cli(
        "evaluate",
        "data.jsonl",
        "--system",
        "a=a.jsonl",
        "--system",
        "b=b.jsonl",
        "--metrics",
        "mrr,recall@1",
        "--json",
    )
    assert code == 0, err
    return json.loads(out)["run"]["id"]


def test_the_systems_of_one_run_are_compared(cli, two):
    code, out, err = cli("compare", "last")
    assert (code, err) == (0, "")
    # 1/2 against 1 on eight rows: two of 2 ** 8 signs are as extreme, p = 0.0078, twice that for two metrics
    assert out.startswith("b is better than a on mrr (+0.50")
    assert "0.016*" in out
    assert "8/0/0" in out
    assert "b costs 0.5x per query" in out
    assert "What went wrong" not in out, "accurate was not computed"


def test_runs_can_be_named_by_id_beginning_folder_or_file(cli, two, tmp_path):
    folder = tmp_path / "home" / "runs" / two
    for first, second in (
        (f"{two}#a", "report.json"),
        (f"{folder}#a", f"{two}#b"),
        (f"{folder}/report.json#a", "last#b"),
    ):
        code, out, err = cli("compare", first, second, "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert (found["baseline"], found["pairs"][0]["metrics"]["mrr"]["delta"]) == ("a", 0.5)
    whole = cli("show", two, "--json")[1]
    (tmp_path / "copied").mkdir()
    (tmp_path / "copied" / "report.json").write_text(whole)
    assert cli("compare", "copied")[0] == 0
    (tmp_path / "with#hash.json").write_text(whole)
    assert cli("compare", "with#hash.json")[0] == 0


def test_different_datasets_are_compared_as_two_groups_and_that_is_said(cli, two, tmp_path):
    write_jsonl(tmp_path / "others.jsonl", OTHERS)
    responses(tmp_path / "c.jsonl", 3, OTHERS)
    cli("evaluate", "others.jsonl", "--system", "c=c.jsonl", "--metrics", "mrr")
    code, out, _ = cli("compare", "report.json", "last")
    assert code == 0
    assert "share no query" in out
    assert "warning: b and c: not the same dataset" in out
    # neither side varies, so Welch's test has nothing to go by
    assert "can't tell" in out


BAD = {
    "no run": ([], "Missing argument"),
    "unknown run": (["nope"], "there is no run 'nope'"),
    "unknown system": (["last#z"], "unknown system 'z'"),
    "no system": (["last#"], "RUN#SYSTEM"),
    "one system only": (["last#a"], "needs two systems"),
    "same twice": (["last#a", "last#a"], "chosen twice"),
    "no file": (["nope.jsonl", "last"], "nope.jsonl: there is no such file"),
    "one file only": (["a.jsonl"], "needs two systems, a.jsonl is one"),
    "judge of a run": (["last", "--judge", "x"], "--judge: all that is named is evaluated already"),
    "other document": (["other.json"], "not a report of this version of ragassay"),
    "unfinished run": (["unfinished"], "has no report yet"),
    "unknown baseline": (["last", "--baseline", "z"], "unknown baseline 'z'"),
    "unknown metric": (["last", "--metrics", "mmr"], "unknown metric"),
    "alpha": (["last", "--alpha", "2"], "alpha"),
    "correction": (["last", "--correction", "luck"], "--correction"),
    "output folder": (["last", "-o", "other.json/c.md"], "is no folder"),
}


def test_bad_input_gives_one_clear_line_and_leaves_nothing(cli, two, tmp_path):
    (tmp_path / "other.json").write_text('{"kind": "job"}')
    (tmp_path / "unfinished").mkdir()
    run = tmp_path / "home" / "runs" / two
    (tmp_path / "unfinished" / "run.json").write_bytes((run / "run.json").read_bytes())
    for case, (arguments, says) in BAD.items():
        code, out, err = cli("compare", *arguments)
        assert (code, out) == (2, ""), case
        assert err.startswith("error: "), case
        assert err.count("\n") == 1, (case, err)
        assert says in err, (case, err)
    assert not list(tmp_path.glob("c.*")), "an output was written"
