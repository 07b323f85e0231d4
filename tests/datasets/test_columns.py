"""Which column is which field: native names, those of other tools, and ``--map``; what nobody knows becomes metadata."""

import pytest

from ragassay.core.errors import BadData
from ragassay.core.models import Message, Sample
from ragassay.datasets.columns import ALIASES
from ragassay.datasets.load import load

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
def test_load_accepts_the_names_of_other_tools(ours, alias, only):
    given, expected = VALUES.get(ours, ("x", "x"))
    nested = given
    for key in reversed(alias.split(".")):
        nested = {key: nested}
    for row in ({alias: given}, nested):
        sample = only(row if ours == "query" else {**Q, **row})
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
    with pytest.raises(BadData, match="say --map contexts=context if it was retrieved, --map reference_contexts="):
        only({"input": "q", "context": ["C"], **row})


@pytest.mark.parametrize(
    ("row", "mapping", "meaning"),
    [
        ({}, {}, "truth"),
        ({"reference": "t"}, {}, "answer"),
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


def test_map_decides_between_two_names(write, only):
    row = {"query": "q", "question": "Q", "response": "r", "outputs": "s"}
    dataset = load(write("a.json", [row]))
    (sample,) = dataset.samples
    assert (sample.query, sample.answer, sample.metadata) == ("q", "r", {"question": "Q", "outputs": "s"})
    assert "outputs is kept as metadata, since answer is read from response" in dataset.warnings
    sample = only(row, mapping={"answer": "outputs"})
    assert (sample.answer, sample.metadata) == ("s", {"question": "Q", "response": "r"})


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
    meant = (("relevent_doc_ids", "relevant_doc_ids"), ("Ground Truth", "ground_truth_answer"), ("anwser", "answer"))
    assert dataset.warnings == tuple(
        f"{theirs} is kept as metadata; did you mean {ours}? --map {ours}={theirs}" for theirs, ours in meant
    )
    assert dataset.kept == ("relevent_doc_ids", "Ground Truth", "zebra", "anwser")
