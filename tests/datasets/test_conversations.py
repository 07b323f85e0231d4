"""Conversations of other tools: which message is the question, what came before it, and what answered it."""

import json

import pytest

from ragassay.core.errors import BadData
from ragassay.core.models import Message
from ragassay.datasets.load import join, load, load_responses

BEFORE = [{"role": "user", "content": "What does Free cost?"}, {"role": "assistant", "content": "Nothing."}]
ASKED = {"role": "user", "content": "And Plus?"}
ANSWERED = {"role": "assistant", "content": "USD 6."}
HISTORY = tuple(Message(**turn) for turn in BEFORE)
RAGAS = [{"content": turn["content"], "type": {"user": "human", "assistant": "ai"}[turn["role"]]} for turn in BEFORE]


def langsmith(turn):
    return {"type": {"user": "human", "assistant": "ai"}[turn["role"]], "data": {"content": turn["content"]}}


ROWS = {
    "native": {"history": BEFORE, "query": "And Plus?", "answer": "USD 6.", "contexts": ["c"]},
    "history that ends with the question": {
        "chat_history": [*BEFORE, ASKED], "question": "And Plus?", "answer": "USD 6.", "contexts": ["c"]
    },
    "OpenAI messages": {
        "messages": [*BEFORE, {"role": "user", "content": [{"type": "text", "text": "And Plus?"}]}, ANSWERED],
        "contexts": ["c"],
    },
    "tool results": {"messages": [*BEFORE, ASKED, {"role": "tool", "content": "c"}, ANSWERED]},
    "RAGAS multi-turn sample": {
        "user_input": [*RAGAS, {"content": "And Plus?", "type": "human"}, {"content": "USD 6.", "type": "ai"}],
        "retrieved_contexts": ["c"],
    },
    "DeepEval turns": {"turns": [*BEFORE, ASKED, {**ANSWERED, "retrieval_context": ["c"]}]},

    "LangSmith messages": {
        "inputs": {"messages": [langsmith(turn) for turn in (*BEFORE, ASKED)]},
        "outputs": {"messages": [langsmith(ANSWERED)]},
        "contexts": ["c"],
    },

}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_load_takes_the_last_question_and_what_came_before_it(row, only):
    sample = only(row)
    assert (sample.query, sample.history, sample.answer, sample.contexts) == ("And Plus?", HISTORY, "USD 6.", ("c",))
    assert sample.metadata == {}


@pytest.mark.parametrize("column", ["user_input", "messages", "history"])
def test_load_reads_messages_in_a_csv_cell(column, tmp_path):
    cell = json.dumps([*BEFORE, ASKED, ANSWERED]).replace('"', '""')
    (tmp_path / "a.csv").write_text(f'{column},thread_id\n"{cell}",t1\n')
    (sample,) = load(tmp_path / "a.csv").samples
    assert (sample.query, sample.history, sample.answer) == ("And Plus?", HISTORY, "USD 6.")
    assert sample.conversation_id == "t1"


@pytest.mark.parametrize(
    ("row", "history", "metadata"),
    [
        ({"query": "q", "messages": BEFORE}, HISTORY, {}),  # no message repeats the question: all came before it
        ({"query": "q", "turns": 3}, (), {"turns": 3}),  # a number of turns, no conversation
        ({"query": '[{"a": 1}] is what?'}, (), {}),
    ],
)
def test_load_of_rows_that_are_hardly_conversations(row, history, metadata, only):
    sample = only(row)
    assert (sample.history, sample.metadata) == (history, metadata)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"query": "q", "history": "hello"}, "history: should be a list of {role, content}, is 'hello'"),
        ({"messages": [ANSWERED]}, "query: is missing"),
        ({"query": "q", "history": [{"role": "user", "content": 5}]}, "message should be text, is the number"),
        ({"messages": [{"role": None, "content": "x"}]}, ": a message has no role"),
        ({"messages": [ASKED, {**ANSWERED, "retrieval_context": 7}]}, "should be a list of texts, is the number 7"),
    ],
)
def test_load_refuses_what_is_no_conversation(row, what, only):
    with pytest.raises(BadData) as caught:
        only(row)
    assert what in str(caught.value)


@pytest.mark.parametrize("read", [load, load_responses])
@pytest.mark.parametrize("history", ["Hi | Hello", '{"role": "user"}', '["Hi"]'])
def test_load_and_load_responses_refuse_a_history_that_is_no_list_of_messages(read, history, tmp_path):
    rows = {"a.csv": f'query,answer,history\nq,a,"{history.replace(chr(34), chr(34) * 2)}"\n'}
    rows["a.json"] = json.dumps([{"query": "q", "answer": "a", "history": history}])
    for name, text in rows.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(BadData, match=rf"{name}\S* .*history: should be a list"):
            read(tmp_path / name)


def test_load_responses_finds_the_answer_at_the_end_of_a_history_in_a_csv_cell(tmp_path):
    cell = json.dumps([*BEFORE, ASKED, ANSWERED]).replace('"', '""')
    (tmp_path / "a.csv").write_text(f'query_id,history,latency_ms\na,"{cell}",5\n')
    assert load_responses(tmp_path / "a.csv").by_id["a"].answer == "USD 6."


def test_a_dataset_of_conversations_differs_by_its_history_and_joins_responses(write):
    rows = [{"query_id": "a", "query": "And Plus?", "history": BEFORE}]
    dataset, alone = load(write("a.json", rows)), load(write("b.json", [{"query_id": "a", "query": "And Plus?"}]))
    assert dataset.digest != alone.digest
    keyed = load_responses(write("r.json", [{"user_input": [*BEFORE, ASKED], "response": "USD 6."}]))
    assert join(dataset, keyed, "s")["a"].answer == "USD 6."
