"""What has to be the same for the numbers to be the same: versions and digests of code, packages, data and judge."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

import orjson

from ragassay.core.plugins import imported
from ragassay.core.report import Provenance
from ragassay.evaluation.engine import Tools
from ragassay.metrics.composite import own_metrics
from ragassay.metrics.metric import METRICS, parse
from ragassay.storage.protocol import RunRecord
from ragassay.systems.functions import SYSTEMS

_RECORDED_PACKAGES = (
    *("bm25s", "litellm", "numpy", "onnxruntime", "pydantic", "rouge-score", "tokenizers"),
    *("bert-score", "sentence-transformers", "torch"),
)


def with_tools(record: RunRecord, tools: Tools) -> RunRecord:
    """The record with what judges here and now."""
    return record.model_copy(
        update={
            "judge": {"name": tools.panel.name, **tools.panel.settings},
            "embeddings": tools.embedder.name if tools.embedder else None,
            "code_digest": code_digest(),
            "plugins": {**{Path(name).name: digest for name, digest in imported().items()}, **_packages_used(record)},
        }
    )


def _packages_used(record: RunRecord) -> dict[str, str]:
    """The installed packages that bring metrics and systems of the run, and the digests of their code."""
    families = (parse(name, own_metrics(record.spec)).family for name in record.metrics)
    kinds = (str(source.called.configuration.get("kind")) for source in record.systems.values() if source.called)
    found = [*(METRICS.package(family) for family in families), *(SYSTEMS.package(kind) for kind in kinds)]
    return dict(sorted(package for package in found if package))


def provenance(record: RunRecord) -> Provenance:
    """The part of the report that says where its numbers come from. The record must say what judges."""
    configuration = record.spec.model_dump_json().encode()
    return Provenance(
        ragassay=metadata.version("ragassay"),
        code_digest=record.code_digest or code_digest(),
        plugins=record.plugins,
        python=platform.python_version(),
        packages=_packages(),
        dataset=record.dataset,
        systems=record.systems,
        judge=record.judge or {},
        embeddings=record.embeddings,
        metrics=record.metrics,
        configuration=record.spec,
        configuration_digest=hashlib.sha256(configuration).hexdigest(),
    )


def _packages() -> dict[str, str]:
    versions = {}
    for name in _RECORDED_PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


@cache
def code_digest() -> str:
    """SHA-256 over the package's source files, names included."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(orjson.dumps([path.relative_to(root).as_posix(), path.read_text()]))
    return digest.hexdigest()
