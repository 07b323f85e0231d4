"""Where a name has two meanings the other columns decide, or ``--map`` does; what nobody knows becomes metadata."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragassay.core.errors import BadData
from ragassay.core.models import Sample
from ragassay.datasets.load import load

Write = Callable[[str, Any], Path]

Q = {"query": "Where is Paris?"}


def only(path: Path, **options: Any) -> Sample:
    (sample,) = load(path, **options).samples
    return sample


GOLD_OR_RETRIEVED: dict[str, tuple[dict[str, Any], str]] = {
    "DeepEval test case": ({"input": "q", "actual_output": "r"}, "gold"),
    "DeepEval export with nulls": ({"input": "q", "actual_output": None, "retrieval_context": None}, "gold"),
    "LangChain with a result": ({"question": "q", "answer": "r"}, "retrieved"),
    "RAGAS with a response": ({"user_input": "q", "response": "r", "reference": "t"}, "retrieved"),
    "beside document ids": ({"query": "q", "retrieved_doc_ids": ["d"]}, "retrieved"),
    "beside gold and retrieved": ({"query": "q", "reference_contexts": ["x"], "contexts": ["y"]}, "kept"),
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


OUTPUT: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "alone": ({}, {}, "truth"),
    "beside a reference": ({"reference": "t"}, {}, "answer"),
    "beside a latency": ({"latency_ms": 3}, {}, "answer"),
    "beside a native answer": ({"answer": "r"}, {}, "metadata"),
    "mapped to the truth beside a run": ({"latency_ms": 3}, {"ground_truth_answer": "output"}, "truth"),
    "beside a truth that map names": ({"gold": "t"}, {"ground_truth_answer": "gold"}, "answer"),
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


def test_map_decides_between_two_names(write: Write) -> None:
    row = {"question": "q", "response": "r", "outputs": "s"}
    dataset = load(write("a.json", [row]))
    assert (dataset.samples[0].answer, dataset.samples[0].metadata) == ("r", {"outputs": "s"})
    assert dataset.warnings == ("outputs is kept as metadata, since answer is read from response",)
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


def test_map_takes_completion_time_as_it_is(write: Write) -> None:
    rows = [{**Q, "completion_time": 1500}]
    assert load(write("a.json", rows)).warnings == (
        "completion_time is read as seconds, as DeepEval gives it; if it is in ms: --map latency_ms=completion_time",
    )
    mapped = load(write("a.json", rows), mapping={"latency_ms": "completion_time"})
    assert mapped.samples[0].response is not None
    assert mapped.samples[0].response.latency_ms == 1500.0
    assert mapped.warnings == ()


def test_a_nested_response_in_which_nothing_is_known_is_pointed_out(write: Write) -> None:
    path = write("a.json", [{**Q, "response": {"text": "r"}}])
    dataset = load(path)
    assert dataset.kept == ("response.text",)
    assert dataset.warnings == ("response is an object of which no entry is known; --map answer=response.KEY names it",)
    assert only(path, mapping={"answer": "response.text"}).answer == "r"


def test_unknown_columns_are_kept_as_metadata(write: Write) -> None:
    rows = [
        {"inputs": {"question": "q", "user": "u"}, "metadata": {"a": 1, "none": None}, "team": {"x": [1, None]}},
        {"inputs": {"question": "r"}, "expectations": {"guidelines": ["g"], "expected_facts": ["f"]}, "gone": None},
        {"inputs": {"question": "s"}, "vars": "odd"},
    ]
    dataset = load(write("a.json", rows))
    first, second, third = dataset.samples
    assert first.metadata == {"a": 1, "team": {"x": [1, None]}, "inputs.user": "u"}
    assert second.metadata == {"expectations.guidelines": ["g"]}
    assert third.metadata == {"vars": "odd"}
    assert dataset.kept == ("inputs.user", "team", "expectations.guidelines", "vars")


def test_a_name_that_comes_close_to_ours_is_named_in_a_warning(write: Write) -> None:
    dataset = load(write("a.json", [{**Q, "relevent_doc_ids": ["d"], "Ground Truth": "t", "zebra": 1, "anwser": "r"}]))
    assert dataset.warnings == tuple(
        f"{theirs} is kept as metadata; did you mean {ours}? --map {ours}={theirs}"
        for theirs, ours in (
            ("relevent_doc_ids", "relevant_doc_ids"),
            ("Ground Truth", "ground_truth_answer"),
            ("anwser", "answer"),
        )
    )
    assert dataset.kept == ("relevent_doc_ids", "Ground Truth", "zebra", "anwser")
