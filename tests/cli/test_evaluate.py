"""``ragassay evaluate`` as a user types it, and what a second run of the same rows asks again."""

import json
import os
import re

import orjson
import pytest

from offline_runs import GOOD, write_jsonl
from provider import Provider, malformed, refuses
from ragassay.cli.options import FLAGS


@pytest.fixture
def data(tmp_path):
    return write_jsonl(tmp_path / "data.jsonl", [GOOD, {**GOOD, "query_id": "q2", "answer": "It is Lyon."}])


REFUSED = {
    "missing file": (["nope.jsonl"], "nope.jsonl: there is no such file"),
    "empty file": (["e.jsonl", "-o", "report.json"], "e.jsonl"),
    "no response": (["q.jsonl"], "--system NAME=FILE"),
    "broken json line": (["j.jsonl"], "j.jsonl:2"),
    "context undecided": (["u.jsonl"], "say --map contexts=context if it was retrieved, --map reference_contexts="),
    "no such column": (
        ["q.jsonl", "--system", "v=http://127.0.0.1:9/", "--map", "answer=typo"],
        "has no column 'typo'",
    ),
    "no data": ([], "data is missing; name a file: ragassay evaluate DATA"),
    "no metric": (["data.jsonl", "--metrics", ","], "no metric is asked for"),
    "system without file": (["data.jsonl", "--system", "a"], "NAME=FILE"),
    "system outside": (["data.jsonl", "--system", "../a=data.jsonl"], "system name '../a'"),
    "output without extension": (["data.jsonl", "-o", "report"], "no extension"),
    "resume with data": (["data.jsonl", "--resume", "last"], "--resume takes everything from the run"),
    "model without key": (["data.jsonl", "--judge", "gpt-4o-mini"], "OPENAI_API_KEY"),
    "unknown model": (["data.jsonl", "--judge", "no-such-model"], "no-such-model"),
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda name: name.replace(" ", "-"))
def test_a_bad_file_or_option_gives_one_clear_line_and_leaves_nothing(case, cli, data, tmp_path):
    (tmp_path / "e.jsonl").write_text("")
    (tmp_path / "q.jsonl").write_text('{"query": "a", "ground_truth_answer": "b"}')
    (tmp_path / "j.jsonl").write_text('{"query": "a", "answer": "x"}\n{"query": ')
    (tmp_path / "u.jsonl").write_text('{"query": "a", "context": ["x"]}')
    arguments, says = REFUSED[case]
    assert says in cli.refused("evaluate", *arguments, code=5 if case in ("empty file", "no response") else 2)
    assert not any((tmp_path / "home" / "runs").glob("*"))


def test_map_of_a_field_twice_is_for_files_whose_columns_differ(cli, tmp_path):
    (tmp_path / "questions.csv").write_text("user_question,reference\nWhere is Ann?,Ann is here.\n")
    (tmp_path / "answers.csv").write_text("Frage,answer\nWhere is Ann?,Ann is here.\n")
    maps = ("--map", "query=Frage", "--map", "query=user_question")
    code, out, _ = cli("evaluate", "questions.csv", "--system", "old=answers.csv", *maps, "--metrics", "token_f1")
    assert (code, "1.000" in out) == (0, True)


def test_resume_takes_limits_and_files_to_write_and_nothing_else_of_the_configuration(cli):
    allowed = {"-o": "r.json", "--budget-usd": "1", "--import": "json", "--set": "budget.tokens=5"}
    for flag, value in ({flag.name: "1" for flag in FLAGS.values()} | allowed).items():
        said = "there is no run 'nope'" if flag in allowed else "takes everything from the run"
        assert said in cli.refused("evaluate", "--resume", "nope", flag, value), flag
    said = cli.refused("evaluate", "--resume", "nope", "--set", "seed=1")
    assert said == "error: --set seed: a resumed run takes this from its start\n"


def test_too_many_failed_rows_end_with_exit_code_3_and_a_report(cli, data, tmp_path):
    with Provider(then=malformed) as provider:
        judge = ("--judge", "gpt-4o-mini", "--set", f"api_base={provider.url}")
        code, out, err = cli("evaluate", data, *judge, "--metrics", "faithfulness", "-o", "r.json")
    assert code == 3
    assert "faithfulness 100%; allowed: 5% (max_failed_share)" in err
    report = orjson.loads((tmp_path / "r.json").read_bytes())
    assert report["systems"]["default"]["metrics"]["faithfulness"]["failed"] == 2
    assert "not scored n=0/2" in out


def test_a_dry_run_calls_nobody_and_says_what_it_would_take(cli, data, tmp_path):
    with Provider() as provider:
        code, out, _ = cli("evaluate", data, "--judge", "gpt-4o-mini", "--set", f"api_base={provider.url}", "--dry-run")
        assert provider.log == []
    assert code == 0
    assert "2 judge calls" in out
    assert "USD" in out
    assert not any((tmp_path / "home" / "runs").glob("*"))


def test_parameters_reach_the_judge_and_one_that_is_refused_is_told_and_costs_no_row(cli, data, tmp_path):
    given = "{temperature: 0.3, top_p: 0.9, max_tokens: 700, extra_body: {min_p: 0.1}}"
    (tmp_path / "c.yaml").write_text(f"judge: gpt-4o-mini\nmetrics: [faithfulness]\nparameters: {given}\n")
    with Provider(then=refuses("temperature")) as provider:
        run = ("evaluate", data, "--config", "c.yaml", "--set", f"api_base={provider.url}", "--concurrency", "1")
        code, out, err = cli(*run)
        evaluation = json.loads(cli(*run, "--json")[1])["systems"]["default"]["evaluation"]
        cli(*run, "--metrics", "relevance", "--seed", "3")
    warning = "warning: gpt-4o-mini: the provider does not take temperature; it is left out from now on\n"
    assert (code, err) == (0, warning)
    assert re.search(r"refused by its provider +temperature: 2 rows", out)
    first, second = provider.log[:2]
    assert (first.body["temperature"], second.body.get("temperature")) == (0.3, None)
    assert (second.body["top_p"], second.body["max_tokens"], second.body["min_p"]) == (0.9, 700, 0.1)
    assert (evaluation["usage"]["cache_hits"], evaluation["left_out"]) == (2, {"temperature": 2})
    assert len(provider.log) == 3 + 3  # asked again with another seed: a parameter is part of what is asked


def test_folders_of_outputs_are_made_and_what_holds_prompts_and_answers_is_its_owners_alone(cli, data, tmp_path):
    (tmp_path / "old.csv").touch(mode=0o644)
    before = os.umask(0)
    try:
        code, *_ = cli("evaluate", data, "--metrics", "mrr", "-o", "new/folder/report.md", "-o", "old.csv")
    finally:
        os.umask(before)
    written = [path for part in ("home", "new", "old.csv") for path in [tmp_path / part, *(tmp_path / part).rglob("*")]]
    assert (code, len(written) > 10) == (0, True)
    assert [path for path in written if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("address", ["http://x:99999/", "http://x:abc", "http://[::1"])
def test_an_address_that_can_not_be_one_is_refused_before_anything_is_asked(address, cli, data, tmp_path, monkeypatch):
    systems = (
        f"{{http: {{kind: http, url: '{address}'}}, own: {{kind: bm25, answer: {{model: m, api_base: '{address}'}}}}}}"
    )
    (tmp_path / "c.yaml").write_text(f"data: data.jsonl\ncorpus: data.jsonl\nsystems: {systems}\n")
    refused = [
        (["evaluate", data, "--judge", "openai/m", "--set", f"api_base={address}"], "--set api_base: no address: write http://"),
        (["evaluate", "--config", "c.yaml"], "c.yaml:3: systems.http.url: no address"),
        (["job", "show", "0" * 32, "--server", address], "server: no address"),
    ]  # fmt: skip
    for command, says in refused:
        assert says in cli.refused(*command)
    for variable in ("API_BASE", "STATE_URL", "BROKER_URL", "SERVER", "LEASE_S"):
        with monkeypatch.context() as changed:
            changed.setenv(f"RAGASSAY_{variable}", address)
            assert f"RAGASSAY_{variable}: " in cli.refused("evaluate", data)


def test_evaluate_without_the_embedding_model_warns_at_the_start(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("ragassay.evaluation.local.unavailable", lambda model: "it needs the extra 'models'")
    (tmp_path / "rows.jsonl").write_text('{"query": "q?", "answer": "a", "ground_truth_answer": "a"}\n')
    code, _, err = cli("evaluate", "rows.jsonl")
    assert (code, err.splitlines()[0].startswith("warning: no semantic_similarity is computed")) == (0, True)
    assert "it needs the extra 'models'" in err
    assert "semantic_similarity" not in cli("evaluate", "rows.jsonl", "--metrics", "latency_ms")[2]
    read_as = "warning: answer_accuracy is read as semantic_similarity; RAGAS's metric of this name asks a judge"
    assert cli("evaluate", "rows.jsonl", "--metrics", "answer_accuracy")[2].startswith(read_as)


PAID = [
    {
        "query_id": f"q{n}",
        "query": f"How long is refund {n}?",
        "answer": f"Refund {n} takes 14 days.",
        "contexts": [f"Refund {n} takes 14 days.", "Weekends count."],
        "ground_truth_answer": f"It takes 14 days, refund {n}.",
    }
    for n in range(3)
]


@pytest.fixture(scope="module")
def provider():
    with Provider() as running:
        yield running


@pytest.mark.parametrize(
    ("change", "calls"),
    [
        ({}, 0),
        ({"prompt": "Be strict!"}, 3),
        ({"model": "n"}, 3),
        ({"path": "/"}, 0),  # the same address
        ({"path": "2"}, 3),
        ({"query": "How long is refund 1!"}, 1),
        ({"answer": "Refund 1 takes 15 days."}, 1),
        ({"contexts": ["Refund 1 takes 14 days.", "Weekends count!"]}, 1),
        ({"ground_truth_answer": "It takes 14 days, refund 1!"}, 1),
        ({"query_id": "q9"}, 0),  # no part of what is asked
    ],
)
def test_what_changes_is_asked_about_again_and_nothing_else(cli, provider, tmp_path, change, calls):
    def evaluate(model="m", path="", prompt="Be strict.", **fields):
        write_jsonl(tmp_path / "rows.jsonl", [PAID[0], {**PAID[1], **fields}, PAID[2]])
        (tmp_path / "own.md").write_text(f"{prompt}\n{{{{ verdict }}}}\n")
        before = len(provider.log)
        given = ("--judge", model, "--set", f"api_base={provider.url}{path}", "--set", "judge_prompt=own.md")
        code, out, err = cli("evaluate", "rows.jsonl", *given, "--metrics", "correctness,faithfulness", "--json")
        assert code == 0, err
        return len(provider.log) - before, json.loads(out)["systems"]["default"]["evaluation"]["usage"]

    assert evaluate()[0] == 3
    again, usage = evaluate(**change)
    assert (again, usage["calls"], usage["cache_hits"]) == (calls, calls, 3 - calls)
