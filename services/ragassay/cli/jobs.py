"""``ragassay job``: the jobs of a running service; and ``ragassay evaluate --server``, which submits one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ragassay.cli.options import AsJson, Last, Server, client
from ragassay.cli.terminal import Terminal, print_facts, print_json, print_list, print_result, show_report
from ragassay.core.errors import BadSettings, GateFailed
from ragassay.core.formatting import minute
from ragassay.sdk.progress import progress_bar

if TYPE_CHECKING:
    from ragassay.client import Client
    from ragassay.config import ProjectConfig
    from ragassay.core.jobs import Job

JobArgument = Annotated[str, Argument(metavar="JOB", help="The id that evaluate --no-wait printed.")]
Status = Annotated[str | None, Option("--status", metavar="STATUS", help="Only jobs with this status.")]
Usd = Annotated[str | None, Option("--budget-usd", metavar="USD", help="New cap on cost, or none. [the job's own]")]
Tokens = Annotated[
    str | None, Option("--budget-tokens", metavar="N", help="New cap on tokens, or none. [the job's own]")
]

job = typer.Typer(no_args_is_help=True)


@job.command("list")
def list_(status: Status = None, last: Last = 20, server: Server = None, as_json: AsJson = False) -> None:
    """List jobs, newest first."""
    with client(server) as service:
        jobs = list(islice(service.jobs(status), last))
    columns = {
        "job": lambda job: job.id,
        "created": lambda job: minute(job.created_at),
        "name": lambda job: job.name or "",
        "status": lambda job: job.status,
        "rows": lambda job: f"{job.progress.done}/{job.progress.rows}",
        "judge": lambda job: job.judge,
    }
    print_list(jobs, columns, least=("name", "judge"), empty="there is no job", as_json=as_json)


@job.command("show")
def show_job(name: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Show a job: its status, how many rows are done, and why it waits or failed."""
    with client(server) as service:
        _print(service.job(name), as_json=as_json)


@job.command("resume")
def resume(
    name: JobArgument, usd: Usd = None, tokens: Tokens = None, server: Server = None, as_json: AsJson = False
) -> None:
    """Resume a job that paused because its budget was reached; a cap that is not given stays."""
    caps: dict[str, Any] = {"budget_usd": usd, "budget_tokens": tokens}
    with client(server) as service:
        _print(service.resume(name, **caps), as_json=as_json)


@job.command("retry")
def retry(name: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Evaluate the failed rows of a job that has ended again; the others stay, and nothing is paid twice."""
    with client(server) as service:
        _print(service.retry(name), as_json=as_json)


@job.command("cancel")
def cancel(name: JobArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Cancel a job; finished rows stay."""
    with client(server) as service:
        _print(service.cancel(name), as_json=as_json)


def _print(job: Job, *, as_json: bool) -> None:
    if as_json:
        print_json(job)
        return
    facts = {
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
    print_facts(facts)
    for alert in job.alerts:
        print_facts({"alert": f"{alert.gate or 'gates'}: {alert.reason}"})


def evaluate_at(server: str, configuration: ProjectConfig, registered: list[str], *, wait: bool, as_json: bool) -> None:
    """Have a service evaluate rows and its ``registered`` systems; print the report, or without ``wait`` the job's id."""
    from ragassay.reporting.files import EXPORTERS

    outputs = configuration.output
    EXPORTERS.check(outputs)
    if configuration.data is None and not configuration.systems:
        raise BadSettings("DATA is missing", hint="name a file, or 'data:' in the configuration")
    with client(server) as service:
        job = _submitted(service, configuration, registered)
        at = f"{job.id} --server {server}"
        if not wait:
            print_result(job, job.id, as_json=as_json)
            if outputs:
                typer.echo("warning: --no-wait writes no output; fetch it later: ragassay show JOB -o FILE", err=True)
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
        show_report(service.report(job.id), place, outputs, as_json=as_json, server=server)
        if job.alerts:
            raise GateFailed("a gate was missed", hint=f"see {service.server}/v1/jobs/{job.id}/gates")


def _submitted(service: Client, configuration: ProjectConfig, registered: list[str]) -> Job:
    """Queue the evaluation of a configuration; a dataset that is stored here is named, other rows are sent."""
    from ragassay.core.settings import Settings
    from ragassay.datasets.versions import DatasetStore, file_or_version
    from ragassay.sdk.evaluation import read_inputs

    keys = job_keys(configuration)
    if configuration.data and not (configuration.limit or configuration.labels or configuration.systems):
        version = file_or_version(DatasetStore.of_folder(Settings().home), configuration.data)
        if version is not None:
            return service.submit_stored(version, registered, keys)
    return service.submit_inputs(read_inputs(configuration, Terminal(quiet=True)), registered, keys)


def job_keys(configuration: ProjectConfig) -> dict[str, Any]:
    """The keys of a configuration that are about an evaluation and its gates; the service refuses its operator's.

    Left out are keys that say nothing: ``ragassay info init`` writes the operator's, too.
    """
    from ragassay.config import GatedConfig
    from ragassay.core.eval_config import RunConfig

    keys = RunConfig.model_fields.keys() | GatedConfig.model_fields.keys()
    sent = configuration.model_dump(mode="json", exclude_unset=True, exclude_none=True, include=keys)
    if not configuration.parameters.extra_body:
        sent.get("parameters", {}).pop("extra_body", None)
    return sent


def _wait(service: Client, job: Job, *, quiet: bool) -> Job:
    """Wait for a job with a bar."""
    shown, waiting = 0, None
    with progress_bar(job.progress.rows, 0, quiet) as done:

        def show(job: Job) -> None:
            nonlocal shown, waiting
            if job.waiting not in (None, waiting):
                typer.echo(f"waiting: {job.waiting}", err=True)
            done(job.progress.done - shown)
            shown, waiting = job.progress.done, job.waiting

        return service.wait(job, show)
