"""Commands for a running service: ``submit``, ``status``, ``report``, ``results``, ``cancel``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragassay.cli.evaluate import (
    Accurate,
    Duplicates,
    Format,
    JudgeName,
    Limit,
    Mapping,
    MaxMissing,
    Metrics,
    NoCache,
    Outputs,
    Seed,
    pairs,
    progress,
    show,
)
from ragassay.errors import BadInput, BadSettings, NothingToEvaluate, Unavailable, Unscored

if TYPE_CHECKING:
    from ragassay.cli.remote import Remote
    from ragassay.documents import Job

Data = Annotated[Path, typer.Argument(metavar="DATA", help="Queries with recorded responses.")]
Server = Annotated[str | None, typer.Option("--server", metavar="URL", help="The service. [http://127.0.0.1:8400]")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the report and print it.")]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="A name for the job.")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The id that submit printed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ENDED = ("finished", "failed", "cancelled")
_POLL_S, _SLOWEST_POLL_S, _PATIENCE_S = 0.2, 2.0, 120.0


def submit(
    data: Data,
    server: Server = None,
    wait: Wait = False,
    name: Name = None,
    metrics: Metrics = None,
    judge: JudgeName = None,
    output: Outputs = None,
    as_json: AsJson = False,
    limit: Limit = None,
    seed: Seed = None,
    format: Format = "auto",  # noqa: A002 - the option's name
    mapping: Mapping = None,
    duplicates: Duplicates = "error",
    accurate: Accurate = None,
    no_cache: NoCache = False,
    max_missing: MaxMissing = None,
) -> None:
    """Have a service evaluate recorded responses; prints the job's id, or with --wait the report."""
    from ragassay.exporters import exporter_for

    if output and not wait:
        raise BadSettings("-o needs a report", hint="add --wait, or fetch it later: ragassay report JOB -o FILE")
    for path in output or ():
        exporter_for(path)
    options = {
        "name": name,
        "metrics": None if metrics is None else [each.strip() for each in metrics.split(",") if each.strip()],
        "judge": judge,
        "seed": seed,
        "accurate": accurate,
        "max_missing": max_missing,
        "cache": False if no_cache else None,
    }
    columns = pairs(mapping, "--map", "OURS=THEIRS")
    body = _body(data, options, format=format, mapping=columns, duplicates=duplicates, limit=limit)
    with _remote(server) as remote:
        job = remote.submit(body)
        if not wait:
            typer.echo(job.model_dump_json() if as_json else job.id)
            typer.echo(f"follow it: ragassay status {job.id}", err=True)
            return
        try:
            job = _wait(remote, job, quiet=as_json)
        except KeyboardInterrupt:
            typer.echo(f"the job goes on: ragassay status {job.id}, or ragassay cancel {job.id}", err=True)
            raise
        _show_report(remote, job.id, output, as_json=as_json)


def status(job: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Say how far a job is."""
    with _remote(server) as remote:
        _print(remote.job(job), as_json=as_json)


def report(job: JobArgument, server: Server = None, output: Outputs = None, as_json: AsJson = False) -> None:
    """Print a finished job's report."""
    from ragassay.exporters import exporter_for

    for path in output or ():
        exporter_for(path)
    with _remote(server) as remote:
        _show_report(remote, job, output, as_json=as_json)


def results(job: JobArgument, server: Server = None) -> None:
    """Print the results that are there, one JSON document a line, in the dataset's order."""
    with _remote(server) as remote:
        for result in remote.results(job):
            sys.stdout.write(result.model_dump_json() + "\n")


def cancel(job: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Stop a job; what is done stays."""
    with _remote(server) as remote:
        _print(remote.cancel(job), as_json=as_json)


def _remote(server: str | None) -> Remote:
    from ragassay.cli.remote import Remote
    from ragassay.settings import Settings

    settings = Settings()
    return Remote(server or settings.server, settings.server_key)


def _body(data: Path, options: dict[str, Any], *, limit: int | None, **reading: Any) -> bytes:
    """The request for a file's rows, read here: --map and the formats need no counterpart in the service."""
    import orjson

    from ragassay.data.inline import load_rows
    from ragassay.data.load import load

    dataset = load(data, limit=limit, **reading)
    if not dataset.has_responses:
        raise NothingToEvaluate("no row has a response", where=str(data), hint="submit takes recorded responses")
    rows = [sample.model_dump(mode="json", exclude_defaults=True) for sample in dataset.samples]
    if (limit or reading["mapping"]) and load_rows(rows).digest != dataset.digest:
        raise BadInput(
            "with this --map and --limit the service would read the rows differently",
            where=str(data),
            hint="name the columns as we do (ragassay schema sample), or use: ragassay evaluate",
        )
    given = {key: value for key, value in options.items() if value is not None}
    return orjson.dumps({**given, "dataset": dataset.name, "samples": rows})


def _wait(remote: Remote, job: Job, *, quiet: bool) -> Job:
    """Ask until the job has ended, through restarts of the service too. Raises Unscored when it has no report."""
    seen, lost, pause = 0, 0.0, _POLL_S
    with progress(job.progress.rows, 0, quiet) as done:
        while job.status not in ENDED:
            time.sleep(pause)
            pause = min(pause * 1.1, _SLOWEST_POLL_S)
            try:
                job, lost = remote.job(job.id), 0.0
            except Unavailable:
                lost += pause
                if lost > _PATIENCE_S:
                    raise
                continue
            done(job.progress.done - seen)
            seen = job.progress.done
    if job.status != "finished":
        raise Unscored(f"job {job.id} is {job.status}" + (f": {job.error}" if job.error else ""))
    return job


def _show_report(remote: Remote, job: str, output: list[Path] | None, *, as_json: bool) -> None:
    from ragassay.documents import Report

    document = Report.model_validate_json(remote.report(job))
    show(document, f"{remote.server}/v1/jobs/{job}/report", output or [], as_json=as_json)


def _print(job: Job, *, as_json: bool) -> None:
    if as_json:
        typer.echo(job.model_dump_json())
        return
    lines = {
        "job": job.id,
        "name": job.name,
        "status": job.status,
        "rows": f"{job.progress.done} of {job.progress.rows} done, {job.progress.failed} with a failure",
        "judge": job.judge,
        "created": job.created_at,
        "started": job.started_at,
        "ended": job.ended_at,
        "uncertain calls": f"{job.uncertain_calls} (may have been paid)" if job.uncertain_calls else None,
        "error": job.error,
    }
    for label, value in lines.items():
        if value is not None:
            typer.echo(f"{label + ':':17}{value}")
