"""Answers that are streamed: how they are put together, when their first token came, and what a broken one costs."""

import pytest

from endpoint import Endpoint
from live_systems import ask

CHAT = {
    "stream": "sse",
    "stream_end": "[DONE]",
    "reply": {
        "answer": "$.choices[0].delta.content",
        "model": "$.model",
        "input_tokens": "$.usage.prompt_tokens",
        "output_tokens": "$.usage.completion_tokens",
        "error": "$.error.message",
    },
}
LINES = {
    "stream": "ndjson",
    "stream_end": "$.done",
    "reply": {
        "answer": "$.token",
        "contexts": "$.sources[*].text",
        "retrieved_doc_ids": "$.sources[*].id",
        "output_tokens": "$.tokens",
    },
}


@pytest.fixture(scope="module")
def endpoint():
    with Endpoint() as running:
        yield running


@pytest.mark.parametrize("query", ["chat", "comments", "split"])
def test_stream_parts_of_a_chat_are_joined_and_its_usage_is_read(endpoint, query):
    [response] = ask([query], url=endpoint.url, **CHAT)
    assert response.error is None
    assert (response.answer, response.model, response.input_tokens, response.output_tokens) == ("Paris.", "m-1", 7, 3)


def test_stream_contexts_that_come_first_tell_retrieval_from_generation(endpoint):
    [response] = ask(["lines"], url=endpoint.url, **LINES)
    assert (response.answer, response.contexts) == ("Paris.", ("Paris is the capital.",))
    assert (response.retrieved_doc_ids, response.output_tokens) == (("paris",), 3)
    assert 0 < response.retrieval_latency_ms <= response.first_token_ms <= response.latency_ms
    assert response.retrieval_latency_ms + response.generation_latency_ms == pytest.approx(response.latency_ms)


def test_stream_first_token_is_when_the_first_text_came_and_latency_ends_with_the_last(endpoint):
    """Five pieces 150 ms apart: the second one has the first text."""
    [response] = ask(["slowly"], url=endpoint.url, **CHAT)
    assert 150 <= response.first_token_ms < response.latency_ms - 400
    assert response.latency_ms >= 600
    [whole] = ask(["capital?"], url=endpoint.url)
    assert whole.first_token_ms is None


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("cut-off", "the stream breaks off: '[DONE]' did not come after its 2 events"),
        ("malformed", "event 2 of the stream is not JSON: '{\"choices\": ['"),
        ("no-json", "event 1 of the stream is not JSON: 'Paris'"),
        ("error-event", "the system replied with an error: 'out of memory'"),
        ("numbers", "a part of the answer should be text, is the number 7"),
        (
            "no-text",
            "no event of the stream has a part of the answer at $.choices[0].delta.content; the last one: '[DONE]'",
        ),
        ("nothing", "the reply is no stream of events but 'text/event-stream': ''"),
        ("json-only", "the reply is no stream of events but 'application/json': '{\"answer\": \"Paris is the capital."),
        ("half-a-letter", "the reply is not UTF-8 from byte 42"),
        ("cuts", "the reply breaks off: peer closed connection"),
        ("endless-events", "the answer had not ended after 1 s; its first part came after "),
    ],
)
def test_stream_that_is_broken_is_the_error_of_its_row_and_of_no_other(endpoint, query, reason):
    broken, whole = ask([query, "chat"], url=endpoint.url, timeout_s=1 if query == "endless-events" else 30, **CHAT)
    assert broken.error.startswith(reason)
    assert broken.answer is None
    assert (whole.error, whole.answer) == (None, "Paris.")


def test_stream_that_is_closed_is_whole_if_no_end_is_named(endpoint):
    [response] = ask(["cut-off"], url=endpoint.url, **{**CHAT, "stream_end": None})
    assert (response.error, response.answer) == (None, "Pa")


def test_stream_connection_is_used_again(endpoint, monkeypatch):
    """Else each query would be measured with a handshake: the server counts the connections."""
    connections, reply = set(), endpoint.reply
    spy = lambda request, body: (connections.add(request.client_address), reply(request, body))  # noqa: E731
    monkeypatch.setattr(endpoint, "reply", spy)
    ask(["chat"] * 5, url=endpoint.url, concurrency=1, **CHAT)
    assert len(connections) == 1
