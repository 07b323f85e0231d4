"""The same rows are the same dataset, whatever file they come in, and reading them does not fill the memory."""

import csv
import json
import tracemalloc
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragassay.core.errors import BadData
from ragassay.core.models import Sample
from ragassay.datasets.dataset import canonical
from ragassay.datasets.load import load

ROWS = [
    {
        "query_id": "007", "query": 'Where is "Paris", exactly?\nTell me.', "ground_truth_answer": ["In France", "Europe"],
        "key_facts": ["it is in France"], "relevant_doc_ids": ["d1", "d|2", "d,3"], "relevance_scores": {"d1": 3, "d|2": 0.5},
        "category": "factual", "difficulty": "easy", "answerable": True, "metadata": {"team": "a", "n": {"deep": [1, 2]}},
        "answer": "12", "contexts": ["Paris lies on the Seine.", "A | B, [1]"], "retrieved_doc_ids": ["d1", "d9"],
        "retrieved_scores": [0.75, 0.5], "latency_ms": 12, "cost_usd": 0.001, "input_tokens": 90,
    },
    {"query": "Was ist ein Übergang – 渡り? 🙂", "ground_truth_answer": ["x"], "relevant_doc_ids": [], "latency_ms": 0.5},
]  # fmt: skip
RESPONSE = ("answer", "contexts", "retrieved_doc_ids", "retrieved_scores", "latency_ms", "cost_usd", "input_tokens")


@pytest.mark.parametrize("extension", ["json", "jsonl", "csv", "tsv", "parquet"])
def test_load_of_each_format_gives_the_same_samples_and_digest(extension, tmp_path, save):
    dataset = load(save(ROWS, tmp_path / f"rows.{extension}"))
    expected = []
    for n, row in enumerate(ROWS):
        response = {name: row[name] for name in RESPONSE if name in row}
        rest = {name: value for name, value in row.items() if name not in response}
        expected.append(Sample.model_validate({"query_id": f"q_{n}", **rest, "response": response}))
    assert (dataset.name, dataset.samples) == ("rows", tuple(expected))
    assert dataset.digest == load(save(ROWS, tmp_path / "reference.json")).digest


ASKED = [{"query_id": "a", "query": "Why?", "ground_truth": "So."}, {"query_id": "b", "query": "Who?"}]


@pytest.mark.parametrize(
    ("rows", "same"),
    [
        (ASKED[::-1], True),
        ([{**row, "answer": "No.", "latency_ms": 1, "trace": 17} for row in ASKED], True),
        ([{key: value for key, value in row.items() if key != "query_id"} for row in ASKED], True),
        (ASKED[:1], False),
        ([ASKED[0], {**ASKED[1], "ground_truth": "I."}], False),
        ([ASKED[0], {**ASKED[1], "relevant_doc_ids": ["d"]}], False),
    ],
)
def test_digest_is_of_questions_truths_and_labels_not_of_answers_ids_or_order(write, rows, same):
    assert (load(write("a.json", ASKED)).digest == load(write("b.json", {"examples": rows})).digest) is same


def test_load_a_document_with_its_name_description_and_metadata(write):
    content = {"name": "N", "description": "D", "metadata": {"a": 1}, "version": 2, "queries": [{"query": "q"}]}
    dataset = load(write("a.json", content))
    assert (dataset.name, dataset.description, dataset.metadata) == ("N", "D", {"version": 2, "a": 1})
    assert len(load(write("c.json", {"results": [{"query": "q"}], "page": 1})).samples) == 1
    dataset = load(write("b.json", {"data": ["a list"], "queries": [{"query": "q"}]}))
    assert (len(dataset.samples), dataset.metadata) == (1, {"data": ["a list"]})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", '[{"query": "q"}]'),
        ("a.jsonl", '{"query": "q"}\r\n\r\n{"query": "r"}\r\n'),
        ("a.csv", 'query,answer\r\nq,"two\r\nlines"\r\n\r\n'),
        ("a.tsv", "query\tanswer\r\nq\tr\r\n"),
    ],
)
def test_load_text_with_a_byte_order_mark_and_line_ends_of_windows(write, name, content):
    first = load(write(name, b"\xef\xbb\xbf" + content.encode())).samples[0]
    assert (first.query, first.answer) == ("q", {"a.csv": "two\r\nlines", "a.tsv": "r"}.get(name))


@pytest.mark.parametrize(
    ("column", "cell", "field", "value"),
    [
        ("relevant_doc_ids", '["a", "b"]', "relevant_doc_ids", ("a", "b")),
        ("relevant_doc_ids", "['a', 'b']", "relevant_doc_ids", ("a", "b")),
        ("relevant_doc_ids", "a|b", "relevant_doc_ids", ("a", "b")),
        ("relevant_doc_ids", "", "relevant_doc_ids", None),
        ("qrels", "{'a': 2, 'b': None}", "relevance_scores", {"a": 2.0}),
        ("contexts", '["one, two", "three"]', "contexts", ("one, two", "three")),
        ("contexts", "[\n 'one',  # as printed\n 'two']", "contexts", ("one", "two")),
        ("contexts", "| a | b |\n|---|---|\n| 1 | 2 |", "contexts", ("| a | b |\n|---|---|\n| 1 | 2 |",)),
        ("ground_truth_answer", "Use `ps | grep x`", "ground_truth_answer", ("Use `ps | grep x`",)),
        ("answer", " a, b|c ", "answer", " a, b|c "),
        ("latency_ms", " 1.5 ", "latency_ms", 1.5),
        ("answerable", "True", "answerable", True),
        ("subtopics", '{"d": ["s"]}', "subtopics", {"d": ("s",)}),
        ("inputs", "{'user': 'u'}", "metadata", {"inputs": {"user": "u"}}),
        ("inputs", "{broken", "metadata", {"inputs": "{broken"}),
    ],
)
def test_load_a_cell_is_read_by_what_its_column_needs(column, cell, field, value, write):
    path = write("a.csv", "")
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["query", column], ["q", cell]])
    (sample,) = load(path).samples
    assert getattr(sample.response if field in ("latency_ms", "cost_usd") else sample, field) == value


def test_load_a_cell_may_be_long(write):
    long = "x" * 300_000  # above the csv module's own limit of 131,072
    assert load(write("a.csv", f"query,answer\nq,{long}\n")).samples[0].answer == long


def test_load_csv_that_deepeval_saved_has_its_contexts_joined_by_bars(write):
    header = "input,actual_output,expected_output,retrieval_context,context,source_file"
    bars = load(write("a.csv", f"{header}\nq,r,t,a b|c,g|h,x.md\n")).samples[0]
    assert (bars.contexts, bars.reference_contexts) == (("a b", "c"), ("g", "h"))
    listed = load(write("a.csv", f"{header}\nq,r,t,\"['a|b', 'c']\",g,x.md\n")).samples[0]
    assert listed.contexts == ("a|b", "c")
    table = load(write("a.csv", "question,response,retrieved_contexts\nq,r,| a | b |\n")).samples[0]
    assert table.contexts == ("| a | b |",)


def test_load_typed_values_of_parquet_become_what_json_has(tmp_path):
    moment = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    table = pa.table(
        {
            "query": pa.array([b"q"], pa.binary()),
            "relevance_scores": pa.array([[("d", 2.0)]], pa.map_(pa.string(), pa.float64())),
            "cost_usd": pa.array([Decimal("0.50")]),
            "when": pa.array([moment]),
            "day": pa.array([date(2024, 1, 2)]),
            "rank": pa.array([Decimal("3")]),
            "labels": pa.array([{"a": 1, "b": None}]),
            "nothing": pa.array([None], pa.string()),
            "response": pa.array([{"answer": "r", "contexts": ["c"]}]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    (sample,) = load(tmp_path / "a.parquet").samples
    assert (sample.query, sample.relevance_scores, sample.labels, sample.answer) == ("q", {"d": 2.0}, {"a": 1}, "r")
    assert sample.response.cost_usd == 0.5
    assert sample.metadata == {"when": moment.isoformat(), "day": "2024-01-02", "rank": 3}


def test_load_a_limit_keeps_the_first_rows_and_the_ids_of_the_others(write):
    lines = ['{"id": 0, "query": "a"}', '{"query": "b"}', '{"id": 5, "query": "c"}', '{"query": null}']
    dataset = load(write("a.jsonl", "\n".join(lines)), limit=2)
    assert [sample.query_id for sample in dataset.samples] == ["0", "q_1"]
    assert dataset.limited


def test_load_drops_repeated_documents_with_their_scores_if_asked(write):
    rows = [
        {"query": "a", "retrieved_doc_ids": ["d", 1, "d", "1", "e"], "retrieved_scores": [5, 4, 3, 2, 1]},
        {"query": "b", "retrieved_doc_ids": ["d", "d"], "contexts": ["x", "y"]},
    ]
    dataset = load(write("a.json", rows), duplicates="keep_first")
    first, second = (sample.response for sample in dataset.samples)
    assert (first.retrieved_doc_ids, first.retrieved_scores) == (("d", "1", "e"), (5.0, 4.0, 1.0))
    assert (second.retrieved_doc_ids, second.contexts) == (("d",), ("x", "y"))
    assert dataset.warnings[0].startswith("repeated document ids dropped: 3 in 2 rows")


def test_load_numbers_files_without_ids_through_and_refuses_an_id_of_two_files(write):
    a, b = write("a.jsonl", '{"query": "a"}\n{"query": "b"}\n'), write("b.csv", "question\nc\n")
    assert [(s.query_id, s.query) for s in load([a, b])] == [("q_0", "a"), ("q_1", "b"), ("q_2", "c")]
    again = write("c.jsonl", '{"query_id": "q_1", "query": "d"}\n')
    with pytest.raises(BadData, match=r"c\.jsonl:\d+: query_id: 'q_1' is used already in .*a\.jsonl:\d+"):
        load([a, again])


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_load_memory_does_not_grow_with_the_file(name, save, tmp_path):
    """5,000 rows of 10 KB each are 50 MB; loading and reading them again stays below 30 MB."""
    path = save([{"query": f"{n} " + "x" * 10_000, "category": str(n % 3)} for n in range(5_000)], tmp_path / name)
    load([{"query": "what is imported at first use is not counted"}])
    tracemalloc.start()
    try:
        assert sum(1 for _ in load(path)) == 5_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30_000_000


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30)
IDS = st.lists(TEXT, max_size=4, unique=True)
NUMBERS = st.just(0.0) | st.floats(1e-60, 1000, allow_nan=False)
PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(TEXT, inner, min_size=1, max_size=3),
    max_leaves=6,
)
FIELDS = {
    "ground_truth_answer": st.lists(TEXT, min_size=1, max_size=3),
    "key_facts": st.lists(TEXT, min_size=1, max_size=3),
    "relevant_doc_ids": IDS,
    "relevance_scores": st.dictionaries(TEXT, NUMBERS, min_size=1, max_size=4),
    "answerable": st.booleans(),
    "description": TEXT,
    "answer": TEXT,
    "contexts": st.lists(TEXT, max_size=3),
    "input_tokens": st.integers(0, 10**12),
    "latency_ms": NUMBERS,
    "metadata": st.dictionaries(TEXT, PLAIN, min_size=1, max_size=3),
}
SCORED = st.lists(st.tuples(TEXT, NUMBERS), max_size=4, unique_by=lambda pair: pair[0])


@st.composite
def samples(draw):
    made = []
    for n in range(draw(st.integers(1, 4))):
        row = draw(st.fixed_dictionaries({"query": TEXT.filter(str.strip)}, optional=FIELDS)) | {"query_id": f"id {n}"}
        if scored := draw(st.none() | SCORED):
            row |= {"retrieved_doc_ids": [i for i, _ in scored], "retrieved_scores": [score for _, score in scored]}
        made.append(row)
    return made


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=samples())
def test_load_reads_back_what_is_written(rows, tmp_path, save):
    digests = set()
    for extension in ("json", "jsonl", "csv", "tsv"):
        dataset = load(save(rows, Path(tmp_path) / f"a.{extension}"))
        for sample, row in zip(dataset.samples, rows, strict=True):
            back = json.loads(json.dumps(canonical(sample)))
            assert back | back.pop("response", {}) == row
        digests.add(dataset.digest)
    assert len(digests) == 1
