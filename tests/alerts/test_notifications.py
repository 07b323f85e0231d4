"""What people read of each kind, and that each kind is delivered."""

import pytest

from ragassay.service.notifications import KINDS

ALL = {
    "gate_missed": ({}, "gate missed: v2: mrr >= 0.800: 0.750", "/v1/jobs/job-1/gates"),
    "regression": (
        {"gate": "v2: mrr drop <= 0.100", "value": 0.5, "baseline": 0.75, "threshold": 0.1},
        "regression: v2: mrr drop <= 0.100: 0.500 after 0.750",
        "/v1/jobs/job-1/gates",
    ),
    "coverage_low": (
        {"metric": "faithfulness", "value": 0.7, "threshold": 0.95, "count": 3, "gate": None},
        "rows failed: faithfulness has 70 % of the rows, wanted are 95 %, and 2 more",
        "/v1/jobs/job-1/report",
    ),
    "budget_reached": (
        {"rows": 150, "done": 50},
        "budget reached: the job is paused, 50 of 150 rows are done",
        "/v1/jobs/job-1",
    ),
    "run_missed": (
        {"schedule": "nightly", "slot": "2026-01-31T02:00:00Z"},
        "no run: schedule nightly began none for 2026-01-31T02:00:00Z",
        "/v1/schedules/nightly",
    ),
    "drift": (
        {
            "stream": "shop",
            "window": "2026-01-31T02",
            "metric": "faithfulness",
            "value": 0.7,
            "baseline": 0.9,
            "low": -0.3,
            "high": -0.1,
            "rows": 60,
            "count": 2,
            "job": None,
            "gate": None,
        },
        "drift: faithfulness of shop is 0.700 after 0.900 (difference -0.300 to -0.100) in 2026-01-31T02, 60 rows, and 1 more",
        "/v1/live/streams/shop/windows?kind=hour",
    ),
    "job_finished": (
        {"rows": 10, "done": 10, "failed": 2},
        "job finished: 10 of 10 rows, 2 with a failure",
        "/v1/jobs/job-1",
    ),
    "job_failed": ({"rows": 10, "done": 4}, "job failed: 4 of 10 rows were done", "/v1/jobs/job-1"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_delivered_and_says_what_happened_in_a_line(alerts, receiver, work, notice, kind, notify):
    fields, headline, path = ALL[kind]
    added = alerts.add_webhook("default", receiver.url, [kind])
    made = notice(kind=kind, **fields)
    assert (made.headline, made.path) == (headline, path)
    notify(made)
    notify(made)
    work()
    (got,) = receiver.got
    document = got.verified(added.secret)
    assert document["type"] == kind
    wanted = made.model_dump(exclude_none=True, exclude={"kind", "at"})
    assert document["data"] == wanted
    assert made.text.startswith(f"{headline}\nproject: default\n")
    assert made.text.endswith(f"GET {path}")


@pytest.mark.parametrize(
    ("fields", "headline"),
    [
        ({"cause": "unchecked", "gate": None}, "the gates could not be checked"),
        ({"cause": None, "gate": None, "count": 7}, "7 more gates missed"),
        ({"cause": "missing", "value": None}, "gate missed: v2: mrr >= 0.800: none (missing)"),
        ({"count": 3, "gate": "v2, each category: mrr >= 0.800"}, "gate missed: v2, each category: mrr >= 0.800 and 2 more: 0.750"),
        ({"value": 0.7999, "threshold": 0.8}, "gate missed: v2: mrr >= 0.800: 0.7999"),
    ],
)  # fmt: skip
def test_a_missed_gate_says_why_and_how_many_it_stands_for(notice, fields, headline):
    made = notice(**fields)
    assert made.headline == headline
    assert made.path == ("/v1/jobs/job-1" if made.cause == "unchecked" else "/v1/jobs/job-1/gates")
