"""A system that answers over HTTP: what its replies become, what a failing one costs, and what latency is."""

import asyncio
import json

import pytest
from pydantic import ValidationError

from endpoint import Endpoint
from live_systems import TURNS, answer_of, ask
from ragassay.core.models import Sample
from ragassay.llm.journal import MemoryJournal
from ragassay.systems.http import HttpClient, HttpConfig, _filled


@pytest.fixture(scope="module")
def endpoint():
    with Endpoint() as running:
        yield running


def test_a_reply_is_read_where_its_paths_say_and_timed_here(endpoint):
    [plain] = ask(["capital?"], url=endpoint.url)
    assert (plain.answer, plain.contexts, plain.retrieved_doc_ids) == (
        "Paris is the capital.",
        ("Paris is the capital of France.",),
        ("paris", "lyon"),
    )
    assert 0 < plain.latency_ms < 5000
    [other] = ask(["capital?"], url=endpoint.url, reply={"answer": "$.contexts[0]", "model": "$.answer"})
    assert (other.answer, other.model, other.contexts) == (
        "Paris is the capital of France.",
        "Paris is the capital.",
        None,
    )


def test_the_body_is_the_template_with_the_rows_values_in_it(endpoint):
    template = {"input": [{"q": "Please: {query}"}], "user": "{metadata.user}", "k": 3, "none": "{category}"}
    ask(["where?"], url=endpoint.url, request=template)
    assert endpoint.asked[-1][0] == {"input": [{"q": "Please: where?"}], "user": 7, "k": 3, "none": None}


def test_the_body_has_the_earlier_turns_as_a_list_spliced_or_as_text(endpoint):
    template = {
        "turns": "{history}",
        "messages": ["{history}", {"role": "user", "content": "{query}"}],
        "q": "{history}\n{query}",
    }
    turns, chat = [turn.model_dump() for turn in TURNS], "{conversation_id}"
    config = HttpConfig(kind="http", url=endpoint.url, request=template | {"chat": chat})
    sample = Sample(query_id="a", query="And Plus?", history=TURNS, conversation_id="c1")
    assert asyncio.run(answer_of(HttpClient(config, "live"), sample)).answer == "Paris is the capital."
    assert endpoint.asked[-1][0] == {
        "turns": turns,
        "messages": [*turns, {"role": "user", "content": "And Plus?"}],
        "q": "user: What does Free cost?\nassistant: Nothing.\nAnd Plus?",
        "chat": "c1",
    }
    asyncio.run(answer_of(HttpClient(config, "live"), Sample(query_id="a", query="Why?")))
    first = endpoint.asked[-1][0]
    assert (first["turns"], first["messages"], first["q"]) == ([], [{"role": "user", "content": "Why?"}], "\nWhy?")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("redirects", "the system redirects (307) to 'http://127.0.0.1:1/elsewhere'; redirects are not followed"),
        ("fails", "the system replied 500: '<h1>broken</h1>'"),
        ("hangs", "no answer within 1 s"),
        ("html", "the reply is not JSON: '<html>hello</html>'"),
        ("empty", "the reply has no answer at $.answer: '{}'"),
        (
            "twice",
            "the reply can't be used: retrieved_doc_ids: document id 'a' is listed twice (set duplicates=keep_first)",
        ),
        (
            "drops",
            "no reply: Server disconnected without sending a response. (it was sent an object with the keys 'query')",
        ),
    ],
)
def test_what_is_wrong_with_a_reply_is_the_error_of_its_row_and_of_no_other(endpoint, query, reason):
    wrong, right = ask([query, "capital?"], url=endpoint.url, timeout_s=1 if query == "hangs" else 30)
    assert (wrong.error, wrong.answer) == (reason, None)
    assert (right.error, right.answer) == (None, "Paris is the capital.")


def test_a_finished_query_is_not_asked_again_and_a_failed_one_is(endpoint):
    journal, before = MemoryJournal(), len(endpoint.asked)
    first = ask(["capital?", "fails"], url=endpoint.url, journal=journal)
    again = ask(["capital?", "fails"], url=endpoint.url, journal=journal)
    assert first[0] == again[0]
    assert len(endpoint.asked) - before == 3


def test_under_a_rate_latency_counts_from_when_a_request_was_due():
    """A stall of a second at 8 requests per second with one in flight: those behind it were late because of it."""
    with Endpoint(lambda n: 1.0 if n == 3 else 0.0) as stalls:
        latencies = [r.latency_ms for r in ask(["capital?"] * 20, url=stalls.url, rate=8, concurrency=1)]
        begun = min(arrived - n / 8 for n, (_, arrived, _) in enumerate(stalls.asked))
        true = [(arrived + took - begun - n / 8) * 1000 for n, (_, arrived, took) in enumerate(stalls.asked)]
    assert sum(latency > 300 for latency in latencies) > 3
    # What the system took by its own clock, and no more than the way there and back besides; generous, for a busy machine.
    assert all(0 <= latency - least + 5 < 700 for latency, least in zip(latencies, true, strict=True))
    with Endpoint(lambda n: 1.0 if n == 5 else 0.0) as stalls:
        closed = ask(["capital?"] * 20, url=stalls.url, concurrency=1)
    assert sum(response.latency_ms >= 1000 for response in closed) == 1


def test_headers_take_their_keys_from_the_environment(endpoint, monkeypatch):
    monkeypatch.setenv("RAG_TOKEN", "s3cret")
    ask(["capital?"], url=endpoint.url, headers={"Authorization": "Bearer ${RAG_TOKEN}", "X-Team": "search"})
    assert endpoint.headers[-1]["Authorization"] == "Bearer s3cret"
    assert endpoint.headers[-1]["X-Team"] == "search"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"headers": {"X-Api-Key": "abc"}}, r"X-Api-Key: write \$\{NAME\}"),
        ({"reply": {"answer": "$.a["}}, "answer: '\\$.a\\[' is not a JSONPath"),
        ({"reply": {}}, "at least 1 item"),
        ({"url": "ftp://here"}, "pattern"),
        ({"request": {"q": "{question}"}}, "each row would be asked the same: write {query}"),
        ({"concurrency": 0}, "greater than or equal to 1"),
    ],
)
def test_a_configuration_that_could_not_work_is_refused(options, why):
    with pytest.raises(ValidationError, match=why):
        HttpConfig(**{"kind": "http", "url": "http://x/y", **options})


def write(tmp_path, endpoint, count=3, **more):
    rows = [
        {"query_id": f"q{n}", "query": "capital?", "ground_truth_answer": "Paris", "relevant_doc_ids": ["paris"]}
        for n in range(count)
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = {"data": "data.jsonl", "systems": {"live": {"kind": "http", "url": endpoint.url, **more}}}
    (tmp_path / "live.yaml").write_text(json.dumps(document))


def test_evaluate_asks_each_query_once_and_reports_what_it_took(cli, tmp_path, endpoint):
    write(tmp_path, endpoint)
    before = len(endpoint.asked)
    code, out, err = cli("evaluate", "--config", "live.yaml", "--json", "--metrics", "mrr,completeness")
    assert code == 0, err
    system = json.loads(out)["systems"]["live"]
    assert system["metrics"]["mrr"]["value"] == 1.0
    assert system["metrics"]["completeness"]["n"] == 3
    assert system["latency_ms"]["n"] == 3
    assert len(endpoint.asked) - before == 3


def test_an_address_is_an_endpoint_with_the_usual_body_and_reply(cli, tmp_path, endpoint):
    write(tmp_path, endpoint)
    code, out, err = cli("evaluate", "data.jsonl", "--system", f"live={endpoint.url}", "--metrics", "mrr", "--json")
    assert code == 0, err
    assert json.loads(out)["systems"]["live"]["metrics"]["mrr"]["value"] == 1.0
    assert endpoint.asked[-1][0].keys() == {"query"}
    named = tmp_path / "named.yaml"
    named.write_text(f"data: data.jsonl\nmetrics: [mrr]\nsystems: {{live: {endpoint.url}}}\n")
    assert cli("evaluate", "--config", "named.yaml", "--json")[0] == 0


def test_a_variable_that_is_not_set_ends_the_run_before_it_begins(cli, tmp_path, endpoint):
    write(tmp_path, endpoint, headers={"Authorization": "Bearer ${NOT_SET_ANYWHERE}"})
    code, _, err = cli("evaluate", "--config", "live.yaml")
    assert code == 2
    assert "systems.live.headers: the environment variable NOT_SET_ANYWHERE is not set" in err


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (False, "False"), (None, "")])
def test_request_template_keeps_values_that_are_false(value, text):
    sample = Sample(query_id="q", query="q", metadata={} if value is None else {"x": value})
    assert _filled("of {metadata.x}", sample) == f"of {text}"
