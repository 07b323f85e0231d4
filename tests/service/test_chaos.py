"""The short form of ``make chaos``: a minute of it on one service, and a settlement that is dropped."""

import os
import signal

import pytest

from polling import until
from service.chaos_run import Chaos
from service.running import gone

EVERY_STEP = (
    *("finalize begun", "claim after", "messages", "freeze: child", "reserve after", "redis"),
    *("call: parent", "settle before", "commit before"),
)


@pytest.fixture(scope="module")
def chaos():
    with Chaos(seed=1, max_rows=400) as running:
        yield running


def test_a_round_of_kills_at_every_step_gives_the_reports_of_a_calm_run(chaos, capsys):
    chaos.round(51, EVERY_STEP)
    with capsys.disabled():
        print(f"\n{chaos.table()}")
    assert chaos.breaches == []
    done = "\n".join(chaos.done)
    assert [step for step in ("claim", "call: parent", "finalize", "redis", "frozen") if step not in done] == []
    assert chaos.totals["rows"] == 451
    assert chaos.caps.looks > 100


def test_a_settlement_that_is_dropped_counts_as_a_call_with_an_unknown_outcome(chaos):
    uncertain = chaos.totals["calls uncertain"]
    chaos.max_rows = 50
    chaos.round(1, ["settle dropped"], may_pause=False)  # a resume would make the call again
    assert chaos.breaches == []
    assert chaos.totals["calls uncertain"] > uncertain


def test_nothing_of_a_killed_worker_is_left(chaos):
    service = chaos.service
    old = service.part("celery")
    family = [old, *old.children(recursive=True)]
    os.kill(old.pid, signal.SIGKILL)
    until(lambda: gone(family), 30, "its children's end")
    until(lambda: "worker stopped unexpectedly" in "\n".join(service.lines), 30, "a line that says so")
    until(lambda: service.part("celery").pid != old.pid, 60, "another worker")
