"""Reports as files."""

import csv
import io
import json

import jsonschema
import pytest

from offline_runs import evaluated, new_run, sample, source_of
from ragassay.cli.terminal import print_report
from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.eval_config import EvalConfig
from ragassay.core.models import Response
from ragassay.core.report import ReportWithResults
from ragassay.reporting import EXPORTERS
from ragassay.reporting.rows import flat_rows


@pytest.fixture
def report(tmp_path):
    samples = [
        sample(1, answer="=HYPERLINK(1)", query="-1+1"),
        sample(2, answer="<script>|`x`", response=Response(answer="-4.5")),
        sample(3),
    ]
    data = source_of(samples, name="a | <b>")
    report = evaluated(new_run(tmp_path, samples, systems=("sum",), dataset=data))
    # No run takes such a name for a system; a report that somebody else wrote may hold it.
    return ReportWithResults.model_validate_json(report.model_dump_json().replace('"sum"', '"=sum"'))


def test_json_is_the_document_and_fits_its_published_schema(report, tmp_path):
    EXPORTERS.write(report, tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    jsonschema.validate(document, ReportWithResults.model_json_schema())
    assert ReportWithResults.model_validate(document) == report


def table(report, tmp_path):
    """The rows of the report's CSV, by column."""
    EXPORTERS.write(report, tmp_path / "r.csv")
    return list(csv.DictReader(io.StringIO((tmp_path / "r.csv").read_text())))


def test_csv_has_the_users_own_fields_and_they_hide_no_column_of_ours(tmp_path):
    samples = [sample(1, metadata={"tier": "free", "query": "mine"}), sample(2, metadata={"tags": ["a", "=b"]})]
    rows = table(evaluated(new_run(tmp_path, samples)), tmp_path)
    assert [row["metadata.tier"] for row in rows] == ["free", ""]
    assert (rows[0]["query"], rows[0]["metadata.query"]) == ("What is the capital of France?", "mine")
    assert rows[1]["metadata.tags"] == '["a","=b"]'


def test_a_row_that_failed_says_its_cause_and_values_keep_their_types(tmp_path):
    samples = [sample(1, relevant_doc_ids=["rome"]), sample(2)]
    spec = EvalConfig(accurate="mrr > 0.5", metrics=("mrr", "accurate"))
    failed, fine = flat_rows(evaluated(new_run(tmp_path, samples, spec)))
    assert (failed["cause"], failed["why"]) == ("retrieval_miss", "none of 1 relevant documents was retrieved")
    assert (fine["cause"], fine["why"], fine["accurate"], fine["accurate_reason"]) == (None, None, 1.0, None)
    assert (fine["responded"], fine["input_tokens"], fine["latency_ms"]) == (True, 1000, 200.0)
    assert list(failed) == list(fine)
    assert "mrr_reason" not in fine


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("show", BadSettings, "has no extension"),
        ("report.docx", UnknownName, "unknown exporter 'docx'"),
    ],
)
def test_a_bad_output_is_an_error_before_anything_runs(name, error, says, tmp_path):
    with pytest.raises(error, match=says):
        EXPORTERS.for_file(tmp_path / name)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(BadSettings, match="is a folder"):
        EXPORTERS.for_file(tmp_path / "folder.json")


@pytest.fixture
def marked(report):
    """The same report, one row of which is marked as suspicious."""
    one = report.systems["=sum"]
    first, *others = report.results["=sum"]
    verdict = first.verdict.model_copy(update={"suspicious": ("A1", "C1.3")})
    rows = (first.model_copy(update={"verdict": verdict}), *others)
    part = one.model_copy(update={"evaluation": one.evaluation.model_copy(update={"suspicious": 1})})
    return report.model_copy(update={"systems": {"=sum": part}, "results": {"=sum": rows}})


def test_suspicious_rows_are_counted_and_named_only_where_there_are_some(report, marked, tmp_path, capsys):
    for one, shown in ((report, False), (marked, True)):
        EXPORTERS.write(one, tmp_path / "r.md")
        print_report(one, "here", [])
        for text in ((tmp_path / "r.md").read_text(), " ".join(capsys.readouterr().out.split())):
            assert ("1 of 3 rows hold text that addresses the judge" in text) is shown
            assert ("q1 (A1 and C1.3)" in text) is shown
