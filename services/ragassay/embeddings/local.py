"""The embedder that evaluations use: a model of this machine, loaded when the first text is embedded."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ragassay.core.errors import BadSettings
from ragassay.embeddings import library, minilm
from ragassay.embeddings.library import LibraryModel
from ragassay.embeddings.minilm import BUNDLED, MODEL_SHA256, MiniLM, Vectors
from ragassay.embeddings.texts import distinct, refuse_blank


def unavailable(model: str | None = None) -> str | None:
    """Why ``LocalEmbedder(model)`` can't run and the command that installs what it needs, or None. Imports nothing."""
    return library.missing(library.WHAT) if model not in (None, BUNDLED) else None


def warm_up(model: str | None = None) -> None:
    """Import what ``LocalEmbedder(model)`` needs. Loads no model, so a worker's parent may do it before it forks."""
    (library if model not in (None, BUNDLED) else minilm).warm_up()


class LocalEmbedder:
    """An embedding model on the CPU.

    ``model``: a sentence-transformers model, by its folder or its name on the Hugging Face hub; by default the bundled
    all-MiniLM-L6-v2, which needs no network, and whose file is verified when it is first loaded. It reads the first 256
    word pieces of a text. ``threads``: how many cores the bundled model may use; default: all.
    """

    def __init__(self, model: str | None = None, *, threads: int | None = None) -> None:
        self.library_model = None if model == BUNDLED else model
        self._threads = threads
        self._lock = threading.Lock()
        self._model: MiniLM | LibraryModel | None = None

    @cached_property
    def name(self) -> str:
        """Model and the start of its weights' SHA-256; for a name on the hub, the name alone."""
        if self.library_model is not None:
            return library.named(self.library_model)
        return f"{BUNDLED} int8 (sha256:{MODEL_SHA256[:12]})"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (len(texts), dimensions); (0, 0) for no texts.

        Each distinct text is encoded once. Batches are made of the distinct texts ordered by length, then text: they
        depend on which texts are given and not on their order or number, and so does the last digit of a vector.
        Raises BadInput on a blank text, MissingExtra if another model needs the extra ``models``.
        """
        refuse_blank(texts)
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        once = distinct(texts)
        vectors = self.loaded().encode(once)
        if not np.isfinite(vectors).all():
            raise BadSettings(f"embedding model {self.name} gave a vector that is not finite")
        place = {text: n for n, text in enumerate(once)}
        return vectors[[place[text] for text in texts]]

    def loaded(self) -> MiniLM | LibraryModel:
        """The model itself, loaded at the first call."""
        with self._lock:
            if self._model is None:
                self._model = MiniLM(self._threads) if self.library_model is None else LibraryModel(self.library_model)
            return self._model
