"""``ragassay admin``: health, keys and budgets of a service, for its operator, who has access to its Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ragassay.cli.options import AsJson
from ragassay.cli.terminal import print_json, print_table
from ragassay.core.errors import BadSettings, Unavailable, UnknownName
from ragassay.core.formatting import split_names
from ragassay.core.settings import Settings
from ragassay.service import wiring
from ragassay.service.access import SCOPES, Access, Permission, check_project
from ragassay.service.connection import outages
from ragassay.service.health import ServiceHealth
from ragassay.service.health import health as service_health
from ragassay.service.local_up import state_url
from ragassay.service.project_budgets import ProjectBudgets, estimated_part
from ragassay.service.projects import ProjectRedis

MOST_USD = 1_000_000_000
_NEEDS = "needs RAGASSAY_STATE_URL, and RAGASSAY_BROKER_URL where it is set."

admin = typer.Typer(help=f"Look after a running service; {_NEEDS}", no_args_is_help=True)
keys = typer.Typer(help="Make, list and revoke keys of the API.", no_args_is_help=True)
admin.add_typer(keys, name="keys")


def _settings() -> Settings:
    """The settings, with the Redis of ``ragassay serve`` in this folder where none is named."""
    settings = Settings()
    return settings.model_copy(update={"state_url": state_url(settings)})


@contextmanager
def _store() -> Iterator[ProjectRedis]:
    """The service's Redis; raises Unavailable while it does not answer."""
    with outages():
        yield ProjectRedis(_settings().state, patient=False)


@contextmanager
def _access() -> Iterator[Access]:
    with _store() as store:
        yield Access(store, _settings())


@admin.command()
def health(as_json: AsJson = False) -> None:
    """Show the state of Redis, workers, schedulers, queues and jobs; exit code 3 if something needs attention."""
    settings = _settings()
    with outages():
        store = wiring.jobs_for(settings, patient=False).store
        known = service_health(store, settings.redis_servers.get("broker"))
    if as_json:
        print_json(known)
    else:
        for label, value in _lines(known):
            typer.echo(f"{label + ':':16}{value}")
    if problems := (*known.problems, *known.job_problems):
        *others, last = problems
        for problem in others:
            typer.echo(f"error: {problem}", err=True)
        raise Unavailable(last, hint="see docs/operations.md")


def _lines(known: ServiceHealth) -> Iterator[tuple[str, str]]:
    for server in known.redis:
        yield f"redis ({server.role})", server.summary
    yield "workers", f"{known.workers} with {known.processes} processes"
    yield "schedulers", str(known.beats)
    queues = [f"{queue} {count}" for queue, count in known.waiting.items()]
    yield "messages", f"{', '.join(queues)}, taken {known.taken}"
    jobs = [f"{count} {status}" for status, count in sorted(known.jobs.items()) if count]
    yield "jobs", f"{', '.join(jobs) or 'none under way'}, {len(known.stalled)} stalled, {known.listed} listed"


@admin.command()
def budget(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="Whose budget.")] = "default",
    usd: Annotated[
        float | None, typer.Option("--usd", metavar="N", help="The most that its jobs may spend in a month (UTC).")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="It may spend without a cap.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a project may spend in this month and has spent, or change the cap."""
    check_project(project)
    if usd is not None and (none or not 0 < usd <= MOST_USD):
        what = "can't be given with --none" if none else f"should be above 0 and at most {MOST_USD:,}, is {usd:g}"
        raise BadSettings(what, where="--usd", hint="a project without a cap: --none")
    with _store() as store:
        budgets = ProjectBudgets(store)
        if usd is not None or none:
            budgets.cap(project, usd)
        standing = budgets.standing(project)
    if as_json:
        print_json(standing)
        return
    cap = "no budget" if standing.usd is None else f"{standing.usd:g} USD a month"
    typer.echo(
        f"project {project}: {cap}; in {standing.month} {standing.spent_usd:.4f} USD are spent"
        f"{estimated_part(standing.unknown_usd)} and {standing.reserved_usd:.4f} reserved by calls in flight"
    )


@keys.command("make")
def make(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for.")],
    project: Annotated[
        str, typer.Option("--project", metavar="NAME", help="Whose jobs and datasets it reaches.")
    ] = "default",
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="submit|read|operate", help="What it may do; repeatable. [submit and read]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it. It can't be shown again: Redis keeps only a hash of it."""
    with _access() as access:
        made = access.make(name, project=project, scopes=_scopes(scope))
    typer.echo(made.model_dump_json() if as_json else made.key)
    what = f"key {made.id} of project {made.project} may {' and '.join(made.scopes)}"
    typer.echo(f"{what}; keep it now, it is not shown again", err=True)


@keys.command("list")
def list_keys(
    project: Annotated[
        str | None, typer.Option("--project", metavar="NAME", help="Only the keys of this project.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the keys of all projects."""
    with _access() as access:
        known = [key for key in access.listed() if project in (None, key.project)]
    if as_json:
        print_json(known)
        return
    if not known:
        typer.echo("there is no key; make one: ragassay admin keys make NAME", err=True)
        return
    rows = [(key.id, key.name, key.project, ", ".join(key.scopes), f"{key.created_at:%Y-%m-%d}") for key in known]
    print_table(("key", "name", "project", "may", "made"), rows)


@keys.command("revoke")
def revoke(key: Annotated[str, typer.Argument(metavar="ID", help="The part of the key after ra_.")]) -> None:
    """Remove a key: the service refuses it from the next request on."""
    with _access() as access:
        revoked = access.revoke(key)
    typer.echo(f"key {key} of project {revoked.project} is revoked")


def _scopes(given: list[str] | None) -> list[Permission]:
    names = split_names(",".join(given or ("submit", "read")))
    if unknown := next((name for name in names if name not in SCOPES), None):
        raise UnknownName("scope", unknown, SCOPES, where="--scope")
    if not names:
        raise BadSettings("names no scope", where="--scope", hint=f"known: {', '.join(SCOPES)}")
    return [scope for scope in SCOPES if scope in names]
