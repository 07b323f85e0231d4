"""What takes minutes to try, with the settings of ``ragassay serve``: ``make outages`` runs it (not collected else)."""

import time

import pytest

from polling import patience, until
from provider import Provider, good, hang
from service.running import Service, rows

TIMEOUT_S, LEASE_S = 60, 60  # the defaults


@pytest.fixture(scope="module")
def provider():
    with Provider(then=lambda seen: hang(seen) if "hangs" in seen.body["model"] else good(seen)) as running:
        yield running


@pytest.fixture(scope="module")
def service(provider):
    with Service(api_base=provider.url, lease_s=LEASE_S, sweep_s=15, preload="all", traced=False) as running:
        running.ready()
        submit_small(running, "first")  # workers import their libraries with the first job
        yield running


def submit_small(service, name):
    return service.finished(service.submit(rows(2, name), judge="local", metrics=["faithfulness"]), within_s=300)


@pytest.mark.parametrize(("stuck_jobs", "most_s"), [(1, 10), (2, TIMEOUT_S + 20)])
def test_a_small_job_beside_judges_that_hang(service, provider, stuck_jobs, most_s, capsys):
    """One such job leaves a process to the others; as many as there are processes leave none until their calls end."""
    calls = len(provider.log)
    stuck = [service.submit(rows(200, f"stuck-{n}"), judge=f"hangs-{n}") for n in range(stuck_jobs)]
    try:
        until(lambda: len(provider.log) >= calls + 8 * stuck_jobs, 60, "calls that hang")
        began = time.monotonic()
        submit_small(service, f"beside-{stuck_jobs}")
        took = time.monotonic() - began
        with capsys.disabled():
            print(f"\n2 rows, judge local, beside {stuck_jobs} of a provider that hangs: {took:.1f} s")
        assert took < patience(most_s)
    finally:
        for job in stuck:
            service.answered("POST", f"/v1/jobs/{job}/cancel").raise_for_status()
        until(
            lambda: not any(service.redis.zcard(f"ra:{{{job}}}:lease") for job in stuck), 60, "the end of their chunks"
        )
        time.sleep(LEASE_S / 4)  # by then their workers have noticed
