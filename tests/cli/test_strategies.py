"""Built-in systems in ``ragassay.yaml``, from the command line to the report."""

import json
import shutil

import pytest

from offline_runs import write_jsonl
from provider import Provider, says
from ragassay.core.errors import BudgetReached
from ragassay.core.package_data import folder
from ragassay.storage.folder import FolderStore
from ragassay.systems.builtin import BuiltIn

SYSTEMS = """
data: queries.jsonl
corpus: corpus.jsonl
metrics: [mrr, recall@10, token_f1, retrieval_latency_ms]
systems:
  bm25: {kind: bm25, answer: extractive}
  titles: {kind: bm25, b: 0.0, k: 5, contexts: 2}
  recorded: responses/baseline.jsonl
"""


@pytest.fixture
def quickstart(tmp_path):
    shutil.copytree(folder("datasets") / "quickstart", tmp_path, dirs_exist_ok=True)
    return tmp_path


def evaluate(cli, place, text, *options):
    (place / "ragassay.yaml").write_text(text)
    code, out, err = cli("evaluate", "--config", "ragassay.yaml", "--json", *options)
    assert code == 0, err
    return json.loads(out)


def test_built_in_systems_stand_beside_recorded_ones(cli, quickstart):
    report = evaluate(cli, quickstart, SYSTEMS)
    assert list(report["systems"]) == ["bm25", "titles", "recorded"]
    bm25, titles = report["systems"]["bm25"], report["systems"]["titles"]
    recorded = report["systems"]["recorded"]
    assert bm25["metrics"]["recall@10"]["value"] > recorded["metrics"]["recall@10"]["value"]
    assert (bm25["metrics"]["token_f1"]["n"], titles["metrics"]["token_f1"]["n"]) == (30, 0)  # nobody answers there
    assert bm25["retrieval_latency_ms"]["p50"] > 0
    source = report["provenance"]["systems"]["bm25"]
    assert {"kind": "bm25", "k1": 1.2, "concurrency": 4}.items() <= source["built"]["configuration"].items()
    assert (source["built"]["passages"], source["built"]["models"]) == (66, ["extractive"])


def test_of_several_datasets_the_one_without_input_for_any_metric_is_named(cli, quickstart):
    write_jsonl(quickstart / "bare.jsonl", [{"query": "?"}])
    (quickstart / "ragassay.yaml").write_text(
        SYSTEMS.replace("data: queries.jsonl", "datasets: {judged: queries.jsonl, bare: bare.jsonl}")
        .replace("  recorded: responses/baseline.jsonl\n", "")
        .replace("[mrr, recall@10, token_f1, retrieval_latency_ms]", "[mrr]")
    )
    code, _, err = cli("evaluate", "--config", "ragassay.yaml")
    assert (code, "error: bare: no row has the input of a metric" in err) == (5, True), err
    assert err.endswith("; see: ragassay data show FILE\n")


ANSWERED = """
data: many.jsonl
corpus: corpus.jsonl
metrics: [recall@10, token_f1]
prices: {tiny: {input_per_1m: 1, output_per_1m: 2}}
systems:
  asked: {kind: bm25, contexts: 1, answer: {model: openai/tiny, api_base: URL}}
"""


@pytest.fixture
def many(quickstart):
    """120 queries: three chunks."""
    rows = [json.loads(line) for line in (quickstart / "queries.jsonl").read_text().splitlines()]
    write_jsonl(
        quickstart / "many.jsonl", [{**row, "query_id": f"{row['query_id']}-{n}"} for n in range(4) for row in rows]
    )
    return quickstart


def test_a_model_answers_on_the_systems_bill(cli, many):
    with Provider(then=says("It is 20 tokens.")) as provider:
        text = ANSWERED.replace("URL", provider.url)
        report = evaluate(cli, many, text, "--limit", "10")
        assert (len(provider.log), provider.peak <= 4) == (10, True)
        seen = provider.log[0]
        assert "from the passages alone" in seen.system
        assert "[1] " in seen.user
        assert "[2] " not in seen.user
        again = evaluate(cli, many, text, "--limit", "10")
        assert len(provider.log) == 10  # the answers of the first run are not paid again
    system = report["systems"]["asked"]
    assert system["output_tokens"]["total"] == 40  # "It is 20 tokens." is 4 of the provider's tokens
    cost = (system["input_tokens"]["total"] * 1 + system["output_tokens"]["total"] * 2) / 1e6
    assert system["cost_usd"]["total"] == pytest.approx(cost)
    assert system["generation_latency_ms"]["n"] == 10
    assert system["evaluation"]["usage"]["calls"] == 0  # the judge's money is another
    for key in ("input_tokens", "output_tokens", "cost_usd", "generation_latency_ms"):
        assert again["systems"]["asked"][key] == system[key]


def test_a_resumed_run_answers_only_what_has_no_response(cli, many, monkeypatch):
    answered, real = [], BuiltIn.respond

    async def ends(system, sample):
        if len(answered) == 60:
            raise BudgetReached("enough")
        answered.append(sample.query_id)
        return await real(system, sample)

    with Provider(then=says("It is 20.")) as provider:
        (many / "ragassay.yaml").write_text(ANSWERED.replace("URL", provider.url))
        with monkeypatch.context() as patched:
            patched.setattr(BuiltIn, "respond", ends)
            code, _, err = cli("evaluate", "--config", "ragassay.yaml", "--json")
        assert (code, "error: enough" in err) == (4, True)
        run = FolderStore(many / "home").open("last")
        assert len(run.pending()) == 3, "nothing is judged before all have answered"
        kept = run.folder.joinpath("responses", "asked.jsonl").read_bytes().splitlines()
        assert 50 <= len(kept) <= 60
        code, out, err = cli("evaluate", "--resume", "last", "--json")
        assert code == 0, err
        assert len(provider.log) == 120
    assert json.loads(out)["systems"]["asked"]["queries"] == 120
    assert len(run.folder.joinpath("responses", "asked.jsonl").read_bytes().splitlines()) == 120


def test_a_run_is_not_resumed_on_another_corpus(cli, many, monkeypatch):
    async def ends(*arguments):
        raise BudgetReached("enough")

    monkeypatch.setattr(BuiltIn, "respond", ends)
    (many / "ragassay.yaml").write_text(SYSTEMS)
    assert cli("evaluate")[0] == 4
    lines = (many / "corpus.jsonl").read_text().splitlines()
    (many / "corpus.jsonl").write_text("\n".join(lines[1:]))
    assert "corpus.jsonl: the corpus changed since the run began" in cli.refused("evaluate", "--resume", "last")
