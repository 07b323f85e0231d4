"""``ragassay info``: the metrics and document schemas there are, what this machine has, and a configuration to begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument

from ragassay.cli.options import AsJson, Plugins, import_plugins
from ragassay.cli.terminal import print_fields, print_json
from ragassay.core.errors import BadSettings, Conflict, UnknownName

if TYPE_CHECKING:
    from ragassay.core.settings import Settings

_KINDS = ("retrieval", "quality", "performance", "cost")
_DOCUMENTS = {
    "report": "core.report:ReportWithResults",
    "comparison": "analysis.models:Comparison",
    "gates": "analysis.gates:GateReport",
    "trend": "analysis.trends:Trend",
    "costs": "analysis.costs:CostReport",
    "agreement": "evaluation.labels:JudgeAgreement",
    "ab": "analysis.ab:Trial",
    "ab-config": "analysis.ab:Recipe",
    "config": "config.model:ProjectConfig",
    "sample": "core.models:Sample",
    "response": "core.models:Response",
    "job": "api.submission:JobRequest",
}
DocumentName = Annotated[str, Argument(metavar="DOCUMENT", help=f"{', '.join(_DOCUMENTS)}.")]
File = Annotated[Path | None, Argument(metavar="[FILE]", help="Where to write it. [ragassay.yaml]")]

info = typer.Typer(no_args_is_help=True)


@info.command("metrics")
def metrics(plugin: Plugins = None, as_json: AsJson = False) -> None:
    """List the metrics: name, kind, what they need and what they measure."""
    from ragassay.metrics.metric import METRICS

    import_plugins(plugin)
    if as_json:
        fields = ("kind", "better", "needs", "description")
        print_json([{"name": one.signature, **{field: getattr(one, field) for field in fields}} for one in METRICS])
        return
    known = sorted(METRICS, key=lambda metric: (_KINDS.index(metric.kind), metric.family))
    print_fields((one.signature, f"{one.description} ({one.kind}, {one.better} is better)") for one in known)


@info.command("schema")
def schema(document: DocumentName) -> None:
    """Print the JSON schema of a document."""
    from importlib import import_module

    if document not in _DOCUMENTS:
        raise UnknownName("document", document, _DOCUMENTS)
    module, _, name = _DOCUMENTS[document].partition(":")
    print_json(getattr(import_module(f"ragassay.{module}"), name).model_json_schema())


@info.command("init")
def init(file: File = None) -> None:
    """Write a commented configuration with every key and its default."""
    from ragassay import config
    from ragassay.core.files import write_whole

    path = file or Path(config.FILE_NAME)
    if path.exists() or path.is_symlink():
        raise Conflict(f"{path} is there already", hint="name another file: ragassay info init FILE")
    if not path.parent.is_dir():
        raise BadSettings(f"there is no folder {str(path.parent)!r}", where=str(path), hint="make it first")
    write_whole(path, config.template().encode())
    command = f"ragassay evaluate --config {path}" if file else "ragassay evaluate"
    typer.echo(f"wrote {path}; fill in 'data:', then run: {command}")


@info.command("doctor")
def doctor(as_json: AsJson = False) -> None:
    """List what works on this machine, and how to get the rest. Makes no call."""
    import orjson

    from ragassay.core.settings import Settings

    for what, ok, detail in _findings(Settings()):
        if as_json:
            typer.echo(orjson.dumps({"what": what, "ok": ok, "detail": detail}).decode())
        else:
            typer.echo(f"{'ok     ' if ok else 'missing'} {what}: {detail}")


def _findings(settings: Settings) -> Iterator[tuple[str, bool, str]]:
    """Everything that an evaluation may need: what it is, whether it is here, and details. Imports nothing heavy."""
    import os
    import platform
    import sys
    from importlib import metadata

    from ragassay.core.package_data import folder
    from ragassay.core.settings import provider_keys
    from ragassay.embeddings import unavailable
    from ragassay.llm import Prices

    yield "ragassay", True, f"{metadata.version('ragassay')}, Python {platform.python_version()}"
    yield "python", sys.version_info >= (3, 11), "3.11 or newer is needed"
    home = settings.home.absolute()
    nearest = next(path for path in (home, *home.parents) if path.exists())
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    yield "runs", writable, f"{home} {'can' if writable else 'cannot'} be written; RAGASSAY_HOME moves it"
    missing = unavailable(settings.embeddings)
    yield "local embeddings", missing is None, missing or settings.embeddings or "the bundled model on onnxruntime"
    priced = Prices().of("gpt-4o-mini") is not None
    yield "price table", priced, "LiteLLM's bundled table" if priced else "not found; reinstall litellm"
    for name in ("prompts", "datasets"):
        yield name, True, str(folder(name))
    keys = provider_keys()
    none = "none set; only needed for --judge MODEL (OPENAI_API_KEY ...)"
    yield "provider keys", bool(keys), f"set: {', '.join(keys)}" if keys else none
