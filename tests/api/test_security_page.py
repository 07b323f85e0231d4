"""docs/security.md names tests and numbers that are there."""

import re
from pathlib import Path

from api.test_broken_requests import BODIES, QUERIES
from api.test_hostile_requests import PARAMETERS, UPLOADS, WIRE
from outgoing.test_outgoing import FORMS, WRITTEN
from ragassay.api.headers import PROTECTIVE
from ragassay.outgoing import LARGEST_ANSWER

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()


def test_every_test_that_is_named_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 20
    assert [test for path, test in named if f"def {test}(" not in (ROOT / path).read_text()] == []


def test_the_numbers_are_those_of_the_tables():
    assert f"try {len(FORMS + WRITTEN)} forms" in PAGE
    most = sum(map(len, (BODIES, QUERIES, WIRE, UPLOADS, PARAMETERS)))
    stated = int(re.search(r"- (\d+) requests that are wrong", PAGE)[1])
    assert stated <= most < stated + 20
    assert LARGEST_ANSWER == 1_000_000
    assert [name for name in PROTECTIVE if name not in PAGE] == []
