"""An embedder for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from ragassay.embeddings.minilm import Vectors
from ragassay.embeddings.texts import refuse_blank


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
