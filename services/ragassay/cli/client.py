"""Commands for a running service: ``submit``, ``status``, ``report``, ``results``, ``cancel``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragassay.cli import evaluate
from ragassay.cli.configured import AsJson, configured, option, takes_options
from ragassay.cli.evaluate import Config, Data, progress, show
from ragassay.errors import BadInput, BadSettings, BudgetReached, GateFailed, NothingToEvaluate, Unavailable, Unscored

if TYPE_CHECKING:
    from ragassay.cli.remote import Remote
    from ragassay.config import Configuration
    from ragassay.documents import Job

Server = Annotated[str | None, typer.Option("--server", metavar="URL", help="The service. [http://127.0.0.1:8400]")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the report and print it.")]
Outputs = Annotated[list[Path] | None, option("output")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The id that submit printed.")]
_POLL_S, _SLOWEST_POLL_S, _PATIENCE_S = 0.2, 2.0, 120.0


@takes_options(without=("systems", "api_base"))
def submit(
    data: Data = None,
    server: Server = None,
    wait: Wait = False,
    as_json: AsJson = False,
    config: Config = None,
    **options: Any,
) -> None:
    """Have a service evaluate recorded responses; prints the job's id, or with --wait the report."""
    from ragassay.cli.remote import remote
    from ragassay.exporters import EXPORTERS

    if options["output"] and not wait:
        raise BadSettings("-o needs a report", hint="add --wait, or fetch it later: ragassay report JOB -o FILE")
    configuration = configured(config, options, data=data, remote=True)
    for path in configuration.output:
        EXPORTERS.for_file(path)
    body = _body(configuration)
    with remote(server) as service:
        job = service.submit(body)
        if not wait:
            typer.echo(job.model_dump_json() if as_json else job.id)
            typer.echo(f"follow it: ragassay status {job.id}{f' --server {server}' if server else ''}", err=True)
            return
        try:
            job = _wait(service, job, quiet=as_json)
        except KeyboardInterrupt:
            typer.echo(f"the job goes on: ragassay status {job.id}, or ragassay cancel {job.id}", err=True)
            raise
        for alert in job.alerts:
            typer.echo(f"error: {alert.reason}", err=True)
        _show_report(service, job.id, list(configuration.output), as_json=as_json)
        if job.alerts:
            raise GateFailed("a gate was missed", hint=f"see {service.server}/v1/jobs/{job.id}/gates")


def status(job: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Say how far a job is."""
    from ragassay.cli.remote import remote

    with remote(server) as service:
        _print(service.job(job), as_json=as_json)


def report(job: JobArgument, server: Server = None, output: Outputs = None, as_json: AsJson = False) -> None:
    """Print a finished job's report."""
    from ragassay.exporters import EXPORTERS

    for path in output or ():
        EXPORTERS.for_file(path)
    from ragassay.cli.remote import remote

    with remote(server) as service:
        _show_report(service, job, output, as_json=as_json)


def results(job: JobArgument, server: Server = None) -> None:
    """Print the results that are there, one JSON document a line, in the dataset's order."""
    from ragassay.cli.remote import remote

    with remote(server) as service:
        for result in service.results(job):
            sys.stdout.write(result.model_dump_json() + "\n")


def cancel(job: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Stop a job; what is done stays."""
    from ragassay.cli.remote import remote

    with remote(server) as service:
        _print(service.cancel(job), as_json=as_json)


def _body(configuration: Configuration) -> bytes:
    """The request: the configuration, and the rows instead of its keys about files, which are read here."""
    import orjson

    from ragassay.config.document import options
    from ragassay.data.load import load_rows

    if configuration.data is None:
        raise BadSettings("DATA is missing", hint="name a file: ragassay submit DATA, or 'data:' in the configuration")
    if configuration.systems:
        what = "a job takes the responses that are in DATA, so 'systems' can't be sent"
        raise BadSettings(what, hint="use: ragassay evaluate")
    dataset = evaluate.dataset(configuration, configuration.data)
    where = str(configuration.data)
    if not dataset.has_responses:
        raise NothingToEvaluate("no row has a response", where=where, hint="submit takes recorded responses")
    rows = [sample.model_dump(mode="json", exclude_defaults=True) for sample in dataset.samples]
    if (configuration.limit or configuration.map) and load_rows(rows).digest != dataset.digest:
        raise BadInput(
            "with this --map and --limit the service would read the rows differently",
            where=where,
            hint="name the columns as we do (ragassay schema sample), or use: ragassay evaluate",
        )
    read_here = {key for key, (_, option) in options().items() if option.set_by == "files"}
    job = configuration.model_dump(mode="json", exclude_unset=True, exclude=read_here)
    return orjson.dumps({**job, "dataset": dataset.name, "samples": rows})


def _wait(remote: Remote, job: Job, *, quiet: bool) -> Job:
    """Ask until the job has ended, through restarts of the service too. Raises Unscored when it has no report."""
    from ragassay.documents import ENDED

    seen, lost, pause, waiting = 0, 0.0, _POLL_S, None
    with progress(job.progress.rows, 0, quiet) as done:
        while job.status not in ENDED:
            if job.status == "paused":
                path = f"POST {remote.server}/v1/jobs/{job.id}/resume?budget_usd=MORE"
                raise BudgetReached(job.error or "the budget is reached", hint=f"go on with a higher one: {path}")
            time.sleep(pause)
            pause = min(pause * 1.1, _SLOWEST_POLL_S)
            try:
                job, lost = remote.job(job.id), 0.0
            except Unavailable:
                lost += pause
                if lost > _PATIENCE_S:
                    raise
                continue
            if job.waiting not in (None, waiting):
                typer.echo(f"waiting: {job.waiting}", err=True)
            waiting = job.waiting
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
        "waiting": job.waiting,
        "error": job.error,
    }
    for label, value in lines.items():
        if value is not None:
            typer.echo(f"{label + ':':17}{value}")
    for alert in job.alerts:
        typer.echo(f"{'alert:':17}{alert.gate or 'gates'}: {alert.reason}")
