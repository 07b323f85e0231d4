"""What each judge says of the answers with known faults in datasets/faults; fills the table of docs/judge-accuracy.md.

The judges are the local one and a model that is always right: the verdicts of the dataset, served over HTTP by
tests/provider.py and read by the same code as those of any model.

    python scripts/judge_faults.py
"""

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

from provider import Answer, Provider, Seen  # noqa: E402 - it lies in the folder named above
from ragassay.core.eval_config import RunConfig  # noqa: E402
from ragassay.core.models import Result  # noqa: E402
from ragassay.core.protocols import Judge  # noqa: E402
from ragassay.datasets.load import load  # noqa: E402
from ragassay.evaluation.evaluate import ScoringConfig, evaluate  # noqa: E402
from ragassay.evaluation.prepare import choose_metrics  # noqa: E402
from ragassay.judges.llm import LLMJudge  # noqa: E402
from ragassay.judges.local import LocalJudge  # noqa: E402
from ragassay.judges.panel import Panel, Rater  # noqa: E402
from ragassay.llm import LLM  # noqa: E402
from ragassay.llm.journal import MemoryJournal  # noqa: E402
from ragassay.metrics.failures import attribute  # noqa: E402

FAULTS = ROOT / "datasets" / "faults"
PAGE = ROOT / "docs" / "judge-accuracy.md"
TABLE = re.compile(r"(<!-- scripts/judge_faults\.py -->\n).*?(<!-- end -->)", re.DOTALL)
CONTROL = "correct"
Outcome = tuple[int | None, str | None]  # accurate, and the cause where it is not

SAMPLES = load(FAULTS / "answers.jsonl").samples
BY_QUERY = {sample.query: sample for sample in SAMPLES}
VERDICTS = {row["query_id"]: row for row in map(json.loads, (FAULTS / "verdicts.jsonl").read_text().splitlines())}


def right(seen: Seen) -> Answer:
    """The reply of a model that is always right, in the form that the judge asks for."""
    query = re.search(r"^\[Q\] (.*)$", seen.user, re.MULTILINE)
    verdict = VERDICTS[BY_QUERY[query[1]].query_id] if query else {}
    answer = [
        {"id": f"A{n}", "evidence": evidence, "why": "", "support": support, "truth": truth}
        for n, (support, truth, *evidence) in enumerate(map(str.split, verdict["answer"]), 1)
    ]
    facts = [
        {"id": f"G{n}", "evidence": evidence, "why": "", "covered": covered}
        for n, (covered, *evidence) in enumerate(map(str.split, verdict["facts"]), 1)
    ]
    whole = {"why": "", "relevance": verdict["relevance"], "refusal": verdict["refusal"]}
    return Answer(json.dumps({"answer": answer, "facts": facts, **whole}))


def expected() -> dict[str, Outcome]:
    """What is right for each row."""
    return {sample.query_id: tuple(map(VERDICTS[sample.query_id].get, ("accurate", "cause"))) for sample in SAMPLES}


def outcomes(judge: Judge) -> dict[str, Outcome]:
    """What a judge's verdicts make of each row, by the default rule of ``accurate``."""
    spec = RunConfig()
    config = ScoringConfig(spec, choose_metrics(spec, {"answers": SAMPLES}, "answers"), Panel([Rater((judge,))]))
    results = asyncio.run(evaluate(SAMPLES, "answers", config, MemoryJournal()))
    return {row.query_id: _outcome(row) for row in results}


def _outcome(row: Result) -> Outcome:
    accurate, failure = row.scores["accurate"].value, attribute(row)
    return None if accurate is None else int(accurate), failure.cause if failure else None


def of_each_judge() -> dict[str, dict[str, Outcome]]:
    """By the name that the table gives to a judge."""
    with Provider(then=right) as provider:
        model = LLM("gpt-4o-mini", api_base=provider.url)
        return {"local": outcomes(LocalJudge()), "one call": outcomes(LLMJudge(model))}


def table(said: Mapping[str, Mapping[str, Outcome]]) -> str:
    """How many rows each judge has right."""
    wanted = expected()
    lines = [["rows", "what", *said], ["---"] * (2 + len(said))]
    for what, part in (("accurate is right", slice(0, 1)), ("the cause is right, too", slice(0, 2))):
        for faulty in (True, False):
            rows = [s.query_id for s in SAMPLES if (s.category != CONTROL) is faulty]
            counts = [f"{sum(of[i][part] == wanted[i][part] for i in rows)} of {len(rows)}" for of in said.values()]
            if faulty or what.startswith("accurate"):
                lines.append(["faults" if faulty else "controls", what, *counts])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda page: page[1] + table(of_each_judge()) + page[2], PAGE.read_text()))
