"""The handbook corpus keeps what its card and its guideline promise."""

import json
import random
import re
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest

from ragassay.data.load import load

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "datasets" / "handbook"
CORPUS = {row["id"]: row for row in map(json.loads, (HOME / "corpus.jsonl").read_text(encoding="utf-8").splitlines())}
SAMPLES = load(HOME / "queries.json").samples
RELEVANT = {s.query_id: {id_ for id_, grade in s.relevance_scores.items() if grade > 0} for s in SAMPLES}


def numbers(text):
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def words(text):
    return set(re.findall(r"[a-z]{4,}", text.lower()))


def test_there_are_the_documents_and_chunks_that_were_promised():
    pages = {page.name for page in (HOME / "documents").glob("*.md")}
    assert len(pages) >= 20
    assert len(CORPUS) >= 150
    needed = ("auth-guide", "api-reference", "deployment-guide", "database-schema", "performance-tuning")
    assert {f"{name}.md" for name in needed} <= pages
    assert {row["document"] for row in CORPUS.values()} == pages


def test_a_chunk_has_an_id_of_its_document_and_fifty_to_a_hundred_and_thirty_words():
    for id_, row in CORPUS.items():
        assert row.keys() == {"id", "title", "text", "document"}
        assert re.fullmatch(re.escape(row["document"].removesuffix(".md")) + r"-\d\d", id_)
        assert 50 <= len(row["text"].split()) <= 130, id_


def test_no_two_chunks_share_a_text_a_title_or_a_long_sentence():
    for field in ("text", "title"):
        assert len({row[field] for row in CORPUS.values()}) == len(CORPUS)
    sentences = Counter(s for row in CORPUS.values() for s in re.split(r"(?<=[.:;!?]) ", row["text"]) if len(s) > 40)
    assert sentences.most_common(1)[0][1] == 1


def test_no_address_of_a_person_or_a_machine_outside_the_ranges_for_documentation():
    text = "\n".join(row["text"] for row in CORPUS.values())
    assert not re.search(r"\S@\S+\.\w", text)
    assert {host.rpartition(".")[2] for host in re.findall(r"https?://([\w.]+)", text)} == {"example", "localhost"}
    blocks = ("192.0.2.", "198.51.100.", "203.0.113.")
    assert all(ip.startswith(blocks) for ip in re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text))


def test_there_are_fifty_queries_in_the_promised_proportions():
    assert [s.query_id for s in SAMPLES] == [f"Q{n:03d}" for n in range(1, 51)]
    categories = {"factual": 15, "conceptual": 12, "procedural": 10, "comparative": 8, "troubleshooting": 5}
    assert Counter(s.category for s in SAMPLES) == categories
    assert Counter(s.difficulty for s in SAMPLES) == {"easy": 20, "medium": 20, "hard": 10}


def test_every_query_has_all_that_it_needs_and_the_loader_keeps_nothing_aside():
    for sample in SAMPLES:
        assert sample.description.endswith(".")
        assert len(sample.ground_truth_answer) == 1
        assert 2 <= len(sample.key_facts) <= 4
        assert sample.metadata == {}
    assert len({s.query for s in SAMPLES}) == 50


def test_hard_queries_use_fewer_words_of_the_text_that_answers_them_than_easy_ones():
    def shared(sample):
        row = CORPUS[sample.primary_relevant]
        asked = words(sample.query)
        return len(asked & words(f"{row['title']} {row['text']}")) / len(asked)

    by_difficulty = {d: fmean(shared(s) for s in SAMPLES if s.difficulty == d) for d in ("easy", "medium", "hard")}
    assert by_difficulty["easy"] > by_difficulty["medium"] > by_difficulty["hard"]


def test_every_judged_chunk_exists_and_has_a_grade_from_zero_to_three():
    for sample in SAMPLES:
        assert sample.relevance_scores.keys() <= CORPUS.keys(), sample.query_id
        assert set(sample.relevance_scores.values()) <= {0, 1, 2, 3}
        assert 0 in sample.relevance_scores.values(), "no near miss is recorded"


def test_the_primary_chunk_is_one_and_has_the_highest_grade():
    for sample in SAMPLES:
        assert sample.relevance_scores[sample.primary_relevant] == max(sample.relevance_scores.values()) == 3


def test_each_query_has_enough_relevant_chunks_and_none_has_too_many():
    assert min(map(len, RELEVANT.values())) >= 2
    assert max(map(len, RELEVANT.values())) <= 0.05 * len(CORPUS)
    assert fmean(min(len(relevant), 5) for relevant in RELEVANT.values()) >= 4.5


def test_relevance_from_grade_two_leaves_every_query_something():
    assert all(any(grade >= 2 for grade in sample.relevance_scores.values()) for sample in SAMPLES)


def test_a_random_ranking_scores_a_precision_at_5_of_at_most_a_tenth():
    # Each of the 5 places holds a relevant chunk with probability |G| / N, so the expectation is their mean.
    expected = fmean(len(relevant) / len(CORPUS) for relevant in RELEVANT.values())
    assert expected <= 0.10
    shuffled, ids = random.Random(7), list(CORPUS)
    runs = [fmean(len(r & set(shuffled.sample(ids, 5))) / 5 for r in RELEVANT.values()) for _ in range(200)]
    assert fmean(runs) == pytest.approx(expected, abs=0.003)  # the standard error is about 0.0007


def test_numbers_of_answers_and_key_facts_stand_in_chunks_that_are_judged_to_state_them():
    for sample in SAMPLES:
        stating = [CORPUS[id_]["text"] for id_, grade in sample.relevance_scores.items() if grade >= 2]
        told = set().union(*map(numbers, stating))
        for claim in (*sample.ground_truth_answer, *sample.key_facts):
            assert numbers(claim) <= told, (sample.query_id, claim, numbers(claim) - told)


def test_half_the_words_of_every_key_fact_or_more_stand_in_chunks_that_are_judged_to_state_it():
    for sample in SAMPLES:
        stating = [CORPUS[id_] for id_, grade in sample.relevance_scores.items() if grade >= 2]
        told = words(" ".join(f"{row['title']} {row['text']}" for row in stating))
        for fact in sample.key_facts:
            assert 2 * len(words(fact) & told) >= len(words(fact)), (sample.query_id, fact)
