"""Commands for a running service: ``submit``, ``status``, ``retry``, ``cancel``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragassay.cli.configured import AsJson, configured, takes_options
from ragassay.cli.evaluate import Config, Data, show
from ragassay.errors import BadSettings, GateFailed
from ragassay.python.progress import progress

if TYPE_CHECKING:
    from ragassay.job_documents import Job
    from ragassay.python.client import Client

Server = Annotated[str | None, typer.Option("--server", metavar="URL", help="The service. [http://127.0.0.1:8400]")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the report and print it.")]
Systems = Annotated[
    list[str] | None,
    typer.Option(
        "--system",
        metavar="NAME[=FILE]",
        help="Responses of a system; without a file, one that the service's operator registered. Repeatable.",
    ),
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The id that submit printed.")]


@takes_options(without=("datasets", "systems", "api_base"))
def submit(
    data: Data = None,
    server: Server = None,
    wait: Wait = False,
    as_json: AsJson = False,
    config: Config = None,
    system: Systems = None,
    **options: Any,
) -> None:
    """Have a service evaluate recorded responses and systems; prints the job's id, or with --wait the report."""
    from ragassay.exporters import EXPORTERS

    if options["output"] and not wait:
        raise BadSettings("-o needs a report", hint="add --wait, or fetch it later: ragassay report JOB -o FILE")
    recorded = [text for text in system or () if "=" in text]
    configuration = configured(config, {**options, "systems": recorded}, data=data, remote=True)
    EXPORTERS.check(configuration.output)
    registered = [text for text in system or () if "=" not in text]
    if configuration.data is None and not configuration.systems:
        raise BadSettings("DATA is missing", hint="name a file: ragassay submit DATA, or 'data:' in the configuration")
    with connected(server) as service:
        job = service.submit_configured(
            configuration, registered, lambda warning: typer.echo(f"warning: {warning}", err=True)
        )
        if not wait:
            typer.echo(job.model_dump_json() if as_json else job.id)
            typer.echo(f"follow it: ragassay status {job.id}{f' --server {server}' if server else ''}", err=True)
            return
        try:
            job = _wait(service, job, quiet=as_json)
        except KeyboardInterrupt:
            at = f" --server {server}" if server else ""
            typer.echo(f"the job goes on: ragassay status {job.id}{at}, or ragassay cancel {job.id}{at}", err=True)
            raise
        for alert in job.alerts:
            typer.echo(f"error: {alert.reason}", err=True)
        place = f"{service.server}/v1/jobs/{job.id}/report"
        show(service.report(job.id), place, list(configuration.output), as_json=as_json, server=server)
        if job.alerts:
            raise GateFailed("a gate was missed", hint=f"see {service.server}/v1/jobs/{job.id}/gates")


def connected(server: str | None) -> Client:
    """A client of the service, to be used in a ``with``."""
    from ragassay.python.client import Client

    return Client(server)


def status(job: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Say how far a job is."""
    with connected(server) as service:
        _print(service.job(job), as_json=as_json)


def retry(job: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Evaluate the failed rows of a job that has ended again; the others stay, and nothing is paid twice."""
    with connected(server) as service:
        _print(service.retry(job), as_json=as_json)


def cancel(job: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Stop a job; what is done stays."""
    with connected(server) as service:
        _print(service.cancel(job), as_json=as_json)


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
