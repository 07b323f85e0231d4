"""The quickstart dataset: its rows are valid, and its judgments agree with its texts."""

import json
import re
from pathlib import Path

import pytest

from ragassay.models import Response, Sample

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "datasets" / "quickstart"
SYSTEMS = ("baseline", "candidate")
PRICES = {"gpt-4o-mini": (0.15e-6, 0.60e-6), "gpt-4.1-mini": (0.40e-6, 1.60e-6)}


def rows(name):
    return [json.loads(line) for line in (HOME / name).read_text(encoding="utf-8").splitlines()]


QUERIES = {row["query_id"]: row for row in rows("queries.jsonl")}
CORPUS = {row["id"]: row for row in rows("corpus.jsonl")}
RESPONSES = {name: {row["query_id"]: row for row in rows(f"responses/{name}.jsonl")} for name in SYSTEMS}
ANSWERABLE = [row for row in QUERIES.values() if row["answerable"]]


def numbers(text):
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def test_every_query_is_a_sample_and_every_response_a_response():
    samples = [Sample.model_validate(row) for row in QUERIES.values()]
    assert len(samples) == 30
    for name in SYSTEMS:
        assert list(RESPONSES[name]) == list(QUERIES)
        for row in RESPONSES[name].values():
            given = {key: value for key, value in row.items() if key != "query_id"}
            assert None not in Response.model_validate(given).model_dump(include=set(given)).values()


def test_the_corpus_holds_the_pages_and_nothing_else():
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (HOME / "documents").glob("*.md")}
    sections = sum(page.count("\n## ") for page in pages.values())
    assert (len(pages), sections, len(CORPUS)) == (12, 66, 66)
    for id_, row in CORPUS.items():
        assert row.keys() == {"id", "title", "text"}
        plain = " ".join(re.sub(r"^\d+\. ", "", pages[id_.rpartition("-")[0]], flags=re.MULTILINE).split())
        assert row["text"] in plain
        assert 60 <= len(row["text"].split()) <= 130


def test_judgments_name_chunks_that_exist_and_agree_with_each_other():
    for row in QUERIES.values():
        grades = row["relevance_scores"]
        assert grades.keys() <= CORPUS.keys()
        assert set(grades.values()) <= {0, 1, 2, 3}
        relevant = row["relevant_doc_ids"]
        assert set(relevant) == {id_ for id_, grade in grades.items() if grade > 0}
        assert [grades[id_] for id_ in relevant] == sorted((grades[id_] for id_ in relevant), reverse=True)
        assert 0 in grades.values()


def test_an_answerable_query_has_a_primary_chunk_of_grade_three_and_two_to_four_facts():
    for row in ANSWERABLE:
        assert row["primary_relevant"] == row["relevant_doc_ids"][0]
        assert row["relevance_scores"][row["primary_relevant"]] == 3
        assert 2 <= len(row["key_facts"]) <= 4


def test_an_unanswerable_query_has_nothing_relevant_and_a_ground_truth_that_says_so():
    unanswerable = [row for row in QUERIES.values() if not row["answerable"]]
    assert [row["query_id"] for row in unanswerable] == ["qs-09", "qs-26", "qs-29"]
    for row in unanswerable:
        assert (row["relevant_doc_ids"], row["key_facts"]) == ([], [])
        assert "primary_relevant" not in row
        assert row["ground_truth_answer"].startswith("The handbook does not ")


def test_the_numbers_of_every_fact_and_ground_truth_stand_in_a_chunk_that_is_judged_to_state_them():
    for row in ANSWERABLE:
        best = [CORPUS[id_]["text"] for id_, grade in row["relevance_scores"].items() if grade == 3]
        for fact in row["key_facts"]:
            assert any(numbers(fact) <= numbers(text) for text in best), fact
        assert numbers(row["ground_truth_answer"]) <= set().union(*map(numbers, best))


def test_every_retrieved_chunk_is_judged():
    for name in SYSTEMS:
        for id_, row in RESPONSES[name].items():
            assert set(row["retrieved_doc_ids"]) <= QUERIES[id_]["relevance_scores"].keys()


def test_no_python_in_datasets():
    assert not list((ROOT / "datasets").rglob("*.py"))


def test_cost_is_tokens_times_the_named_price():
    for name in SYSTEMS:
        for row in RESPONSES[name].values():
            into, out = PRICES[row["metadata"]["priced_as"]]
            assert row["cost_usd"] == pytest.approx(row["input_tokens"] * into + row["output_tokens"] * out, abs=1e-9)
            assert row["output_tokens"] == -(-len(row["answer"]) // 4)  # rounded up
