"""Our latencies beside the log of a server that stalls: the short form of ``python benchmarks/latency.py``."""

import importlib.util
import sys
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[2] / "benchmarks" / "latency.py"
SPEC = importlib.util.spec_from_file_location("latency_benchmark", PLACE)
latency = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = latency
SPEC.loader.exec_module(latency)

SLOWNESS = latency.Slowness(latency_ms=20, jitter_ms=10, stall_s=1.5, stall_every=30)
RATE, QUERIES = 20, 120


@pytest.fixture(scope="module")
def open_loop():
    return latency.measured(SLOWNESS, QUERIES, RATE, 64)


def test_our_percentiles_are_those_that_users_waited(open_loop):
    """Four stalls of 1.5 s at 20 a second: half of the users wait. 200 ms are for a machine that is busy."""
    report, seen = open_loop
    ours, true = latency.reported(report), latency.percentiles(latency.true_latencies(seen, RATE))
    for p in latency.PERCENTILES:
        assert ours[p] == pytest.approx(true[p], rel=0.05, abs=200), p
    assert true[90] > 1000
