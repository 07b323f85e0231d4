"""Questions that a model writes, over real HTTP: what is kept, what is thrown away, and what is paid."""

import json
import re
from pathlib import Path

import pytest

import provider as play
from ragassay.core.prompts import load

TEXTS = {
    f"p{n}": f"{name} is kept for {n + 10} days in the vault of {name}."
    for n, name in enumerate(("Alpha", "Bravo", "Charlie"))
}


def name_and_days(seen):
    return re.search(r"(\w+) is kept for (\d+) days", seen.user).groups()


def question(name, days, **changes):
    row = {"question": f"How many days does {name} stay in its vault?", "answer": f"{name} stays for {days} days."}
    row |= {"evidence": f"{name} is kept for\n{days} days", "category": "factual", "difficulty": "easy"}
    return row | changes


def writes(make):
    """A provider that writes the questions that ``make`` gives for a passage, and checks them by the passage's words."""

    def behave(seen):
        name, days = name_and_days(seen)
        if load("synthesis/questions").text in seen.system:
            return play.Answer(json.dumps({"questions": make(name, days)}))
        asked = seen.user.split("Question: ")[1]
        known = "owns" not in asked
        reply = {"clear": "here" not in asked, "answerable": known, "answer": f"{name}: {days} days" if known else ""}
        return play.Answer(json.dumps(reply))

    return behave


@pytest.fixture
def generate(cli, tmp_path, monkeypatch):
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps({"id": k, "text": v}) + "\n" for k, v in TEXTS.items()))

    def run(provider, *options, count=4):
        monkeypatch.setenv("RAGASSAY_API_BASE", provider.url)
        arguments = ("data", "generate", "docs.jsonl", "-n", count, "--model", "gpt-4o-mini")
        return cli(*arguments, "--name", "made", *options)

    return run


def both(name, days):
    other = f"In which vault is {name} kept for {days} days today?"
    return [question(name, days), question(name, days, question=other)]


def test_checked_questions_become_marked_rows_and_a_repetition_asks_nobody(generate, cli):
    with play.Provider(then=writes(both)) as provider:
        code, out, err = generate(provider, "--json")
        assert code == 0, err
        made = json.loads(out)
        assert made["rows"] == 4
        assert made["usage"]["calls"] == len(provider.log) == 9  # 3 passages, each with 2 questions to check
        assert all("days." not in seen.user.split("</passage")[1] for seen in provider.log)  # no check sees the answer
        again = json.loads(generate(provider, "--json")[1])
        assert len(provider.log) == 9
        assert again["version"]["digest"] == made["version"]["digest"]
    shown = json.loads(cli("data", "show", "made", "--json", "--rows", "4")[1])
    (file,), rows = Path(shown["folder"]).iterdir(), shown["first"]
    assert [json.loads(line) for line in file.read_text().splitlines()] == rows
    assert {row["relevant_doc_ids"][0] for row in rows} == TEXTS.keys()
    generated = rows[0]["metadata"]["generated"]
    assert (generated["by"], generated["passages"]) == ("model gpt-4o-mini", rows[0]["relevant_doc_ids"])


WRONG = {
    "its evidence does not stand in the passage": {"evidence": "is kept for 99 years"},
    "its passage does not answer it": {"question": "Who owns the vault of Bravo today?"},
    "asked again, the model answers it differently": {"answer": "It stays for 77 days."},
    "it is not clear without its passage": {"question": "How many days does it stay here?"},
    "the model's reply could not be read": {"category": "riddle"},
}


@pytest.mark.parametrize(("reason", "changes"), WRONG.items(), ids=WRONG.keys())
def test_a_question_that_fails_a_check_is_thrown_away_with_the_reason(reason, changes, generate):
    def make(name, days):
        return [question(name, days, **changes) if name == "Bravo" else question(name, days)]

    with play.Provider(then=writes(make)) as provider:
        made = json.loads(generate(provider, "--json")[1])
    assert [(each["reason"], each["count"]) for each in made["dropped"]] == [(reason, 1)]
    assert made["rows"] == 2


def test_a_budget_is_kept_and_what_is_answered_is_not_paid_again(generate):
    with play.Provider(then=writes(both)) as provider:
        code, _, err = generate(provider, "--budget-usd", "0.0011", "-j", 1)
        assert code == 4, err
        assert "higher --budget-usd" in err
        paid = len(provider.log)
        assert 0 < paid < 9
        assert generate(provider, "-j", 1)[0] == 0
        assert len(provider.log) == 9


def test_generate_says_why_a_model_gave_no_question(generate):
    with play.Provider(then=play.status(400, message="nope")) as provider:
        code, _, err = generate(provider)
    assert (code, "refused the request (400): nope" in err) == (5, True)
