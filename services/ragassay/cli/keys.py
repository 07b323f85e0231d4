"""``ragassay admin keys``: the keys of a service, made and revoked in its Redis; so the first one needs no other key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.cli.configured import AsJson
from ragassay.cli.terminal import print_json
from ragassay.core.errors import BadSettings, UnknownName

if TYPE_CHECKING:
    from ragassay.service.access import Access, MadeKey, Permission
    from ragassay.service.projects import ProjectRedis

keys = typer.Typer(help="Make, list and revoke keys of the API.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the key is for.")]
KeyArgument = Annotated[str, typer.Argument(metavar="ID", help="The part of the key after ra_.")]
Project = Annotated[str, typer.Option("--project", metavar="NAME", help="Whose jobs and datasets it reaches.")]
OfProject = Annotated[str | None, typer.Option("--project", metavar="NAME", help="Only the keys of this project.")]
Scopes = Annotated[
    list[str] | None,
    typer.Option("--scope", metavar="submit|read|operate", help="What it may do; repeatable. [submit and read]"),
]
Days = Annotated[
    float | None, typer.Option("--expires-in-days", metavar="N", min=0, help="When it ends. [it does not]")
]

MOST_USD = 1_000_000_000


@keys.command("make")
def make(
    name: Name,
    project: Project = "default",
    scope: Scopes = None,
    expires_in_days: Days = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it. It can't be shown again; Redis keeps a hash of it only."""
    with _access() as access:
        made = access.make(name, project=project, scopes=_scopes(scope), expires_in_days=expires_in_days)
    _print(made, f"key {made.id} of project {made.project} may {' and '.join(made.scopes)}", as_json=as_json)


@keys.command("list")
def list_keys(project: OfProject = None, as_json: AsJson = False) -> None:
    """List the keys of all projects; for 90 days also those that are revoked or have expired."""
    from ragassay.core.formatting import printable
    from ragassay.reporting.tables import table

    with _access() as access:
        listed = [key for key in access.listed() if project in (None, key.project)]
    if as_json:
        print_json(listed)
        return
    rows = [
        (
            key.id,
            printable(key.name),
            key.project,
            ", ".join(key.scopes),
            _day(key.last_used_at) or "never",
            f"revoked {_day(key.revoked_at)}" if key.revoked_at else _day(key.expires_at) or "no end",
        )
        for key in listed
    ]
    if not rows:
        typer.echo("there is no key; make one: ragassay admin keys make NAME", err=True)
        return
    typer.echo("\n".join(table(("key", "name", "project", "may", "last used", "ends"), rows)))


@keys.command("revoke")
def revoke(key: KeyArgument) -> None:
    """End a key: from the next request on it opens nothing."""
    with _access() as access:
        revoked = access.revoke(key)
    typer.echo(f"key {key} of project {revoked.project} is revoked")


def budget(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="Whose budget.")] = "default",
    usd: Annotated[
        float | None, typer.Option("--usd", metavar="N", help="The most that its jobs may spend in a month (UTC).")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="It may spend without a cap.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a project may spend in this month and has spent, or change the cap."""
    from ragassay.service.access import check_project
    from ragassay.service.project_budgets import ProjectBudgets, estimated_part

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


@contextmanager
def _store() -> Iterator[ProjectRedis]:
    """The service's Redis; raises Unavailable while it does not answer."""
    from ragassay.core.settings import Settings
    from ragassay.service.local_up import state_url
    from ragassay.service.projects import ProjectRedis
    from ragassay.service.redis_errors import outages

    with outages():
        yield ProjectRedis(state_url(Settings()), patient=False)


@contextmanager
def _access() -> Iterator[Access]:
    """The keys in the service's Redis; raises Unavailable while it does not answer."""
    from ragassay.core.settings import Settings
    from ragassay.service.access import Access

    with _store() as store:
        yield Access(store, Settings())


def _scopes(given: list[str] | None) -> list[Permission]:
    from ragassay.service.access import SCOPES

    known: dict[str, Permission] = {name: name for name in SCOPES}
    asked = [part.strip() for text in given or ("submit", "read") for part in text.split(",") if part.strip()]
    for name in asked:
        if name not in known:
            raise UnknownName("scope", name, SCOPES, where="--scope")
    if not asked:
        raise BadSettings("names no scope", where="--scope", hint=f"known: {', '.join(SCOPES)}")
    return [known[name] for name in asked]


def _print(made: MadeKey, what: str, *, as_json: bool) -> None:
    typer.echo(made.model_dump_json() if as_json else made.key)
    typer.echo(f"{what}; keep it now, it is not shown again", err=True)


def _day(when: datetime | None) -> str:
    return f"{when:%Y-%m-%d %H:%M}" if when else ""
