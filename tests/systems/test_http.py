"""A system over HTTP: what it is sent, what its replies become, what a failing one costs, and what latency is."""

import asyncio
import json
import shutil
import time
import tracemalloc

import pytest
from pydantic import ValidationError

import provider as play
from endpoint import FAULTY, Endpoint
from live_systems import TURNS, answer_of, ask
from offline_runs import write_jsonl
from polling import patience
from ragassay.core.errors import BadSettings
from ragassay.core.models import Sample
from ragassay.storage.folder import FolderStore
from ragassay.systems.base import LiveOptions
from ragassay.systems.functions import FunctionClient
from ragassay.systems.http import HttpClient, HttpConfig, OpenAIConfig
from ragassay.systems.runner import LiveSystem, LoadController

REASONS = {
    "redirects": "the system redirects (307) to 'http://127.0.0.1:1/elsewhere'; redirects are not followed",
    "fails": "the system replied 500: '<h1>broken</h1>'",
    "hangs": "no answer within 2 s",
    "html": "the reply is not JSON: '<html>hello</html>'",
    "empty": "the reply has no answer at $.answer: it is an empty object; --set 'systems.live.reply={answer: \"$.KEY\"}'",
    "other": "the reply has no answer at $.answer: it is an object with the keys 'result'; --set 'systems.live.reply="
    '{answer: "$.result.text", contexts: "$.result.sources[*].content"}\'',
    "chat-like": "the reply has no answer at $.answer: it is an object with the keys 'message', 'model'; "
    "--set 'systems.live.reply={answer: \"$.message\"}'",
    "choices": "the reply has no answer at $.answer: it is an object with the keys 'choices', 'sources'; --set "
    '\'systems.live.reply={answer: "$.choices[0].message.content", contexts: "$.sources[*]"}\'',
    "snippets": "the reply can't be used: contexts[0]: should be text, is an object with the keys 'snippet'; "
    '--set \'systems.live.reply={answer: "$.answer", contexts: "$.contexts[*].snippet"}\'',
    "unclear": 'the system replied 422: \'{"detail": [{"loc": ["body", "q"], "msg": "Field required"}]}\'; it was sent an object '
    "with the keys 'query'; for another body: --set 'systems.live.request={KEY: \"{query}\"}'",
    "twice": "the reply can't be used: retrieved_doc_ids: document id 'a' is listed twice",
    "drops": "no reply: Server disconnected without sending a response. (it was sent an object with the keys 'query'; `request`",
    "drips": "no answer within 2 s",
    "endless-headers": "no reply: ",
    "cuts": "the reply breaks off: peer closed connection",
    "resets": "no reply: ",
    "resets-midway": "the reply breaks off: ",
    "not-utf-8": 'the reply is not UTF-8 from byte 15: \'{"answer": "caf',
    "half-a-character": "the reply can't be kept: Error serializing to JSON: UnicodeEncodeError",
    "brotli": "the reply is packed as 'br', which was not asked for",
    "no-http": "no reply: ",
    "bottomless": "the reply is not JSON: '[[[[",
    "100-mb": "the reply is longer than 10 MB",
}

OF_CHAT = {
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


@pytest.fixture(scope="module")
def endpoint():
    with Endpoint() as running:
        yield running


@pytest.fixture
def evaluate(cli, tmp_path):
    """The report of a run that asks a system ``count`` times."""

    def evaluate(system, count, *, metric="mrr", **more):
        row = {"query": "capital?", "ground_truth_answer": "Paris", "relevant_doc_ids": ["paris"]}
        write_jsonl(tmp_path / "data.jsonl", [row | {"query_id": f"q{n}"} for n in range(count)])
        document = {"data": "data.jsonl", "systems": {"live": system}, **more}
        (tmp_path / "live.yaml").write_text(json.dumps(document))
        code, out, err = cli("evaluate", "--config", "live.yaml", "--json", "--metrics", metric)
        assert code == 0, err
        return json.loads(out)

    return evaluate


def over_http(system, **options):
    return {"kind": "http", "url": system.url, **options}


# --- requests ---


def test_ask_fills_the_template_with_values_of_the_row_and_its_earlier_turns(endpoint):
    template = {"k": 3, "user": "{metadata.user}", "none": "{category}", "turns": "{history}"}
    template |= {"messages": ["{history}", {"role": "user", "content": "{query}"}], "q": "{history}\n{query}"}
    template |= {"tags": "tags: {metadata.tags}"}
    client = HttpClient(HttpConfig(kind="http", url=endpoint.url, request=template), "live")
    row = Sample(query_id="a", query="And Plus?", history=TURNS, metadata={"user": 7, "tags": ["a", "b"]})
    asyncio.run(answer_of(client, row))
    turns = [turn.model_dump() for turn in TURNS]
    assert endpoint.asked[-1][0] == {"k": 3, "user": 7, "none": None, "turns": turns} | {
        "messages": [*turns, {"role": "user", "content": "And Plus?"}],
        "q": "user: What does Free cost?\nassistant: Nothing.\nAnd Plus?",
        "tags": 'tags: ["a", "b"]',
    }


def test_ask_sends_headers_with_keys_of_the_environment_and_no_cookie(endpoint, monkeypatch):
    monkeypatch.setenv("RAG_TOKEN", "s3cret")
    headers = {"Authorization": "Bearer ${RAG_TOKEN}", "X-Team": "search"}
    ask(["cookie", "capital?"], url=endpoint.url, headers=headers, concurrency=1)
    assert (endpoint.headers[-1]["Authorization"], endpoint.headers[-1]["X-Team"]) == ("Bearer s3cret", "search")
    assert "Cookie" not in endpoint.headers[-1]  # which the first reply set


def test_client_refuses_a_header_that_can_not_be_sent(monkeypatch):
    config = HttpConfig(kind="http", url="http://x/", headers={"X-Token": "${TOKEN}"})
    with pytest.raises(BadSettings, match=r"s\.headers: the environment variable TOKEN is not set"):
        HttpClient(config, "s")
    monkeypatch.setenv("TOKEN", "a\r\nX-Other: b")
    with pytest.raises(BadSettings, match="a header can't have line breaks"):
        HttpClient(config, "s")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"headers": {"X-Api-Key": "abc"}}, r"X-Api-Key: write \$\{NAME\}"),
        ({"reply": {"answer": "$.a["}}, "answer: '\\$.a\\[' is not a JSONPath"),
        ({"request": {"q": "{question}"}}, "each row would be asked the same: write {query}"),
    ],
)
def test_config_that_could_not_work_is_refused(options, why):
    with pytest.raises(ValidationError, match=why):
        HttpConfig(**{"kind": "http", "url": "http://x/y", **options})


# --- replies ---


def test_ask_reads_a_reply_where_its_paths_say_and_times_it(endpoint):
    [plain] = ask(["capital?"], url=endpoint.url)
    assert (plain.answer, plain.contexts) == ("Paris is the capital.", ("Paris is the capital of France.",))
    assert plain.retrieved_doc_ids == ("paris", "lyon")
    assert 0 < plain.latency_ms < 5000
    paths = {"answer": "$.contexts[0]", "model": "$.answer", "contexts": "$.sources[*].text"}
    [other] = ask(["capital?"], url=endpoint.url, reply=paths)
    assert (other.answer, other.model) == ("Paris is the capital of France.", "Paris is the capital.")
    assert other.contexts is None, "a list that is not there is missing"


@pytest.mark.parametrize(
    ("query", "reply", "warning"),
    [
        ("beside", None, ('no reply has contexts at $.contexts[*] and retrieved_doc_ids at $.retrieved_doc_ids[*]; --set '
         "'systems.live.reply={answer: \"$.answer\", contexts: \"$.sources[*]\"}'")),
        ("other", {"answer": "$.result.text", "contexts": "$.result.sources[*].text"},
         ("no reply has contexts at $.result.sources[*].text; --set 'systems.live.reply={answer: \"$.result.text\", contexts: "
         '"$.result.sources[*].content"}\'')),
        ("other", {"answer": "$.result.text", "contexts": "$.result.sources[?@.score > 1].content"}, None),
        ("choices", {"answer": "$.choices[0].message.content", "contexts": "$.hits"},
         ("no reply has contexts at $.hits; --set 'systems.live.reply={answer: \"$.choices[0].message.content\", contexts: "
         '"$.sources[*]"}\'')),
        ("null", None, None),
        ("chat", OF_CHAT | {"reply": OF_CHAT["reply"] | {"contexts": "$.hits"}}, "no reply has contexts at $.hits"),
    ],
)  # fmt: skip
def test_ask_warns_of_contexts_that_no_reply_has(endpoint, query, reply, warning, caplog):
    options = {} if reply is None else reply if "stream" in reply else {"reply": reply}
    [response] = ask([query], url=endpoint.url, **options)
    assert response.error is None
    assert (response.contexts == ()) == (reply is not None and warning is None), "a filter may leave no entry"
    assert caplog.messages == ([f"systems.live: {warning}"] if warning else [])


@pytest.mark.parametrize(("query", "contexts"), [("no-passages", ()), ("no-texts", None)])
def test_ask_tells_lists_in_lists_that_are_empty_from_entries_without_the_key(endpoint, query, contexts):
    paths = {"answer": "$.answer", "contexts": "$.groups[*]['a..b'][*].text"}
    [response] = ask([query], url=endpoint.url, reply=paths)
    assert (response.error, response.contexts) == (None, contexts)


@pytest.mark.parametrize("query", REASONS)
def test_ask_a_wrong_reply_is_the_error_of_its_row_and_of_no_other(endpoint, query):
    wrong, right = ask([query, "capital?"], url=endpoint.url, timeout_s=2 if query in ("hangs", "drips") else 30)
    assert wrong.answer is None
    assert wrong.error.startswith(REASONS[query])
    assert (right.error, right.answer) == (None, "Paris is the capital.")
    assert REASONS.keys() >= FAULTY.keys()


def test_ask_takes_no_long_reply_into_memory(endpoint):
    """10 MB, as they grow, and a piece more."""
    ask(["100-mb"], url=endpoint.url)
    tracemalloc.start()
    try:
        ask(["100-mb"], url=endpoint.url)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 45_000_000


# --- streams ---

OF_LINES = {
    "stream": "ndjson",
    "stream_end": "$.done",
    "reply": {
        "answer": "$.token",
        "contexts": "$.sources[*].text",
        "retrieved_doc_ids": "$.sources[*].id",
        "output_tokens": "$.tokens",
    },
}


@pytest.mark.parametrize("query", ["chat", "comments", "split"])
def test_stream_parts_of_a_chat_are_joined_and_its_usage_is_read(endpoint, query):
    [response] = ask([query], url=endpoint.url, **OF_CHAT)
    assert response.error is None
    assert (response.answer, response.model, response.input_tokens, response.output_tokens) == ("Paris.", "m-1", 7, 3)


def test_stream_contexts_that_come_first_tell_retrieval_from_generation(endpoint):
    [response] = ask(["lines"], url=endpoint.url, **OF_LINES)
    assert (response.answer, response.contexts) == ("Paris.", ("Paris is the capital.",))
    assert (response.retrieved_doc_ids, response.output_tokens) == (("paris",), 3)
    assert 0 < response.retrieval_latency_ms <= response.first_token_ms <= response.latency_ms
    assert response.retrieval_latency_ms + response.generation_latency_ms == pytest.approx(response.latency_ms)


def test_stream_first_token_is_when_the_first_text_came_and_latency_ends_with_the_last(endpoint):
    """Five pieces 300 ms apart: the second one has the first text."""
    [response] = ask(["slowly"], url=endpoint.url, **OF_CHAT)
    assert 300 <= response.first_token_ms < response.latency_ms - 400
    assert response.latency_ms >= 1200
    [whole] = ask(["capital?"], url=endpoint.url)
    assert whole.first_token_ms is None


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("cut-off", "the stream breaks off: '[DONE]' did not come after its 2 events"),
        ("malformed", "event 2 of the stream is not JSON: '{\"choices\": ['"),
        ("error-event", "the system replied with an error: 'out of memory'"),
        ("numbers", "the answer should be text, is the number 7"),
        ("no-text", "no event of the stream has a part of the answer at $.choices[0].delta.content; "),
        ("nothing", "the reply is no stream of events but 'text/event-stream'"),
        ("json-only", "the reply is no stream of events but 'application/json'"),
        ("cuts", "the reply breaks off: peer closed connection"),
        ("endless-events", "the answer had not ended after 2 s; its first part came after "),
    ],
)
def test_stream_that_is_broken_is_the_error_of_its_row_and_of_no_other(endpoint, query, reason):
    broken, whole = ask([query, "chat"], url=endpoint.url, timeout_s=2 if query == "endless-events" else 30, **OF_CHAT)
    assert broken.error.startswith(reason)
    assert broken.answer is None
    assert (whole.error, whole.answer) == (None, "Paris.")


# --- again, in time, and measured ---


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("packing", ["", "gzip"])
def test_ask_a_busy_system_again_when_it_says_and_the_wait_is_latency(status, packing):
    with Endpoint() as busy:
        [response] = ask([f"busy {status} 0.3 {packing}"], url=busy.url, attempts=2)
    assert (response.error, response.answer, response.timing.attempts) == (None, "Paris is the capital.", 2)
    assert response.latency_ms >= 300, "a user waits from the first attempt on"


def test_ask_does_not_begin_a_wait_that_is_longer_than_the_time_left():
    began = time.perf_counter()
    with Endpoint() as busy:
        [response] = ask(["busy 503 3600"], url=busy.url, attempts=3, timeout_s=30)
    assert time.perf_counter() - began < 30
    assert response.error.endswith("the wait of 3.6e+03 s before another attempt is longer than what is left of 30 s")


def test_warm_up_queries_are_asked_alone_and_their_latency_is_apart():
    """The first query takes 300 ms, as one that loads a model; no latency has it, and it is asked once."""
    with Endpoint(lambda n: 0.0 if n else 0.3) as cold:
        responses = ask(["capital?"] * 6, url=cold.url, warm_up=2, ahead=True)
    assert len(cold.asked) == 6
    assert [response.latency_ms is None for response in responses] == [True, True, False, False, False, False]
    assert all(response.answer for response in responses), "the answers count"
    arrivals, ends = zip(*((arrived, arrived + took) for _, arrived, took in cold.asked), strict=True)
    assert all(ends[n] <= arrivals[n + 1] for n in (0, 1))


def test_query_all_ends_with_the_first_response_that_can_not_be_kept():
    def keep(sample, _):
        raise OSError(f"disk full at {sample.query}")

    system = LiveSystem("live", LoadController(LiveOptions(concurrency=1), FunctionClient(lambda query: query)))
    with pytest.raises(OSError, match="disk full at a"):
        asyncio.run(system.query_all([Sample(query_id=query, query=query) for query in "abc"], keep))


def test_evaluate_keeps_answers_as_recorded_responses_and_asks_again_only_for_those_it_lacks(cli, tmp_path):
    """A run killed after 30 answers, in the middle of a line; two of the 60 answers are errors."""
    rows = [{"query_id": f"q{n}", "query": f"capital {n}?", "relevant_doc_ids": ["paris"]} for n in range(60)]
    fails = {row["query"]: f"fails {row['query']}" for row in rows[::30]}
    write_jsonl(tmp_path / "data.jsonl", [row | {"query": fails.get(row["query"], row["query"])} for row in rows])
    options = ("data.jsonl", "--metrics", "mrr", "--json")
    with Endpoint() as system:
        code, out, err = cli("evaluate", *options, "--system", f"live={system.url}")
        run = FolderStore(tmp_path / "home").open("last")
        file = run.folder / "responses" / "live.jsonl"
        assert (code, len(system.asked), len(file.read_bytes().splitlines())) == (0, 60, 60), err
        calm = json.loads(out)["systems"]["live"]
        assert calm["failed_responses"] == 2
        assert b"Paris" not in (run.folder / "calls.jsonl").read_bytes(), "the journal keeps no answers"

        shutil.rmtree(run.folder / "results")
        (run.folder / "report.json").unlink()
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(lines[:30]) + lines[30][:25])
        kept = {json.loads(line)["query_id"] for line in lines[:30] if b'"error"' not in line}
        system.asked.clear()
        code, out, err = cli("evaluate", "--resume", "last", "--json")
        assert code == 0, err
        again = {row["query_id"] for row in rows} - kept
        assert sorted(f"q{body['query'].split()[-1].strip('?')}" for body, *_ in system.asked) == sorted(again)
        assert {json.loads(line)["query_id"] for line in file.read_bytes().splitlines()} == {f"q{n}" for n in range(60)}
        assert json.loads(out)["systems"]["live"]["metrics"] == calm["metrics"]

        system.asked.clear()
        code, out, err = cli("evaluate", *options, "--system", f"live={file}")
        recorded, live = (json.loads(text)["systems"]["live"] for text in (out, run.report_file.read_bytes()))
        assert (code, system.asked) == (0, []), err
    differing = {"load", "throughput_qps", "evaluation"}  # how it was asked, which is not a matter of its answers
    assert {key for key in live if recorded[key] != live[key]} <= differing


def test_evaluate_tells_no_response_from_an_empty_one_in_what_it_kept(cli, tmp_path):
    write_jsonl(tmp_path / "data.jsonl", [{"query": query, "relevant_doc_ids": ["paris"]} for query in "ab"])
    (tmp_path / "own.py").write_text("ask = lambda query: None if query == 'a' else {'retrieved_doc_ids': ['paris']}\n")

    def evaluated(system):
        out = cli("evaluate", "data.jsonl", "--system", f"live={system}", "--metrics", "mrr", "--json")[1]
        return json.loads(out)["systems"]["live"]

    asked = evaluated("own.py:ask")
    recorded = evaluated(FolderStore(tmp_path / "home").open("last").folder / "responses" / "live.jsonl")
    assert [(one["missing_from_run"], one["metrics"]["mrr"]["value"]) for one in (asked, recorded)] == [(1, 0.5)] * 2


def test_evaluate_asks_each_query_once_and_throughput_is_of_the_wall_time(evaluate):
    """Twelve queries of 100 ms, three at once: 0.4 s at least, whatever is judged before or after."""
    with Endpoint(lambda _: 0.1) as system:
        live = evaluate(over_http(system, concurrency=3), 12)["systems"]["live"]
    assert (len(system.asked), live["metrics"]["mrr"]["value"]) == (12, 1.0)
    spans = [(arrived, arrived + took) for _, arrived, took in system.asked]
    asked_s = max(end for _, end in spans) - min(begin for begin, _ in spans)
    assert asked_s <= live["load"]["wall_s"] <= asked_s + patience(0.5)
    assert live["throughput_qps"] == pytest.approx(12 / live["load"]["wall_s"])


def test_evaluate_an_address_is_an_endpoint_with_the_usual_body_and_reply(evaluate, cli, endpoint):
    assert evaluate(endpoint.url, 1)["systems"]["live"]["metrics"]["mrr"]["value"] == 1.0
    assert endpoint.asked[-1][0].keys() == {"query"}
    code, out, err = cli("evaluate", "data.jsonl", "--system", f"live={endpoint.url}", "--metrics", "mrr", "--json")
    assert (code, json.loads(out)["systems"]["live"]["metrics"]["mrr"]["value"]) == (0, 1.0), err


def test_evaluate_warns_of_a_cap_that_keeps_queries_waiting(evaluate):
    with Endpoint(lambda _: 0.2) as slow:
        report = evaluate(over_http(slow, rate=20, concurrency=1), 6)
    assert report["systems"]["live"]["load"]["waited"] == 5
    assert any("5 queries were due while 1 were under way" in caution for caution in report["cautions"])
    assert report["systems"]["live"]["latency_ms"]["p99"] > 700, "six of 200 ms one after another, due 50 ms apart"


# --- APIs like OpenAI's ---


@pytest.fixture
def provider():
    with play.Provider(then=play.says("Paris is the capital.")) as running:
        yield running


def test_openai_request_has_model_messages_parameters_and_key(provider, monkeypatch):
    monkeypatch.setenv("CHAT_KEY", "s3cret")
    options = {"system": "Be brief.", "prompt": "Q: {query}", "parameters": {"temperature": 0}, "stream": True}
    options |= {"url": provider.url, "model": "gpt-4o-mini", "api_key": "${CHAT_KEY}"}
    client = HttpClient(OpenAIConfig(kind="openai", **options).over_http, "live")
    asyncio.run(answer_of(client, Sample(query_id="a", query="And Plus?", history=TURNS)))
    [seen] = provider.log
    assert seen.auth == "Bearer s3cret"
    turns = [turn.model_dump() for turn in TURNS]
    assert seen.body == {
        "model": "gpt-4o-mini",
        "messages": [{"role": "system", "content": "Be brief."}, *turns, {"role": "user", "content": "Q: And Plus?"}],
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_openai_run_prices_the_answers_and_keeps_no_key(evaluate, monkeypatch, provider):
    monkeypatch.setenv("CHAT_KEY", "s3cret")
    system = {"kind": "openai", "url": provider.url, "model": "own", "stream": True, "api_key": "${CHAT_KEY}"}
    prices = {"own": {"input_per_1m": 1_000, "output_per_1m": 10_000}}
    report = evaluate(system, 1, metric="token_f1", prices=prices)
    assert "s3cret" not in json.dumps(report)
    live = report["systems"]["live"]
    # 2 and 6 tokens, of four characters there
    assert live["cost_usd"]["total"] == pytest.approx((2 * 1_000 + 6 * 10_000) / 1_000_000)
    assert (live["priced_by_us"], live["first_token_ms"]["n"]) == (1, 1)
