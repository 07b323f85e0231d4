"""Retrievers: what each stage computes, in which order it answers, and what an index may not be used for."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from pydantic import ValidationError

from fakes import FakeEmbedder
from minilm_files import PUBLISHED
from ragassay.core.errors import BadData, BadSettings, NotFound
from ragassay.core.package_data import folder
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.embeddings import CrossEncoder
from ragassay.systems import retrieval
from ragassay.systems.options import RetrievalConfig
from ragassay.systems.retrieval import Retriever, terms

TEXTS = {
    "a": "apple banana",
    "b": "apple apple cherry",
    "c": "cherry date elderberry fig",
    "d": "the grape",
}


def corpus(texts=TEXTS, titles=None):
    return Corpus.of(Passage(id=i, text=text, title=(titles or {}).get(i, "")) for i, text in texts.items())


def retriever(texts=TEXTS, titles=None, cache=None, embedder=None, **options):
    config = RetrievalConfig(**{"kind": "bm25", **options})
    return Retriever(config, corpus(texts, titles), cache=cache, embedder=embedder or FakeEmbedder(4096))


def ids(hits):
    return [hit.id for hit in hits]


def test_bm25_is_the_formula():
    # N = 4; lengths 2, 3, 4, 1 ('the' is dropped), mean 2.5. "apple" is in 2 passages: idf = ln(1 + 2.5 / 2.5).
    hits = retriever().search("apple", 10).hits
    idf = math.log(2)
    of_a = idf * 1 / (1 + 1.2 * (0.25 + 0.75 * 2 / 2.5))
    of_b = idf * 2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2.5))
    assert [(h.id, h.score) for h in hits] == [("b", pytest.approx(of_b)), ("a", pytest.approx(of_a))]
    assert hits[0].stages == {"bm25": hits[0].score}


def test_search_orders_equal_scores_by_id_whatever_the_order_of_the_file():
    texts = {"10": "same words", "9": "same words", "a": "same words"}
    for kind in ("bm25", "dense", "hybrid"):
        assert ids(retriever(dict(reversed(texts.items())), kind=kind).search("words", 3).hits) == ["10", "9", "a"]


def test_dense_scores_are_cosines_of_six_digits():
    hits = retriever({"x": "red green", "y": "red blue green"}, kind="dense").search("red", 2).hits
    assert [(h.id, h.score) for h in hits] == [("x", round(1 / math.sqrt(2), 6)), ("y", round(1 / math.sqrt(3), 6))]


def test_feedback_bm25_finds_words_of_the_first_passages():
    texts = {"a": "apple banana", "b": "banana cherry", "c": "date", "d": "elder"}
    assert ids(retriever(texts).search("apple", 10).hits) == ["a"]
    scores = {hit.id: hit.score for hit in retriever(texts, feedback=1).search("apple", 10).hits}
    # 'apple' is in 1 of 4 passages, 'banana' in 2; each is half of passage a
    apple, banana = math.log(1 + 3.5 / 1.5), math.log(1 + 2.5 / 2.5)
    taken = 0.6 * banana / (apple + banana)
    # lengths 2, 2, 1, 1, mean 1.5
    in_b = banana * 1 / (1 + 1.2 * (0.25 + 0.75 * 2 / 1.5))
    assert list(scores) == ["a", "b"]
    assert scores["b"] == pytest.approx(taken * in_b)


def test_fusion_adds_reciprocal_ranks():
    hits = retriever(kind="hybrid").search("apple", 2).hits
    # BM25 ranks b before a; the bags of words have cosines 2/sqrt(5) for b and 1/sqrt(2) for a.
    assert ids(hits) == ["b", "a"]
    assert [hit.score for hit in hits] == pytest.approx([2 / 61, 2 / 62])
    assert hits[0].stages["rrf"] == hits[0].score
    assert set(hits[0].stages) == {"bm25", "dense", "rrf"}
    assert hits[0].stages["dense"] == round(2 / math.sqrt(5), 6)


def test_mmr_puts_something_new_before_a_repetition():
    texts = {"a": "red apple", "b": "red apple", "c": "red barn"}
    assert ids(retriever(texts).search("red apple", 3).hits) == ["a", "b", "c"]
    hits = retriever(texts, mmr=0.2).search("red apple", 3).hits
    assert ids(hits) == ["a", "c", "b"]
    # a: 0.2 x 1; then c: 0.2 x 0 - 0.8 x 1/2, before b: 0.2 x 1 - 0.8 x 1
    assert [h.score for h in hits] == pytest.approx([0.2, -0.4, -0.6])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A cross-encoder of one layer with random weights, on the bundled model's vocabulary."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    folder = tmp_path_factory.mktemp("cross")
    torch.manual_seed(7)
    tokenizer = AutoTokenizer.from_pretrained(PUBLISHED)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    for labels in (1, 2):
        model = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), num_labels=labels, **sizes))
        model.save_pretrained(folder / str(labels))
        tokenizer.save_pretrained(folder / str(labels))
    return folder


def test_rerank_reads_query_and_passage_together(tiny):
    found = retriever(rerank=str(tiny / "1")).search("apple cherry", 3)
    scores = CrossEncoder(str(tiny / "1")).score("apple cherry", [TEXTS[h.id] for h in found.hits])
    assert [h.score for h in found.hits] == pytest.approx(scores.tolist(), abs=1e-5)
    assert [h.score for h in found.hits] == sorted((h.score for h in found.hits), reverse=True)
    assert sorted(found.before) == ["a", "b", "c"]


def test_cross_encoder_refuses_a_model_that_is_none(tiny, tmp_path):
    with pytest.raises(BadSettings, match="2 numbers for a pair"):
        CrossEncoder(str(tiny / "2")).score("q", ["t"])
    with pytest.raises(BadSettings, match="can't be loaded"):
        CrossEncoder(str(tmp_path)).score("q", ["t"])
    assert "sha256" in CrossEncoder(str(tiny / "1")).name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cafés' log-in pages", ["cafe", "log", "page"]),
        ("to be or not", ["to", "be", "or", "not"]),
        ("が", ["が"]),
    ],
)
def test_terms_are_stems_without_accents(text, expected):
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "bm25", "model": "m"}, "model: not read by kind bm25"),
        ({"kind": "dense", "k1": 1.0}, "k1: not read by kind dense"),
    ],
)
def test_config_refuses_an_option_that_would_do_nothing(options, said):
    with pytest.raises(ValidationError, match=said):
        RetrievalConfig.model_validate(options)


def test_corpus_is_read_from_json_lines(tmp_path):
    file = tmp_path / "corpus.jsonl"
    file.write_text('\ufeff{"_id": 7, "text": "seven", "title": null, "metadata": {}}\n\n{"id": "10", "text": "ten"}\n')
    read = Corpus.read(file)
    assert [(p.id, p.text, p.title) for p in read.passages] == [("10", "ten", ""), ("7", "seven", "")]
    assert read.digest == corpus({"7": "seven", "10": "ten"}).digest
    assert read.digest != corpus({"7": "seven", "10": "ten!"}).digest


def test_corpus_names_every_bad_line(tmp_path):
    file = tmp_path / "corpus.jsonl"
    lines = ['{"id": "a", "text": "x"}', "{", "[]", '{"id": "b"}', '{"text": "x"}', '{"id": "a", "text": "y"}']
    file.write_text("\n".join([*lines, '{"id": "c", "text": 5}', '{"id": "", "text": "x"}']))
    with pytest.raises(BadData) as raised:
        Corpus.read(file)
    problems = [problem.removeprefix(f"{file}:") for problem in raised.value.problems]
    assert [p[:2] for p in problems] == [f"{n}:" for n in (2, 3, 4, 5, 6, 7, 8)]


def test_corpus_that_is_empty_or_missing_is_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    for name, error, what in (("empty", BadData, "no passage"), ("none", NotFound, "no such corpus")):
        with pytest.raises(error, match=what):
            Corpus.read(tmp_path / f"{name}.jsonl")


def dense_with(cache, texts=TEXTS, **options):
    return retriever(texts, cache=cache, kind="dense", **options).search("apple cherry", 4).hits


def test_cache_vectors_are_made_once_and_give_the_same_scores(tmp_path, monkeypatch):
    first = dense_with(tmp_path)
    monkeypatch.setattr(retrieval, "_keep", None)  # keeping vectors again fails
    assert dense_with(tmp_path) == first


def test_cache_damaged_vectors_are_made_again(tmp_path):
    whole = dense_with(tmp_path)
    (file,) = tmp_path.iterdir()
    for damaged in (file.read_bytes()[:-40], b"", b"PK" + file.read_bytes()):
        file.write_bytes(damaged)
        assert dense_with(tmp_path) == whole


PROGRAM = """
import json, sys
from pathlib import Path
from ragassay.datasets.corpus import Corpus
from ragassay.systems.options import RetrievalConfig
from ragassay.systems.retrieval import Retriever
config = RetrievalConfig(kind="hybrid", feedback=2, mmr=0.8)
for cache in sys.argv[2:]:
    found = Retriever(config, Corpus.read(Path(sys.argv[1])), cache=Path(cache))
    print(json.dumps([found.search(query, 10).hits for query in ("How do I pay?", "rate limits of the API")]))
"""


def test_search_gives_the_same_bytes_in_every_process_with_and_without_a_cache(tmp_path):
    lines = (folder("datasets") / "quickstart/corpus.jsonl").read_text().splitlines()
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines[:20]))
    outputs = []
    for seed, caches in (("1", ["x"]), ("2", ["x", "y"])):
        command = [sys.executable, "-c", PROGRAM, "corpus.jsonl", *caches]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        outputs += subprocess.check_output(command, env=environment, cwd=tmp_path, text=True).splitlines()
    assert (len(outputs), len(set(outputs))) == (3, 1)
    pay, limits = json.loads(outputs[0])
    assert (limits[0][0], len(pay)) == ("api-02", 10)
    assert np.all(np.diff([hit[1] for hit in pay]) <= 0)
