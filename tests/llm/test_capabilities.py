"""What a provider does not take of what it is asked: found out with few requests, remembered, and never a failed row."""

import logging

import pytest

import provider as play
from llm_calls import OBJECT, SCHEMA, llm, reply_of
from provider import Answer, Provider
from ragassay.core.errors import BadInput, Unavailable
from ragassay.core.models import Usage
from ragassay.llm import client
from ragassay.llm.capabilities import FORMS, ReplyForm
from ragassay.llm.journal import MemoryJournal
from ragassay.llm.resolve import normalised, resolve_model


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(client, "backoff", lambda tries: 0.0)


def forms(provider):
    return [play.form(seen) for seen in provider.log]


def replies_to(judge, *names):
    return [reply_of(judge, name=name, schema=SCHEMA) for name in names]


def test_the_first_form_is_the_strictest_that_the_model_is_known_to_take():
    forms = {"gpt-4o-mini": "json_schema", "gpt-3.5-turbo": "json_object", "gpt-4": "prompt", "openai/x": "json_schema"}
    assert {name: resolve_model(name, None, "a-key", {}).first_form for name in forms} == forms


@pytest.mark.parametrize("taken", FORMS)
@pytest.mark.parametrize("code", [400, 501])
def test_a_form_that_is_refused_by_name_is_followed_by_the_next_and_later_calls_know_it(taken, code):
    refusal = play.status(code, message="this response_format is not supported")
    with Provider(then=play.takes(taken, refusal=refusal)) as provider:
        first, second = replies_to(llm(provider, attempts=1), "c1", "c2")
    place = FORMS.index(taken)
    assert forms(provider) == [*FORMS[: place + 1], taken]
    assert first.text.startswith("{")
    assert (first.waste, second.waste) == (Usage(retries=place), Usage())
    assert first.left_out == second.left_out == ((f"json_schema ({taken} instead)",) if place else ())


@pytest.mark.parametrize(
    ("code", "error", "requests"),
    [(500, Unavailable, 2), (422, BadInput, 1)],
)
def test_a_failure_that_does_not_name_the_form_says_nothing_about_it(code, error, requests):
    with Provider(then=play.status(code, message="no")) as provider:
        judge = llm(provider, attempts=2)
        with pytest.raises(error):
            reply_of(judge, schema=SCHEMA)
        provider.then = OBJECT
        assert reply_of(judge, name="c2", schema=SCHEMA).left_out == ()
    assert forms(provider) == ["json_schema"] * (requests + 1)


def test_a_paid_reply_without_an_object_counts_and_the_call_is_made_in_the_next_form():
    journal, text = MemoryJournal(), "I think that the answer is right."
    with Provider(then=play.takes("json_object", refusal=play.says(text))) as provider:
        reply = reply_of(llm(provider), schema=SCHEMA, journal=journal)
    assert forms(provider) == list(FORMS[:2])
    billed = [play.tokens(seen, Answer(text)) for seen in provider.log[:1]]
    billed.append((reply.usage.input_tokens, reply.usage.output_tokens))
    assert journal.account.spent.input_tokens + journal.account.spent.output_tokens == sum(map(sum, billed))
    assert reply.waste.retries == 1


PARAMETERS = [("temperature", {}), ("seed", {}), ("top_k", {"top_k": 5}), ("thinking", {"extra_body": {"thinking": 1}})]


@pytest.mark.parametrize(("name", "given"), PARAMETERS)
def test_a_parameter_that_is_refused_is_left_out_once_for_all_and_logged_once(name, given, caplog):
    def refuses(seen):
        return Answer(status=422, message=f"Unknown key {name}") if name in seen.body else OBJECT(seen)

    with Provider(then=refuses) as provider:
        judge = llm(provider, parameters=given)
        first, second = replies_to(judge, "c1", "c2")
        settings = judge.settings
    assert [name in seen.body for seen in provider.log] == [True, False, False]
    assert forms(provider) == ["json_schema"] * 3
    assert first.left_out == second.left_out == (name,)
    assert first.waste == Usage(retries=1)
    assert [r.message for r in caplog.records if r.levelno == logging.WARNING and r.name.startswith("ragassay")] == [
        f"gpt-4o-mini: the provider does not take {name}; it is left out from now on"
    ]
    assert settings == llm(provider, parameters=given).settings  # the call's name in the cache stays what it was


def test_jobs_share_the_form_of_the_replies_and_learn_of_refused_parameters_each_for_itself():
    form, takes_text = ReplyForm(), play.takes("prompt", refusal=play.status(400, message="no response_format here"))
    with Provider(then=play.refuses("seed", then=takes_text)) as provider:
        first = reply_of(llm(provider, reply_form=form), schema=SCHEMA)
        asked = len(provider.log)
        provider.then = takes_text
        second = reply_of(llm(provider, reply_form=form), name="c2", schema=SCHEMA)
    assert ("seed" in first.left_out, "seed" in second.left_out) == (True, False)
    assert [(play.form(seen), "seed" in seen.body) for seen in provider.log[asked:]] == [("prompt", True)]


def test_the_limit_of_a_reply_goes_by_its_other_name_where_the_first_is_refused():
    with Provider(then=play.refuses("max_tokens", then=OBJECT)) as provider:
        reply_of(llm(provider, "some-new-model"), schema=SCHEMA, max_tokens=50)
    assert "max_completion_tokens" not in provider.log[0].body
    assert provider.log[1].body["max_completion_tokens"] == 50


def test_a_refusal_that_only_quotes_a_row_costs_that_row_and_no_parameter():
    def quotes(seen):
        if "boiling" in seen.user:
            return Answer(status=400, message=f"invalid request, flagged: {seen.user}")
        return OBJECT(seen)

    with Provider(then=quotes) as provider:
        judge = llm(provider)
        reply_of(judge, schema=SCHEMA)
        with pytest.raises(BadInput, match="flagged"):
            reply_of(judge, "the boiling temperature", name="c2", schema=SCHEMA)
        assert reply_of(judge, name="c3", schema=SCHEMA).left_out == ()
    assert [seen.body.get("temperature") for seen in provider.log] == [0, 0, None, 0]


def test_an_address_has_one_spelling_holds_no_secret_and_may_be_in_the_providers_own_variable(monkeypatch):
    spelt = {
        "HTTP://Example.org:80/v1/": "http://example.org/v1",
        "https://me:secret@example.org:443/v1?key=secret#x": "https://example.org/v1",
        "127.0.0.1:8000/v1": "http://127.0.0.1:8000/v1",
        "http://me:secret@host:port/v1/": "host:port/v1",
        "": "",
    }
    assert {written: normalised(written) for written in spelt} == spelt
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://one.example/v1/")
    assert client.LLM("gpt-4o-mini").endpoint == "http://one.example/v1"
    assert client.LLM("gpt-4o-mini", api_base="http://two.example").endpoint == "http://two.example"
