"""``ragassay schedule``: jobs that a service runs at planned times."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ragassay.cli.jobs import job_keys
from ragassay.cli.options import AsJson, Last, Server, client, configured, given, takes_options
from ragassay.cli.terminal import print_json, print_list, print_result, print_table
from ragassay.core.errors import AssayError, BadSettings, Conflict

if TYPE_CHECKING:
    from ragassay.core.schedules import JobSchedule

NameArgument = Annotated[str, Argument(metavar="NAME", help="The schedule.")]
ConfigFile = Annotated[Path | None, Argument(metavar="FILE", help="A configuration. [ragassay.yaml of this folder]")]
Name = Annotated[str | None, Option("--name", metavar="NAME", help="Its name. [nightly]")]
Cron = Annotated[str | None, Option("--cron", metavar="'M H D M W'", help="When, such as '30 2 * * *'.")]
Zone = Annotated[str | None, Option("--zone", metavar="ZONE", help="Time zone, Europe/Berlin. [UTC]")]
Dataset = Annotated[str | None, Option("--dataset", metavar="NAME[@VERSION]", help="A dataset of the service.")]
Systems = Annotated[list[str] | None, Option("--system", metavar="NAME", help="A registered system. Repeatable.")]
Replace = Annotated[bool, Option("--replace", help="Change the schedule of this name.")]
Pause = Annotated[bool | None, Option("--pause/--resume", help="Start no run from now on, or start runs again.")]
_NOT_SENT = ("name", "system", "dataset", "baseline", "limit", "map", "output", "plugins")

schedule = typer.Typer(no_args_is_help=True)


@schedule.command("add")
@takes_options(without=_NOT_SENT)
def add(
    file: ConfigFile = None,
    server: Server = None,
    name: Name = None,
    cron: Cron = None,
    zone: Zone = None,
    dataset: Dataset = None,
    system: Systems = None,
    replace: Replace = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Plan a job: 'schedule' and the options of a configuration, over which those of the command go."""
    keys = given({"name": name, "cron": cron, "zone": zone, "dataset": dataset, "systems": system})
    configuration = configured(file, options, remote=True, schedule=keys)
    if (section := configuration.schedule) is None:
        hint = "'schedule: {cron: ...}' in the configuration, or --cron '30 2 * * *'"
        raise BadSettings("it is not said when", hint=hint)
    with client(server) as service:
        try:
            added = service.schedules.add(**section.request(job_keys(configuration)), replace=replace)
        except AssayError as error:
            if error.status == Conflict.status:
                error.hint = "change it: --replace; or choose another name: --name NAME"
            raise
    _print_next(added, as_json=as_json)


@schedule.command("list")
def list_(server: Server = None, as_json: AsJson = False) -> None:
    """List schedules with their next time and newest run."""
    with client(server) as service:
        schedules = service.schedules.list()
    columns = {
        "schedule": lambda one: one.name,
        "cron": lambda one: one.cron,
        "zone": lambda one: one.zone,
        "next": lambda one: next(one.local(one.next[:1]), "paused"),
        "last": lambda one: f"{one.last.status} {next(one.local([one.last.slot]))}" if one.last else "",
        "gates": lambda one: one.last.gates if one.last else "",
    }
    print_list(schedules, columns, least=("zone", "cron"), empty="there is no schedule", as_json=as_json)


@schedule.command("show")
def show(name: NameArgument, server: Server = None, last: Last = 10, as_json: AsJson = False) -> None:
    """Show a schedule: its next times and its last runs, in its time zone."""
    with client(server) as service:
        known = service.schedules.show(name)
        runs = list(islice(service.schedules.runs(name), last))
    if as_json:
        print_json({**dict(known), "runs": runs})
        return
    typer.echo(f"{known.name}: {known.cron} {known.zone}; {known.evaluated}{' (paused)' if known.paused else ''}\n")
    planned = [(at, "planned", "", "") for at in known.local(reversed(known.next))]
    made = [(next(known.local([run.slot])), run.outcome, run.gates, run.job or run.reason or "") for run in runs]
    print_table(("time", "run", "gates", "job, or why there is none"), [*planned, *made])


@schedule.command("set")
def set_(
    name: NameArgument,
    cron: Cron = None,
    zone: Zone = None,
    pause: Pause = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Change when a schedule runs, pause it, or resume it. Times while it is paused are not missed."""
    changes = given({"cron": cron, "zone": zone, "paused": pause})
    if not changes:
        raise BadSettings("nothing is changed", hint="give --cron, --zone, --pause or --resume")
    with client(server) as service:
        _print_next(service.schedules.change(name, **changes), as_json=as_json)


@schedule.command("run")
def run(name: NameArgument, server: Server = None, as_json: AsJson = False) -> None:
    """Start a run now, in addition to those that are planned."""
    with client(server) as service:
        made = service.schedules.run(name)
    print_result(made, made.slot, as_json=as_json)
    typer.echo(f"follow it: ragassay schedule show {name}{f' --server {server}' if server else ''}", err=True)


@schedule.command("remove")
def remove(name: NameArgument, server: Server = None) -> None:
    """Delete a schedule and its history; its jobs stay."""
    with client(server) as service:
        service.schedules.delete(name)
    typer.echo(f"{name} is removed")


def _print_next(known: JobSchedule, *, as_json: bool) -> None:
    print_result(known, known.name, as_json=as_json)
    typer.echo(f"next: {', '.join(known.local(known.next[:1])) or 'never, it is paused'}", err=True)
