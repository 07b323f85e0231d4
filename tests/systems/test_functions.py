"""A system that is a Python function: what it may return, what its errors become, and who may name it."""

import asyncio
import json
import time

import numpy as np
import pytest

import ragassay
from live_systems import TURNS, answer_of
from offline_runs import write_jsonl
from ragassay.core.errors import BadInput, BadSettings
from ragassay.core.models import Response, Sample
from ragassay.llm.journal import MemoryJournal
from ragassay.systems.base import LiveOptions
from ragassay.systems.functions import FunctionClient, RegisteredConfig, make_client, system
from ragassay.systems.runner import JournaledSystem, LiveSystem, LoadController

OWN = """
def ask(query):
    return {"answer": f"{query} Paris.", "retrieved_doc_ids": ["paris"], "contexts": ["Paris is the capital."]}
text = "no function"
class Retriever:
    def retrieve(self, query, top_k):
        return ["rome", "paris"][:top_k]
retriever = Retriever()
"""


def ask(function, queries=("capital?",), **options):
    system = LiveSystem("f", LoadController(LiveOptions(**options), FunctionClient(function)))

    async def all_of_them():
        return await asyncio.gather(*(system.respond(Sample(query_id=q, query=q)) for q in queries))

    return asyncio.run(all_of_them())


def plain(query, history):
    return f"{len(history)} {history[0]['role']} {query}"


async def coroutine(query, *, history=()):
    return plain(query, history)


class Conversational:
    def retrieve(self, query, top_k, history):
        return {"answer": plain(query, history)}


@system(name="takes_history")
def registered(query, history, mark):
    return f"{plain(query, history)}{mark}"


@pytest.mark.parametrize(
    "client",
    [
        *map(FunctionClient, (plain, coroutine, Conversational)),
        make_client(RegisteredConfig(kind="takes_history", options={"mark": ""}), "systems.x"),
    ],
)
def test_ask_gives_the_earlier_turns_to_a_parameter_history(client):
    sample = Sample(query_id="a", query="And Plus?", history=TURNS)
    assert asyncio.run(answer_of(client, sample)).answer == "2 user And Plus?"


def test_respond_of_a_journaled_system_asks_a_row_once_even_if_it_failed():
    """It is worked on again when its judge failed; a retry asks again (tests/api/test_systems.py)."""
    asked, rows, journal = [], [Sample(query_id=q, query=q) for q in "abc"], MemoryJournal()

    def function(query):
        asked.append(query)
        if query == "b":
            raise RuntimeError("not this one")
        return "Paris."

    async def work():
        system = LiveSystem("f", LoadController(LiveOptions(), FunctionClient(function)))
        responses = [await JournaledSystem(system, journal).respond(row) for row in rows]
        await system.close()
        return [response.error for response in responses]

    assert [asyncio.run(work()) for _ in range(2)] == [[None, "the system raised RuntimeError: not this one", None]] * 2
    assert asked == ["a", "b", "c"]


async def answers(query):
    await asyncio.sleep(0)
    return query.upper()


@pytest.mark.parametrize(
    ("function", "response"),
    [
        (lambda query: f"to {query}", {"answer": "to capital?"}),
        (lambda _: {"answer": "x", "contexts": ["c"]}, {"answer": "x", "contexts": ("c",)}),
        (lambda _: Response(answer="own"), {"answer": "own"}),
        (lambda query: answers(query), {"answer": "CAPITAL?"}),
    ],
    ids=["text", "object", "response", "awaitable"],
)
def test_ask_a_function_returns_text_an_object_or_a_response(function, response):
    [made] = ask(function)
    assert made.latency_ms > 0
    assert made == Response(**response, latency_ms=made.latency_ms, timing=made.timing)


class Retriever:
    """As many code bases have one."""

    def __init__(self, returns=None):
        self.returns = returns

    def retrieve(self, query, top_k):
        return [f"d{top_k}", query] if self.returns is None else self.returns


class Asynchronous:
    async def retrieve(self, query, k=3):
        return [f"d{k}", query]


class Hit:
    def __init__(self, chunk_id, text=None, score=None):
        self.chunk_id, self.text, self.score = chunk_id, text, score


IDS = {"retrieved_doc_ids": ("d1", "d2")}


@pytest.mark.parametrize(
    ("retriever", "response"),
    [
        (Retriever(), {"retrieved_doc_ids": ("d10", "capital?")}),
        (Retriever, {"retrieved_doc_ids": ("d10", "capital?")}),
        (Asynchronous(), {"retrieved_doc_ids": ("d3", "capital?")}),
        (Retriever([]), {"retrieved_doc_ids": ()}),
        (Retriever(np.array([1, 2])), {"retrieved_doc_ids": ("1", "2")}),
        (Retriever([("d1", np.float32(0.5)), ("d2", 0)]), {**IDS, "retrieved_scores": (0.5, 0.0)}),
        (Retriever([{"id": "d1", "text": "One."}, Hit("d2", "Two.", 0.1)]), {**IDS, "contexts": ("One.", "Two.")}),
        (Retriever([(Hit("d1"), 2.0), (Hit("d2"), 1.0)]), {**IDS, "retrieved_scores": (2.0, 1.0)}),
        (Retriever([{"page_content": "One."}]), {"contexts": ("One.",)}),
        (Retriever({"answer": "x", "contexts": ["c"]}), {"answer": "x", "contexts": ("c",)}),
    ],
)
def test_ask_a_retriever_returns_ids_pairs_or_documents(retriever, response):
    [made] = ask(retriever)
    assert made == Response(**response, latency_ms=made.latency_ms, timing=made.timing)


RETRIEVES = "retrieve returns a list of ids, of (id, score), or of objects with id, text and score"
RETURNS = "a function returns the answer's text or {'answer': ..., 'contexts': [...]}; wrap yours in one that does"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda _: 1 / 0, "the system raised ZeroDivisionError: division by zero"),
        (lambda _: 7, f"the system returned the number 7; {RETURNS}"),
        (lambda _: {"answerr": "x"}, f"the reply can't be used: unknown key answerr; did you mean answer? ({RETURNS})"),
        (lambda _: {"docs": ["Paris is here."]}, "the reply can't be used: unknown key docs; did you mean contexts?"),
        (lambda _: time.sleep(60), "no answer within 2 s"),
        (Retriever("d1"), f"retrieve returned 'd1'; {RETRIEVES}"),
        (Retriever([None]), f"retrieve returned a list with null; {RETRIEVES}"),
        (Retriever(["d1", "d1"]), "the reply can't be used: retrieved_doc_ids: document id 'd1' is listed twice"),
    ],
)
def test_ask_what_a_function_does_wrong_is_the_reason_of_its_row(function, reason):
    began = time.monotonic()
    [response] = ask(function, timeout_s=2)
    assert response.error.startswith(reason)
    assert time.monotonic() - began < 30, "a thread that hangs must not keep the run"


@pytest.fixture
def evaluate(cli, tmp_path):
    """Runs ``evaluate`` on a configuration that names a function."""

    def run(function, *options):
        write_jsonl(tmp_path / "data.jsonl", [{"query": "Where?", "relevant_doc_ids": ["paris"]}])
        (tmp_path / "own.py").write_text(OWN)
        document = {"data": "data.jsonl", "systems": {"v2": {"function": function}} if function else {}}
        (tmp_path / "live.yaml").write_text(json.dumps(document))
        return cli("evaluate", "--config", "live.yaml", "--json", "--metrics", "mrr", *options)

    return run


def test_evaluate_calls_the_function_that_a_named_configuration_names(evaluate):
    code, out, err = evaluate("own.py:ask")
    assert code == 0, err
    assert json.loads(out)["systems"]["v2"]["metrics"]["mrr"]["value"] == 1.0


def test_evaluate_in_python_takes_the_keys_of_a_system_without_its_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    row = {"query": "Where?", "relevant_doc_ids": ["paris"]}
    report = ragassay.evaluate([row], systems={"v2": {"function": "own.py:ask"}}, metrics="mrr")
    assert report.systems["v2"].metrics["mrr"].value == 1.0


def test_evaluate_calls_a_function_that_the_command_line_names(evaluate):
    code, out, err = evaluate(None, "--system", "v3=own.py:ask", "--set", "systems.v3.warm_up=1")
    assert code == 0, err
    assert json.loads(out)["systems"]["v3"]["metrics"]["mrr"]["value"] == 1.0


@pytest.mark.parametrize("name", ["Retriever", "retriever"])
def test_evaluate_asks_an_object_with_retrieve(evaluate, name):
    code, out, err = evaluate(None, "--system", f"v3=own.py:{name}")
    assert code == 0, err
    assert json.loads(out)["systems"]["v3"]["metrics"]["mrr"]["value"] == 0.5


def test_evaluate_in_python_takes_a_retriever_and_says_what_a_system_may_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = {"query": "Where?", "relevant_doc_ids": ["d10"]}
    of_two = ragassay.evaluate(systems={"v2": Retriever()}, datasets={"a": [row], "b": [row]}, metrics="mrr")
    assert [report.metrics["mrr"].value for report in of_two.values()] == [1.0, 1.0]
    with pytest.raises(BadInput, match=r"v2: .*; a system may also be .* an object with retrieve\(query, top_k\)"):
        ragassay.evaluate([row], systems={"v2": object()}, metrics="mrr")
    with pytest.raises(BadSettings, match=r"Hit can't be made: TypeError: .*; give an object of it"):
        FunctionClient(type("Hit", (Hit,), {"retrieve": len}))


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("own.py:text", "own.py has no function 'text'"),
        ("gone.py:ask", "gone.py: there is no such file"),
        ("no_such_package.x:ask", "no_such_package.x: ModuleNotFoundError"),
    ],
)
def test_evaluate_a_function_that_is_not_there_is_one_clear_error(evaluate, function, why):
    code, _, err = evaluate(function)
    assert (code, why in err) == (2, True)
