"""A description says what is in a dataset, what is missing, what looks wrong, and which questions read alike."""

import pytest

from ragassay.datasets.describe import Range, describe, normalised, similar_groups
from ragassay.datasets.load import load

ROWS = [
    {"id": "a", "query": "What is  ONE?", "reference": ["one two", "three"], "category": "factual", "difficulty": "easy",
     "relevance_scores": {"d1": 2, "d2": 1, "d3": 0}, "answer": "a b c", "contexts": ["x y", "z"],
     "retrieved_doc_ids": ["d1", "d9"], "anwser": 1},
    {"id": "b", "query": "what is one?", "category": "factual", "relevant_doc_ids": ["d1"], "answer": "d",
     "retrieved_doc_ids": []},
    {"id": "c", "query": "Why?", "category": "conceptual", "metadata": {"team": "x"}},
]  # fmt: skip


def test_describe_counts_tables_lengths_and_repeated_queries(write):
    described = describe(load(write("a.json", {"name": "N", "description": "D", "examples": ROWS})))
    assert (described.name, described.path, described.description) == ("N", "a.json", "D")
    assert (described.rows, described.responses, described.kept_as_metadata) == (3, 2, ("anwser",))
    assert described.mapped["query_id"] == "id"
    assert described.fields == {
        "query_id": 3, "query": 3, "ground_truth_answer": 1, "relevant_doc_ids": 1, "relevance_scores": 1,
        "category": 3, "difficulty": 1, "answer": 2, "contexts": 1, "retrieved_doc_ids": 2, "metadata": 2,
    }  # fmt: skip
    assert list(described.categories.items()) == [("factual", 2), ("conceptual", 1)]
    assert described.difficulties == {"easy": 1}
    assert described.relevant_per_query == Range(n=2, mean=1.5, min=1, max=2)  # d1 and d2; d1
    assert described.retrieved_per_query == Range(n=2, mean=1, min=0, max=2)
    assert described.contexts_per_query == Range(n=1, mean=2, min=2, max=2)
    assert described.words == {
        "query": Range(n=3, mean=7 / 3, min=1, max=3),
        "ground_truth_answer": Range(n=2, mean=1.5, min=1, max=2),
        "contexts": Range(n=2, mean=1.5, min=1, max=2),
        "answer": Range(n=2, mean=2, min=1, max=3),
    }
    (repeated,) = described.repeated_queries
    assert (repeated.query, repeated.query_ids) == ("What is  ONE?", ("a", "b"))


def test_describe_says_for_how_many_rows_each_metric_can_be_computed(write):
    def lacks(sample):
        if sample.answer is None:
            return "no answer"
        return None if sample.contexts else "no contexts"

    rows = load(write("a.json", ROWS))
    faithfulness, always = describe(rows, {"faithfulness": lacks, "always": lambda sample: None}).metrics
    assert (faithfulness.metric, faithfulness.rows) == ("faithfulness", 1)
    assert faithfulness.lacking == {"no contexts": 1, "no answer": 1}
    assert (always.rows, always.lacking) == (3, {})


SOUND = {"relevant_doc_ids": ["d"], "primary_relevant": "d", "retrieved_doc_ids": ["d"]}


@pytest.mark.parametrize(
    ("rows", "warnings"),
    [
        ([SOUND], ()),
        ([{"relevant_doc_ids": []}, SOUND], ("1 of 2 rows have judgments that name no relevant document; ",)),
        ([{"answer": " "}] * 4, ("4 of 4 rows have an empty answer: q_0, q_1, q_2 and q_3",)),
        ([{**SOUND, "retrieved_doc_ids": ["1"]}], ("in none of 1 rows is a retrieved document a judged one; ",)),
    ],
)
def test_describe_warns_of_what_is_not_likely_to_be_meant(rows, warnings, write):
    described = describe(load(write("a.json", [{"query": str(n), **row} for n, row in enumerate(rows)])))
    found = [warning.startswith(start) for warning, start in zip(described.warnings, warnings, strict=True)]
    assert all(found), described.warnings


def test_similar_groups_compares_by_the_jaccard_index():
    # abcd; bcde, bcdf: 1 of 3
    assert (similar_groups(["abcde", "abcdf"], 1 / 3), similar_groups([], 0.7)) == ([[0, 1]], [])
    assert similar_groups(["abcde", "abcdf"], 0.34) == []
    texts = [normalised(text) for text in ("What is the capital of France?", "What is the capital of Spain?", "", "?")]
    assert similar_groups(texts, 0.7) == [[2, 3]]  # no word is left of either
