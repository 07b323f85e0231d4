"""Which column is which field: native names, those of other tools, and ``--map``; what nobody knows becomes metadata."""

import re

import pytest

from ragassay.core.errors import BadData, BadInput, BadSettings
from ragassay.core.models import Message, Sample
from ragassay.datasets.columns import ALIASES
from ragassay.datasets.load import MAX_DECIDING_ROWS, load

Q = {"query": "Where is Paris?"}
VALUES = {
    "key_facts": (["f", "g"], ("f", "g")),
    "ground_truth_answer": ("t", ("t",)),
    "history": ([{"role": "assistant", "content": "Hello."}], (Message(role="assistant", content="Hello."),)),
    "contexts": ([{"page_content": "c"}, {"text": "d"}], ("c", "d")),
    "reference_contexts": ([{"content": "c", "doc_uri": "d"}], ("c",)),
    "relevance_scores": ({"d": 2, "e": 0, "f": None}, {"d": 2.0, "e": 0.0}),
    "input_tokens": (5, 5),
    "output_tokens": (6, 6),
    "cost_usd": (0.5, 0.5),
    "latency_ms": (1.5, 1500.0),  # DeepEval gives seconds
    **dict.fromkeys(("relevant_doc_ids", "retrieved_doc_ids"), (["d", 2], ("d", "2"))),
}
"""What a field is given, and what it becomes; texts otherwise."""


@pytest.mark.parametrize(("ours", "alias"), [(ours, alias) for ours in ALIASES for alias in ALIASES[ours]])
def test_load_accepts_the_names_of_other_tools_in_a_file_and_on_the_left_of_map(ours, alias, only):
    given, expected = VALUES.get(ours, ("x", "x"))
    nested = given
    for key in reversed(alias.split(".")):
        nested = {key: nested}
    for row, mapping in (({alias: given}, {}), (nested, {}), ({"zebra": given}, {alias: "zebra"})):
        sample = only(row if ours == "query" else {**Q, **row}, mapping=mapping)
        is_of_sample = ours in Sample.model_fields
        assert getattr(sample if is_of_sample else sample.response, ours) == expected
        assert (sample.metadata, sample.response is None) == ({}, is_of_sample)


def test_load_reads_all_native_fields_flat_and_nested(only):
    row = {
        "query_id": "a", "query": "q", "ground_truth_answer": ["t"], "key_facts": ["f"], "relevant_doc_ids": ["d"],
        "relevance_scores": {"d": 3}, "primary_relevant": "d", "reference_contexts": ["c"], "category": "factual",
        "difficulty": "easy", "description": "x", "split": "test", "answerable": True, "best_route": "vector",
        "retrieval_needed": False, "subtopics": {"d": ["s"]}, "doc_timestamps": {"d": "2024-01-01", "e": 5},
        "labels": {"human": 1}, "metadata": {"team": "a"},
    }  # fmt: skip
    response = {
        "answer": "r", "contexts": ["c"], "retrieved_doc_ids": ["d"], "retrieved_scores": [0.5], "model": "m",
        "doc_ids_before_reranking": ["d"], "input_tokens": 1, "output_tokens": 2, "cost_usd": 0.1, "latency_ms": 9,
        "retrieval_latency_ms": 4, "generation_latency_ms": 5, "route": "vector", "clicks": ["d"], "dwell_ms": 10,
        "error": "e",
    }  # fmt: skip
    nested = {**row, "response": {**response, "metadata": {"run": 1}}}
    assert only({**row, **response}) == Sample.model_validate({**row, "response": response})
    assert only(nested) == Sample.model_validate(nested)


@pytest.mark.parametrize(
    ("row", "meaning"),
    [
        ({"input": "q", "actual_output": "r"}, "gold"),  # DeepEval
        ({"question": "q", "answer": "r"}, "retrieved"),  # LangChain
        ({"user_input": "q", "response": "r", "reference": "t"}, "retrieved"),  # RAGAS
        ({"query": "q", "retrieved_doc_ids": ["d"]}, "retrieved"),
        ({"query": "q", "reference_contexts": ["x"], "contexts": ["y"]}, "kept"),
    ],
)
def test_load_context_is_gold_or_retrieved_by_the_other_columns(row, meaning, write):
    dataset = load(write("a.json", [{**row, "context": ["C"]}]))
    (sample,) = dataset.samples
    found = {"gold": sample.reference_contexts, "retrieved": sample.contexts, "kept": sample.metadata.get("context")}
    assert [name for name, value in found.items() if value is not None and list(value) == ["C"]] == [meaning]
    warned = [text for text in dataset.warnings if text.startswith("context is read as ")]
    assert len(warned) == (0 if meaning == "kept" else 1)


@pytest.mark.parametrize("row", [{"output": "t"}, {"output": "r", "expected_output": "t"}])
def test_load_context_that_nothing_decides_needs_a_mapping(row, only):
    with pytest.raises(BadData, match="say map contexts=context if it was retrieved, map reference_contexts="):
        only({"input": "q", "context": ["C"], **row})


@pytest.mark.parametrize(
    ("row", "mapping", "meaning"),
    [
        ({}, {}, "truth"),
        ({"reference": "t"}, {}, "answer"),
        ({"reference": "t", "output": {"role": "assistant", "content": "O"}}, {}, "answer"),
        ({"answer": "r"}, {}, "metadata"),
        ({"latency_ms": 3}, {"ground_truth_answer": "output"}, "truth"),
    ],
)
def test_load_output_in_a_dataset_without_a_run_is_the_reference(row, mapping, meaning, write):
    dataset = load(write("a.json", [{"input": "q", "output": "O", **row}]), mapping=mapping)
    (sample,) = dataset.samples
    found = {"truth": sample.ground_truth_answer == ("O",), "answer": sample.answer == "O"}
    found["metadata"] = sample.metadata.get("output") == "O"
    assert [name for name, is_it in found.items() if is_it] == [meaning]
    guessed = meaning == "truth" and not mapping
    assert any("--map answer=output" in text for text in dataset.warnings) == guessed


ASKED = {"inputs": {"question": "q"}}
RUN = {"outputs": {"answer": "O", "contexts": ["C"]}}


@pytest.mark.parametrize(
    ("row", "mapping", "meaning"),
    [
        ({**ASKED, "outputs": {"answer": "O"}}, {}, "truth"),  # a dataset, as LangSmith exports it
        ({**ASKED, "outputs": {"answer": "O"}}, {"answer": "outputs.answer"}, "answer"),
        ({**ASKED, **RUN}, {}, "answer"),  # a run
        ({**ASKED, **RUN, "reference_outputs": {"answer": "T"}}, {}, "answer"),
        ({**ASKED, "outputs": {"response": "O"}, "expectations": {"expected_facts": ["T"]}}, {}, "answer"),  # MLflow
        ({"inputs.question": "q", "outputs.output": "O", "reference.output": "T"}, {}, "answer"),  # to_pandas()
    ],
)
def test_load_outputs_of_langsmith_are_the_reference_without_a_run(row, mapping, meaning, write):
    dataset = load(write("a.json", [row]), mapping=mapping)
    (sample,) = dataset.samples
    assert (sample.query, sample.metadata) == ("q", {})
    found = {"truth": sample.ground_truth_answer == ("O",), "answer": sample.answer == "O"}
    assert [name for name, is_it in found.items() if is_it] == [meaning]
    options = [text for text in dataset.warnings if "--map" in text]
    expected = "outputs.answer is read as ground_truth_answer; if that is wrong: --map answer=outputs.answer"
    assert options == ([expected] if meaning == "truth" else [])


def test_load_outputs_with_other_keys_name_the_mapping(only):
    with pytest.raises(BadData, match=r"should be text, is an object .*; map answer=outputs\.reply"):
        only({**ASKED, "outputs": {"reply": "At two."}})


def test_map_decides_between_two_names(write, only):
    row = {"query": "q", "question": "Q", "response": "r", "outputs": "s"}
    dataset = load(write("a.json", [row]))
    (sample,) = dataset.samples
    assert (sample.query, sample.answer, sample.metadata) == ("q", "r", {"question": "Q", "outputs": "s"})
    assert "outputs is kept as metadata, since answer is read from response" in dataset.warnings
    sample = only(row, mapping={"answer": "outputs"})
    assert (sample.answer, sample.metadata) == ("s", {"question": "Q", "response": "r"})


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"output": "a"}, "unknown field 'output'; did you mean answer=a?"),
        ({"context": "a"}, "unknown field 'context'; did you mean contexts=a?"),
        ({"response": "a", "answer": "b"}, "map answer=b: answer is named twice; answer=a is given too"),
        ({"answer": ["a", "b"]}, "map answer=b: answer is named twice; answer=a is given too"),
        (
            {"answer": ["x", "y"]},
            "has no column 'x'; its columns are 'query', 'a' and 'b'; if another file has it, add map answer=",
        ),
        ({"qestion": "a"}, "unknown field 'qestion'; did you mean query=a?"),
    ],
)
def test_map_refuses_a_name_that_is_unclear(mapping, message, only):
    with pytest.raises(BadInput, match=re.escape(message)):
        only({**Q, "a": "x", "b": "y"}, mapping=mapping)


LOG = {
    "user_question": "Who is it?",
    "bot_reply": "It is Ann.",
    "passages": ["Ann is here now."],
    "gold": "Ann",
    "ms": 5,
}
LOG_COLUMNS = "map query=user_question map answer=bot_reply map contexts=passages map ground_truth_answer=gold"


@pytest.mark.parametrize(
    ("row", "options"),
    [
        (LOG, LOG_COLUMNS),
        ({"Prompt": "Who?", "Bot reply": "It is Ann."}, "map query=Prompt map 'answer=Bot reply'"),
        ({"prompt": "Who?", "system_prompt": "Be brief."}, "map query=COLUMN ('prompt' or 'system_prompt')"),
        ({"frage": "Wer ist es?", "antwort": "Ann"}, "map query=COLUMN"),
        ({"x": "Who is it", "old_answer": "Ann", "new_answer": "Bea"},
         "map query=COLUMN map answer=COLUMN ('old_answer' or 'new_answer')"),
        ({"ask": {"request": "Who?"}, "result": {"text": "Ann", "hits": [{"body": "Ann is here now.", "id": "d1"}]}},
         "map query=ask.request map answer=result.text map contexts=result.hits.body"),
        ({"input": {"text": "Who?"}, "output": {"text": "It is Ann.", "citations": [{"quote": "Ann is here."}]}},
         "map query=input.text map answer=output.text map contexts=output.citations.quote"),
        ({"userMessage": "Who?", "assistantMessage": "It is Ann.", "sme_answer": "Ann", "kbArticles": [{"body": "Ann is here."}]},
         "map query=userMessage map answer=COLUMN ('assistantMessage' or 'sme_answer') map contexts=kbArticles.body"),
        ({"prompt": "Who?", "documents": ["d1", "d2"], "gold_passages": ["Ann is here now."]},
         "map query=prompt map reference_contexts=gold_passages"),
        ({"prompt": "Who?", "chunk_1": "Ann is here.", "chunk_2": "Bea was there."}, "map query=prompt map contexts=chunk"),
    ],
)  # fmt: skip
def test_load_without_a_query_says_all_options_that_read_its_columns(row, options, only):
    with pytest.raises(BadData) as caught:
        only(row)
    assert caught.value.hint == f"name the columns: {options}"


def test_load_reads_a_log_as_its_error_says(only):
    mapping = dict(option.split("=") for option in LOG_COLUMNS.removeprefix("map ").split(" map "))
    sample = only(LOG, mapping=mapping)
    assert (sample.query, sample.answer, sample.contexts) == ("Who is it?", "It is Ann.", ("Ann is here now.",))
    assert (sample.ground_truth_answer, sample.metadata) == (("Ann",), {"ms": 5})


@pytest.mark.parametrize(
    ("column", "value", "option"),
    [
        ("docs", [{"text": "Ann is here now.", "id": "d1", "score": 0.5}], "contexts=docs.text"),
        ("retrieved_docs", ["Ann is here now."], "contexts=retrieved_docs"),
        ("retrieved_docs", ["d1", "d2"], "retrieved_doc_ids=retrieved_docs"),
        ("source", "wiki", None),
        ("remark", "Ann was not sure about it.", None),
        ("relevant", ["d1"], "relevant_doc_ids=relevant"),
    ],
)
def test_load_warns_of_passages_in_a_column_of_another_name(column, value, option, write):
    warnings = load(write("a.json", [{**Q, "answer": "Ann.", column: value}])).warnings
    assert [text.rpartition("--map ")[2] for text in warnings] == ([option] if option else [])


@pytest.mark.parametrize(("name", "mapping"), [("contexts", {}), ("context", {}), ("Chunk", {"contexts": "Chunk"})])
def test_load_reads_numbered_columns_as_contexts(name, mapping, write):
    header = ",".join(f"{name}_{n}" for n in (1, 10, 2))
    path = write("a.csv", f"question,answer,{header}\nq,r,one,ten,two\ns,t,,,two\n")
    dataset = load(path, mapping=mapping)
    assert [sample.contexts for sample in dataset] == [("one", "two", "ten"), ("two",)]
    assert dataset.kept == ()


def test_numbered_columns_are_named_where_their_meaning_is_open_or_they_are_listed(write):
    path = write("a.csv", "question,answer,context_1,context_2\nq,r,one,two\n")
    warning = "context_1 and context_2 are read as contexts; if that is wrong: --map reference_contexts=context"
    assert load(path).warnings == (warning,)
    assert load(path, mapping={"contexts": "context"}).warnings == ()
    with pytest.raises(BadSettings) as caught:
        load(path, mapping={"contexts": "context_1,context_2"})
    assert caught.value.hint == "numbered columns are read as one list: map contexts=context"


def test_map_to_one_numbered_column_leaves_the_others_alone(only):
    sample = only({**Q, "context_1": "a", "context_2": "b", "context_3": "c"}, mapping={"contexts": "context_2"})
    assert (sample.contexts, sample.metadata) == (("b",), {"context_1": "a", "context_3": "c"})


def test_a_later_row_with_one_column_of_that_name_keeps_it_beside_the_numbered_ones():
    numbered = {**Q, "answer": "r", "context_1": "a", "context_2": "b"}
    rows = [*([numbered] * MAX_DECIDING_ROWS), {**numbered, "context": "c"}]
    dataset = load(rows, mapping={"contexts": "context"})
    samples = list(dataset)
    assert (samples[0].contexts, samples[0].metadata) == (("a", "b"), {})
    assert (samples[-1].contexts, samples[-1].metadata) == (("c",), {"context_1": "a", "context_2": "b"})


def test_map_reaches_into_objects_and_lists(only):
    hits = [{"id": "d", "body": {"text": "c"}}, {"id": "e", "body": {"text": "f"}}]
    mapping = {"query": "payload.ask.text", "contexts": "hits[].body.text", "retrieved_doc_ids": "hits.id"}
    sample = only({"payload": {"ask": {"text": "q"}, "user": "u"}, "hits": hits}, mapping=mapping)
    assert (sample.query, sample.contexts, sample.retrieved_doc_ids) == ("q", ("c", "f"), ("d", "e"))
    assert sample.metadata == {"payload.user": "u"}


def test_map_takes_completion_time_as_it_is(write):
    path = write("a.json", [{**Q, "completion_time": 1500}])
    assert load(path).warnings == (
        "completion_time is read as seconds, as DeepEval gives it; if it is in ms: --map latency_ms=completion_time",
    )
    mapped = load(path, mapping={"latency_ms": "completion_time"})
    assert (mapped.samples[0].response.latency_ms, mapped.warnings) == (1500.0, ())


def test_load_keeps_unknown_columns_as_metadata(write):
    rows = [
        {"inputs": {"question": "q", "user": "u"}, "metadata": {"a": 1, "none": None}, "team": {"x": [1, None]}},
        {"inputs": {"question": "r"}, "expectations": {"guidelines": ["g"], "expected_facts": ["f"]}, "gone": None},
        {"inputs": {"question": "s"}, "vars": "odd"},
    ]
    dataset = load(write("a.json", rows))
    assert [sample.metadata for sample in dataset.samples] == [
        {"a": 1, "team": {"x": [1, None]}, "inputs.user": "u"}, {"expectations.guidelines": ["g"]}, {"vars": "odd"}
    ]  # fmt: skip
    assert dataset.kept == ("inputs.user", "team", "expectations.guidelines", "vars")


def test_load_warns_of_a_name_that_comes_close_to_ours(write):
    dataset = load(write("a.json", [{**Q, "relevent_doc_ids": ["d"], "Ground Truth": "t", "zebra": 1, "anwser": "r"}]))
    meant = (
        ("Ground Truth", "ground_truth_answer", "'ground_truth_answer=Ground Truth'"),
        ("relevent_doc_ids", "relevant_doc_ids", "relevant_doc_ids=relevent_doc_ids"),
        ("anwser", "answer", "answer=anwser"),
    )
    assert dataset.warnings == tuple(
        f"{theirs} is kept as metadata; did you mean {ours}? --map {option}" for theirs, ours, option in meant
    )
    assert dataset.kept == ("relevent_doc_ids", "Ground Truth", "zebra", "anwser")
