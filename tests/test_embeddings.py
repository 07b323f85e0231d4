"""Embeddings: unit vectors that depend on the texts alone, offline, quiet, and loaded at first use."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

from minilm_files import PUBLISHED, bundled_weights_in
from ragassay.core.errors import BadInput, BadSettings, MissingExtra
from ragassay.embeddings import CrossEncoder, LocalEmbedder, minilm, unavailable

TEXTS = ["Refunds take 14 days.", "You get your money back within two weeks.", "The sky is blue.", "Ravens are black."]


@pytest.fixture(scope="module")
def embedder():
    return LocalEmbedder()


@pytest.fixture
def stub(monkeypatch):
    """Stands in for a loaded model: the length of each text that it was asked to encode, times its value."""

    def encode(texts):
        model.asked.append(list(texts))
        return np.array([[model.value * len(text), 0.0] for text in texts], dtype=np.float32)

    model = SimpleNamespace(asked=[], value=1.0, encode=encode)
    monkeypatch.setattr(LocalEmbedder, "loaded", lambda self: model)
    return model


def test_vectors_depend_on_which_texts_are_given_and_not_on_their_order_or_number(embedder):
    one = embedder.embed(TEXTS)
    other = embedder.embed([*reversed(TEXTS), TEXTS[0]])
    assert (other[:4] == one[::-1]).all()
    assert (other[4] == one[0]).all()


def test_a_model_is_named_with_the_start_of_its_digest():
    bundled = "all-MiniLM-L6-v2 int8 (sha256:ec9a6514c4ec)"
    assert LocalEmbedder().name == LocalEmbedder("all-MiniLM-L6-v2").name == bundled
    assert LocalEmbedder(str(PUBLISHED)).name == f"{PUBLISHED} (sha256:53aa51172d14)"


def texts_of_all_lengths():
    """300: most are sentences; some are empty, a sign, in other scripts, or longer than the model reads."""
    chance = random.Random(18)
    words = "refund café naïve takes 14 days; 日本語 テスト 한국어 🙂 👩 Ωmega don't x-ray ... [SEP] [PAD] 3.14 Müller".split()
    made = {"", " ", "\n\t", "\u200b", "\ufffd", ".", "a", "日" * 700, "🙂" * 30, "w" * 5000}
    made |= {" ".join(chance.choices(words, k=chance.randint(20, 300))) for _ in range(5)}
    while len(made) < 300:
        made.add(" ".join(chance.choices(words, k=chance.randint(1, 5))))
    return sorted(made)


def test_the_bundled_model_equals_sentence_transformers_with_the_same_weights(embedder, tmp_path):
    theirs = LocalEmbedder(str(bundled_weights_in(tmp_path))).loaded()
    texts = texts_of_all_lengths()
    assert np.abs(embedder.loaded().encode(texts) - theirs.encode(texts)).max() < 1e-5
    some = texts[::30]
    pieces = theirs._model.encode(some, output_value="token_embeddings", show_progress_bar=False)
    for ours, expected in zip(embedder.loaded().encode_tokens(some), pieces, strict=True):
        assert ours.shape == expected.shape
        assert np.abs(ours - expected.float().numpy()).max() < 1e-4  # not of unit length


def test_a_model_of_a_forked_process_gives_the_same_vectors(embedder):
    expected = embedder.embed(TEXTS)  # the parent's model has threads of its own
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, LocalEmbedder(threads=1).embed(TEXTS).tobytes())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        vectors = np.frombuffer(stream.read(), np.float32).reshape(4, 384)
    os.waitpid(child, 0)
    assert np.abs(vectors - expected).max() < 1e-6


def test_a_model_that_is_nowhere_is_one_clear_error(tmp_path):
    for model in (str(tmp_path / "nowhere"), str(tmp_path)):
        says = r"embedding model .* can't be loaded: .*give a folder or a name"
        with pytest.raises(BadSettings, match=says) as caught:
            LocalEmbedder(model).embed(["a text"])
        assert "\n" not in str(caught.value)


def test_each_distinct_text_is_encoded_once_in_an_order_of_length_then_text(stub):
    vectors = LocalEmbedder().embed(["ccc", "b", "a", "ccc", "bb", "a"])
    assert stub.asked == [["a", "b", "bb", "ccc"]]
    assert vectors[:, 0].tolist() == [3, 1, 1, 3, 2, 1]


def test_a_blank_text_is_refused_and_named():
    for blank in ("", "  ", "\n\t"):
        with pytest.raises(BadInput, match="text 1 of 2 to embed is blank; leave blank texts out"):
            LocalEmbedder().embed(["a text", blank])


def test_a_vector_that_is_not_finite_never_leaves(stub):
    stub.value = float("nan")
    with pytest.raises(BadSettings, match="not finite"):
        LocalEmbedder().embed(["a text"])


def test_another_model_needs_the_extra_models_and_says_so(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else found(name))
    assert unavailable() is None
    assert unavailable("some/model").endswith("needs the extra 'models'; install it: pip install 'ragassay[models]'")
    for one in (LocalEmbedder("some/model").embed, lambda texts: CrossEncoder("some/model").score("a", texts)):
        with pytest.raises(MissingExtra, match=r"ragassay\[models\]"):
            one(["a text"])


@pytest.mark.parametrize("content", [b"other weights", None])
def test_a_damaged_or_missing_model_is_refused_before_it_gives_a_number(monkeypatch, tmp_path, content):
    if content:
        (tmp_path / "model.onnx").write_bytes(content)
    monkeypatch.setattr(minilm, "MODEL", tmp_path)
    with pytest.raises(BadSettings, match=r"model.onnx: .*missing or damaged; reinstall it"):
        LocalEmbedder().embed(["a text"])


def test_the_first_text_loads_the_model_without_a_word_and_without_the_network():
    script = """
        import socket, sys, warnings
        warnings.simplefilter("error")
        tried = []
        def refuse(*args, **kwargs):
            tried.append(args)
            raise OSError("no network here")
        socket.socket.connect = socket.getaddrinfo = refuse
        from ragassay.embeddings import LocalEmbedder, unavailable, warm_up
        embedder = LocalEmbedder()
        assert unavailable() is None
        assert not {"onnxruntime", "tokenizers"} & set(sys.modules), "imported too early"
        warm_up()
        assert embedder._model is None, "a parent that forks must not have run the model"
        assert embedder.embed(["Hello"]).shape == (1, 384)
        assert not {"torch", "sentence_transformers", "transformers"} & set(sys.modules)
        assert not tried, tried
    """
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
