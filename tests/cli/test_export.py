"""``ragassay show`` as what writes files, of a report and of a comparison."""

import orjson
import pytest

from reporting.exported import a_comparison, a_report


@pytest.fixture
def files(cli, tmp_path):
    (tmp_path / "report.json").write_bytes(orjson.dumps(a_report().model_dump(mode="json")))
    (tmp_path / "comparison.json").write_bytes(orjson.dumps(a_comparison().model_dump(mode="json")))
    return tmp_path


def test_a_report_and_a_comparison_are_written_as_files_that_only_their_owner_reads(cli, files):
    _, out, err = cli("show", "report.json", "-o", "out/r.csv", "-o", "out/r.xlsx", "--fields", "query_id, mrr")
    assert "also: out/r.csv" in out, err
    assert (files / "out/r.summary.csv").is_file()
    assert (files / "out/r.csv").read_text().splitlines()[:2] == ["query_id,mrr", "q1,0.5"]
    assert (files / "out/r.xlsx").stat().st_mode & 0o777 == 0o600
    code, out, _ = cli("show", "comparison.json", "-o", "c.any", "--format", "csv")
    assert (code, "also: c.any" in out) == (0, True)
    assert (files / "c.any").read_text().startswith("a,b,metric,better,")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("report.json", "-o", "r.docx"), "output 'r.docx': unknown exporter 'docx'; known: csv, "),
        (("report.json", "--format", "cvs"), "unknown exporter 'cvs'; did you mean csv"),
        (("report.json", "-o", "r.csv", "--fields", "acurate"), "unknown field 'acurate'; did you mean accurate"),
        (("nothing", "-o", "r.csv"), "nothing"),
        (("broken.json", "-o", "r.csv"), "broken.json: not a comparison of this version"),
    ],
)
def test_what_can_not_be_exported_is_one_line_and_no_file(cli, files, arguments, says):
    (files / "broken.json").write_text('{"kind": "comparison"}')
    there = sorted(files.iterdir())
    code, out, err = cli("show", *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert says in err
    assert sorted(files.iterdir()) == there
