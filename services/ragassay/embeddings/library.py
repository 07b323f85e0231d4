"""Models of sentence-transformers, which takes seconds and hundreds of megabytes to import; its only importer."""

from __future__ import annotations

import importlib.util
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragassay.core.errors import BadSettings, MissingExtra, reason_from
from ragassay.embeddings.minilm import BUNDLED, Vectors, digest
from ragassay.embeddings.texts import distinct

EXTRA = "models"
BATCH = 32
WHAT = "an embedding model that is not the bundled one"


def missing(what: str, *libraries: str) -> str | None:
    """Why ``what`` can't be loaded and the command that installs it; None where it can. Imports nothing."""
    needed = libraries or ("sentence_transformers", "torch")
    return None if all(map(importlib.util.find_spec, needed)) else str(MissingExtra(what, EXTRA))


@contextmanager
def loading(what: str, way_out: str = "") -> Iterator[None]:
    """Load a model without progress bars and warnings; BadSettings if the libraries can't load it."""
    from transformers.utils import logging

    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (OSError, ValueError) as error:
        reason = reason_from(str(error).partition("\n")[0])
        hint = f"give a folder or a name on the hub{way_out}"
        raise BadSettings(f"{what} can't be loaded: {reason}", hint=hint) from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def named(model: str) -> str:
    """The model and, for a folder, the start of its weights' SHA-256."""
    weights = Path(model) / "model.safetensors"
    return f"{model} (sha256:{digest(weights)[:12]})" if weights.is_file() else model


def warm_up() -> Any:
    """The library; its import takes seconds. Encodes nothing, so the parent of a worker may do it before it forks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import sentence_transformers
    return sentence_transformers


class LibraryModel:
    """A sentence-transformers model on the CPU. ``model``: a folder or a name on the Hugging Face hub."""

    def __init__(self, model: str) -> None:
        if missing(WHAT):
            raise MissingExtra(WHAT, EXTRA)
        library = warm_up()
        with loading(f"embedding model {model!r}", f", or leave it out to use {BUNDLED}"):
            self._model = library.SentenceTransformer(model, device="cpu")
        self._lock = threading.Lock()  # its tokenizer breaks when two threads use it at once

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (len(texts), dimensions)."""
        with self._lock:
            vectors: Vectors = self._model.encode(
                list(texts), batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True
            )
        return vectors.astype(np.float32, copy=False)


class CrossEncoder:
    """A sentence-transformers cross-encoder on the CPU: reads two texts together. No model comes with ragassay.

    ``model``: a folder or a name on the Hugging Face hub. ``score`` needs one that gives one number for a pair.
    """

    def __init__(self, model: str) -> None:
        self._name_or_folder = model
        self._lock = threading.Lock()
        self._model: Any = None

    @cached_property
    def name(self) -> str:
        """Model and, for a folder, the start of its weights' SHA-256."""
        return named(self._name_or_folder)

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """How well each text answers the query, as the model's raw outputs; shape (len(texts),). Higher is better.

        Raises BadSettings where the model can't be loaded or gives several numbers for a pair.
        """
        once = distinct(texts)
        labels, outputs = self._predict([(query, text) for text in once])
        if len(labels) != 1:
            raise BadSettings(
                f"{self._name_or_folder!r} gives {len(labels)} numbers for a pair; a cross-encoder that ranks gives one"
            )
        scores = dict(zip(once, outputs[:, 0].tolist(), strict=True))
        return np.array([scores[text] for text in texts])

    def classify(self, pairs: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """The model's labels, and their probabilities for each pair; shape (len(pairs), labels). Of one label, the sigmoid.

        Raises BadSettings if the model can't be loaded.
        """
        labels, outputs = self._predict(pairs)
        if len(labels) == 1:
            return labels, 1 / (1 + np.exp(-outputs))
        weights = np.exp(outputs - outputs.max(axis=1, keepdims=True, initial=-np.inf))
        return labels, weights / weights.sum(axis=1, keepdims=True)

    def _predict(self, pairs: Sequence[tuple[str, str]]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """Labels by their index, and raw outputs; shape (len(pairs), labels)."""
        with self._lock:
            if self._model is None:
                self._model = self._load()
            names = self._model.config.id2label
            labels = tuple(str(names[index]) for index in sorted(names))
            outputs = self._model.predict(list(pairs), batch_size=BATCH) if pairs else []
        return labels, np.asarray(outputs, dtype=np.float64).reshape(len(pairs), len(labels))

    def _load(self) -> Any:
        if missing("a cross-encoder"):
            raise MissingExtra("a cross-encoder", EXTRA)
        library = warm_up()
        from torch.nn import Identity

        with loading(f"cross-encoder {self._name_or_folder!r}"):
            return library.CrossEncoder(self._name_or_folder, device="cpu", activation_fn=Identity())
