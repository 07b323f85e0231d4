"""The names that other tools use are accepted as they are; where a name has two meanings the other columns decide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragassay.data.cells import KINDS
from ragassay.data.columns import ALIASES, FIELDS, near
from ragassay.data.load import load
from ragassay.errors import BadData
from ragassay.models import Sample

Write = Callable[[str, Any], Path]

Q = {"query": "Where is Paris?"}

SAMPLE_ALIASES: list[tuple[dict[str, Any], str, Any]] = [
    ({**Q, "id": "a"}, "query_id", "a"),
    ({**Q, "request_id": 7}, "query_id", "7"),
    ({**Q, "example id": "a"}, "query_id", "a"),
    ({**Q, "example_id": "a"}, "query_id", "a"),
    ({"user_input": "q"}, "query", "q"),
    ({"question": "q"}, "query", "q"),
    ({"input": "q"}, "query", "q"),
    ({"inputs": {"question": "q"}}, "query", "q"),
    ({"inputs": {"query": "q"}}, "query", "q"),
    ({"vars": {"query": "q"}}, "query", "q"),
    ({"vars": {"question": "q"}}, "query", "q"),
    ({"inputs.question": "q"}, "query", "q"),
    ({**Q, "reference": "t"}, "ground_truth_answer", ("t",)),
    ({**Q, "ground_truth": ["t", "u"]}, "ground_truth_answer", ("t", "u")),
    ({**Q, "expected_output": "t"}, "ground_truth_answer", ("t",)),
    ({**Q, "expectedOutput": "t"}, "ground_truth_answer", ("t",)),
    ({**Q, "expected_response": "t"}, "ground_truth_answer", ("t",)),
    ({**Q, "expectations": {"expected_response": "t"}}, "ground_truth_answer", ("t",)),
    ({**Q, "reference_answer": ["t"]}, "ground_truth_answer", ("t",)),
    ({**Q, "expectations": {"expected_facts": ["f", "g"]}}, "key_facts", ("f", "g")),
    ({**Q, "expected_facts": ["f"]}, "key_facts", ("f",)),
    ({**Q, "expected_retrieved_context": [{"content": "c", "doc_uri": "d"}]}, "reference_contexts", ("c",)),
    ({**Q, "expectations": {"expected_retrieved_context": ["c"]}}, "reference_contexts", ("c",)),
    ({**Q, "expected_chunks": ["c"]}, "reference_contexts", ("c",)),
    ({**Q, "reference_context_ids": ["d", 2]}, "relevant_doc_ids", ("d", "2")),
    ({**Q, "relevant_docs": ["d"]}, "relevant_doc_ids", ("d",)),
    ({**Q, "qrels": ["d"]}, "relevant_doc_ids", ("d",)),
    ({**Q, "relevant_docs": {"d": 2}}, "relevance_scores", {"d": 2.0}),
    ({**Q, "qrels": {"d": 2, "e": 0, "f": None}}, "relevance_scores", {"d": 2.0, "e": 0.0}),
    ({**Q, "metadata": {"category": "factual"}}, "category", "factual"),
    ({**Q, "metadata": {"difficulty": 2}}, "difficulty", "2"),
    ({**Q, "metadata": {"description": "d"}}, "description", "d"),
    ({**Q, "metadata": {"split": "test"}}, "split", "test"),
    ({**Q, "query_style": "troubleshoot"}, "category", "troubleshooting"),
]
RESPONSE_ALIASES: list[tuple[dict[str, Any], str, Any]] = [
    ({**Q, "response": "r"}, "answer", "r"),
    ({**Q, "actual_output": "r"}, "answer", "r"),
    ({**Q, "actualOutput": "r"}, "answer", "r"),
    ({**Q, "outputs": "r"}, "answer", "r"),
    ({**Q, "output": "r", "reference": "t"}, "answer", "r"),
    ({**Q, "retrieved_contexts": ["c", "d"]}, "contexts", ("c", "d")),
    ({**Q, "retrieval_context": ["c"]}, "contexts", ("c",)),
    ({**Q, "retrievalContext": ["c"]}, "contexts", ("c",)),
    ({**Q, "answer": "r", "context": ["c"]}, "contexts", ("c",)),
    ({**Q, "contexts": [{"page_content": "c"}, {"text": "d"}]}, "contexts", ("c", "d")),
    ({**Q, "retrieved_context_ids": ["d", 3]}, "retrieved_doc_ids", ("d", "3")),
    ({**Q, "doc_uri": ["d"]}, "retrieved_doc_ids", ("d",)),
    ({**Q, "document.id": ["d"]}, "retrieved_doc_ids", ("d",)),
    ({**Q, "document": {"id": "d"}}, "retrieved_doc_ids", ("d",)),
    ({**Q, "input_token_count": 5}, "input_tokens", 5),
    ({**Q, "output_token_count": 6}, "output_tokens", 6),
    ({**Q, "token_cost": 0.5}, "cost_usd", 0.5),
    ({**Q, "llm": {"cost": {"total": 0.25}}}, "cost_usd", 0.25),
    ({**Q, "llm.cost.total": 0.25}, "cost_usd", 0.25),
    ({**Q, "completion_time": 1.5}, "latency_ms", 1500.0),  # DeepEval gives seconds
]


def _name(case: tuple[dict[str, Any], str, Any]) -> str:
    return " ".join(name for name in case[0] if name != "query") + " as " + case[1]


def only(path: Path, **options: Any) -> Sample:
    (sample,) = load(path, **options).samples
    return sample


@pytest.mark.parametrize("case", SAMPLE_ALIASES, ids=_name)
def test_a_name_of_another_tool_is_accepted(case: tuple[dict[str, Any], str, Any], write: Write) -> None:
    row, ours, value = case
    sample = only(write("a.json", [row]))
    assert getattr(sample, ours) == value
    assert sample.metadata == {}
    assert sample.response is None


@pytest.mark.parametrize("case", RESPONSE_ALIASES, ids=_name)
def test_a_name_of_another_tool_for_a_response_is_accepted(
    case: tuple[dict[str, Any], str, Any], write: Write
) -> None:
    row, ours, value = case
    sample = only(write("a.json", [row]))
    assert sample.response is not None
    assert getattr(sample.response, ours) == value
    assert sample.metadata == {}


def test_every_field_of_a_sample_and_a_response_has_a_kind_and_the_aliases_name_fields() -> None:
    assert set(KINDS) == {*FIELDS, "metadata"}
    assert set(ALIASES) <= set(FIELDS)


def test_all_native_fields_are_read(write: Write) -> None:
    row = {
        "query_id": "a", "query": "q", "ground_truth_answer": ["t"], "key_facts": ["f"], "relevant_doc_ids": ["d"],
        "relevance_scores": {"d": 3}, "primary_relevant": "d", "reference_contexts": ["c"], "category": "factual",
        "difficulty": "easy", "description": "x", "split": "test", "answerable": True, "best_route": "vector",
        "retrieval_needed": False, "subtopics": {"d": ["s"]}, "doc_timestamps": {"d": "2024-01-01", "e": 5},
        "labels": {"human": 1}, "metadata": {"team": "a"},
    }  # fmt: skip
    response = {
        "answer": "r", "contexts": ["c"], "retrieved_doc_ids": ["d"], "retrieved_scores": [0.5], "model": "m",
        "input_tokens": 1, "output_tokens": 2, "cost_usd": 0.1, "latency_ms": 9, "retrieval_latency_ms": 4,
        "generation_latency_ms": 5, "route": "vector", "clicks": ["d"], "dwell_ms": 10, "error": "e",
    }  # fmt: skip
    flat = only(write("a.json", [{**row, **response}]))
    nested = only(write("b.json", [{**row, "response": {**response, "metadata": {"run": 1}}}]))
    assert flat == Sample.model_validate({**row, "response": response})
    assert nested == Sample.model_validate({**row, "response": {**response, "metadata": {"run": 1}}})


def test_names_of_other_tools_are_accepted_inside_a_nested_response(write: Write) -> None:
    rows = [{**Q, "response": {"output": "r", "context": ["c"], "completion_time": 2, "seed": 1}}]
    dataset = load(write("a.json", rows))
    response = dataset.samples[0].response
    assert response is not None
    assert (response.answer, response.contexts, response.latency_ms) == ("r", ("c",), 2000.0)
    assert response.metadata == {"seed": 1}
    assert dataset.mapped["answer"] == "response.output"


def test_an_empty_nested_response_is_a_response_and_a_null_one_is_none(write: Write) -> None:
    rows = [{**Q, "response": {}}, {**Q, "response": None}, {**Q, "response": {"answer": "r"}}]
    first, second, third = load(write("a.json", rows)).samples
    assert first.response is not None
    assert first.response.answer is None
    assert second.response is None
    assert third.answer == "r"


def test_a_row_without_any_value_of_a_response_has_none(write: Write) -> None:
    rows = [{**Q, "answer": "r", "latency_ms": 1}, {**Q, "answer": None}, {**Q, "retrieved_doc_ids": []}]
    given = [sample.response is not None for sample in load(write("a.json", rows)).samples]
    assert given == [True, False, True]


GOLD_OR_RETRIEVED: dict[str, tuple[dict[str, Any], str]] = {
    "DeepEval test case": ({"input": "q", "actual_output": "r"}, "gold"),
    "DeepEval test case in camel case": ({"input": "q", "actualOutput": "r"}, "gold"),
    "DeepEval golden": ({"input": "q", "expected_output": "t"}, "gold"),
    "DeepEval golden in camel case": ({"input": "q", "expectedOutput": "t"}, "gold"),
    "DeepEval export with nulls": ({"input": "q", "actual_output": None, "retrieval_context": None}, "gold"),
    "DeepEval with a run": ({"input": "q", "actual_output": "r", "token_cost": 1}, "gold"),
    "beside retrieval_context": ({"query": "q", "answer": "r", "retrieval_context": ["x"]}, "gold"),
    "beside contexts": ({"query": "q", "answer": "r", "contexts": ["x"]}, "gold"),
    "LangChain with a result": ({"question": "q", "answer": "r"}, "retrieved"),
    "RAGAS with a response": ({"user_input": "q", "response": "r", "reference": "t"}, "retrieved"),
    "beside document ids": ({"query": "q", "retrieved_doc_ids": ["d"]}, "retrieved"),
    "beside gold of another name": ({"query": "q", "reference_contexts": ["x"]}, "retrieved"),
    "beside gold and retrieved": ({"query": "q", "reference_contexts": ["x"], "contexts": ["y"]}, "kept"),
    "output and a reference": ({"input": "q", "output": "r", "reference": "t"}, "retrieved"),
    "a query alone": ({"query": "q"}, "undecided"),
    "a question alone": ({"question": "q"}, "undecided"),
    "a question and a truth": ({"question": "q", "ground_truth": "t"}, "undecided"),
    "input and output": ({"input": "q", "output": "t"}, "undecided"),
    "a run beside an expected output": ({"input": "q", "output": "r", "expected_output": "t"}, "undecided"),
}


@pytest.mark.parametrize(("row", "meaning"), GOLD_OR_RETRIEVED.values(), ids=GOLD_OR_RETRIEVED.keys())
def test_context_is_gold_or_retrieved_by_what_stands_beside_it(row: dict[str, Any], meaning: str, write: Write) -> None:
    path = write("a.json", [{**row, "context": ["C"]}])
    if meaning == "undecided":
        with pytest.raises(BadData) as caught:
            load(path)
        assert str(caught.value) == (
            "a.json: context: may be what was retrieved or the reference (gold) contexts, and the other columns do not "
            "decide; say --map contexts=context if it was retrieved, --map reference_contexts=context if it is gold"
        )
        return
    dataset = load(path)
    (sample,) = dataset.samples
    found = {"gold": sample.reference_contexts, "retrieved": sample.contexts, "kept": sample.metadata.get("context")}
    assert [name for name, value in found.items() if value is not None and list(value) == ["C"]] == [meaning]
    told = [text for text in dataset.warnings if text.startswith("context is read as ")]
    assert len(told) == (0 if meaning == "kept" else 1)


@pytest.mark.parametrize("ours", ["contexts", "reference_contexts"])
def test_map_decides_what_context_is(ours: str, write: Write) -> None:
    sample = only(write("a.json", [{"query": "q", "context": ["c"]}]), mapping={ours: "context"})
    assert (sample.contexts, sample.reference_contexts) == ((("c",), None) if ours == "contexts" else (None, ("c",)))


def test_map_has_the_last_word_on_context_even_where_the_columns_decide(write: Write) -> None:
    sample = only(write("a.json", [{"input": "q", "expected_output": "t", "context": ["c"]}]), mapping={"contexts": "context"})
    assert sample.contexts == ("c",)
    assert sample.reference_contexts is None


def test_a_column_context_without_a_value_needs_no_decision(write: Write) -> None:
    assert only(write("a.json", [{"query": "q", "context": None}])).contexts is None


OUTPUT: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "alone": ({}, {}, "truth"),
    "beside metadata": ({"metadata": {"x": 1}, "category": "factual"}, {}, "truth"),
    "beside gold contexts": ({"reference_contexts": ["c"]}, {}, "truth"),
    "beside a reference": ({"reference": "t"}, {}, "answer"),
    "beside key facts": ({"key_facts": ["f"]}, {}, "answer"),
    "beside contexts": ({"contexts": ["c"]}, {}, "answer"),
    "beside a latency": ({"latency_ms": 3}, {}, "answer"),
    "beside a model": ({"model": "m"}, {}, "answer"),
    "beside a native answer": ({"answer": "r"}, {}, "metadata"),
    "mapped to the answer": ({}, {"answer": "output"}, "answer"),
    "mapped to the truth beside a run": ({"latency_ms": 3}, {"ground_truth_answer": "output"}, "truth"),
    "beside a truth that map names": ({"gold": "t"}, {"ground_truth_answer": "gold"}, "answer"),
    "beside an answer that map names": ({"said": "r"}, {"answer": "said"}, "metadata"),
}


@pytest.mark.parametrize(("row", "mapping", "meaning"), OUTPUT.values(), ids=OUTPUT.keys())
def test_output_in_a_dataset_without_a_run_is_the_reference(
    row: dict[str, Any], mapping: dict[str, str], meaning: str, write: Write
) -> None:
    dataset = load(write("a.json", [{"input": "q", "output": "O", **row}]), mapping=mapping)
    (sample,) = dataset.samples
    found = {
        "truth": sample.ground_truth_answer == ("O",),
        "answer": sample.answer == "O",
        "metadata": sample.metadata.get("output") == "O",
    }
    assert [name for name, is_it in found.items() if is_it] == [meaning]
    guessed = meaning == "truth" and not mapping
    assert any("--map answer=output" in text for text in dataset.warnings) == guessed


def test_a_native_name_wins_and_the_other_column_is_kept_as_metadata(write: Write) -> None:
    dataset = load(write("a.json", [{"query_id": "a", "id": "b", "query": "q", "question": "Q"}]))
    (sample,) = dataset.samples
    assert (sample.query_id, sample.query, sample.metadata) == ("a", "q", {"id": "b", "question": "Q"})
    assert dataset.warnings == (
        "id is kept as metadata, since query_id is read from query_id",
        "question is kept as metadata, since query is read from query",
    )


def test_a_native_name_without_a_value_does_not_win(write: Write) -> None:
    dataset = load(write("a.csv", "query,answer,response\nq,,r\n"))
    assert dataset.samples[0].answer == "r"
    assert dataset.mapped["answer"] == "response"


def test_two_names_of_other_tools_that_agree_are_one_column(write: Write) -> None:
    dataset = load(write("a.json", [{"question": "q"}, {"input": "r"}, {"question": "s", "input": "s"}]))
    assert [sample.query for sample in dataset.samples] == ["q", "r", "s"]
    assert dataset.mapped["query"] == "question or input"
    assert dataset.kept == ()


def test_two_places_of_a_native_name_must_agree(write: Write) -> None:
    rows = [{**Q, "answer": "a", "response": {"answer": "b"}}]
    with pytest.raises(BadData, match=r"a\.json: row 1: answer: the columns answer and response\.answer differ here"):
        load(write("a.json", rows))


def test_map_decides_between_two_names(write: Write) -> None:
    row = {"question": "q", "response": "r", "outputs": "s"}
    with pytest.raises(BadData, match="--map answer=response or --map answer=outputs decides"):
        load(write("a.json", [row]))
    sample = only(write("a.json", [row]), mapping={"answer": "outputs"})
    assert sample.answer == "s"
    assert sample.metadata == {"response": "r"}


def test_map_reaches_into_objects_and_lists(write: Write) -> None:
    row = {
        "payload": {"ask": {"text": "q"}, "user": "u"},
        "hits": [{"id": "d", "body": {"text": "c"}}, {"id": "e", "body": {"text": "f"}}],
    }
    mapping = {"query": "payload.ask.text", "contexts": "hits[].body.text", "retrieved_doc_ids": "hits.id"}
    sample = only(write("a.json", [row]), mapping=mapping)
    assert (sample.query, sample.contexts, sample.retrieved_doc_ids) == ("q", ("c", "f"), ("d", "e"))
    assert sample.metadata == {"payload.user": "u"}


def test_a_list_in_which_an_entry_lacks_what_map_asks_for_is_a_bad_row(write: Write) -> None:
    path = write("a.json", [{**Q, "hits": [{"id": "d"}, {}]}, {**Q, "hits": [{"x": 1}]}])
    with pytest.raises(BadData) as caught:
        load(path, mapping={"retrieved_doc_ids": "hits.id"})
    assert caught.value.problems == ("a.json: row 1: retrieved_doc_ids[1] (column hits.id): should be text, is null",)


def test_a_mapped_column_is_nothing_else(write: Write) -> None:
    sample = only(write("a.json", [{**Q, "reference": "x"}]), mapping={"answer": "reference"})
    assert sample.answer == "x"
    assert sample.ground_truth_answer == ()


def test_map_takes_the_metadata_from_elsewhere(write: Write) -> None:
    sample = only(write("a.json", [{**Q, "extra": {"team": "a"}}]), mapping={"metadata": "extra"})
    assert sample.metadata == {"team": "a"}


def test_map_takes_completion_time_as_it_is(write: Write) -> None:
    rows = [{**Q, "completion_time": 1500}]
    assert load(write("a.json", rows)).warnings == (
        "completion_time is read as seconds, as DeepEval gives it; if it is in ms: --map latency_ms=completion_time",
    )
    mapped = load(write("a.json", rows), mapping={"latency_ms": "completion_time"})
    assert mapped.samples[0].response is not None
    assert mapped.samples[0].response.latency_ms == 1500.0
    assert mapped.warnings == ()


def test_unknown_columns_are_kept_as_metadata(write: Write) -> None:
    rows = [
        {"inputs": {"question": "q", "user": "u"}, "metadata": {"a": 1, "none": None}, "team": {"x": [1, None]}},
        {"inputs": {"question": "r"}, "expectations": {"guidelines": ["g"], "expected_facts": ["f"]}, "gone": None},
        {"inputs": "odd", "vars": {"question": "s"}},
    ]
    dataset = load(write("a.json", rows))
    first, second, third = dataset.samples
    assert first.metadata == {"a": 1, "team": {"x": [1, None]}, "inputs.user": "u"}
    assert second.metadata == {"expectations.guidelines": ["g"]}
    assert third.metadata == {"inputs": "odd"}
    assert dataset.kept == ("inputs.user", "team", "expectations.guidelines", "inputs")


def test_metadata_that_became_a_field_is_not_there_twice(write: Write) -> None:
    sample = only(write("a.json", [{**Q, "metadata": {"category": "factual", "team": "a"}, "team": "a"}]))
    assert sample.category == "factual"
    assert sample.metadata == {"team": "a"}


def test_a_name_that_comes_close_to_ours_is_named_in_a_warning(write: Write) -> None:
    dataset = load(write("a.json", [{**Q, "relevent_doc_ids": ["d"], "Ground Truth": "t", "zebra": 1, "anwser": "r"}]))
    assert dataset.warnings == (
        "relevent_doc_ids is kept as metadata; did you mean relevant_doc_ids? "
        "--map relevant_doc_ids=relevent_doc_ids",
        "Ground Truth is kept as metadata; did you mean ground_truth_answer? "
        "--map ground_truth_answer=Ground Truth",
        "anwser is kept as metadata; did you mean answer? --map answer=anwser",
    )
    assert dataset.kept == ("relevent_doc_ids", "Ground Truth", "zebra", "anwser")


def test_a_misspelt_twin_of_a_column_that_is_there_is_no_warning(write: Write) -> None:
    assert load(write("a.json", [{**Q, "qurey": "x"}])).warnings == ()


@pytest.mark.parametrize(
    ("name", "meant"), [("qurey", "query"), ("Relevant Doc IDs", "relevant_doc_ids"), ("User-Input", "query"), ("zebra", None)]
)
def test_spelling_case_and_punctuation_are_forgiven_in_a_suggestion(name: str, meant: str | None) -> None:
    assert near(name) == meant


def test_what_stands_in_context_objects_beside_the_text_is_pointed_out(write: Write) -> None:
    rows = [{**Q, "contexts": [{"content": "c", "doc_uri": "d", "score": 1}, "plain"]}]
    dataset = load(write("a.json", rows))
    assert dataset.samples[0].contexts == ("c", "plain")
    assert dataset.warnings == (
        "contexts are objects, of which only the text is read and not doc_uri, score; "
        "--map retrieved_doc_ids=contexts.KEY takes ids from there",
    )


def test_what_was_mapped_can_be_printed(write: Write) -> None:
    rows = [{"user_input": "q", "response": "r", "retrieved_contexts": None, "reference": "t"}]
    assert load(write("a.json", rows)).mapped == {
        "query": "user_input",
        "ground_truth_answer": "reference",
        "answer": "response",
        "contexts": "retrieved_contexts",
    }


def test_ids_are_compared_as_text(write: Write) -> None:
    rows = [{"query_id": 7, "query": "q", "relevant_doc_ids": [1], "retrieved_doc_ids": ["1"], "primary_relevant": 1}]
    sample = only(write("a.json", rows))
    assert (sample.query_id, sample.relevant_doc_ids, sample.retrieved_doc_ids) == ("7", ("1",), ("1",))
    assert sample.primary_relevant == "1"
