"""``ragassay admin``: what the service's operator asks and does, with access to its Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ragassay.cli.configured import AsJson
from ragassay.cli.keys import budget, keys
from ragassay.cli.service import alive
from ragassay.cli.terminal import print_json
from ragassay.core.errors import Unavailable

if TYPE_CHECKING:
    from ragassay.core.settings import Settings
    from ragassay.service.health import ServiceHealth
    from ragassay.service.jobs import Jobs

admin = typer.Typer(
    help="Look after a running service; needs RAGASSAY_STATE_URL, and RAGASSAY_BROKER_URL where it is set."
)
admin.add_typer(keys, name="keys")
admin.command()(budget)
admin.command()(alive)
Apply = Annotated[bool, typer.Option("--apply", help="Let jobs that have ended live as long as the settings say now.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count what --apply would do.")]


def _settings() -> Settings:
    """The settings, with the Redis of ``ragassay up`` in this folder where none is named."""
    from ragassay.core.settings import Settings
    from ragassay.service.local_up import state_url

    settings = Settings()
    return settings.model_copy(update={"state_url": state_url(settings)})


@contextmanager
def _jobs() -> Iterator[Jobs]:
    """The use cases over the Redis of the settings; one that does not answer is an Unavailable."""
    from ragassay.service import wiring
    from ragassay.service.redis_errors import outages

    with outages():
        yield wiring.jobs_for(_settings(), patient=False)


@admin.command()
def health(as_json: AsJson = False) -> None:
    """Say how Redis, workers, beats, queues and jobs are; exit code 3 where something needs attention."""
    from ragassay.service.health import health as service_health

    with _jobs() as jobs:
        known = service_health(jobs.store, _settings().redis_servers.get("broker"))
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
    yield "beats", str(known.beats)
    queues = [f"{queue} {count}" for queue, count in known.waiting.items()]
    yield "messages", f"{', '.join(queues)}, taken {known.taken}"
    jobs = [f"{count} {status}" for status, count in sorted(known.jobs.items()) if count]
    yield "jobs", f"{', '.join(jobs) or 'none under way'}, {len(known.stalled)} stalled, {known.listed} listed"


@admin.command()
def retention(apply: Apply = False, dry_run: DryRun = False) -> None:
    """Show for how long jobs are kept; --apply holds those to it that have ended already."""
    from ragassay.service.job_state import DAY_S

    with _jobs() as jobs:
        days = jobs.store.retention
        typer.echo(f"rows:     {days.results_s // DAY_S} days after a job's end (RAGASSAY_KEEP_RESULTS_DAYS)")
        typer.echo(f"reports:  {days.reports_s // DAY_S} days (RAGASSAY_KEEP_REPORTS_DAYS)")
        if not apply and not dry_run:
            return
        applied = jobs.store.apply_retention(jobs.store.job_lists(), days, dry_run=dry_run)
    would = "would be" if dry_run else "were"
    typer.echo(f"of {applied.jobs} jobs that have ended:")
    typer.echo(f"  {applied.without_report} {would} deleted, {applied.without_rows} {would} left without their rows")
