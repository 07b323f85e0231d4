"""What becomes of a run with a system that is called, while its judge is down."""

from collections import Counter

import pytest

import ragassay
from ragassay.core.errors import ProviderDown, Unavailable
from ragassay.core.models import Rating, Usage
from ragassay.core.protocols import Call, Reply
from ragassay.evaluation import outage
from ragassay.judges.custom import JUDGES

ROWS = 6
FAILED = "the system failed: the system raised RuntimeError: not this one"
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the outage is told as a warning


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr("ragassay.evaluation.runtime.embedder", lambda *_: (None, "the tests need no model"))
    monkeypatch.setattr(outage, "FIRST_WAIT_S", 0.02)
    monkeypatch.setattr(outage, "LONGEST_WAIT_S", 0.02)


@pytest.fixture
def judge(monkeypatch):
    """Registers a judge whose provider fails for its first ``down`` calls."""
    monkeypatch.setattr(JUDGES, "_things", dict(JUDGES._things))
    asked = Counter()

    def register(down):
        @ragassay.judge(name="flaky")
        class Flaky:
            name, settings = "flaky", {}

            async def judge(self, samples, journal):
                return [await self.one(Call.about(s.query_id, "judge", [s.query_id]), journal) for s in samples]

            async def one(self, call, journal):
                try:
                    async with journal.attempt(call, Usage(calls=1)) as attempt:
                        if attempt.reply is None:
                            asked[call.id] += 1
                            attempt.free()
                            if asked.total() <= down:
                                raise ProviderDown("the judge is down")
                            attempt.settle(Reply(text="said"))
                except ProviderDown:
                    raise
                except Unavailable as given_up:
                    return Rating(reason=str(given_up))
                return Rating(reason="no verdict")

    return register


class System:
    """Answers every query but ``fails``, and counts them."""

    def __init__(self, fails=None):
        self.fails, self.asked = fails, Counter()

    def __call__(self, query):
        self.asked[query] += 1
        if query == self.fails:
            raise RuntimeError("not this one")
        return "Paris is the capital of France."


def evaluated(system, give_up_s=600):
    """Why rows have no score, each with how many they are."""
    rows = [{"query_id": f"q{n}", "query": f"q{n}", "ground_truth_answer": "Paris"} for n in range(ROWS)]
    report = ragassay.evaluate(
        rows,
        systems={"live": system},
        judge="flaky",
        metrics="correctness",
        performance={"batch": 3, "cache": False, "give_up_s": give_up_s},
    )
    return report.metrics["correctness"].missing


def test_a_judge_that_is_back_judges_all_rows_but_that_which_the_system_fails_on(judge):
    judge(down=5)
    system = System("q3")
    assert evaluated(system, give_up_s=20) == {"no verdict": ROWS - 1, FAILED: 1}
    assert system.asked == {f"q{n}": 1 for n in range(ROWS)}  # once each, however often the judge was


@pytest.mark.parametrize("fails", ["q3", None])
def test_a_judge_that_never_recovers_is_given_up_and_there_is_a_report(judge, fails):
    judge(down=10**9)
    system = System(fails)
    given_up = {"given up after 0.3 s: the judge is down": ROWS - bool(fails)}
    assert evaluated(system, give_up_s=0.3) == given_up | ({FAILED: 1} if fails else {})
    assert system.asked == {f"q{n}": 1 for n in range(ROWS)}
