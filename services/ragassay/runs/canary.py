"""Has the judge changed? A run has it judge a fixed panel along, and compares its verdicts with the first ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import combinations

import numpy as np

from ragassay.data.dataset import digest_of_samples
from ragassay.data.load import load
from ragassay.errors import BadSettings
from ragassay.judge_documents import Drift, JudgedPanel, LabelDrift, PanelRow, ScoreDrift
from ragassay.judges.sharing import most_trusted
from ragassay.judges.verdict import labels
from ragassay.ledger import FreshLedger
from ragassay.metrics import Chunk, parse
from ragassay.models import Judgement, Sample, Usage
from ragassay.protocols import Ledger, fingerprint
from ragassay.runs.session import Session
from ragassay.shipped import folder
from ragassay.stats.drift import sign_test, stands_out
from ragassay.store.protocol import RunStore

SHIPPED = "shipped"
FALSE_ALARMS = 1 / 200  # nights with a false alarm, at the most
FEWEST_ROWS, MOST_ROWS = 20, 500
SCORES = ("faithfulness", "completeness", "correctness", "relevance")
_RANKS = {
    "support": {"contradicted": 0, "not_found": 0, "partly": 1, "supported": 2},
    "truth": {"conflicts": 0, "absent": 0, "agrees": 1},
    "covered": {"no": 0, "partly": 1, "yes": 2},
    "relevance": {"none": 0, "barely": 1, "partly": 2, "mostly": 3, "full": 4},
    "refusal": {"no": 0, "yes": 1},
}


def panel(name: str, read: Callable[[], Sequence[Sample]]) -> Sequence[Sample]:
    """The rows of a canary panel: ``shipped``, or what ``read`` gives; raises BadSettings for one of too few rows to tell."""
    rows = load(folder("datasets") / "canary" / "panel.jsonl").samples if name == SHIPPED else read()
    answered = sum(sample.answer is not None for sample in rows)
    if answered < len(rows) or not FEWEST_ROWS <= answered <= MOST_ROWS:
        what = f"a panel has {FEWEST_ROWS} to {MOST_ROWS} rows, each with an answer; {answered} of {len(rows)} have one"
        raise BadSettings(f"{name}: {what}", where="canary", hint="'shipped' is a panel of ours")
    return tuple(rows)


async def judge_panel(session: Session, run: RunStore, ledger: Ledger) -> None:
    """Have the run's judge judge its panel, and keep that. Raises what the judge raises.

    Its calls are of the run's budget, and are made anew: what earlier runs were answered says nothing of the judge now.
    Of two judges it is the one that is trusted more, on all rows.
    """
    record, rows = run.record, run.canary.rows()
    judge = most_trusted(session.tools(record.spec, ledger).judge)
    judged = JudgedPanel(
        run=record.id,
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        panel=record.spec.canary or SHIPPED,
        digest=digest_of_samples(rows),
        judge=fingerprint({"name": judge.name, **judge.settings}),
        judgings=(),
    )
    known = run.canary.baseline(judged.key)
    judgings, models, judgements = [], set[str](), list[Judgement]()
    for n in range(1 if known and known.run != record.id else 2):
        fresh = FreshLedger(ledger, f"canary/{record.id}/{n}")
        given = await judge.judge(rows, fresh)
        judgings.append(tuple(_row(sample, one) for sample, one in zip(rows, given, strict=True)))
        judgements += given
        models |= fresh.models
    spent = {
        "usage": Usage.total(one.usage for one in judgements),
        "waste": Usage.total(one.waste for one in judgements),
    }
    run.canary.keep(
        judged.model_copy(update={"judgings": tuple(judgings), "models": tuple(sorted(models)), **spent}),
    )


def _row(sample: Sample, judgement: Judgement) -> PanelRow:
    if judgement.verdict is None:
        return PanelRow(query_id=sample.query_id, reason=judgement.reason)
    chunk = Chunk([sample], [judgement])
    scores = {name: parse(name).score(chunk)[0].value for name in SCORES}
    return PanelRow(
        query_id=sample.query_id,
        labels={unit: label for unit, label in labels(judgement.verdict).items() if not unit.endswith("criterion")},
        scores={name: value for name, value in scores.items() if value is not None},
    )


def drift(run: RunStore) -> Drift | None:
    """What the panel tells of the judge; None where it was not judged. The first verdicts are kept as the baseline."""
    judged = run.canary.judged()
    if judged is None:
        return None
    missing = sum(any(row.reason for row in of) for of in zip(*judged.judgings, strict=True))
    rows = len(judged.judgings[0])
    first = judged if len(judged.judgings) > 1 and missing <= rows // 10 else None
    baseline = run.canary.baseline(judged.key, first)
    now = Drift(
        status="not compared",
        **judged.model_dump(include={"panel", "digest", "judge", "models", "usage", "waste"}),
        rows=rows - missing,
        missing=missing,
        false_alarms=FALSE_ALARMS,
    )
    if baseline is None:
        reasons = [row.reason for of in judged.judgings for row in of if row.reason]
        why = f"no baseline is kept: {missing} of {rows} rows of the panel have no verdict ({next(iter(reasons), '')})"
        return now.model_copy(update={"reason": why})
    update = {"baseline_run": baseline.run, "baseline_at": baseline.at, "baseline_models": baseline.models}
    if baseline.run == judged.run:
        return now.model_copy(update={**update, "status": "baseline"})
    return _compared(now.model_copy(update=update), (*baseline.judgings, judged.judgings[0]))


def _compared(now: Drift, judgings: Sequence[Sequence[PanelRow]]) -> Drift:
    of_rows = [of for of in zip(*judgings, strict=True) if not any(row.reason for row in of)]
    held = {"rows": len(of_rows), "missing": len(judgings[0]) - len(of_rows)}
    if len(of_rows) < FEWEST_ROWS:
        why = f"{len(of_rows)} rows of the panel have a verdict now and at the baseline; {FEWEST_ROWS} are needed"
        return now.model_copy(update={**held, "reason": why})
    scores = np.array([[[row.scores.get(name, np.nan) for name in SCORES] for row in of] for of in of_rows])
    differing = np.zeros((len(of_rows), len(judgings), len(judgings)))
    for n, of in enumerate(of_rows):
        for a, b in combinations(range(len(of)), 2):
            differing[n, a, b] = differing[n, b, a] = _share_differing(of[a], of[b])
    found = stands_out(scores, differing, alpha=now.false_alarms)
    by_score = {}
    for m, name in enumerate(SCORES):
        known = ~np.isnan(scores[:, :, m]).any(axis=1)
        if known.any():
            before, after = float(scores[known, :-1, m].mean()), float(scores[known, -1, m].mean())
            by_score[name] = _measure(int(known.sum()), before, after, found.thresholds[m], found.p_by_measure[m])
    before = float(np.mean([differing[:, a, b] for a, b in combinations(range(len(judgings) - 1), 2)]))
    after = float(differing[:, -1, :-1].mean())
    by_score["labels"] = _measure(len(of_rows), before, after, found.thresholds[-1], found.p_by_measure[-1])
    return now.model_copy(
        update={
            **held,
            "status": "drifted" if found.p <= now.false_alarms else "unchanged",
            "p": found.p,
            "scores": by_score,
            "labels": _by_kind([(of[0], of[-1]) for of in of_rows]),
        }
    )


def _measure(n: int, before: float, after: float, threshold: float, p: float) -> ScoreDrift:
    return ScoreDrift(n=n, baseline=before, now=after, threshold=float(threshold), p=float(p))


def _share_differing(a: PanelRow, b: PanelRow) -> float:
    """The share of labels that differ; one that only one of the two has differs."""
    units = a.labels.keys() | b.labels.keys()
    return sum(a.labels.get(unit) != b.labels.get(unit) for unit in units) / max(len(units), 1)


def _by_kind(pairs: Sequence[tuple[PanelRow, PanelRow]]) -> dict[str, LabelDrift]:
    found = {}
    for kind, ranks in _RANKS.items():
        both = [
            (ranks[before], ranks[after.labels[unit]], before != after.labels[unit])
            for row, after in pairs
            for unit, before in row.labels.items()
            if unit.rpartition(" ")[2] == kind and unit in after.labels
        ]
        up, down = sum(b < a for b, a, _ in both), sum(b > a for b, a, _ in both)
        if both:
            changed = sum(differs for *_, differs in both)
            found[kind] = LabelDrift(n=len(both), changed=changed, up=up, p=sign_test(up, down))
    return found
