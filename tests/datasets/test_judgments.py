"""Judgments apart from the queries: in a file that these name, TREC qrels and runs, and BEIR folders."""

import json

import pytest

from ragassay.core.errors import BadData, BadInput, NotFound
from ragassay.datasets.load import join, load, load_responses

TEXTS = (("Q1", "a"), (2, "b"), ("Q3", "c"), ("Q4", "d"))
QUERIES = {
    "judgments": "grades.json",
    "queries": [{"query_id": query_id, "query": text} for query_id, text in TEXTS],
}
GRADES = {
    "judgments": {
        "2": {"relevance_scores": {"d2": 1, "d3": 0}},
        "Q1": {"relevance_scores": {"d1": 3}, "primary_relevant": "d1"},
        "Q3": {"relevant_doc_ids": ["d4"]},
    }
}


def test_load_joins_the_judgments_of_the_file_that_the_queries_name(write):
    write("grades.json", GRADES)
    dataset = load(write("queries.json", QUERIES))
    assert [sample.judgments for sample in dataset.samples] == [{"d1": 3}, {"d2": 1, "d3": 0}, {"d4": 1}, None]
    rows = [{**row, **GRADES["judgments"].get(str(row["query_id"]), {})} for row in QUERIES["queries"]]
    assert dataset.digest == load(write("whole.json", rows)).digest


LIST = [
    {"query_id": 2, "relevant_chunk_ids": ["d2", "d3"], "primary_relevant": "d2"},
    {"query_id": "Q1", "relevant_chunk_ids": ["d1"], "primary_relevant": "d1"},
]
JUDGED = [({"d1": 1}, "d1"), ({"d2": 1, "d3": 1}, "d2"), (None, None), (None, None)]


@pytest.mark.parametrize("wrapped", [LIST, {"judgments": LIST}], ids=["list", "object"])
def test_load_joins_a_list_of_judgments_in_a_file_in_the_document_and_in_memory(write, wrapped):
    write("grades.json", wrapped)
    inside = {"queries": QUERIES["queries"], "judgments": LIST}
    for data in (write("queries.json", QUERIES), write("inside.json", inside), inside):
        dataset = load(data)
        assert [(sample.judgments, sample.primary_relevant) for sample in dataset.samples] == JUDGED
        assert isinstance(dataset.metadata.get("judgments", ""), str)
    assert inside == {"queries": [{"query_id": i, "query": text} for i, text in TEXTS], "judgments": LIST}


def test_load_joins_judgments_in_memory_by_ids_of_the_same_type():
    data = {"queries": [{"query_id": 7, "query": "a"}], "judgments": {7: {"relevance_scores": {"d1": 1}}}}
    assert [sample.judgments for sample in load(data).samples] == [{"d1": 1}]


@pytest.mark.parametrize("wrapped", [LIST, {"judgments": LIST}], ids=["list", "object"])
def test_load_judgments_alone_are_a_dataset_whose_queries_are_known_by_their_ids(write, wrapped):
    dataset = load(write("judgments.json", wrapped))
    assert [(s.query, s.judgments) for s in dataset.samples] == [("2", {"d2": 1, "d3": 1}), ("Q1", {"d1": 1})]
    assert (dataset.partial, dataset.kept) == (True, ())
    assert "the id of a query stands for its text" in dataset.warnings[0]
    with pytest.raises(BadData, match="query: no column holds it"):  # which may be in the column that is unknown
        load([{**each, "Frage": "Was?"} for each in LIST])


def test_evaluate_a_list_of_judgments(cli, write, tmp_path):
    run = tmp_path / "x.run"
    run.write_text("2 Q0 d9 1 2 t\n2 Q0 d3 2 1 t\nzz Q0 d1 1 1 t\n")  # rank 2, and nothing for Q1
    code, out, err = cli("evaluate", write("j.json", LIST), "--system", f"x={run}", "--metrics", "mrr", "--json")
    assert code == 0, err
    assert json.loads(out)["systems"]["x"]["metrics"]["mrr"]["value"] == 0.25


@pytest.mark.parametrize(
    ("judgments", "line"),
    [
        ([*LIST, LIST[0]], "data: judgments: query '2' is judged twice"),
        ([{"query_id": "Q9"}], "data: judgments: 'Q9' is no query of this file"),
        ([{"relevant_chunk_ids": ["d1"]}], "data: judgments: should be {query_id: {'relevance_scores'"),
        ({"Q1": 3}, "data: judgments: should be {query_id: {'relevance_scores'"),
        ({"Q1": {"query": "x"}}, "data: row 1: query: is given here and in judgments"),
    ],
)
def test_load_a_broken_list_of_judgments_is_one_clear_line(judgments, line):
    with pytest.raises(BadData) as caught:
        load({"queries": QUERIES["queries"], "judgments": judgments})
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    ("name", "grades", "line"),
    [
        ("../grades.json", GRADES, "queries.json: judgments: there is no file '../grades.json' in its folder"),
        ("grades.json", "[", "grades.json:1: column 2: is not valid JSON"),
        ("grades.json", {"judgments": {"Q9": {}}}, "grades.json: 'Q9' is no query of this file"),
        ("grades.json", {"judgments": {"Q1": {"query": "x"}}}, "row 1: query: is given here and in grades.json"),
    ],
)
def test_load_a_broken_file_of_judgments_is_one_clear_line(write, name, grades, line):
    write("grades.json", grades)
    with pytest.raises(BadData) as caught:
        load(write("queries.json", {**QUERIES, "judgments": name}))
    assert line in str(caught.value)


def test_load_numbers_rows_by_their_place_where_one_is_no_object(write):
    write("grades.json", {"judgments": {"q_2": {"query": "x", "relevance_scores": {"d1": 1}}}})
    rows = [{"query": "a"}, 5, {"query": "b"}]
    with pytest.raises(BadData) as caught:
        load(write("queries.json", {"judgments": "grades.json", "queries": rows}))
    problems = ["row 2: should be an object, is the number 5", "row 3: query: is given here and in grades.json"]
    assert [line.split("queries.json: ")[1] for line in caught.value.problems] == problems


# --- TREC ---

QRELS = "301 0 d1 2\n301 0 d2 0\n\n302\t0\td3\t-1\n"
RUN = "301 Q0 d9 1 0.5 tag\n301 Q0 d1 2 1.5 tag\n301 Q0 d0 3 0.5 tag\n303 Q0 d1 1 1 tag\n"


def test_load_qrels_are_a_dataset_whose_queries_are_known_by_their_ids(write):
    dataset = load(write("robust.qrels", QRELS))
    assert [(s.query_id, s.query, s.judgments) for s in dataset.samples] == [
        ("301", "301", {"d1": 2.0, "d2": 0.0}),
        ("302", "302", {"d3": -1.0}),
    ]
    assert dataset.name == "robust"
    assert "stands for its text" in dataset.warnings[0]


def test_load_responses_of_a_run_orders_ties_as_trec_eval(write):
    responses = load_responses(write("bm25.txt", RUN))
    assert responses.by_id["301"].retrieved_doc_ids == ("d1", "d9", "d0")
    assert responses.by_id["301"].retrieved_scores == (1.5, 0.5, 0.5)


def test_join_leaves_out_and_counts_queries_of_a_run_that_nobody_judged(write, caplog):
    dataset, responses = load(write("a.qrels", QRELS)), load_responses(write("a.run", RUN))
    assert list(join(dataset, responses, "bm25")) == [dataset.samples[0].query_id]
    assert caplog.messages == ["bm25: 1 of 2 responses are to queries that are left out"]


def test_load_responses_a_document_twice_is_a_bad_row_or_its_best_place_is_kept(write):
    path = write("a.run", "301 Q0 d1 1 0.5 t\n301 Q0 d2 2 0.4 t\n301 Q0 d1 3 0.9 t\n")
    with pytest.raises(BadData, match=r"a\.run:1: retrieved_doc_ids: .*'d1' is listed twice"):
        load_responses(path)
    kept = load_responses(path, duplicates="keep_first").by_id["301"]
    assert (kept.retrieved_doc_ids, kept.retrieved_scores) == (("d1", "d2"), (0.9, 0.4))


# --- BEIR ---

OF_BEIR = [{"_id": "a", "text": "Which?", "metadata": {"lang": "en"}}, {"_id": "b", "text": "Why?", "metadata": {}}]


@pytest.fixture
def beir(tmp_path):
    """A BEIR folder with these splits; returns its path."""

    def beir(**splits):
        folder = tmp_path / "scifact"
        (folder / "qrels").mkdir(parents=True)
        (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in OF_BEIR))
        for name, rows in splits.items():
            (folder / "qrels" / f"{name}.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
        return folder

    return beir


def test_load_a_beir_folder_is_the_queries_that_its_test_split_judges(beir):
    dataset = load(beir(test="a\td1\t1\na\td2\t0\n", dev="b\td1\t1\n"))
    [sample] = dataset.samples
    assert (sample.query_id, sample.query, sample.judgments) == ("a", "Which?", {"d1": 1.0, "d2": 0.0})
    assert (sample.split, sample.metadata, dataset.name) == ("test", {"lang": "en"}, "scifact")
    assert "1 of 2 queries are not judged in" in dataset.warnings[0]


@pytest.mark.parametrize(
    ("splits", "error", "message"),
    [
        ({}, NotFound, "holds no split, such as test.tsv"),
        ({"dev": "b\td1\t1\n", "train": ""}, BadInput, "several splits and none called test; name one: "),
        ({"test": "z\td1\t1\n"}, BadData, "test.tsv:2: query 'z' is not in"),
        ({"test": "a\t\t1\n"}, BadData, "test.tsv:2: the id of the query or of the document is empty"),
    ],
)
def test_load_a_broken_beir_folder_is_one_clear_line(beir, splits, error, message):
    with pytest.raises(error) as caught:
        load(beir(**splits))
    assert message in str(caught.value)


def test_evaluate_a_run_on_a_beir_folder(beir, cli, tmp_path):
    folder = beir(test="a\td1\t1\nb\td2\t1\n")
    run = tmp_path / "bm25.run"
    run.write_text("a Q0 d2 1 2 t\na Q0 d1 2 1 t\n")  # rank 2 for a, nothing for b: (1/2 + 0) / 2
    code, out, err = cli("evaluate", folder, "--system", f"bm25={run}", "--metrics", "mrr", "--json")
    assert code == 0, err
    assert json.loads(out)["systems"]["bm25"]["metrics"]["mrr"]["value"] == 0.25
