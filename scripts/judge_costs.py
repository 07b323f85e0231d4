"""What 1,000 samples cost with each way of asking a model; fills the table of docs/judge-accuracy.md.

The samples are those of ``benchmarks/llm``, judged by the code that judges any, with the replies of tests/provider.py. Nothing is
sent. Tokens are characters / 4, prices those of LiteLLM's table.

    python scripts/judge_costs.py
"""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "benchmarks" / "llm"), str(ROOT / "tests")]

import gen_dataset  # noqa: E402 - it lies in a folder named above

from fakes import FakeLLM  # noqa: E402
from provider import Seen, verdicts  # noqa: E402
from ragassay.core.protocols import Judge, Reply  # noqa: E402
from ragassay.judges.llm import LLMJudge  # noqa: E402
from ragassay.judges.yes_no import YesNoJudge  # noqa: E402
from ragassay.llm import Messages, Prices  # noqa: E402
from ragassay.llm.journal import MemoryJournal  # noqa: E402

PAGE = ROOT / "docs" / "judge-accuracy.md"
TABLE = re.compile(r"(<!-- scripts/judge_costs\.py -->\n).*?(<!-- end -->)", re.DOTALL)
MODELS = ("gpt-4o-mini", "gpt-4.1", "claude-haiku-4-5")
ROWS = 40
# calls, prompt and completion tokens of a row, measured with each tool on these samples, 22 November 2026
PEERS = {"RAGAS 0.4.3, four metrics": (11, 9021, 2325), "DeepEval 4.3.1, four metrics": (11, 7196, 1375)}


class Counting(FakeLLM):
    """A model that counts what it is sent and what it says."""

    def __init__(self) -> None:
        super().__init__([])
        self.prompt = self.completion = self.asked = 0

    async def complete(
        self, messages: Messages, *, read: Callable[[Reply], Any], schema: Mapping[str, Any] | None = None, **_: Any
    ) -> tuple[Reply, Any]:
        """A reply in the form of the schema."""
        system, user = (message["content"] for message in messages)
        head = f"{json.dumps(schema) if schema else ''}{system}"
        text = json.dumps(verdicts(Seen(0, 0, "", {"messages": messages}))) if schema else "Yes"
        self.asked += 1
        self.prompt += -(-len(head + user) // 4)
        self.completion += -(-len(text) // 4)
        reply = Reply(text=text)
        return reply, read(reply)


def of_a_row(judge_of: Callable[[Counting], Judge]) -> tuple[float, ...]:
    """Calls, prompt tokens and completion tokens of a row."""
    model, samples = Counting(), [gen_dataset.sample(gen_dataset.item(number)) for number in range(ROWS)]
    asyncio.run(judge_of(model).judge(samples, MemoryJournal()))
    return tuple(total / ROWS for total in (model.asked, model.prompt, model.completion))


def table() -> str:
    """A line for each way of asking, and for others."""
    one = of_a_row(LLMJudge)
    ways = {
        "`verdict`": one,
        "`probe`": of_a_row(YesNoJudge),
        "a jury of three, each `verdict`": tuple(3 * total for total in one),
        "a reference judge `on: 0.3`, `verdict`": tuple(0.3 * total for total in one),
    }
    lines = [["way", "calls a row", "prompt tokens", "completion tokens", *MODELS], ["---"] * (4 + len(MODELS))]
    for way, (calls, prompt, completion) in ways.items():
        figures = [f"{calls:.1f}", f"{prompt:,.0f}", f"{completion:,.0f}"]
        lines.append([way, *figures, *(_usd(model, prompt, completion) for model in MODELS)])
    for peer, (calls, prompt, completion) in PEERS.items():
        figures = [f"{calls}", f"{prompt:,}", f"{completion:,}"]
        lines.append([peer, *figures, *(_usd(model, prompt, completion) for model in MODELS)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _usd(model: str, prompt: float, completion: float) -> str:
    """USD of 1,000 rows."""
    return f"{Prices().cost(model, round(1000 * prompt), round(1000 * completion)):.2f}"


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda found: found[1] + table() + found[2], PAGE.read_text()))
