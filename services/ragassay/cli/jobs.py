"""``ragassay job``: the jobs of a running service; and ``ragassay evaluate --server``, which submits one."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from ragassay.cli.options import AsJson, Last, Server
from ragassay.cli.terminal import Terminal, print_json, print_table, show_report
from ragassay.client import Client
from ragassay.config import GatedConfig, ProjectConfig
from ragassay.core.errors import BadSettings, GateFailed
from ragassay.core.jobs import Job
from ragassay.core.settings import Settings
from ragassay.datasets.versions import file_or_version
from ragassay.reporting import EXPORTERS
from ragassay.sdk.evaluation import read_inputs
from ragassay.sdk.progress import progress
from ragassay.storage.datasets import FolderDatasets

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The id that evaluate --no-wait printed.")]

job = typer.Typer(help="List, resume, retry and cancel jobs of a service.", no_args_is_help=True)


def evaluate_at(server: str, configuration: ProjectConfig, registered: list[str], *, wait: bool, as_json: bool) -> None:
    """Have a service evaluate rows and its ``registered`` systems; print the report, or without ``wait`` the job's id."""
    EXPORTERS.check(configuration.output)
    if configuration.data is None and not configuration.systems:
        raise BadSettings("DATA is missing", hint="name a file, or 'data:' in the configuration")
    with Client(server) as service:
        job = _submitted(service, configuration, registered)
        at = f"{job.id} --server {server}"
        if not wait:
            if configuration.output:
                typer.echo("warning: --no-wait writes no output; fetch it later: ragassay show JOB -o FILE", err=True)
            typer.echo(job.model_dump_json() if as_json else job.id)
            typer.echo(f"follow it: ragassay job show {at}", err=True)
            return
        try:
            job = _wait(service, job, quiet=as_json)
        except KeyboardInterrupt:
            typer.echo(f"the job goes on: ragassay job show {at}, or: ragassay job cancel {at}", err=True)
            raise
        for alert in job.alerts:
            typer.echo(f"error: {alert.reason}", err=True)
        place = f"{service.server}/v1/jobs/{job.id}/report"
        show_report(service.report(job.id), place, list(configuration.output), as_json=as_json, server=server)
        if job.alerts:
            raise GateFailed("a gate was missed", hint=f"see {service.server}/v1/jobs/{job.id}/gates")


def _submitted(service: Client, configuration: ProjectConfig, registered: list[str]) -> Job:
    """Queue the evaluation of a configuration; a dataset that is stored here is named, other rows are sent."""
    keys = job_keys(configuration)
    if configuration.data and not (configuration.limit or configuration.labels or configuration.systems):
        version = file_or_version(FolderDatasets(Settings().home), configuration.data)
        if version is not None:
            return service.submit_stored(version, registered, keys)
    read = read_inputs(configuration, Terminal(quiet=True))
    return service.submit_inputs(read, registered, keys)


def job_keys(configuration: ProjectConfig) -> dict[str, Any]:
    """The keys of a configuration that a job may set; raises BadSettings for the judge's prompt, which it may not."""
    if configuration.judge_prompt:
        what = "the service's operator sets the judge's prompt, so 'judge_prompt' can't be sent"
        raise BadSettings(what, hint="leave it out, or evaluate without --server")
    return configuration.model_dump(mode="json", exclude_unset=True, include=set(GatedConfig.model_fields))


@job.command("list")
def list_(
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="Only jobs with this status.")
    ] = None,
    last: Last = 20,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    with Client(server) as service:
        jobs = list(islice(service.jobs(status), last))
    if as_json:
        print_json(jobs)
        return
    rows = [
        (
            one.id,
            one.created_at[:16].replace("T", " "),
            one.name or "",
            one.status,
            f"{one.progress.done}/{one.progress.rows}",
            one.judge,
        )
        for one in jobs
    ]
    columns = ("job", "created", "name", "status", "rows", "judge")
    print_table(columns, rows, least=("name", "judge"), empty="there is no job")


@job.command("show")
def show_job(name: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Show a job: its status, how many rows are done, and why it waits or failed."""
    with Client(server) as service:
        _print(service.job(name), as_json=as_json)


@job.command("resume")
def resume(
    name: JobArgument,
    usd: Annotated[
        str | None, typer.Option("--budget-usd", metavar="USD", help="New cap on cost, or none. [the job's own]")
    ] = None,
    tokens: Annotated[
        str | None, typer.Option("--budget-tokens", metavar="N", help="New cap on tokens, or none. [the job's own]")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Resume a job that paused because its budget was reached; a cap that is not given stays."""
    caps: dict[str, Any] = {"budget_usd": usd, "budget_tokens": tokens}
    with Client(server) as service:
        _print(service.resume(name, **caps), as_json=as_json)


@job.command("retry")
def retry(name: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Evaluate the failed rows of a job that has ended again; the others stay, and nothing is paid twice."""
    with Client(server) as service:
        _print(service.retry(name), as_json=as_json)


@job.command("cancel")
def cancel(name: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Cancel a job; finished rows stay."""
    with Client(server) as service:
        _print(service.cancel(name), as_json=as_json)


def _wait(service: Client, job: Job, *, quiet: bool) -> Job:
    """Wait for a job with a bar."""
    shown, waiting = 0, None
    with progress(job.progress.rows, 0, quiet) as done:

        def show(job: Job) -> None:
            nonlocal shown, waiting
            if job.waiting not in (None, waiting):
                typer.echo(f"waiting: {job.waiting}", err=True)
            waiting = job.waiting
            done(job.progress.done - shown)
            shown = job.progress.done

        return service.wait(job, show)


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
