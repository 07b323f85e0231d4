"""``ragassay compare`` as a user types it: of runs, reports, files that nobody has evaluated yet, and stored datasets."""

import json
import re

import pytest

import ragassay
from offline_runs import write_jsonl
from provider import Provider
from ragassay.analysis.gates import Gate, check
from ragassay.stats.power import needed_n, power_of

QUERIES = [{"query_id": f"q{n}", "query": f"Question {n}?", "relevant_doc_ids": ["d1"]} for n in range(8)]


def responses(path, *ranks, queries=QUERIES):
    """A system that finds the relevant document at these ranks, the last of which goes on."""
    ranks = [*ranks, *[ranks[-1]] * (8 - len(ranks))]
    found = [[*(f"n{n}" for n in range(1, rank)), "d1"] for rank in ranks]
    rows = zip(queries, ranks, found, strict=True)
    return write_jsonl(
        path, [{"query_id": q["query_id"], "retrieved_doc_ids": ids, "cost_usd": 0.01 * r} for q, r, ids in rows]
    )


@pytest.fixture
def evaluate(cli, tmp_path):
    write_jsonl(tmp_path / "data.jsonl", QUERIES)
    responses(tmp_path / "a.jsonl", 2), responses(tmp_path / "b.jsonl", 1)

    def run(*options, data="data.jsonl", metrics="mrr"):
        code, out, err = cli("evaluate", data, *options, "--metrics", metrics, "--json")
        assert code == 0, err
        return json.loads(out)["run"]["id"]

    return run


@pytest.fixture
def two(evaluate):
    """A run with the systems a (rank 2) and b (rank 1), and a run of b alone in report.json; returns its id."""
    evaluate("--system", "b=b.jsonl", "-o", "report.json")
    return evaluate("--system", "a=a.jsonl", "--system", "b=b.jsonl", metrics="mrr,recall@1")


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
    (tmp_path / "with#hash.json").write_text(cli("show", two, "--json")[1])
    for a, b in (
        (f"{two}#a", "report.json"),
        (f"{folder}#a", f"{two}#b"),
        (f"{folder}/report.json#a", "with#hash.json#b"),
    ):
        code, out, err = cli("compare", a, b, "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert (found["baseline"], found["pairs"][0]["metrics"]["mrr"]["delta"]) == ("a", 0.5)


def test_detect_takes_the_spread_of_the_systems_of_a_run(cli, evaluate, tmp_path):
    responses(tmp_path / "c.jsonl", 1, 1, 1, 1, 1, 1, 2), responses(tmp_path / "d.jsonl", 2)
    evaluate(*(part for name in "acd" for part in ("--system", f"{name}={name}.jsonl")))
    code, out, err = cli("compare", "last", "--detect", 0.1)
    # differences of 0.5 six times and 0 twice: mean 0.375, sd sqrt((6 * 0.125 ** 2 + 2 * 0.375 ** 2) / 7) = 0.2315
    sd = (0.375 / 7) ** 0.5
    _, head, _, first, _, _, _, second = out.splitlines()
    assert (code, err, head.startswith("c against a: to show a difference of 0.1")) == (0, "", True)
    assert first.split() == ["mrr", f"{sd:.3g}", "8", f"{power_of(0.1, 8, sd):.0%}", str(needed_n(0.1, sd))]
    assert second.split(maxsplit=1) == ["mrr", "no spread"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--json"], "--json: --detect prints a table"),
        (["-o", "c.json"], "--output: --detect prints a table"),
        (["--correction", "nothing"], "--correction"),
    ],
)
def test_detect_refuses_what_it_would_ignore(cli, options, said):
    code, _, err = cli("compare", "last", "--detect", 0.1, *options)
    assert (code, said in err) == (2, True), err


def test_detect_evaluates_data_files_first(cli, tmp_path):
    full = [{**query, "retrieved_doc_ids": ["d1"]} for query in QUERIES]
    write_jsonl(tmp_path / "new.jsonl", full)
    write_jsonl(tmp_path / "old.jsonl", [{**full[0], "retrieved_doc_ids": ["n1", "d1"]}, *full[1:]])
    code, out, _ = cli("compare", "old.jsonl", "new.jsonl", "--detect", 0.1, "--metrics", "mrr")
    # differences of 0.5 once and 0 seven times: sd 0.5 / sqrt(8)
    assert (code, "new against old: to show a difference of 0.1" in out, "mrr     0.177  8" in out) == (0, True, True)


def test_detect_counts_questions_not_answers(cli, tmp_path):
    rows = [{"query_id": f"{n}-{copy}", "query": f"Question {n}?"} for n in range(4) for copy in range(3)]
    for name, ranks in (("old", "1222"), ("new", "1111")):
        found = {"1": ["d1", "n1"], "2": ["n1", "d1"]}
        ranked = [
            {**one, "retrieved_doc_ids": found[ranks[n // 3]], "relevant_doc_ids": ["d1"]} for n, one in enumerate(rows)
        ]
        write_jsonl(tmp_path / f"{name}.jsonl", ranked)
    out = cli("compare", "old.jsonl", "new.jsonl", "--detect", 0.1, "--metrics", "mrr")[1]
    # differences of 0 once and 0.5 three times: sd 0.25 over 4 questions, not over 12 answers
    assert out.splitlines()[-1].split() == [
        "mrr",
        "0.25",
        "4",
        f"{power_of(0.1, 4, 0.25):.0%}",
        str(needed_n(0.1, 0.25)),
    ]


def test_figures_of_all_rows_say_so_beside_those_of_the_matched_ones(cli, tmp_path):
    full = [{**query, "retrieved_doc_ids": ["d1"], "cost_usd": 0.01} for query in QUERIES]
    write_jsonl(tmp_path / "old.jsonl", full[:7]), write_jsonl(tmp_path / "new.jsonl", full)
    said = "All rows of each system count here, matched or not. "
    assert said in cli("compare", "old.jsonl", "new.jsonl", "--metrics", "mrr")[1]
    write_jsonl(tmp_path / "old.jsonl", full)
    assert said not in cli("compare", "old.jsonl", "new.jsonl", "--metrics", "mrr")[1]


BAD = {
    "unknown run": (["nope"], "there is no run 'nope'"),
    "run by its dataset": (["a"], "Give an id, or its beginning, or a name that --name gave"),
    "no file": (["nope.jsonl", "last"], "nope.jsonl: there is no such file"),
    "one file only": (["a.jsonl"], "needs two systems, a.jsonl is one"),
    "bad file": (["good.jsonl", "bad.jsonl"], "bad.jsonl:1"),
    "judge of a run": (["last", "--judge", "x"], "--judge: all that is named is evaluated already"),
    "other document": (["other.json"], "not a report of this version of ragassay"),
    "unfinished run": (["unfinished"], "has no report yet"),
    "output folder": (["last", "-o", "other.json/c.md"], "is no folder"),
}


def test_bad_input_gives_one_clear_line_and_leaves_nothing(cli, two, tmp_path):
    (tmp_path / "other.json").write_text('{"kind": "job"}')
    write_jsonl(tmp_path / "good.jsonl", [row(1, right=True)]), write_jsonl(tmp_path / "bad.jsonl", [{"question": ""}])
    (tmp_path / "unfinished").mkdir()
    runs = tmp_path / "home" / "runs"
    (tmp_path / "unfinished" / "run.json").write_bytes((runs / two / "run.json").read_bytes())
    before = sorted(runs.iterdir())
    for case, (arguments, says) in BAD.items():
        assert says in cli.refused("compare", *arguments), case
    assert not list(tmp_path.glob("c.*")), "an output was written"
    assert sorted(runs.iterdir()) == before, "nothing is evaluated if one of the files can't be read"


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
    rows = {
        "v1": [row(n, right=n < 2) for n in range(8)],
        "v2": [{**row(n, right=True), "note": n} for n in (5, 2, 7, 0, 1, 6, 3, 4)],
    }
    for name, made in rows.items():
        write_jsonl(tmp_path / f"{name}.jsonl", made)
    return rows


def test_two_files_are_evaluated_and_compared_under_their_names_whatever_their_order(cli, versions, tmp_path):
    code, out, err = cli("compare", "v1.jsonl", "v2.jsonl", "--json")
    assert code == 0, err
    assert err.splitlines() == ["evaluating v1: 8 queries, judge local", "evaluating v2: 8 queries, judge local"]
    found = json.loads(out)
    pair = found["pairs"][0]
    assert (found["baseline"], pair["b"], list(found["sides"])) == ("v1", "v2", ["v1", "v2"])
    assert (pair["matching"]["paired"], pair["matching"]["same_dataset"]) == (8, True)
    assert (pair["metrics"]["accurate"]["wins"], pair["metrics"]["accurate"]["losses"]) == (6, 0)
    assert found["warnings"] == []
    assert {side["run"] for side in found["sides"].values()} == {p.name for p in (tmp_path / "home" / "runs").iterdir()}


def test_a_budget_is_that_of_all_files_together(cli, versions):
    with Provider() as provider:
        model = ("--judge", "gpt-4o-mini", "--set", f"api_base={provider.url}", "--metrics", "correctness")
        first = json.loads(cli("evaluate", "v1.jsonl", *model, "--set", "performance.cache=false", "--json")[1])
        usage = first["systems"]["default"]["evaluation"]["usage"]
        one = usage["input_tokens"] + usage["output_tokens"]
        capped = ("--set", f"budget.tokens={int(one * 1.5)}", "--set", "performance.cache=false", "-j", 1)
        code, out, err = cli("compare", "v1.jsonl", "v2.jsonl", *model, *capped)
        calls = len(provider.log)
    assert (code, out) == (4, "")
    assert "what is finished is kept: ragassay evaluate --resume" in err
    assert 2 * usage["calls"] < calls < 3 * usage["calls"]  # the first file again, and what is left for the second


def test_options_of_the_evaluation_and_a_configuration_reach_the_files(cli, versions, tmp_path):
    (tmp_path / "settings.yaml").write_text("seed: 7\ndata: nowhere.jsonl\nsystems: {old: nowhere.jsonl}\n")
    options = ["--config", "settings.yaml", "--map", "answer=reply", "--metrics", "rouge_l", "--examples", "0"]
    for name, rows in versions.items():
        write_jsonl(tmp_path / f"{name}.jsonl", [{**r, "reply": r.pop("answer")} for r in rows])
    code, out, err = cli("compare", "v1.jsonl", "v2.jsonl", *options, "--json")
    assert code == 0, err
    assert (json.loads(out)["seed"], json.loads(out)["metrics"]) == (7, ["rougeL"])


@pytest.mark.parametrize("named", [None, "v1", "v2"])
def test_systems_alone_take_the_questions_of_the_first_ones_file(named, cli, versions, tmp_path):
    for name, rows in versions.items():
        own = [{"id": f"x{n}", **row} if name == named else row for n, row in enumerate(rows)]
        write_jsonl(tmp_path / f"{name}.jsonl", own)
    command = ["evaluate", "--system", "old=v1.jsonl", "--system", "new=v2.jsonl", "--metrics", "accurate,correctness"]
    code, out, err = cli(*command, "--json")
    assert code == 0, err
    means = {name: system["metrics"]["accurate"]["value"] for name, system in json.loads(out)["systems"].items()}
    assert means == {"old": 2 / 8, "new": 1.0}
    pair = json.loads(cli("compare", "last", "--json")[1])["pairs"][0]
    assert (pair["a"], pair["b"], pair["matching"]["paired"]) == ("old", "new", 8)


def test_two_versions_of_a_dataset_are_compared_under_the_names_they_were_given(cli, versions):
    first, _ = [
        f"nightly@{json.loads(cli('data', 'import', f'{name}.jsonl', '--name', 'nightly', '--json')[1])[0]['digest'][:8]}"
        for name in versions
    ]
    found = json.loads(cli("compare", first, "nightly", "--metrics", "exact_match", "--json")[1])
    assert (list(found["sides"]), found["pairs"][0]["metrics"]["exact_match"]["delta"]) == ([first, "nightly"], 0.75)


def test_gate_efficiency_is_a_percentage_in_a_comparison_a_trend_and_gates(cli):
    rows = [{**query, "retrieval_needed": False} for query in QUERIES]
    ids = {"some": [[], [], *[["d"]] * 6], "all": [[]] * 8}
    systems = {
        name: [{"query_id": f"q{n}", "retrieved_doc_ids": found} for n, found in enumerate(every)]
        for name, every in ids.items()
    }
    report = ragassay.evaluate(rows, systems=systems, metrics="gate_efficiency")
    text = str(ragassay.compare(report))
    assert "gate_efficiency (+75 points, 95 % +" in text
    assert {"25 %", "100 %", "+75 points"} <= set(re.findall(r"\+?\d+ (?:%|points)", text))
    assert "25 % [" in cli("trend", "gate_efficiency", "--system", "some")[1]
    gate = Gate(metric="gate_efficiency", min=0.5, system="some")
    assert check(report, [gate]).results[0].reason == "gate_efficiency is 25 %, not >= 50 % (n=8)"
    drop = check(
        report, [Gate(metric="gate_efficiency", max_drop=0.5, system="some")], report, baseline_system="all"
    ).results[0]
    assert drop.name == "some: gate_efficiency drop <= 50 points"
    assert "from 100 % to 25 % (n=8): worse by 75 points, not within 50 points" in drop.reason
