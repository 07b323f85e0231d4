"""What docs/judging.md says that judging costs is what the judges send today, at today's prices."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def costs():
    spec = importlib.util.spec_from_file_location("judge_costs", ROOT / "scripts" / "judge_costs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_what_the_judges_send_and_what_that_costs(costs):
    shown = costs.TABLE.search(costs.PAGE.read_text())
    assert shown[0] == f"{shown[1]}{costs.table()}{shown[2]}", "refresh it: python scripts/judge_costs.py"
