"""A second run of the same job asks nothing and says so; one changed character asks about what it changes, and nothing else."""

import json
import re

import pytest

from provider import Provider

ROWS = [
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


@pytest.fixture
def evaluate(cli, provider, tmp_path):
    """Evaluate, with what is given in the place of the usual; the number of calls, and what was printed."""

    def run(rows=ROWS, model="m", api_base=provider.url, prompt="Be strict."):
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / "own.md").write_text(f"{prompt}\n{{{{ verdict }}}}\n")
        before = len(provider.log)
        given = ("--judge", model, "--set", f"api_base={api_base}", "--set", "judge_prompt=own.md")
        code, out, err = cli("evaluate", "rows.jsonl", *given, "--metrics", "correctness,faithfulness")
        assert code == 0, err
        return len(provider.log) - before, out

    return run


def changed(**fields):
    return {"rows": [ROWS[0], {**ROWS[1], **fields}, ROWS[2]]}


@pytest.mark.parametrize(
    ("change", "calls"),
    [
        ({}, 0),
        ({"prompt": "Be strict!"}, 3),
        ({"model": "n"}, 3),
        ({"api_base": "{url}/"}, 0),  # the same address
        ({"api_base": "{url}2"}, 3),
        (changed(query="How long is refund 1!"), 1),
        (changed(answer="Refund 1 takes 15 days."), 1),
        (changed(contexts=["Refund 1 takes 14 days.", "Weekends count!"]), 1),
        (changed(ground_truth_answer="It takes 14 days, refund 1!"), 1),
        (changed(query_id="q9"), 0),  # no part of what is asked
    ],
)
def test_what_changes_is_asked_about_again_and_nothing_else(evaluate, provider, change, calls):
    if "api_base" in change:
        change = {"api_base": change["api_base"].format(url=provider.url)}
    assert evaluate()[0] == 3
    again, out = evaluate(**change)
    assert again == calls
    told = re.search(r"(\d+) calls, ([\d,]+) tokens, (\S+) USD(?:, (\d+) from cache)?", out)
    assert (int(told[1]), int(told[4] or 0)) == (calls, 3 - calls)
    assert calls or told[2] == "0"
