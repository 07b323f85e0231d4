"""``ragassay compare --detect`` as a user types it."""

import json
from pathlib import Path

import pytest

from offline_runs import write_jsonl
from ragassay.stats.power import needed_n, power_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(cli, tmp_path):
    """A run of two systems: b has the document first for 6 of 8 queries, a for none."""
    queries = [{"query_id": f"q{n}", "query": f"Question {n}?", "relevant_doc_ids": ["d1"]} for n in range(8)]
    write_jsonl(tmp_path / "data.jsonl", queries)
    for name, first in (("a", 0), ("b", 6), ("c", 0)):
        ranks = [["d1", "d2"] if n < first else ["d2", "d1"] for n in range(8)]
        answers = [{"query_id": f"q{n}", "retrieved_doc_ids": rank} for n, rank in enumerate(ranks)]
        write_jsonl(tmp_path / f"{name}.jsonl", answers)
    systems = [part for name in "abc" for part in ("--system", f"{name}={name}.jsonl")]
    code, out, err = cli("evaluate", "data.jsonl", *systems, "--metrics", "mrr", "--json")
    assert code == 0, err
    return json.loads(out)["run"]["id"]


def test_the_spread_is_that_of_the_systems_of_a_run(cli, run):
    code, out, err = cli("compare", run, "--detect", 0.1)
    # differences of 0.5 six times and 0 twice: mean 0.375, sd sqrt((6 * 0.125 ** 2 + 2 * 0.375 ** 2) / 7) = 0.2315
    sd = (0.375 / 7) ** 0.5
    assert (code, err) == (0, "")
    _, head, _, first, _, other, _, second = out.splitlines()
    assert head == "b against a: to show a difference of 0.1 with a chance of 80%"
    assert first.split() == ["mrr", f"{sd:.3g}", "8", f"{power_of(0.1, 8, sd):.0%}", str(needed_n(0.1, sd))]
    assert other.startswith("c against a")
    assert second.split(maxsplit=1) == ["mrr", "no spread"]


BAD = {
    "no difference": (["last", "--detect", 0], "effect is 0"),
    "power": (["last", "--detect", 0.1, "--power", 0.01], "power 0.01 is not above alpha 0.05"),
    "one system": (["last#a", "--detect", 0.1], "needs two systems"),
}


def test_bad_input_gives_one_clear_line(cli, run):
    for case, (arguments, message) in BAD.items():
        code, out, err = cli("compare", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), case
        assert message in err, case
