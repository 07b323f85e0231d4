"""The bundled all-MiniLM-L6-v2 on onnxruntime; the only importer of onnxruntime and tokenizers.

The folder ``all-MiniLM-L6-v2`` has its graph, with weights as int8 and a scale for each row, which onnxruntime turns back
into float32 when it loads the graph, and its tokenizer; ``scripts/make_minilm.py`` makes both from the published files.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragassay.core.errors import BadSettings

BUNDLED = "all-MiniLM-L6-v2"
MODEL = Path(__file__).with_name(BUNDLED)
MODEL_SHA256 = "ec9a6514c4ec1bd0ed645d30f1dfe2b9ee53bf7f4f9c8f05f86cd748f33ceaef"  # of model.onnx
PUBLISHED_SHA256 = (
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of model.safetensors, in float32
)
LAYERS = 6
LONGEST = 256  # word pieces of a text that are read, with the marks before and after it; sentence_bert_config.json
LONGEST_POSSIBLE = 512  # positions that the model knows
_BATCH = 512  # word pieces, padding included: larger batches leave the processor's cache and are slower

Vectors = NDArray[np.float32]


def digest(file: Path) -> str:
    """SHA-256 of a file, in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def warm_up() -> None:
    """Import the libraries. A worker's parent may do it before it forks; it loads no model."""
    import onnxruntime  # noqa: F401
    import tokenizers  # noqa: F401


class MiniLM:
    """The bundled model; raises BadSettings if its file is not the one that this code was measured with.

    ``threads``: cores for the arithmetic of a text; default: all that this process may use. A session has threads of its
    own, which do not survive a fork, so the parent of a worker makes none.
    """

    def __init__(self, threads: int | None = None) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        graph = verify(MODEL / "model.onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or _cores()
        options.log_severity_level = 3  # errors
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # other processes need the cores
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        _give_memory_back()
        self._tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (len(texts), 384), of the first 256 word pieces of each text."""
        pieces = [self._pieces(text, LONGEST) for text in texts]
        vectors = np.empty((len(texts), 384), dtype=np.float32)
        for batch in _batches(pieces):
            vectors[batch] = self._run("vectors", [pieces[n] for n in batch])
        return vectors

    def encode_tokens(self, texts: Sequence[str], longest: int = LONGEST) -> list[Vectors]:
        """For each text the last layer's vectors of its word pieces, not of unit length, shape (pieces, 384).

        The first and the last are those of the marks [CLS] and [SEP].
        """
        pieces = [self._pieces(text, longest) for text in texts]
        vectors: dict[int, Vectors] = {}
        for batch in _batches(pieces):
            outputs = self._run("token_vectors", [pieces[n] for n in batch])
            vectors |= {n: one[: len(pieces[n])] for n, one in zip(batch, outputs, strict=True)}
        return [vectors[n] for n in range(len(texts))]

    def _pieces(self, text: str, longest: int) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids if len(ids) <= longest else [*ids[: longest - 1], ids[-1]]

    def _run(self, output: str, pieces: Sequence[Sequence[int]]) -> Vectors:
        ids = np.zeros((len(pieces), max(map(len, pieces))), dtype=np.int64)
        mask = np.zeros(ids.shape, dtype=np.float32)
        for row, one in enumerate(pieces):
            ids[row, : len(one)] = one
            mask[row, : len(one)] = 1
        outputs: list[Vectors] = self._session.run([output], {"ids": ids, "mask": mask})
        return outputs[0]


def _batches(pieces: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Indexes of texts to be run together, shortest texts first, so that little is padded."""
    batch: list[int] = []
    for n in sorted(range(len(pieces)), key=lambda n: len(pieces[n])):
        if batch and (len(batch) + 1) * len(pieces[n]) > _BATCH:
            yield batch
            batch = []
        batch.append(n)
    if batch:
        yield batch


def verify(graph: Path) -> Path:
    """``graph``; raises BadSettings if it is another file: other weights would give other scores without a word."""
    if not graph.is_file() or digest(graph) != MODEL_SHA256:
        raise BadSettings(
            "the bundled embedding model is missing or damaged",
            where=str(graph),
            hint="reinstall it: pip install --force-reinstall ragassay",
        )
    return graph


def _give_memory_back() -> None:
    """Return what the loading needed to the system: glibc would keep 45 MB of each process for later."""
    with suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
