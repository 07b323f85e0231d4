"""``ragassay schedule``: jobs that a service runs at planned times."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ragassay.cli.jobs import job_keys
from ragassay.cli.options import AsJson, Last, Server, configured, takes_options, without_none
from ragassay.cli.terminal import print_json, print_table
from ragassay.client import Client, ServiceError
from ragassay.config.schedules import JobSchedule
from ragassay.core.errors import BadSettings, Conflict
from ragassay.core.formatting import cut
from ragassay.reporting.text import width

schedule = typer.Typer(help="Plan jobs of a service: nightly runs.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule.")]
Cron = Annotated[str | None, typer.Option("--cron", metavar="'M H D M W'", help="When, such as '30 2 * * *'.")]
Zone = Annotated[str | None, typer.Option("--zone", metavar="ZONE", help="Time zone, Europe/Berlin. [UTC]")]
_NOT_SENT = ("name", "system", "dataset", "baseline", "limit", "map", "output", "plugins")


@schedule.command("add")
@takes_options(without=_NOT_SENT)
def add(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A configuration. [ragassay.yaml of this folder]")
    ] = None,
    server: Server = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Its name. [nightly]")] = None,
    cron: Cron = None,
    zone: Zone = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="NAME[@VERSION]", help="A dataset of the service.")
    ] = None,
    system: Annotated[
        list[str] | None, typer.Option("--system", metavar="NAME", help="A registered system. Repeatable.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Change the schedule of this name.")] = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Plan a job: 'schedule' and the options of a configuration, over which those of the command go."""
    keys = without_none({"name": name, "cron": cron, "zone": zone, "dataset": dataset, "systems": system or None})
    configuration = configured(file, options, remote=True, schedule=keys)
    if (section := configuration.schedule) is None:
        hint = "'schedule: {cron: ...}' in the configuration, or --cron '30 2 * * *'"
        raise BadSettings("it is not said when", hint=hint)
    with Client(server) as service:
        body = section.request(job_keys(configuration))
        try:
            added = service.schedules.add(**body, replace=replace)
        except ServiceError as error:
            if error.status == Conflict.status:
                error.hint = "change it: --replace; or choose another name: --name NAME"
            raise
    _print_next(added, as_json=as_json)


@schedule.command("list")
def list_(server: Server = None, as_json: AsJson = False) -> None:
    """List schedules with their next time and newest run."""
    with Client(server) as service:
        schedules = service.schedules.list()
    if as_json:
        print_json(schedules)
        return
    rows = [
        (
            one.name,
            one.cron,
            one.zone,
            next(one.local(one.next[:1]), "paused"),
            "" if one.last is None else f"{one.last.status} {next(one.local([one.last.slot]))}",
            "" if one.last is None else one.last.gates,
        )
        for one in schedules
    ]
    columns = ("schedule", "cron", "zone", "next", "last", "gates")
    print_table(columns, rows, least=("zone", "cron"), empty="there is no schedule")


@schedule.command("show")
def show(name: NameArgument, server: Server = None, last: Last = 10, as_json: AsJson = False) -> None:
    """Show a schedule: its next times and its last runs, in its time zone."""

    with Client(server) as service:
        known = service.schedules.show(name)
        runs = list(islice(service.schedules.runs(name), last))
    if as_json:
        print_json({**dict(known), "runs": runs})
        return
    typer.echo(f"{known.name}: {known.cron} {known.zone}; {known.evaluated}{' (paused)' if known.paused else ''}\n")
    planned = [(at, "planned", "", "") for at in known.local(reversed(known.next))]
    longest = max(32, width() - 47)  # beside the other columns
    made = [
        (next(known.local([run.slot])), run.outcome, run.gates, run.job or cut(run.reason or "", longest))
        for run in runs
    ]
    print_table(("time", "run", "gates", "job, or why there is none"), [*planned, *made])


@schedule.command("set")
def set_(
    name: NameArgument,
    cron: Cron = None,
    zone: Zone = None,
    pause: Annotated[
        bool | None, typer.Option("--pause/--resume", help="Start no run from now on, or start runs again.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Change when a schedule runs, pause it, or resume it. Times while it is paused are not missed."""
    changes = without_none({"cron": cron, "zone": zone, "paused": pause})
    if not changes:
        raise BadSettings("nothing is changed", hint="give --cron, --zone, --pause or --resume")
    with Client(server) as service:
        _print_next(service.schedules.change(name, **changes), as_json=as_json)


@schedule.command("run")
def run(name: NameArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Start a run now, in addition to those that are planned."""
    with Client(server) as service:
        made = service.schedules.run(name)
    typer.echo(made.model_dump_json() if as_json else made.slot)
    typer.echo(f"follow it: ragassay schedule show {name}{f' --server {server}' if server else ''}", err=True)


@schedule.command("remove")
def remove(name: NameArgument, server: Server = None) -> None:
    """Delete a schedule and its history; its jobs stay."""
    with Client(server) as service:
        service.schedules.delete(name)
    typer.echo(f"{name} is removed")


def _print_next(known: JobSchedule, *, as_json: bool) -> None:
    if as_json:
        typer.echo(known.model_dump_json())
        return
    typer.echo(known.name)
    typer.echo(f"next: {', '.join(known.local(known.next[:1])) or 'never, it is paused'}", err=True)
