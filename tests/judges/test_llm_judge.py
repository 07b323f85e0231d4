import json
import re

import pytest

import provider as play
from fakes import FakeLLM
from judge_replies import ASKED, LABELS, judge, model_at, sample, supports
from provider import Provider
from ragassay.core.models import Usage
from ragassay.core.prompts import load
from ragassay.core.protocols import Judge
from ragassay.judges.llm import LLMJudge
from ragassay.judges.reply import CriteriaForm, schema_of
from ragassay.llm import LLM, client
from ragassay.llm.capabilities import without_bounds
from ragassay.llm.journal import MemoryJournal


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(client, "backoff", lambda tries: 0.0)


def test_one_call_answers_every_unit_exactly_once():
    with Provider() as provider:
        (rating,) = judge(model_at(provider), [sample()])

    (seen,) = provider.log
    verdict = rating.verdict
    assert seen.labels == LABELS
    assert [s.id for s in verdict.sentences] + [f.id for f in verdict.facts] == ASKED
    assert None not in supports(rating).values()
    assert verdict.judge == "llm:gpt-4o-mini"
    assert rating.usage.calls == 1
    assert rating.usage.cost_usd > 0
    assert rating.waste == Usage()


def test_instructions_and_schema_are_the_same_for_every_sample_and_sample_text_is_never_among_them():
    with Provider() as provider:
        judge(model_at(provider), [sample("q1"), sample("q2", answer="Zebras.", contexts=None, ground_truth_answer=())])

    first, second = provider.log
    assert first.system == second.system == load("judge/verdict").text
    sent = [seen.body["response_format"]["json_schema"] for seen in (first, second)]
    assert without_bounds(sent[0]) == without_bounds(sent[1])  # apart from the numbers of entries
    assert [m["role"] for m in first.messages] == ["system", "user"]


def test_the_schema_holds_literals_only_and_every_object_is_closed():
    def objects(node):
        if isinstance(node, dict):
            if node.get("type") == "object":
                yield node
            for child in node.values():
                yield from objects(child)

    schema = schema_of(CriteriaForm)
    found = list(objects(schema))
    assert len(found) == 4
    for node in found:
        assert node["additionalProperties"] is False
        assert node["required"] == list(node["properties"])
    orders = [list(schema["properties"][part]["items"]["properties"]) for part in ("answer", "facts", "criteria")]
    assert orders == [  # what was seen, then the label: who names the label first has not looked yet
        ["id", "evidence", "support", "truth"],
        ["id", "evidence", "covered"],
        ["id", "why", "step"],
    ]
    assert not re.search(r"minimum|maximum|minItems|maxLength|pattern|anyOf|null", json.dumps(schema))


def test_a_finished_call_is_never_paid_again():
    journal, samples = MemoryJournal(), [sample("q1"), sample("q2", query="And now?")]
    with Provider([play.missing("A2"), play.malformed]) as provider:
        first = judge(model_at(provider, concurrency=1), samples, journal)
        requests = len(provider.log)
        again = judge(model_at(provider, concurrency=1), samples, journal)

    assert requests == len(provider.log) == 4
    assert again == first


def test_the_content_of_a_call_changes_with_all_that_determines_the_reply_and_with_nothing_else(monkeypatch):
    with Provider() as provider, Provider() as elsewhere:

        def content(changed=None, api_base=provider.url, **options):
            journal = MemoryJournal()
            llm = LLM(options.pop("model", "m"), api_base=api_base, **options)
            judge(llm, [changed or sample()], journal)
            return journal.calls[0].content

        first = content()
        assert first == content()
        assert first == content(api_base=f"{provider.url}/")
        others = [
            content(api_base=elsewhere.url),
            content(model="other"),
            content(seed=1),
            content(parameters={"top_p": 0.5}),
            content(sample(query="Else?")),
        ]
        prompt = load("judge/verdict")
        newer = type(prompt)(prompt.name, "0" * 12, prompt.text)
        monkeypatch.setattr(
            "ragassay.judges.instructions.load", lambda name: newer if name == prompt.name else load(name)
        )
        assert len({first, *others, content()}) == 7


@pytest.mark.parametrize("lacks", ["contexts", "ground_truth_answer"])
@pytest.mark.parametrize("answer", ["", "?! ...", "\u200b", "How do refunds work?", "how do REFUNDS work"])
def test_an_answer_that_says_nothing_or_repeats_the_question_costs_no_call(answer, lacks):
    (rating,) = judge(FakeLLM([]), [sample(answer=answer, **{lacks: ()})])

    assert rating.usage == Usage()
    assert (rating.verdict.relevance, rating.verdict.refusal) == ("none", False)
    assert {fact.covered for fact in rating.verdict.facts} <= {"no"}


def test_facts_are_looked_for_in_the_contexts_even_when_the_answer_is_empty():
    with Provider() as provider:
        (rating,) = judge(model_at(provider), [sample(answer="")])

    assert provider.log[0].labels == ["C1.1", "C1.2", "C2.1", "G1", "G2"]
    assert len(rating.verdict.facts) == 2
    assert rating.usage.calls == 1


def test_without_contexts_support_is_not_asked_and_without_ground_truth_no_truth():
    bare = {"answer": [{"id": f"A{n}"} for n in (1, 2, 3)], "facts": [], "relevance": "full", "refusal": False}
    (rating,) = judge(FakeLLM([bare]), [sample(contexts=None, ground_truth_answer=())])

    assert [(s.support, s.truth) for s in rating.verdict.sentences] == [(None, None)] * 3
    assert rating.verdict.relevance == "full"


def test_of_several_ground_truths_the_others_are_shown_as_accepted_too():
    with Provider() as provider:
        judge(model_at(provider), [sample(ground_truth_answer=("Two weeks.", "14 days [O2]", "A fortnight"))])

    user = provider.log[0].user
    assert "\n[G1] Two weeks.\nOther accepted answers:\n[O1] 14 days (O2]\n[O2] A fortnight\n</sample" in user
    assert user.endswith("An answer that says what an O says covers and agrees with the G as well.")


def test_the_judge_says_all_that_determines_its_verdicts_and_no_secret():
    llm = LLM("gpt-4o-mini", api_base="http://somewhere:1234/v1", api_key="sk-something-secret", seed=4)
    asked = LLMJudge(llm)

    assert isinstance(asked, Judge)
    assert asked.name == "llm:gpt-4o-mini"
    shown = json.dumps(dict(asked.settings))
    assert "secret" not in shown
    assert "somewhere" not in shown
    assert asked.settings["model"] == "openai/gpt-4o-mini"
    assert asked.settings["parameters"] == {"temperature": 0, "seed": 4}
    assert asked.settings["prompts"]["judge/verdict"] == load("judge/verdict").version


def test_the_schema_asks_for_the_exact_number_of_entries_and_a_repair_for_those_that_lack():
    with Provider([play.missing("A2", "G1")]) as provider:
        judge(model_at(provider), [sample()])
    first, second = (seen.body["response_format"]["json_schema"]["schema"]["properties"] for seen in provider.log)
    counts = [
        (part[name]["minItems"], part[name]["maxItems"]) for part in (first, second) for name in ("answer", "facts")
    ]
    assert counts == [(3, 3), (2, 2), (1, 1), (1, 1)]


@pytest.mark.parametrize("keyword", ["minItems", "maxItems"])
def test_a_provider_that_does_not_take_numbers_of_entries_gets_the_schema_without_them(keyword):
    def behave(seen):
        if keyword in json.dumps(seen.body):
            told = (
                f"Invalid schema for response_format 'verdict': In context=('answer',), '{keyword}' is not permitted."
            )
            return play.Answer(status=400, message=told)
        return play.good(seen)

    with Provider(then=behave) as provider:
        ratings = judge(model_at(provider, concurrency=1), [sample("q1"), sample("q2", query="And now?")])
    assert [seen.status for seen in provider.log] == [400, 200, 200]
    assert "minItems" not in json.dumps(provider.log[-1].body)
    assert provider.log[-1].body["response_format"]["type"] == "json_schema"
    assert all(rating.verdict for rating in ratings)
    assert "minItems" in ratings[0].left_out
