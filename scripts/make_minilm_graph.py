"""Writes the graph of the bundled model, all-MiniLM-L6-v2, without its weights: services/ragassay/embeddings/minilm.onnx.

    python scripts/make_minilm_graph.py

A BERT encoder of six layers in plain ONNX (opset 20), with mean pooling and unit length at its end. In: ``ids`` and ``mask``
(1 for a word piece, 0 for padding), both of shape (texts, length). Out: ``vectors`` (texts, 384), and ``token_vectors`` (texts,
length, 384), the last layer as it is. Each weight is named as in the wheel's ``model.safetensors``, with its place in that
file, which onnxruntime maps into memory. Needs ``onnx`` (extra ``dev``).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from ragassay.embeddings import bundled_model

TARGET = Path(__file__).parents[1] / "services" / "ragassay" / "embeddings" / "minilm.onnx"
OPSET, IR_VERSION = 20, 9
WIDTH, HEADS, LAYERS = 384, 12, 6
EPSILON = 1e-12  # of layer norms; config.json
HIDDEN = -1e9  # added to the attention paid to padding


class Graph:
    """Nodes, constants, and weights that stay in the file ``weights``."""

    def __init__(self, weights: Path) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        with weights.open("rb") as file:
            header = int.from_bytes(file.read(8), "little")
            self._tensors = json.loads(file.read(header))
        self._file, self._start = weights.name, 8 + header

    def op(self, kind: str, *inputs: str, out: str = "", **attributes: object) -> str:
        name = out or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, value: float | list[int]) -> str:
        array = np.array(value, np.int64 if isinstance(value, list) else np.float32)
        name = f"constant_{array.tolist()}"
        self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def weight(self, name: str) -> str:
        begin, end = self._tensors[name]["data_offsets"]
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
        tensor.dims.extend(self._tensors[name]["shape"])
        for key, value in (("location", self._file), ("offset", self._start + begin), ("length", end - begin)):
            tensor.external_data.add(key=key, value=str(value))
        self.constants[name] = tensor
        return name

    def linear(self, x: str, name: str) -> str:
        return self.op("Gemm", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), transB=1)

    def norm(self, x: str, name: str) -> str:
        weight, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.op("LayerNormalization", x, weight, bias, epsilon=EPSILON)


def build(weights: Path) -> ModelProto:
    g = Graph(weights)
    texts, length = (g.op("Gather", g.op("Shape", "ids"), g.constant([place])) for place in (0, 1))
    flat, whole = g.constant([-1, WIDTH]), g.op("Concat", texts, length, g.constant([WIDTH]), axis=0)
    heads = g.op("Concat", texts, length, g.constant([HEADS, WIDTH // HEADS]), axis=0)
    hiding = g.op("Mul", g.op("Sub", g.constant(1.0), "mask"), g.constant(HIDDEN))
    hiding = g.op("Unsqueeze", hiding, g.constant([1, 2]))
    words = g.op("Gather", g.weight("embeddings.word_embeddings.weight"), "ids")
    all_places = g.weight("embeddings.position_embeddings.weight")
    places = g.op("Slice", all_places, g.constant([0]), length, g.constant([0]))
    kind = g.op("Gather", g.weight("embeddings.token_type_embeddings.weight"), g.constant([0]))
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
    content = build(bundled_model() / "model.safetensors").SerializeToString(deterministic=True)
    TARGET.write_bytes(content)
    print(f"wrote {TARGET.name}: {len(content):,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
