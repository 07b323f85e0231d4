"""TREC qrels and runs, and BEIR folders, as datasets and as a system's responses."""

import json

import pytest

from ragassay.core.errors import AssayError, BadData, BadInput, NotFound
from ragassay.datasets.load import load
from ragassay.datasets.responses import join, load_responses

QRELS = "301 0 d1 2\n301 0 d2 0\n\n302\t0\td3\t-1\n"
RUN = "301 Q0 d9 1 0.5 tag\n301 Q0 d1 2 1.5 tag\n301 Q0 d0 3 0.5 tag\n303 Q0 d1 1 1 tag\n"
QUERIES = [{"_id": "a", "text": "Which?", "metadata": {"lang": "en"}}, {"_id": "b", "text": "Why?", "metadata": {}}]


@pytest.fixture
def beir(tmp_path):
    """A BEIR folder with these splits; returns its path."""

    def beir(queries=QUERIES, **splits):
        folder = tmp_path / "scifact"
        (folder / "qrels").mkdir(parents=True)
        (folder / "corpus.jsonl").write_text('{"_id": "d1", "title": "", "text": "one"}\n')
        (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
        for name, rows in splits.items():
            (folder / "qrels" / f"{name}.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
        return folder

    return beir


def test_qrels_are_a_dataset_whose_queries_are_known_by_their_ids(write):
    dataset = load(write("robust.qrels", QRELS))
    assert [(s.query_id, s.query, s.judgments) for s in dataset.samples] == [
        ("301", "301", {"d1": 2.0, "d2": 0.0}),
        ("302", "302", {"d3": -1.0}),
    ]
    assert dataset.name == "robust"
    assert "stands for its text" in dataset.warnings[0]


def test_read_trec_orders_ties_as_trec_eval(write):
    responses = load_responses(write("bm25.txt", RUN))
    assert responses.by_id["301"].retrieved_doc_ids == ("d1", "d9", "d0")
    assert responses.by_id["301"].retrieved_scores == (1.5, 0.5, 0.5)


def test_queries_of_a_run_that_nobody_judged_are_left_out_and_counted(write, caplog):
    dataset, responses = load(write("a.qrels", QRELS)), load_responses(write("a.run", RUN))
    joined = join(dataset, responses, "bm25")
    assert [s.response is not None for s in joined] == [True, False]
    assert caplog.messages == ["bm25: 1 of 2 queries have no judgments and are left out"]


def test_a_document_listed_twice_in_a_run_is_a_bad_row_or_its_best_place_is_kept(write):
    path = write("a.run", "301 Q0 d1 1 0.5 t\n301 Q0 d2 2 0.4 t\n301 Q0 d1 3 0.9 t\n")
    with pytest.raises(BadData, match=r"a\.run:1: retrieved_doc_ids: .*'d1' is listed twice"):
        load_responses(path)
    kept = load_responses(path, duplicates="keep_first").by_id["301"]
    assert (kept.retrieved_doc_ids, kept.retrieved_scores) == (("d1", "d2"), (0.9, 0.4))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("301 0 d1\n", "a.txt:1: has 3 columns; TREC qrels have 4 columns"),
        ("301 0 d1 1\n301 Q0 d1 1 1 t\n", "a.txt:2: has 6 columns, the lines before it have 4"),
        ("301 0 d1 high\n", "a.txt:1: grade: should be a finite number, is 'high'"),
        ("301 0 d1 1\n301 0 d1 0\n", "a.txt:2: document 'd1' is judged twice for query '301'"),
        ("301 Q0 d1 1 nan t\n", "a.txt:1: score: should be a finite number, is 'nan'"),
    ],
)
def test_a_bad_line_is_named_with_file_and_line(write, text, says):
    with pytest.raises(AssayError) as caught:
        load(write("a.txt", text))
    assert says in str(caught.value)


def test_a_beir_folder_is_the_queries_that_its_test_split_judges(beir):
    dataset = load(beir(test="a\td1\t1\na\td2\t0\n", dev="b\td1\t1\n"))
    [sample] = dataset.samples
    assert (sample.query_id, sample.query, sample.judgments) == ("a", "Which?", {"d1": 1.0, "d2": 0.0})
    assert (sample.split, sample.metadata, dataset.name) == ("test", {"lang": "en"}, "scifact")
    assert "1 of 2 queries are not judged in" in dataset.warnings[0]


def test_a_choice_among_several_splits_is_left_to_the_user(beir):
    with pytest.raises(BadInput, match=r"several splits and none called test; name one: .*qrels/dev\.tsv"):
        load(beir(dev="b\td1\t1\n", train="a\td1\t1\n"))


def test_a_beir_folder_without_a_split_says_so(beir):
    with pytest.raises(NotFound, match=r"holds no split, such as test\.tsv"):
        load(beir())


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("z\td1\t1\n", "test.tsv:2: query 'z' is not in"),
        ("a\td1\tx\n", "test.tsv:2: grade: should be a finite number, is 'x'"),
        ("a\t\t1\n", "test.tsv:2: the id of the query or of the document is empty"),
    ],
)
def test_a_bad_judgment_of_a_beir_folder_is_named_with_file_and_line(beir, row, says):
    with pytest.raises(BadData) as caught:
        load(beir(test=row))
    assert says in str(caught.value)


def test_a_run_is_evaluated_on_a_beir_folder_from_the_command_line(beir, cli, tmp_path):
    folder = beir(test="a\td1\t1\nb\td2\t1\n")
    run = tmp_path / "bm25.run"
    run.write_text("a Q0 d2 1 2 t\na Q0 d1 2 1 t\n")  # rank 2 for a, nothing for b: (1/2 + 0) / 2
    code, out, err = cli("evaluate", folder, "--system", f"bm25={run}", "--metrics", "mrr", "--json")
    assert code == 0, err
    metrics = json.loads(out)["systems"]["bm25"]["metrics"]
    assert metrics["mrr"]["value"] == 0.25
    code, out, _ = cli("data", "show", folder)
    assert code == 0
    assert "2 rows" in out
