"""Results of gates as JUnit, Markdown and JSON: what a pipeline reads."""

import json
import re
from xml.etree import ElementTree

import jsonschema
import pytest

from gate_checks import check_gates
from handmade_reports import make_report, mrr_report, rows
from ragassay.analysis.gates import GateReport
from ragassay.reporting.gates import EXPORTERS
from ragassay.reporting.junit import gated

NASTY = 'a|b <c> & "d" `e` \x07\ud7ff\n*f*'


@pytest.fixture
def mixed():
    report = make_report({"good": rows([1.0] * 4, system="good"), NASTY: rows([0.0] * 4, system=NASTY)}, dataset=NASTY)
    return check_gates(report, {"mrr": ">= 0.5"}, {"metric": "mrr", "max": 0.1, "system": "none"})


def test_junit_has_a_case_for_each_gate_and_survives_any_text(mixed):
    suite = ElementTree.fromstring(b"".join(gated(mixed))).find("testsuite")
    cases = suite.findall("testcase")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "2", "0")
    assert [case.get("name") for case in cases] == [r.name.replace("\x07", "\\u0007") for r in mixed.results]
    assert [case.find("failure") is None for case in cases] == [r.passed for r in mixed.results]
    failure = cases[1].find("failure")
    assert (failure.get("type"), failure.get("message")) == ("threshold", "mrr is 0.000, not >= 0.500 (n=4)")
    assert [case.find("failure").get("type") for case in cases[1:]] == ["threshold", "missing"]


def test_markdown_has_a_marker_first_and_one_line_for_each_gate(mixed):
    first, *lines = EXPORTERS.whole(mixed, "md").decode().splitlines()
    assert first == "<!-- ragassay gates -->"
    assert lines[0] == "# ragassay: 2 of 3 gates missed"
    table = [line for line in lines if line.startswith("| ")]
    assert len(table) == 2 + 3
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 6 for line in table)
    assert [("MISSED" in line) for line in table[2:]] == [True, True, False]
    assert "<c>" not in "".join(lines).replace("\\<c\\>", "")
    passed = check_gates(
        mrr_report([1.0] * 3),
        {"mrr": ">= 0.5"},
        {"metric": "mrr", "max_drop": 0.1},
        baseline=mrr_report([1.0] * 3, run="old"),
    )
    assert "all 2 gates passed" in EXPORTERS.whole(passed, "md").decode()
    assert "baseline old" in EXPORTERS.whole(passed, "md").decode()


def test_json_is_the_document_and_fits_its_schema(mixed, tmp_path):
    EXPORTERS.write(mixed, tmp_path / "g.json")
    document = json.loads((tmp_path / "g.json").read_bytes())
    jsonschema.validate(document, GateReport.model_json_schema())
    assert GateReport.model_validate(document) == mixed
