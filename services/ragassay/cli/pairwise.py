"""``ragassay compare A B --pairwise MODEL``: which of two systems' answers a model prefers, query by query."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ragassay.analysis.comparison import check_terms
from ragassay.analysis.pairwise import answered_by_both, compare_by_preference, preferences
from ragassay.analysis.sides import labelled
from ragassay.cli.estimate import print_calls
from ragassay.cli.options import configured
from ragassay.cli.terminal import Terminal, show, warnings_shown
from ragassay.core.errors import BadInput, Unscored
from ragassay.core.settings import Settings
from ragassay.evaluation.outage import through_outages
from ragassay.evaluation.runtime import preference_judge
from ragassay.llm import Prices
from ragassay.llm.journal import CostEstimator
from ragassay.reporting.comparison import EXPORTERS, of_comparison
from ragassay.sdk.progress import progress_bar
from ragassay.sdk.references import resolve
from ragassay.storage.folder import new_run_id
from ragassay.storage.journal import CallCache, FolderJournal


def prefer(
    runs: Sequence[str],
    model: str,
    server: str | None,
    config: Path | None,
    options: Mapping[str, Any],
    outputs: list[Path],
    terms: Mapping[str, Any],
    *,
    as_json: bool,
    dry_run: bool,
) -> None:
    """Print what asking the model about each pair of answers in both orders can take; then ask, and print the comparison.

    ``terms``: of the comparison. ``dry_run``: print the first and make no call.
    """
    EXPORTERS.check(outputs)
    check_terms(**terms)
    configuration, settings = configured(config, {**options, "judge": [model]}), Settings()
    settings = settings.of_dry_run if dry_run else settings
    spec, judge = configuration.evaluation, preference_judge(configuration.evaluation, settings)
    systems = labelled([resolve(run, server).side() for run in runs])
    if len(systems) != 2:
        named = ", ".join(one.label for one in systems)
        raise BadInput(f"two systems are compared, these are {len(systems)}: {named}", hint="name two: RUN#SYSTEM")
    pairs, estimator = answered_by_both(*systems, configuration.limit), CostEstimator()
    with warnings_shown():
        asyncio.run(preferences(pairs, judge, estimator))
        print_calls({judge.name: estimator.estimates}, Prices(spec.prices), err=not dry_run)
    if dry_run:
        return
    run, done = new_run_id("pairwise"), set[str]()
    with ExitStack() as stack:
        move = stack.enter_context(progress_bar(len(pairs), 0, quiet=as_json))
        stack.enter_context(warnings_shown())
        cache = None
        if spec.performance.cache:
            cache = CallCache(settings.home / "cache" / "calls.sqlite")
            stack.callback(cache.close)
        journal = FolderJournal(settings.home / "pairwise" / f"{run}.jsonl", run=run, cache=cache, budget=spec.budget)
        stack.callback(journal.close)

        def answered(query_id: str) -> None:
            if query_id not in done:  # after an outage all pairs are asked about again, from the journal
                done.add(query_id)
                move(1)

        asking = through_outages(
            lambda used: preferences(pairs, judge, used, answered),
            journal,
            spec.performance.provider_outage_timeout_s,
            Terminal(quiet=as_json).waiting,
        )
        found = asyncio.run(asking)
    comparison = compare_by_preference(*systems, pairs, found, judge.name, **terms)
    show(comparison, of_comparison, EXPORTERS, outputs, as_json=as_json)
    limit, failed = spec.max_failed_share, sum(one.reason is not None for one in found) / len(found)
    if failed > limit:
        raise Unscored(f"{failed:.0%} of the pairs could not be judged; allowed: {limit:.0%} (max_failed_share)")
