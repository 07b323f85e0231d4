"""A system behind an API like OpenAI's: what it is sent, what is read of its reply, and what it costs."""

import asyncio
import json

import pytest

import provider as play
from live_systems import TURNS, answer_of, respond
from ragassay.config import ProjectConfig
from ragassay.core.models import Sample
from ragassay.systems.http import HttpClient, OpenAIConfig


def config(provider, **options):
    return OpenAIConfig(kind="openai", url=provider.url, model="gpt-4o-mini", **options).over_http


@pytest.fixture
def provider():
    with play.Provider(then=play.says("Paris is the capital.")) as running:
        yield running


@pytest.mark.parametrize("stream", [False, True])
def test_answer_tokens_and_model_are_read(provider, stream):
    [response] = respond(config(provider, stream=stream), ["Where?"])
    assert (response.error, response.answer, response.model) == (None, "Paris is the capital.", "gpt-4o-mini")
    assert (response.input_tokens, response.output_tokens) == (2, 6), "a token is four characters there"
    assert (response.first_token_ms is not None) == stream


def test_the_request_has_model_messages_and_parameters_and_the_key(provider, monkeypatch):
    monkeypatch.setenv("CHAT_KEY", "s3cret")
    options = {
        "system": "Be brief.",
        "prompt": "Q: {query}",
        "parameters": {"temperature": 0},
        "api_key": "${CHAT_KEY}",
    }
    respond(config(provider, stream=True, **options), ["Where?"])
    [seen] = provider.log
    assert seen.auth == "Bearer s3cret"
    assert seen.body == {
        "model": "gpt-4o-mini",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Q: Where?"}],
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_the_request_has_the_earlier_turns_between_system_prompt_and_question(provider):
    asked = Sample(query_id="a", query="And Plus?", history=TURNS)
    assert asyncio.run(answer_of(HttpClient(config(provider, system="Be brief."), "live"), asked)) is not None
    assert provider.log[0].body["messages"] == [
        {"role": "system", "content": "Be brief."},
        *(turn.model_dump() for turn in TURNS),
        {"role": "user", "content": "And Plus?"},
    ]


def test_a_run_prices_the_answers_and_keeps_no_key(cli, tmp_path, monkeypatch, provider):
    monkeypatch.setenv("CHAT_KEY", "s3cret")
    (tmp_path / "data.jsonl").write_text(json.dumps({"query": "Where?", "ground_truth_answer": "Paris"}) + "\n")
    system = {"kind": "openai", "url": provider.url, "model": "own", "stream": True, "api_key": "${CHAT_KEY}"}
    prices = {"own": {"input_per_1m": 1_000, "output_per_1m": 10_000}}
    document = {"data": "data.jsonl", "systems": {"chat": system}, "prices": prices}
    (tmp_path / "chat.yaml").write_text(json.dumps(document))
    code, out, err = cli("evaluate", "--config", "chat.yaml", "--json", "--metrics", "token_f1")
    assert code == 0, err
    assert "s3cret" not in out
    chat = json.loads(out)["systems"]["chat"]
    assert chat["cost_usd"]["total"] == pytest.approx((2 * 1_000 + 6 * 10_000) / 1_000_000)
    assert (chat["priced_by_us"], chat["first_token_ms"]["n"]) == (1, 1)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("api_key", "sk-123", "write ${NAME} and set that environment variable"),
        ("reply", {"contexts": "$.a["}, "is not a JSONPath"),
        ("modl", "x", "modl"),
    ],
)
def test_a_configuration_that_could_not_work_is_refused(key, value, why):
    given = {"kind": "openai", "url": "http://x/v1", "model": "m", key: value}
    with pytest.raises(ValueError, match="1 validation error") as caught:
        ProjectConfig.model_validate({"systems": {"chat": given}})
    assert why in str(caught.value)
