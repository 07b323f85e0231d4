"""The handbook corpus keeps what its card and its guideline promise."""

import json
import re
from collections import Counter
from pathlib import Path

from ragassay.datasets.load import load

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "datasets" / "handbook"
CORPUS = {row["id"]: row for row in map(json.loads, (HOME / "corpus.jsonl").read_text(encoding="utf-8").splitlines())}
SAMPLES = load(HOME / "queries.json").samples


def numbers(text):
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def test_there_are_the_documents_and_chunks_that_were_promised():
    pages = {page.name for page in (HOME / "documents").glob("*.md")}
    assert len(pages) >= 20
    assert len(CORPUS) >= 150
    needed = ("auth-guide", "api-reference", "deployment-guide", "database-schema", "performance-tuning")
    assert {f"{name}.md" for name in needed} <= pages
    assert {row["document"] for row in CORPUS.values()} == pages


def test_there_are_fifty_queries_in_the_promised_proportions():
    assert [s.query_id for s in SAMPLES] == [f"Q{n:03d}" for n in range(1, 51)]
    categories = {"factual": 15, "conceptual": 12, "procedural": 10, "comparative": 8, "troubleshooting": 5}
    assert Counter(s.category for s in SAMPLES) == categories
    assert Counter(s.difficulty for s in SAMPLES) == {"easy": 20, "medium": 20, "hard": 10}


def test_every_judged_chunk_exists_and_has_a_grade_from_zero_to_three():
    for sample in SAMPLES:
        assert sample.relevance_scores.keys() <= CORPUS.keys(), sample.query_id
        assert set(sample.relevance_scores.values()) <= {0, 1, 2, 3}
        assert 0 in sample.relevance_scores.values(), "no near miss is recorded"


def test_numbers_of_answers_and_key_facts_stand_in_chunks_that_are_judged_to_state_them():
    for sample in SAMPLES:
        stating = [CORPUS[id_]["text"] for id_, grade in sample.relevance_scores.items() if grade >= 2]
        told = set().union(*map(numbers, stating))
        for claim in (*sample.ground_truth_answer, *sample.key_facts):
            assert numbers(claim) <= told, (sample.query_id, claim, numbers(claim) - told)
