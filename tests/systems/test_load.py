"""How a system is asked: again when it is busy, warmed up apart, without a break under a rate; and what a report says of it."""

import json
import time

import pytest

from endpoint import Endpoint
from live_systems import ask, respond
from ragassay.llm.journal import MemoryJournal
from ragassay.systems.base import LiveOptions
from ragassay.systems.functions import FunctionClient


@pytest.fixture
def endpoint():
    with Endpoint() as running:
        yield running


@pytest.mark.parametrize("status", [429, 503])
def test_a_system_that_is_busy_is_asked_again_when_it_says_and_the_wait_is_latency(endpoint, status):
    [response] = ask([f"busy {status} 0.3"], url=endpoint.url, attempts=2)
    assert (response.error, response.answer, response.timing.attempts) == (None, "Paris is the capital.", 2)
    assert response.latency_ms >= 300, "a user waits from the first attempt on"


def test_a_wait_that_is_longer_than_the_time_left_is_not_begun(endpoint):
    began = time.perf_counter()
    [response] = ask(["busy 503 3600"], url=endpoint.url, attempts=3, timeout_s=5)
    assert time.perf_counter() - began < 5
    assert response.error == (
        "the system replied 503: 'later'; the wait of 3.6e+03 s before another attempt is longer than what is left of 5 s"
    )


def test_a_system_that_can_not_be_reached_is_tried_as_often_as_allowed():
    [response] = ask(["capital?"], url="http://127.0.0.1:1/ask", attempts=3)
    assert response.error.startswith("no reply: ")
    assert response.error.endswith("(3 attempts)")


def test_warm_up_queries_are_asked_alone_and_their_latency_is_apart():
    """The first query takes 300 ms, as one that loads a model; no latency has it, and it is asked once."""
    with Endpoint(lambda n: 0.0 if n else 0.3) as cold:
        responses = ask(["capital?"] * 6, url=cold.url, warm_up=2, ahead=True)
    assert len(cold.asked) == 6
    assert [response.latency_ms is None for response in responses] == [True, True, False, False, False, False]
    assert [response.first_call_ms is None for response in responses] == [False, True, True, True, True, True]
    assert responses[0].first_call_ms >= 300
    assert all(response.answer for response in responses), "the answers count"
    spans = [(arrived, arrived + took) for _, arrived, took in cold.asked]
    assert spans[0][1] <= spans[1][0]
    assert spans[1][1] <= spans[2][0]


def test_a_break_between_two_chunks_delays_no_query_that_is_due(cli, tmp_path):
    """Chunks of five at 20 a second; the last of each stalls half a second, beyond the due time of the next five."""
    with Endpoint(lambda n: 0.5 if n % 5 == 4 else 0.0) as system:
        write(tmp_path, system, 20, batch=5, rate=20, concurrency=20)
        code, out, err = cli("evaluate", "--config", "live.yaml", "--json", "--metrics", "mrr")
    assert code == 0, err
    arrivals = sorted(arrived for _, arrived, _ in system.asked)
    assert arrivals[-1] - arrivals[0] < 19 / 20 + 0.45, "three stalls would have made it 1.5 s longer"
    load = json.loads(out)["systems"]["live"]["load"]
    assert (load["finished"], load["rate"], load["concurrency"], load["waited"]) == (20, 20, 20, 0)


def test_throughput_is_of_the_wall_time_of_asking(cli, tmp_path):
    """Twelve queries of 100 ms, three at once: 0.4 s at least, whatever is judged before or after."""
    with Endpoint(lambda _: 0.1) as system:
        write(tmp_path, system, 12, concurrency=3)
        code, out, err = cli("evaluate", "--config", "live.yaml", "--json", "--metrics", "mrr")
    assert code == 0, err
    spans = [(arrived, arrived + took) for _, arrived, took in system.asked]
    asked_s = max(end for _, end in spans) - min(begin for begin, _ in spans)
    live = json.loads(out)["systems"]["live"]
    assert asked_s <= live["load"]["wall_s"] <= asked_s + 0.5
    assert live["throughput_qps"] == pytest.approx(12 / live["load"]["wall_s"])


def test_a_cap_that_keeps_queries_waiting_is_a_caution(cli, tmp_path):
    with Endpoint(lambda _: 0.2) as slow:
        write(tmp_path, slow, 6, rate=20, concurrency=1)
        code, out, err = cli("evaluate", "--config", "live.yaml", "--json", "--metrics", "mrr")
    assert code == 0, err
    report = json.loads(out)
    assert report["systems"]["live"]["load"]["waited"] == 5
    assert any("5 queries were due while 1 were under way" in caution for caution in report["cautions"])
    assert report["systems"]["live"]["latency_ms"]["p99"] > 700, "six of 200 ms one after another, due 50 ms apart"


def test_a_list_that_is_not_there_is_missing_and_one_that_is_empty_is_empty(endpoint):
    [absent] = ask(["capital?"], url=endpoint.url, reply={"answer": "$.answer", "contexts": "$.sources[*].text"})
    assert absent.contexts is None
    [null] = ask(["null"], url=endpoint.url, reply={"answer": "$.answer", "contexts": "$.contexts[*]"})
    assert null.contexts is None
    endpoint.reply = lambda request, _: endpoint.send(request, 200, b'{"answer": "x", "contexts": []}')
    [empty] = ask(["?"], url=endpoint.url, reply={"answer": "$.answer", "contexts": "$.contexts[*].text"})
    assert empty.contexts == ()


def test_an_error_ends_the_asking_of_all():
    class Full(MemoryJournal):
        async def settle(self, call, reply):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        respond(LiveOptions(), ["a", "b", "c"], Full(), ahead=True, asks=FunctionClient(lambda query: query))


def write(tmp_path, endpoint, count, *, query="capital?", batch=50, **more):
    rows = [
        {"query_id": f"q{n}", "query": query, "ground_truth_answer": "Paris", "relevant_doc_ids": ["paris"]}
        for n in range(count)
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = {"data": "data.jsonl", "systems": {"live": {"kind": "http", "url": endpoint.url, **more}}}
    document["performance"] = {"batch": batch}
    (tmp_path / "live.yaml").write_text(json.dumps(document))
