"""Probes: one yes or no about each unit, against a real HTTP server."""

import asyncio
import re

import pytest

import provider as play
from judge_replies import model_at, sample
from provider import Provider
from ragassay.core.protocols import Reply
from ragassay.judges.yes_no import YesNoJudge, yes_chance
from ragassay.llm.journal import MemoryJournal


def probed(behave, given=None, **options):
    given = given or sample()
    with Provider(then=behave) as provider:
        asked = YesNoJudge(model_at(provider), **options)
        (rating,) = asyncio.run(asked.judge([given], MemoryJournal()))
    return rating, provider.log


def by_question(chances, otherwise=0.9):
    """Says yes with the chance of the first pattern that the question holds."""

    def behave(seen):
        question = seen.user.rpartition("</text")[2]
        yes = next((chance for pattern, chance in chances.items() if re.search(pattern, question)), otherwise)
        likely = {"Yes": yes, "No": 1 - yes}
        word = "Yes" if yes >= 0.5 else "No"
        return play.Answer(word, tokens=[(word, likely)])

    return behave


def test_each_unit_is_asked_about_once_and_counts_by_the_chance_of_a_yes():
    rating, log = probed(by_question({"support all": 0.8}))
    verdict = rating.verdict
    # 3 sentences by the contexts and by the truth, 2 facts in contexts and answer, the answer as a whole
    assert len(log) == rating.usage.calls == 3 + 3 + 2 + 2 + 1
    assert [s.support_score for s in verdict.sentences] == [0.8, 0.8, None]
    # the last one shares no word with the contexts
    assert [s.support for s in verdict.sentences] == ["supported", "supported", "not_found"]
    assert [f.covered for f in verdict.facts] == ["yes", "yes"]
    assert verdict.relevance == "full"
    assert verdict.refusal is False
    assert all(seen.body["max_tokens"] <= 4 and "response_format" not in seen.body for seen in log)


def test_without_probabilities_an_answer_counts_1_or_0():
    rating, _ = probed(play.refuses("logprobs", play.says("yes.")))
    assert {s.support_score for s in rating.verdict.sentences} <= {1.0, None}
    assert "logprobs" in rating.left_out


def test_an_answer_that_is_neither_is_a_reason():
    rating, _ = probed(play.says("maybe"))
    assert rating.verdict is None
    assert "neither yes nor no" in rating.reason


def test_criteria_are_asked_about_too():
    polite = {"polite": "The answer is polite."}
    rating, _ = probed(by_question({"Criterion: The answer is polite": 0.5}), criteria=polite)
    (criterion,) = rating.verdict.criteria
    assert (criterion.name, criterion.step) == ("polite", "partly")


@pytest.mark.parametrize(
    ("text", "alternatives", "chance"),
    [
        ("Yes", ((0, {"Yes": 0.5, "yes": 0.2, "No": 0.1, "I": 0.2}),), 0.7 / 0.8),
        (" no", ((0, {" no": 0.75, " yes": 0.25}),), 0.25),
        ("**No**, it", None, 0.0),
        ("yes and no", ((4, {"and": 0.5, "no": 0.5}),), 1.0),
        ("nobody", None, None),
    ],
)
def test_the_chance_is_read_from_the_first_word(text, alternatives, chance):
    found = yes_chance(Reply(text=text, alternatives=alternatives))
    assert found == (pytest.approx(chance) if chance is not None else None)
