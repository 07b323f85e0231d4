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


def test_a_price_is_tokens_times_the_price_of_a_million(costs):
    price = costs.Prices().of("claude-haiku-4-5")
    each = 2000 * price.input_per_1m / 1e6 + 300 * price.output_per_1m / 1e6
    assert costs._usd("claude-haiku-4-5", 2000, 300, 1500) == f"{1000 * each:.2f}"


def test_tokens_from_the_cache_stand_in_brackets(costs):
    whole, cached = 0.15 * 2 + 0.60 * 0.3, 0.15 * 0.5 + 0.075 * 1.5 + 0.60 * 0.3
    assert costs._usd("gpt-4o-mini", 2000, 300, 1500) == f"{whole:.2f} ({cached:.2f})"
