"""``ragassay compare A B --pairwise MODEL``: which of two systems answers better, query by query."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragassay.cli.options import configured
from ragassay.cli.running import print_notice, warnings_shown
from ragassay.cli.terminal import print_document, print_json

if TYPE_CHECKING:
    from ragassay.analysis.pairwise import Contender
    from ragassay.config import ProjectConfig
    from ragassay.core.eval_config import EvalConfig
    from ragassay.judges.preference import AnswerPair, PreferenceJudge


def compare(
    runs: list[str],
    model_name: str,
    server: str | None,
    config: Path | None,
    options: Mapping[str, Any],
    outputs: list[Path],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Have a model say which of two systems' answers is better, query by query, each pair in both orders."""
    from ragassay.analysis.pairwise import Contest, judged
    from ragassay.core.errors import BadInput, Unscored
    from ragassay.core.files import write_whole
    from ragassay.core.formatting import json_document
    from ragassay.core.settings import Settings
    from ragassay.evaluation.runtime import preference_judge
    from ragassay.reporting.pairwise import of_preferences
    from ragassay.sdk.progress import progress

    configuration = configured(config, {**options, "judge": [model_name]}, data=Path(runs[0]))
    settings = Settings().of_dry_run if dry_run else Settings()
    spec = configuration.evaluation
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
    found = contest.report(model, preferences, spec.statistics.confidence)
    for path in outputs:
        write_whole(path, json_document(found))
    if as_json:
        print_json(found)
    else:
        print_document(of_preferences(found))
    if (failed := sum(found.unjudged.values()) / found.pairs) > spec.max_missing:
        raise Unscored(f"{failed:.0%} of the pairs could not be judged; allowed: {spec.max_missing:.0%} (max_missing)")


def _contenders(references: list[str], server: str | None, configuration: ProjectConfig) -> list[Contender]:
    """The systems that are named, in that order; of a run without #SYSTEM all that it has."""
    from ragassay.analysis.comparing import is_data
    from ragassay.analysis.pairwise import Contender, answers_in
    from ragassay.analysis.sides import file_names, labelled
    from ragassay.evaluation.inputs import load
    from ragassay.sdk.references import resolve

    how = {**configuration.reading, "limit": None}  # the limit is of pairs
    files = [Path(reference) for reference in references if is_data(Path(reference))]
    called = dict(zip(files, file_names(files), strict=True))
    sides = [resolve(reference, server).side() for reference in references if Path(reference) not in called]
    named = iter(labelled(sides))
    of_sides = iter([[next(named) for _ in ([one.system] if one.system else one.report.systems)] for one in sides])
    contenders: list[Contender] = []
    for reference in references:
        if name := called.get(Path(reference)):
            contenders.append(Contender(name, answers_in(load(Path(reference), {}, **how).samples)))
        else:
            contenders += [Contender(one.label, one.report.results_of(one.system)) for one in next(of_sides)]
    return contenders


def _print_estimate(model: PreferenceJudge, pairs: list[AnswerPair], spec: EvalConfig) -> None:
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
