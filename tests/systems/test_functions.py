"""A system that is a Python function: what it may return, what its errors become, and who may name it."""

import asyncio
import json
import time

import pytest

from live_systems import TURNS, answer_of
from ragassay.core.models import Response, Sample
from ragassay.llm.journal import MemoryJournal
from ragassay.systems.base import LiveOptions, LoadController
from ragassay.systems.functions import FunctionClient, RegisteredConfig, make_client, system
from ragassay.systems.runner import LiveSystem

OWN = """
import asyncio
CALLED = []
def ask(query):
    CALLED.append(query)
    return {"answer": f"{query} Paris.", "retrieved_doc_ids": ["paris"], "contexts": ["Paris is the capital."]}
async def slowly(query):
    await asyncio.sleep(0.01)
    return "Paris."
text = "no function"
"""


def ask(function, queries=("capital?",), **options):
    system = LiveSystem("f", LiveOptions(**options), FunctionClient(function), MemoryJournal(), run="r")

    async def all_of_them():
        return await asyncio.gather(*(system.respond(Sample(query_id=q, query=q)) for q in queries))

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("kind", ["plain", "async", "generator"])
def test_a_function_with_a_parameter_history_is_given_the_earlier_turns(kind):
    def plain(query, history):
        return f"{len(history)} {history[0]['role']} {query}"

    async def coroutine(query, *, history=()):
        return plain(query, history)

    def generator(query, history):
        yield plain(query, history)

    function = {"plain": plain, "async": coroutine, "generator": generator}[kind]
    sample = Sample(query_id="a", query="And Plus?", history=TURNS)
    assert asyncio.run(answer_of(FunctionClient(function), sample)).answer == "2 user And Plus?"


def test_a_registered_function_may_need_the_earlier_turns():
    @system(name="takes_history")
    def takes_history(query, history, mark):
        return f"{len(history)}{mark}"

    client = make_client(RegisteredConfig(kind="takes_history", options={"mark": "!"}), "systems.x")
    sample = Sample(query_id="a", query="And Plus?", history=TURNS)
    assert asyncio.run(answer_of(client, sample)).answer == "2!"


def test_a_row_that_failed_is_asked_once_in_a_process_and_anew_in_the_next_one():
    asked, rows, journal = [], [Sample(query_id=q, query=q) for q in "abc"], MemoryJournal()

    def function(query):
        asked.append(query)
        if query == "b":
            raise RuntimeError("not this one")
        return "Paris."

    async def work(schedule):
        system = LiveSystem("f", schedule.options, FunctionClient(function), journal, run="r", schedule=schedule)
        await system.query_all(rows)
        responses = [await system.respond(row) for row in rows]
        await system.close()
        return [response.error for response in responses]

    schedule = LoadController(LiveOptions())
    failed = [None, "the system raised RuntimeError: not this one", None]
    assert [asyncio.run(work(schedule)) for _ in range(3)] == [failed] * 3
    assert sorted(asked) == ["a", "b", "c"]
    assert asyncio.run(work(LoadController(LiveOptions()))) == failed
    assert sorted(asked) == ["a", "b", "b", "c"]


async def answers(query):
    await asyncio.sleep(0)
    return query.upper()


@pytest.mark.parametrize(
    ("function", "response"),
    [
        (lambda query: f"to {query}", {"answer": "to capital?"}),
        (
            lambda _: {"answer": "x", "contexts": ["c"], "cost_usd": 0.5},
            {"answer": "x", "contexts": ("c",), "cost_usd": 0.5},
        ),
        (lambda _: Response(answer="own"), {"answer": "own"}),
        (answers, {"answer": "CAPITAL?"}),
        (lambda query: answers(query), {"answer": "CAPITAL?"}),
    ],
    ids=["text", "object", "response", "async", "awaitable"],
)
def test_a_function_returns_text_an_object_or_a_response(function, response):
    [made] = ask(function)
    assert made.latency_ms > 0
    expected = Response(**response, latency_ms=made.latency_ms)
    assert made.model_dump(exclude={"timing"}) == expected.model_dump()


@pytest.mark.parametrize(
    ("returns", "reason"),
    [
        (lambda _: 1 / 0, "the system raised ZeroDivisionError: division by zero"),
        (lambda _: 7, "the system returned the number 7; text or an object with 'answer' is needed"),
        (
            lambda _: {"answerr": "x"},
            "the reply can't be used: unknown key answerr; did you mean answer?",
        ),
        (lambda _: time.sleep(5), "no answer within 0.2 s"),
    ],
    ids=["raises", "number", "key", "hangs"],
)
def test_what_a_function_does_wrong_is_the_reason_of_its_row(returns, reason):
    began = time.monotonic()
    [response] = ask(returns, timeout_s=0.2)
    assert response.error == reason
    assert time.monotonic() - began < 3, "a thread that hangs must not keep the run"


def write(tmp_path, function="own.py:ask", file="live.yaml"):
    row = {"query_id": "q", "query": "Where?", "ground_truth_answer": "Paris", "relevant_doc_ids": ["paris"]}
    (tmp_path / "data.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "own.py").write_text(OWN)
    document = {"data": "data.jsonl", "systems": {"v2": {"kind": "python", "function": function}}}
    (tmp_path / file).write_text(json.dumps(document))


def test_evaluate_calls_the_function_that_a_named_configuration_names(cli, tmp_path):
    write(tmp_path)
    code, out, err = cli("evaluate", "--config", "live.yaml", "--json", "--metrics", "mrr")
    assert code == 0, err
    assert json.loads(out)["systems"]["v2"]["metrics"]["mrr"]["value"] == 1.0


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("own.py:text", "own.py has no function 'text'"),
        ("gone.py:ask", "gone.py: there is no such file"),
        ("no_such_package.x:ask", "no_such_package.x: ModuleNotFoundError"),
        ("own.py", "should match"),
    ],
)
def test_a_function_that_is_not_there_is_one_clear_error(cli, tmp_path, function, why):
    write(tmp_path, function)
    code, _, err = cli("evaluate", "--config", "live.yaml")
    assert code == 2
    assert why in err
