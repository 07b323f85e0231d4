"""Texts to unit vectors: the bundled model on onnxruntime, any other by sentence-transformers. Nothing heavy is imported,
and no model loaded, before the first text is embedded.
"""

from ragassay.embeddings.library import CrossEncoder
from ragassay.embeddings.local import LocalEmbedder, unavailable, warm_up
from ragassay.embeddings.minilm import BUNDLED
from ragassay.embeddings.texts import DIGITS, refuse_blank, vectors_of

__all__ = ["BUNDLED", "DIGITS", "CrossEncoder", "LocalEmbedder", "refuse_blank", "unavailable", "vectors_of", "warm_up"]
