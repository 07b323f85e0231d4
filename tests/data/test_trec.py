"""TREC files against trec_eval's own code (pytrec-eval) and ir_measures, tidy or not; broken ones by file and line."""

import gzip
import re
from unittest.mock import patch

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ragassay.cli.trec import _metric, evaluate
from ragassay.data import lines, trec

THEIRS = {
    "P@3": "P_3",
    "R@5": "recall_5",
    "Success@1": "success_1",
    "RR": "recip_rank",
    "AP": "map",
    "MAP@4": "map_cut_4",
    "nDCG@5": "ndcg_cut_5",
    "Rprec": "Rprec",
    "bpref": "bpref",
}
IDS = (
    st.text("ab1é", min_size=1, max_size=3)
    | st.text("ab", min_size=7, max_size=9)
    | st.text("ab", min_size=15, max_size=26)
)
SCORES = st.integers(-64 * 40, 64 * 40).map(lambda n: n / 64)  # exact as float32 too, which trec_eval compares
SPELLED = st.sampled_from(["{:.6f}", "{}", "{:e}", "{:+.7f}"])


def values(qrels, run, names):
    """Per-query values of the two files."""
    found = trec.read_run(str(run), trec.read_qrels(str(qrels)))
    columns = evaluate({name: _metric(name) for name in names}, found)
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return {
        query.decode(): dict(zip(names, row, strict=True)) for query, row in zip(found.qrels.queries, rows, strict=True)
    }


@st.composite
def collections(draw):
    """Judgments, a run, and how their files are written."""
    queries = draw(st.lists(IDS, min_size=1, max_size=6, unique=True))
    documents = draw(st.lists(IDS, min_size=1, max_size=12, unique=True))
    some = st.sampled_from(documents)
    qrels = {
        query: draw(
            st.dictionaries(some, st.integers(-2, 4), min_size=1).filter(lambda g: max(g.values()) >= 0)
        )  # else it crashes
        for query in draw(st.lists(st.sampled_from(queries), min_size=1, unique=True))
    }
    run = {
        query: draw(st.dictionaries(some, SCORES, min_size=1))
        for query in draw(st.lists(st.sampled_from(queries), min_size=1, unique=True))
    }
    return qrels, run, draw(st.randoms(use_true_random=False))


@st.composite
def files(draw):
    """Lines of the two files, in any order, and their text."""
    qrels, run, rng = draw(collections())
    judged = [f"{q} 0 {d} {g}" for q, grades in qrels.items() for d, g in grades.items()]
    spelled = draw(SPELLED)
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


@settings(max_examples=300, deadline=None)
@given(files(), st.sampled_from([64, 256, 1 << 18]), st.sampled_from([50, 300, 1 << 23]), st.booleans())
def test_values_equal_those_of_trec_eval_for_any_order_and_any_blanks(folder, written, block, piece, compressed):
    qrels, run, judged, ranked = written
    (folder / "qrels").write_bytes(gzip.compress(judged) if compressed else judged)
    (folder / "run").write_bytes(gzip.compress(ranked) if compressed else ranked)
    with patch.object(lines, "BLOCK", block), patch.object(trec, "PIECE", piece):
        ours = values(folder / "qrels", folder / "run", list(THEIRS))
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(THEIRS.values())).evaluate(run)
    assert set(ours) == set(qrels)
    for query in qrels:
        expected = {name: theirs[query][key] if query in theirs else 0.0 for name, key in THEIRS.items()}
        assert ours[query] == pytest.approx(expected, abs=1e-9)
