"""``ragassay cost`` over runs in a folder, as they are made, resumed, copied and damaged."""

import csv
import io
import json
import shutil

import orjson
import pytest

import ragassay
from offline_runs import evaluated, new_run, sample
from ragassay.analysis.costs import CostReport

PRICE = (1000 * 0.15 + 100 * 0.60) / 1e6  # of a sample's tokens by gpt-4o-mini


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where the runs of these tests and of the command line are."""
    monkeypatch.setenv("RAGASSAY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def made(home, n=10, **more):
    """A finished run of two systems; the judge spends 0.001 USD a row."""
    run = new_run(home, [sample(k, **more) for k in range(1, n + 1)], systems=("a", "b"))
    evaluated(run)
    return run


def shown(cli, *arguments):
    code, out, err = cli("cost", *arguments)
    assert (code, err) == (0, "")
    return out


def test_the_figures_are_those_of_the_reports(home, cli):
    run = made(home)
    report, found = run.report(), CostReport.model_validate_json(shown(cli, "--json"))
    for group in found.groups:
        own = report.systems[group.key["system"]]
        assert group.cost_per_accurate_answer == own.cost_per_accurate_answer
        assert group.serving.cost_usd == own.cost_usd.total == pytest.approx(10 * PRICE)
        assert group.judging.cost_usd == own.evaluation.usage.cost_usd == pytest.approx(0.01)
    first, second = ragassay.Costs.of_runs(), ragassay.Costs.of_runs()
    assert first == second.model_copy(update={"as_of": first.as_of})  # a second may pass between the two
    assert first.groups == found.groups


def test_all_forms_have_the_same_groups(home, cli, tmp_path):
    made(home)
    files = [tmp_path / f"costs.{form}" for form in ("csv", "json", "md")]
    document = json.loads(shown(cli, "--by", "system,category", "--json", *(x for file in files for x in ("-o", file))))
    rows = list(csv.DictReader(io.StringIO(files[0].read_text())))
    assert [row["system"] for row in rows] == [group["key"]["system"] for group in document["groups"]]
    assert [float(row["cost_usd"]) for row in rows] == [
        group["cost_per_accurate_answer"]["cost_usd"] for group in document["groups"]
    ]
    written = json.loads(files[1].read_text())
    assert written["groups"] == document["groups"]
    assert "| a | conceptual |" in files[2].read_text()
    code, _, err = cli("cost", "-o", tmp_path / "costs.docx")
    assert (code, "unknown cost exporter 'docx'" in err) == (2, True)


def test_what_can_not_be_read_is_named_and_the_others_count(home, cli):
    good, broken, newer, begun = made(home), made(home), made(home), made(home)
    broken.report_file.write_text('{"systems"')
    document = orjson.loads(newer.report_file.read_bytes())
    newer.report_file.write_bytes(orjson.dumps({**document, "schema_version": 2, "moon": "full"}))
    begun.report_file.unlink()
    found = CostReport.model_validate_json(shown(cli, "--json"))
    (warning,) = found.warnings
    assert broken.folder.name in warning
    assert newer.folder.name in warning
    assert begun.folder.name not in warning
    assert found.left_out == {"without a report": 1}
    assert [group.reports for group in found.groups] == [1, 1]
    shutil.rmtree(good.folder)
    code, _, err = cli("cost")
    assert code == 5
    assert "there is no report to count; left out: 1 without a report; reports that this version can't read: " in err


def test_without_runs_the_error_says_how_to_make_one(home, cli):
    code, out, err = cli("cost")
    assert (code, out) == (5, "")
    assert "make a run: ragassay evaluate DATA" in err
