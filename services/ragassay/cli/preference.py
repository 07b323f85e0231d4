"""``ragassay judge prefer``: which of two systems answers better, query by query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragassay.cli.compare import Server
from ragassay.cli.configured import DECLARED, AsJson, configured, reading, takes_options
from ragassay.cli.evaluate import DryRun, print_notice, warnings_shown
from ragassay.cli.terminal import print_json

if TYPE_CHECKING:
    from ragassay.analysis.pairwise import Contender, PreferenceReport
    from ragassay.config import Configuration
    from ragassay.core.specification import JobSpec
    from ragassay.judges.preference import AnswerPair, PreferenceJudge

# Those of ``evaluate`` that have a meaning here.
_TAKEN = (
    *("api_base", "format", "map", "duplicates"),
    *("seed", "concurrency", "give_up_s", "cache", "usd", "tokens"),
)
_MOST_LOST = 10  # queries that are listed on a terminal


@takes_options(without=[key for key in DECLARED if key not in _TAKEN])
def prefer(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="A B", help="Two systems: RUN[#SYSTEM], report files, ids of jobs, files with answers."),
    ],
    judge: Annotated[str | None, typer.Option("--judge", metavar="MODEL", help="The model that compares.")] = None,
    limit: Annotated[
        str | None, typer.Option("--limit", metavar="N", help="Only the first so many pairs. [all]")
    ] = None,
    max_missing: Annotated[
        str | None,
        typer.Option(
            "--max-missing", metavar="X", help="Share of pairs that may stay unjudged; else exit code 3. [0.05]"
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Also write the JSON.")] = None,
    dry_run: DryRun = False,
    server: Server = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Have a model say which of two systems' answers is better, query by query, each pair in both orders."""
    from ragassay.analysis.pairwise import Contest, judged
    from ragassay.core.errors import BadInput, Unscored
    from ragassay.core.files import write_whole
    from ragassay.core.formatting import json_document
    from ragassay.core.settings import Settings
    from ragassay.evaluation.runtime import preference_judge
    from ragassay.sdk.progress import progress

    given = {**options, "judges": [judge] if judge else None, "limit": limit, "max_missing": max_missing}
    configuration = configured(None, given, data=Path(runs[0]))
    settings = Settings().of_dry_run if dry_run else Settings()
    spec = configuration.to_job_spec()
    model = preference_judge(spec, settings)
    contenders = _contenders(runs, server, configuration)
    if len(contenders) != 2:
        named = ", ".join(one.name for one in contenders)
        raise BadInput(f"two systems are compared, here are {len(contenders)}: {named}", hint="name two: RUN#SYSTEM")
    contest = Contest(contenders[0], contenders[1], configuration.limit)
    if dry_run:
        _print_estimate(model, contest.pairs, spec)
        return
    with progress(len(contest.pairs), 0, quiet=as_json) as done, warnings_shown():
        preferences = judged(model, contest.pairs, settings, spec, done=done, notice=print_notice)
    found = contest.report(model, preferences, spec.confidence)
    if output:
        write_whole(output, json_document(found))
    if as_json:
        print_json(found)
    else:
        _print_preferences(found)
    if (failed := sum(found.unjudged.values()) / found.pairs) > spec.max_missing:
        raise Unscored(
            f"{failed:.0%} of the pairs could not be judged; allowed: {spec.max_missing:.0%} (--max-missing)"
        )


def _contenders(references: list[str], server: str | None, configuration: Configuration) -> list[Contender]:
    """The systems that are named, in that order; of a run without #SYSTEM all that it has."""
    from ragassay.analysis.comparing import is_data
    from ragassay.analysis.pairwise import Contender, answers_in
    from ragassay.analysis.sides import file_names, labelled
    from ragassay.evaluation.plan import load
    from ragassay.sdk.stored import side

    how = {**reading(configuration), "limit": None}  # the limit is of pairs
    files = [Path(reference) for reference in references if is_data(Path(reference))]
    called = dict(zip(files, file_names(files), strict=True))
    sides = [side(reference, server) for reference in references if Path(reference) not in called]
    named = iter(labelled(sides))
    of_sides = iter([[next(named) for _ in ([one.system] if one.system else one.report.systems)] for one in sides])
    contenders: list[Contender] = []
    for reference in references:
        if name := called.get(Path(reference)):
            contenders.append(Contender(name, answers_in(load(Path(reference), {}, **how).samples)))
        else:
            contenders += [Contender(one.label, one.rows) for one in next(of_sides)]
    return contenders


def _print_estimate(model: PreferenceJudge, pairs: list[AnswerPair], spec: JobSpec) -> None:
    import asyncio

    from ragassay.analysis.pairwise import preferences
    from ragassay.cli.estimate import print_most
    from ragassay.llm import Prices
    from ragassay.llm.journal import CostEstimator

    journal = CostEstimator()
    found = asyncio.run(preferences(model, pairs, journal))
    settled = sum(one.basis is not None for one in found)
    typer.echo(f"{len(pairs)} pairs of answers, {settled} settled without a call; judge {model.name}")
    spent, made = (sum(getattr(one, name) for one in journal.estimates) for name in ("input_tokens", "output_tokens"))
    typer.echo(f"{len(journal.estimates)} judge calls, at most about {spent:,} input and {made:,} output tokens")
    print_most({spec.judges[0].model: journal.estimates}, Prices(spec.prices))


def _print_preferences(found: PreferenceReport) -> None:
    from ragassay.cli.terminal import line_writer
    from ragassay.core.formatting import interval, listed, number, percent
    from ragassay.core.models import Usage
    from ragassay.reporting.summary import spent

    write = line_writer()
    write(
        f"{found.b} against {found.a}: {found.judged} of {found.pairs} pairs judged by {found.judge['name']}, both orders"
    )
    ends = f"{interval(found.interval, form='[{}, {}]')} at {found.interval.level:.0%}"
    rate = f"win rate {number(found.win_rate)} {ends} (wins and half of the ties)"
    write(f"{found.b} wins {found.wins}, ties {found.ties}, loses {found.losses}; {rate}", "bold")
    write(f"p {number(found.p)} over {found.wins + found.losses} decided pairs (exact sign test)")
    place = found.position
    flipped = f"{place.first + place.second} of {place.pairs} pairs" + (
        f" ({percent(place.share)})" if place.share else ""
    )
    write(
        f"position: {flipped} turned with the order, so they tie: {place.first} for the first answer, "
        f"{place.second} for the second; p {number(place.p)}"
    )
    write(f"basis: {listed(f'{basis} {count}' for basis, count in sorted(found.basis.items()))}")
    for reason, count in found.unjudged.items():
        write(f"not judged: {count} of {found.pairs} pairs: {reason}")
    if found.only_a or found.only_b or found.unanswered:
        write(
            f"no pair: {found.only_a} only in {found.a}, {found.only_b} only in {found.b}, {found.unanswered} unanswered"
        )
    if found.suspicious:
        marked = listed(row.query_id for row in found.rows if row.preference.suspicious)
        write(f"suspicious: {found.suspicious} pairs hold text that addresses the judge or forges its form: {marked}")
    wasted = f"; wasted {spent(found.waste)}" if found.waste != Usage() else ""
    write(f"judge: {spent(found.usage)}{wasted}")
    lost = [row for row in found.rows if row.outcome == "loss"]
    if lost:
        write(f"\n{found.b} loses", "bold")
    for row in lost[:_MOST_LOST]:
        write(f"{row.query_id}: {row.query}")
        write(f"  {next(filter(None, row.preference.why), str(row.preference.basis))}")
    if len(lost) > _MOST_LOST:
        write(f"and {len(lost) - _MOST_LOST} more: --json has all")
