"""TREC files against trec_eval's own code (pytrec-eval), tidy or not; broken ones by file and line."""

import errno
import gzip
import io
import os
import random
import re
import threading

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ragassay.analysis.trec import evaluate_run, retrieval_metric
from ragassay.core.errors import AssayError, BadInput, TooLarge
from ragassay.datasets import source, trec
from ragassay.datasets.trec import read_retrieved

THEIRS = {
    "P@3": "P_3", "R@5": "recall_5", "Success@1": "success_1", "RR": "recip_rank", "AP": "map", "MAP@4": "map_cut_4",
    "nDCG@5": "ndcg_cut_5", "Rprec": "Rprec", "bpref": "bpref",
}  # fmt: skip
IDS = st.text("ab1é", min_size=1, max_size=3) | st.text("ab", min_size=7, max_size=26)
SCORES = st.integers(-64 * 40, 64 * 40).map(lambda n: n / 64)  # exact as float32 too, which trec_eval compares
SPELLED = st.sampled_from(["{:.6f}", "{}", "{:e}", "{:+.7f}", "{:.20f}", "{:09.3f}"])


def values(qrels, run, names):
    """Per-query values of the two files."""
    retrieved = read_retrieved(str(qrels), str(run))
    columns = evaluate_run(retrieved, {name: retrieval_metric(name) for name in names})
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return {query: dict(zip(names, row, strict=True)) for query, row in zip(retrieved.queries, rows, strict=True)}


@st.composite
def files(draw):
    """Judgments, a run, and the text of their files: lines in any order, with any blanks."""
    queries = st.sampled_from(draw(st.lists(IDS, min_size=1, max_size=6, unique=True)))
    documents = st.sampled_from(draw(st.lists(IDS, min_size=1, max_size=12, unique=True)))
    # else it crashes
    grades = st.dictionaries(documents, st.integers(-2, 4), min_size=1).filter(lambda g: max(g.values()) >= 0)
    qrels = {query: draw(grades) for query in draw(st.lists(queries, min_size=1, unique=True))}
    scores = st.dictionaries(documents, SCORES, min_size=1)
    run = {query: draw(scores) for query in draw(st.lists(queries, min_size=1, unique=True))}
    rng, spelled = draw(st.randoms(use_true_random=False)), draw(SPELLED)
    judged = [f"{q} 0 {d} {g}" for q, grades in qrels.items() for d, g in grades.items()]
    ranked = [f"{q} Q0 {d} 1 {spelled.format(s)} tag" for q, scores in run.items() for d, s in scores.items()]
    for text in (judged, ranked):
        if draw(st.booleans()):
            rng.shuffle(text)
    if draw(st.booleans()):
        ranked.sort(key=lambda line: (line.split()[0], -float(line.split()[4])))
    ending = draw(st.sampled_from(["\n", "\r\n", "\n\n", " \n"]))
    blanks = draw(st.sampled_from([" ", "\t", "  ", None]))
    last = draw(st.sampled_from(["", ending]))

    def text(rows):
        parted = [re.sub(" ", lambda _: blanks or rng.choice([" ", "\t", " \t "]), row) for row in rows]
        return (ending.join(parted) + last).encode()

    return qrels, run, text(judged), text(ranked)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("trec")


@settings(max_examples=90, deadline=None)
@given(files(), st.booleans(), st.sampled_from([20, 100, trec.BLOCK]))
def test_values_equal_those_of_trec_eval_for_any_order_and_any_blanks(folder, written, compressed, block):
    qrels, run, judged, ranked = written
    (folder / "qrels").write_bytes(gzip.compress(judged) if compressed else judged)
    (folder / "run").write_bytes(gzip.compress(ranked) if compressed else ranked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trec, "BLOCK", block)
        ours = values(folder / "qrels", folder / "run", list(THEIRS))
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(THEIRS.values())).evaluate(run)
    assert set(ours) == set(qrels)
    for query in qrels:
        expected = {name: theirs[query][key] if query in theirs else 0.0 for name, key in THEIRS.items()}
        assert ours[query] == pytest.approx(expected, abs=1e-9)


def write(folder, judged="q1 0 a 1\n", ranked="q1 Q0 a 1 2.0 t\n"):
    for name, text in (("qrels", judged), ("run", ranked)):
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / "qrels", folder / "run"


def test_ties_go_to_the_higher_id_in_the_order_of_bytes(tmp_path):
    # by bytes: "é" (0xc3 0xa9) > "b" > "ab" > "a"; a relevant "ab" comes third
    ranked = "".join(f"q1 Q0 {doc} 1 7 t\n" for doc in ("a", "é", "ab", "b"))
    assert values(*write(tmp_path, "q1 0 ab 1\n", ranked), ["RR"]) == {"q1": {"RR": 1 / 3}}


def test_scores_may_be_as_far_apart_as_numbers_can_be(tmp_path):
    ranked = "q1 Q0 a 1 -1.7e308 t\nq1 Q0 b 2 1.7e308 t\nq1 Q0 c 3 1.5e308 t\n"
    assert values(*write(tmp_path, "q1 0 a 1\n", ranked), ["RR"]) == {"q1": {"RR": 1 / 3}}


@pytest.mark.parametrize(
    ("judged", "ranked", "what"),
    [
        ("q1 0 a 1\nq1 0 b\n", "", "qrels:2: has 3 columns"),
        ("\nq1 0 a 1\n\nq1 0 b 0.5\n", "", "qrels:4: grade: should be a whole number from -1000 to 1000"),
        ("q1 0 a 1\nq2 0 a 1\nq1 0 a 2\n", "", r"qrels:3: document 'a' of query 'q1' is judged twice.*line 1"),
        ("", "", "qrels: the qrels file is empty"),
        ("q1 0 a 1\n", "q1 Q0 a 1 2.0 t\n\nq1 Q0 b 2 1.0 t x\n", "run:3: has 7 columns"),
        ("q1 0 a 1\n", "q1 Q0 a 1 2.0 t\n q1 Q0 b 2 nan t\n", "run:2: score: "),
        ("q1 0 a 1\n", b"q\xff Q0 a 1 2 t\n", "run:1: byte 0xff "),
        ("q1 0 a 1\n", "q1 Q0 a 1 2 t\nq2 Q0 b 2 1 t\nq1 Q0 a 3 0 t\n", r"run:3: document 'a' .*first on line 1"),
        ("q1 0 a 1\n", "q1 Q0 a 1 2 t\nq1 Q0 a 2 1 t\n", r"run:2: document 'a' .*first on line 1"),
        ("q1 0 a 1\n", "q1 Q0 a 1 1e999 t\n", "run:1: score: should be a finite number, is '1e999'"),
        ("q1 0 a 1\n", "q1 Q0 a 1 1_0 t\n", "run:1: score: should be a finite number, is '1_0'"),
        *(
            ("q1 0 a 1\n", f"q1 Q0 a 1 {no_number} t\n", f"run:1: score: should be a finite number, is '{no_number}'")
            for no_number in (
                "1.2.3",
                "1,5",
                "1/5",
                "1./",
                ".",
                "-",
                "--1",
                "1-2",
                "12345678,5",
                "1234567.8.9",
                "1.23456789.",
            )
        ),
        ("q1 0 a 1\n", "q1 Q0 a\0 1 2 t\n", "run:1: holds a null character"),
        ("q1 0 a 1\n", "q1 Q0 a 1 t\nx q1 Q0 b 2 1 t\n", "run:1: has 5 columns"),
        ("q1 0 a 1\n", " \n\n", "run: the run file is empty"),
        (  # their hashes are equal: made so, since by chance none are
            "q1 0 a 1\n",
            "q1 Q0 ddn7bc7jclueweb- 1 2 t\nq1 Q0 0j8okkm1EnhsRQgi 2 1 t\n",
            "run: two documents have ids of the same 64-bit hash",
        ),
    ],
)
def test_a_broken_file_is_refused_with_file_and_line(tmp_path, judged, ranked, what):
    with pytest.raises(AssayError) as refused:
        values(*write(tmp_path, judged, ranked), ["RR"])
    assert re.match(re.escape(str(tmp_path)) + "/" + what, str(refused.value))
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("block", [300, trec.BLOCK])
def test_numbers_are_read_as_python_reads_them(tmp_path, monkeypatch, block):
    monkeypatch.setattr(trec, "BLOCK", block)
    rng = random.Random(1)
    spelled = ["0", "-0.0", "5.", ".5", "+1", "1e-5", "-12.25E2", "0.1", "123456789012345", "1234567890123456.7"]
    spelled += ["9007199254740993", "9007199254740993.001", "9007199254740995"]  # 2 ** 53 + 1 is in the middle of two
    spelled += [f"{rng.gauss(0, 100):.{rng.randrange(1, 19)}{rng.choice('feg')}}" for _ in range(2000)]
    spelled += [repr(rng.random() * 10 ** rng.randrange(-3, 6)) for _ in range(2000)]
    by_query = [f"q{n // 7} Q0 d{n} 0 {text} t\n" for n, text in enumerate(spelled)]
    lists = [trec._lists(part, trec.RUN) for part in trec._blocks(io.BytesIO("".join(by_query).encode()))]
    numbers = np.concatenate([part.numbers for part in lists]).tolist()
    expected = [sorted(map(float, spelled[n : n + 7]), reverse=True) for n in range(0, len(spelled), 7)]
    assert numbers == [number for group in expected for number in group]


def test_a_name_is_no_pattern(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, document in (("run1", "d9"), ("run[1]", "d1"), ("~/run", "d1")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"q1 Q0 {document} 1 0.5 t\n")
    (tmp_path / "qrels").write_text("q1 0 d1 1\n")
    assert [len(read_retrieved("qrels", name).rows) for name in ("run1", "run[1]", "~/run")] == [0, 1, 1]


@pytest.mark.parametrize("queries", [1, 10_000])
def test_a_pipe_is_read_whole(tmp_path, queries):
    qrels, pipe = tmp_path / "qrels", tmp_path / "pipe"
    qrels.write_text("q0 0 d1 1\n")
    os.mkfifo(pipe)
    run = "".join(f"q{n} Q0 d1 1 0.5 t\n" for n in range(queries))
    writing = threading.Thread(target=pipe.write_text, args=(run,), daemon=True)
    writing.start()
    retrieved = read_retrieved(str(qrels), str(pipe))
    writing.join()
    assert (len(retrieved.rows), retrieved.unjudged) == (1, queries - 1)


def test_read_retrieved_refuses_a_gzip_bomb(tmp_path, monkeypatch):
    _, run = write(tmp_path)
    monkeypatch.setattr(source, "MAX_UNPACKED", 3 * 2**20)
    monkeypatch.setattr(source, "LONGEST_LINE", 2**20)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"q1 0 a 1\n" * 2**20))
    with pytest.raises(TooLarge, match="holds more than 3 MiB"):
        read_retrieved(str(tmp_path / "bomb.gz"), str(run))


def test_an_error_in_the_middle_of_a_file_names_the_file(tmp_path, monkeypatch):
    def fails(_file):
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "qrels").write_text("q1 0 d1 1\n")
    monkeypatch.setattr(trec, "_blocks", fails)
    with pytest.raises(BadInput, match="the qrels file can't be read: Input/output error") as raised:
        read_retrieved(str(tmp_path / "qrels"), str(tmp_path / "run"))
    assert raised.value.where == str(tmp_path / "qrels")
