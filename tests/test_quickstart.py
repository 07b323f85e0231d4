"""The quickstart dataset: its rows are valid, and its judgments agree with its texts."""

import json
import re
from pathlib import Path

from ragassay.core.models import Response, Sample

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


def test_judgments_name_chunks_that_exist_and_agree_with_each_other():
    for row in QUERIES.values():
        grades = row["relevance_scores"]
        assert grades.keys() <= CORPUS.keys()
        assert set(grades.values()) <= {0, 1, 2, 3}
        relevant = row["relevant_doc_ids"]
        assert set(relevant) == {id_ for id_, grade in grades.items() if grade > 0}
        assert [grades[id_] for id_ in relevant] == sorted((grades[id_] for id_ in relevant), reverse=True)
        assert 0 in grades.values()


def test_the_numbers_of_every_fact_and_ground_truth_stand_in_a_chunk_that_is_judged_to_state_them():
    for row in ANSWERABLE:
        best = [CORPUS[id_]["text"] for id_, grade in row["relevance_scores"].items() if grade == 3]
        for fact in row["key_facts"]:
            assert any(numbers(fact) <= numbers(text) for text in best), fact
        assert numbers(row["ground_truth_answer"]) <= set().union(*map(numbers, best))


def test_no_python_in_datasets():
    assert not list((ROOT / "datasets").rglob("*.py"))
