"""docs/alerts.md says what is so: its code verifies real requests, its tables are those of the code."""

import json
import re
from pathlib import Path

import pytest

from ragassay.service.notifications import ALERTS, KINDS, OPT_IN, Notification
from ragassay.service.notifier import RETRY_DELAYS_S

PAGE = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
(VERIFY,) = (code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def verified" in code)


def rows_of(heading):
    """The first two cells of the table in a section, without its head."""
    section = PAGE.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| ([^|]+) \| ([^|]+) \|", section, re.MULTILINE)[1:]


def test_its_code_takes_what_is_ours_and_nothing_else(notify, receiver, webhook, work, notice):
    scope = {}
    exec(VERIFY, scope)
    verified = scope["verified"]
    notify(notice())
    work()
    (got,) = receiver.got
    assert verified(webhook.secret, got.headers, got.body) == got.document
    old = {**got.headers, "webhook-timestamp": "1769868300"}
    for headers, body in ((got.headers, got.body + b" "), (old, got.body)):
        with pytest.raises(ValueError, match=r"not signed|too old"):
            verified(webhook.secret, headers, body)


def test_its_example_is_a_notice_that_looks_so(notify, receiver, webhook, work):
    (example,) = (json.loads(code) for code in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL) if '"type"' in code)
    notify(Notification(kind=example["type"], at=example["timestamp"], **example["data"]))
    work()
    assert receiver.got[0].document == example


def test_its_tables_are_those_of_the_code():
    kinds = [name.strip("`") for name, _ in rows_of("## Kinds of notifications")]
    assert kinds == list(KINDS) == [*ALERTS, *OPT_IN]
    seconds = {"s": 1, "min": 60}
    waits = re.search(r"at once, then after ([^.]+)\.", PAGE)[1]
    assert [int(n) * seconds[unit] for n, unit in re.findall(r"(\d+) (s|min)", waits)] == list(RETRY_DELAYS_S)
