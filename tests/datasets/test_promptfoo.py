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
        "vars": {"query": query, "context": f"The handbook of operations says this of it: {truth}"},
        "testCase": {"assert": [{"type": "factuality", "value": truth}]},
        "response": output and {"output": output, "tokenUsage": {"prompt": 10, "completion": 5}},
        "latencyMs": 812,
        "cost": 0.001,
        **extra,
    }


def document(*results):
    return {"evalId": "eval-1", "results": {"version": 3, "results": results}, "config": {}}


def figures(report):
    return {
        name: [(row.query, row.cost_usd, row.scores["faithfulness"].value) for row in rows]
        for name, rows in report.results.items()
    }


def test_evaluate_promptfoo_results_has_a_system_for_each_provider(write):
    results = document(
        *(result(n, "openai:gpt-4o-mini", text) for n, text in enumerate(("At 02:00 UTC.", "Ann owns the pump."))),
        result(0, "ollama:llama3", "At 04:00 UTC."),
        result(1, "ollama:llama3", None, error="timeout"),
    )
    report = ragassay.evaluate(write("results.json", results), metrics=["exact_match", "faithfulness"])
    lines = "\n".join(map(json.dumps, results["results"]["results"]))
    from_lines = ragassay.evaluate(write("results.jsonl", lines), metrics=["exact_match", "faithfulness"])
    assert figures(from_lines) == figures(report)
    elsewhere = ragassay.evaluate(write("results", lines), metrics=["exact_match", "faithfulness"], format="jsonl")
    assert figures(elsewhere) == figures(report), "the content says what a file is"
    assert list(report.systems) == ["openai-gpt-4o-mini", "ollama-llama3"]
    scores = {name: [row.scores["exact_match"].value for row in rows] for name, rows in report.results.items()}
    assert scores == {"openai-gpt-4o-mini": [1.0, 1.0], "ollama-llama3": [0.0, None]}
    first = report.results["openai-gpt-4o-mini"][0]
    assert (first.query, first.input_tokens) == ("When do backups start?", 10)
    assert (first.cost_usd, first.latency_ms) == (0.001, 812)
    assert report.results["ollama-llama3"][1].error == "timeout"
    prompts = document(result(0, "p", "At 02:00 UTC."), result(0, "p", "No.", promptIdx=1))
    two = ragassay.evaluate(write("results.json", prompts), metrics=["exact_match"])
    assert list(two.systems) == ["p-prompt1", "p-prompt2"]


def test_lines_are_results_if_all_of_them_are_and_blank_ones_do_not_count(write):
    two = [result(0, "a", "At 02:00 UTC."), result(0, "b", "At 04:00 UTC.")]
    lines = "\n" + "\n\n".join(map(json.dumps, two))
    assert list(ragassay.evaluate(write("results.jsonl", lines), metrics=["exact_match"]).systems) == ["a", "b"]
    row = {"query": "When?", "vars": {"shift": "night"}, "provider": "a"}
    others = "\n".join(map(json.dumps, (row, {"query": "Who?", "vars": {"shift": "day"}})))
    assert [sample.query for sample in ragassay.load(write("own.jsonl", others))] == ["When?", "Who?"]


def test_load_promptfoo_results_without_numbers_has_a_row_for_each_test(write):
    results = [result(n, "p", "At 02:00 UTC.", testIdx=None, promptIdx=n or None) for n in range(2)]
    for n, one in enumerate(results):
        one["vars"] = {"context": 300 * "Backups start at 02:00 UTC. ", "query": f"When? ({n})"}
    assert [sample.query for sample in ragassay.load(write("results.json", document(*results)))] == [
        "When? (0)",
        "When? (1)",
    ]
