"""``ragassay admin``: health, keys and budgets of a service, for its operator, who has access to its Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from ragassay.cli.options import AsJson
from ragassay.cli.terminal import print_facts, print_json, print_list, print_result
from ragassay.core.errors import BadSettings, Unavailable, UnknownName
from ragassay.core.formatting import split_names

if TYPE_CHECKING:
    from ragassay.core.settings import Settings
    from ragassay.service.access import Access, Permission
    from ragassay.service.projects import ProjectRedis

MAX_USD = 1_000_000_000
Project = Annotated[str, Argument(metavar="PROJECT", help="Whose budget.")]
Usd = Annotated[float | None, Option("--usd", metavar="N", help="The most that its jobs may spend in a month (UTC).")]
Uncapped = Annotated[bool, Option("--none", help="It may spend without a cap.")]
KeyName = Annotated[str, Argument(metavar="NAME", help="What the key is for.")]
KeyProject = Annotated[str, Option("--project", metavar="NAME", help="Whose jobs and datasets it reaches.")]
Scopes = Annotated[
    list[str] | None,
    Option("--scope", metavar="submit|read|admin", help="What it may do; repeatable. [submit and read]"),
]
OneProject = Annotated[str | None, Option("--project", metavar="NAME", help="Only the keys of this project.")]
KeyId = Annotated[str, Argument(metavar="ID", help="The part of the key after ra_.")]

admin = typer.Typer(no_args_is_help=True)
keys = typer.Typer(help="Make, list and revoke keys of the API.", no_args_is_help=True)
admin.add_typer(keys, name="keys")


def _settings() -> Settings:
    """The settings, with the Redis of ``ragassay serve`` in this folder where none is named."""
    from ragassay.core.settings import Settings
    from ragassay.service.local_up import state_url

    settings = Settings()
    return settings.model_copy(update={"state_url": state_url(settings)})


@contextmanager
def _store() -> Iterator[ProjectRedis]:
    """The service's Redis; raises Unavailable while it does not answer."""
    from ragassay.service.connection import outages
    from ragassay.service.projects import ProjectRedis

    with outages():
        yield ProjectRedis(_settings().state, patient=False)


@contextmanager
def _access() -> Iterator[Access]:
    from ragassay.service.access import Access

    with _store() as store:
        yield Access(store, _settings())


@admin.command()
def health(as_json: AsJson = False) -> None:
    """Show the state of Redis, workers, schedulers, queues and jobs; exit code 3 if something needs attention."""
    from ragassay.service import wiring
    from ragassay.service.connection import outages
    from ragassay.service.health import health as service_health

    settings = _settings()
    with outages():
        store = wiring.jobs_for(settings, patient=False).store
        known = service_health(store, settings.redis_servers.get("broker"))
    queues = [f"{queue} {count}" for queue, count in known.waiting.items()]
    jobs = [f"{count} {status}" for status, count in sorted(known.jobs.items()) if count]
    if as_json:
        print_json(known)
    else:
        facts = {f"redis ({server.role})": server.summary for server in known.redis} | {
            "workers": f"{known.workers} with {known.processes} processes",
            "schedulers": str(known.beats),
            "messages": f"{', '.join(queues)}, taken {known.taken}",
            "jobs": f"{', '.join(jobs) or 'none under way'}, {len(known.stalled)} stalled, {known.listed} listed",
        }
        print_facts(facts, column=16)
    if problems := (*known.problems, *known.job_problems):
        *others, last = problems
        for problem in others:
            typer.echo(f"error: {problem}", err=True)
        raise Unavailable(last, hint="see docs/operations.md")


@admin.command()
def budget(project: Project = "default", usd: Usd = None, none: Uncapped = False, as_json: AsJson = False) -> None:
    """Show what a project may spend in this month and has spent, or change the cap."""
    from ragassay.service.access import check_project
    from ragassay.service.project_budgets import ProjectBudgets, estimated_part

    check_project(project)
    if usd is not None and (none or not 0 < usd <= MAX_USD):
        what = "can't be given with --none" if none else f"should be above 0 and at most {MAX_USD:,}, is {usd:g}"
        raise BadSettings(what, where="--usd", hint="a project without a cap: --none")
    with _store() as store:
        budgets = ProjectBudgets(store)
        if usd is not None or none:
            budgets.cap(project, usd)
        standing = budgets.standing(project)
    cap = "no budget" if standing.usd is None else f"{standing.usd:g} USD a month"
    spent = f"{standing.spent_usd:.4f} USD are spent{estimated_part(standing.unknown_usd)}"
    reserved = f"{standing.reserved_usd:.4f} reserved by calls in flight"
    print_result(standing, f"project {project}: {cap}; in {standing.month} {spent} and {reserved}", as_json=as_json)


@keys.command("make")
def make(name: KeyName, project: KeyProject = "default", scope: Scopes = None, as_json: AsJson = False) -> None:
    """Make a key and print it. It can't be shown again: Redis keeps only a hash of it."""
    with _access() as access:
        made = access.make(name, project=project, scopes=_scopes(scope))
    print_result(made, made.key, as_json=as_json)
    what = f"key {made.id} of project {made.project} may {' and '.join(made.scopes)}"
    typer.echo(f"{what}; keep it now, it is not shown again", err=True)


@keys.command("list")
def list_keys(project: OneProject = None, as_json: AsJson = False) -> None:
    """List the keys of all projects."""
    with _access() as access:
        known = [key for key in access.listed() if project in (None, key.project)]
    columns = {
        "key": lambda key: key.id,
        "name": lambda key: key.name,
        "project": lambda key: key.project,
        "may": lambda key: ", ".join(key.scopes),
        "made": lambda key: f"{key.created_at:%Y-%m-%d}",
    }
    print_list(known, columns, empty="there is no key; make one: ragassay admin keys make NAME", as_json=as_json)


@keys.command("revoke")
def revoke(key: KeyId) -> None:
    """Remove a key: the service refuses it from the next request on."""
    with _access() as access:
        revoked = access.revoke(key)
    typer.echo(f"key {key} of project {revoked.project} is revoked")


def _scopes(named: list[str] | None) -> list[Permission]:
    from ragassay.service.access import SCOPES

    names = split_names(",".join(named or ("submit", "read")))
    if unknown := next((name for name in names if name not in SCOPES), None):
        raise UnknownName("scope", unknown, SCOPES, where="--scope")
    if not names:
        raise BadSettings("names no scope", where="--scope", hint=f"known: {', '.join(SCOPES)}")
    return [scope for scope in SCOPES if scope in names]
