"""promptfoo's results.json as it is: a row for each test, a system for each provider."""

import json

import ragassay


def result(test, provider, output, **extra):
    texts = (("When do backups start?", "At 02:00 UTC."), ("Who owns the pump?", "Ann owns the pump."))
    query, truth = texts[test]
    return {
        "promptIdx": 0,
        "testIdx": test,
        "provider": {"id": provider, "label": ""},
        "vars": {"query": query, "context": truth},
        "testCase": {"assert": [{"type": "factuality", "value": truth}]},
        "response": output and {"output": output, "tokenUsage": {"prompt": 10, "completion": 5}},
        "latencyMs": 812,
        "cost": 0.001,
        **extra,
    }


def write(tmp_path, *results):
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"evalId": "eval-1", "results": {"version": 3, "results": results}, "config": {}}))
    return file


def test_evaluate_promptfoo_results_has_a_system_for_each_provider(tmp_path):
    file = write(
        tmp_path,
        *(result(n, "openai:gpt-4o-mini", text) for n, text in enumerate(("At 02:00 UTC.", "Ann owns the pump."))),
        result(0, "ollama:llama3", "At 04:00 UTC."),
        result(1, "ollama:llama3", None, error="timeout"),
    )
    report = ragassay.evaluate(file, metrics=["exact_match", "faithfulness"])
    assert list(report.systems) == ["openai-gpt-4o-mini", "ollama-llama3"]
    scores = {name: [row.scores["exact_match"].value for row in rows] for name, rows in report.results.items()}
    assert scores == {"openai-gpt-4o-mini": [1.0, 1.0], "ollama-llama3": [0.0, None]}
    first = report.results["openai-gpt-4o-mini"][0]
    assert (first.query, first.input_tokens, first.cost_usd, first.latency_ms) == (
        *("When do backups start?", 10, 0.001, 812),
    )
    assert report.results["ollama-llama3"][1].error == "timeout"


def test_evaluate_promptfoo_results_of_one_provider_and_two_prompts(tmp_path):
    one = ragassay.evaluate(write(tmp_path, result(0, "p", "At 02:00 UTC.")), metrics=["exact_match"])
    assert (list(one.systems), one["exact_match"]) == (["default"], [1.0])
    two = write(tmp_path, result(0, "p", "At 02:00 UTC."), result(0, "p", "No.", promptIdx=1))
    assert list(ragassay.evaluate(two, metrics=["exact_match"]).systems) == ["p-prompt1", "p-prompt2"]
