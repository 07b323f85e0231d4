"""``ragassay live``: the same decisions as in a service, on files."""

import base64
import json

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from live_traffic import WRONG, otlp_lines, spans_of, trace_id
from ragassay.core.errors import BadData
from ragassay.live import files
from ragassay.live.files import SpanFiles

REQUESTS = [*(spans_of(n) for n in range(4)), spans_of(9, context=WRONG), spans_of(77, answer=None, other="x")]


@pytest.fixture
def spans(tmp_path):
    file = tmp_path / "spans.jsonl"
    file.write_text(otlp_lines(REQUESTS))
    return file


def test_check_says_the_state_and_reason_of_each_request(cli, spans):
    code, out, _ = cli("live", spans, "--dry-run", "--json")
    found = {one["trace"]: one for one in json.loads(out)}
    assert (code, len(found)) == (0, 6)
    assert found[trace_id(0)]["status"] == "evaluating"
    assert found[trace_id(0)]["read_from"] == {"query": "answer", "answer": "answer", "contexts": "search"}
    assert found[trace_id(77)]["status"] == "no_answer"
    assert "attributes seen: " in found[trace_id(77)]["reason"]
    code, out, _ = cli("live", spans, "--dry-run", "--rate", "0", "--low-score", "0.5")
    assert (out.count("not_sampled"), out.count("evaluating")) == (4, 1)


def test_run_prints_windows_and_states(cli, spans):
    code, out, _ = cli("live", spans, "--metrics", "faithfulness", "--judge", "local")
    assert code == 0
    assert "2023-11-14T22" in out
    assert "  0.800 [" in out
    assert "no_answer" in out
    code, out, _ = cli("live", spans, "--metrics", "faithfulness", "--json")
    [window] = json.loads(out)
    assert window["metrics"]["faithfulness"]["value"] == pytest.approx(4 / 5)  # of five answers one has a wrong context
    assert (window["counts"]["received"], window["counts"]["no_answer"], window["rows"]) == (6, 1, 5)
    assert "--follow prints tables" in cli.refused("live", spans, "--follow", "--json")
    assert "unknown metric 'nope'" in cli.refused("live", spans, "--dry-run", "--metrics", "nope")


def test_span_files_are_read_as_they_grow_in_each_form(tmp_path):
    folder = tmp_path / "spans"
    folder.mkdir()
    lines = otlp_lines(REQUESTS).splitlines(keepends=True)
    (folder / "a.jsonl").write_text(lines[0] + lines[1][:50])
    files = SpanFiles(folder, [])
    assert (files.complete(silent_rounds=3), files.waiting) == ([], 1)  # a round after its root
    assert [one.trace for one in files.complete(silent_rounds=3)] == [trace_id(0)]
    with (folder / "a.jsonl").open("a") as file:
        file.write(lines[1][50:])
    messages = [_message(line) for line in lines[2:4]]
    (folder / "b.pb").write_bytes(messages[0].SerializeToString())
    lengths = (len(each.SerializeToString()).to_bytes(4) + each.SerializeToString() for each in messages)
    (folder / "c.pb").write_bytes(b"".join(lengths))
    assert {one.trace for one in files.complete()} == {trace_id(n) for n in (1, 2, 3)}
    (folder / "d.json").write_text(json.dumps(json.loads(lines[0]), indent=2))
    assert files.complete() == []
    assert files.late == 3


def test_span_files_name_the_line_that_is_no_json_or_breaks_off(tmp_path):
    file, lines = tmp_path / "a.jsonl", otlp_lines(REQUESTS).splitlines(keepends=True)
    file.write_text("".join(lines[:2]))
    files = SpanFiles(file, [])
    files.complete(silent_rounds=3)
    file.write_text("".join([*lines[:3], "no json\n"]))
    with pytest.raises(BadData, match=r"a\.jsonl:4: is not JSON"):
        files.complete(silent_rounds=3)
    file.write_text(lines[0] + 100_000 * "[" + "\n")
    with pytest.raises(BadData, match=r"a\.jsonl:2: is not JSON"):
        SpanFiles(file, []).complete()
    file.write_text(lines[0] + lines[1][:-50])
    with pytest.raises(BadData, match=f"is no JSON from byte {len(lines[0]):,} on"):
        SpanFiles(file, []).complete()


def test_span_files_wait_for_the_rest_of_a_message(tmp_path):
    file, message = tmp_path / "a.pb", _message(otlp_lines(REQUESTS[:1])).SerializeToString()
    file.write_bytes((len(message).to_bytes(4) + message)[:50])
    files = SpanFiles(file, [])
    assert (files.complete(silent_rounds=3), files.waiting) == ([], 0)
    with pytest.raises(BadData, match="from byte 0 on"):
        files.complete()
    file.write_bytes(len(message).to_bytes(4) + message)
    assert [one.trace for one in files.complete()] == [trace_id(0)]


@pytest.mark.parametrize("time", ["9" * 30, "9" * 400, "-5", "soon"])
def test_span_files_a_time_that_is_none_is_absent(tmp_path, time):
    document = json.loads(otlp_lines(REQUESTS[:1]))
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span["startTimeUnixNano"] = time
    (tmp_path / "a.jsonl").write_text(json.dumps(document))
    [request] = SpanFiles(tmp_path / "a.jsonl", []).complete()
    assert request.hour == "1970-01-01T00"
    span["startTimeUnixNano"] = "1700000000000000000"  # one of its spans knows it
    (tmp_path / "a.jsonl").write_text(json.dumps(document))
    [request] = SpanFiles(tmp_path / "a.jsonl", []).complete()
    assert request.hour == "2023-11-14T22"


def test_span_files_a_file_that_was_rotated_is_read_from_its_beginning(tmp_path):
    file, lines = tmp_path / "a.jsonl", otlp_lines(REQUESTS).splitlines(keepends=True)
    file.write_text("".join(lines[:3]))
    files = SpanFiles(file, [])
    assert [len(files.complete(silent_rounds=3)) for _ in range(2)] == [0, 3]
    file.write_text(lines[3])
    assert [len(files.complete(silent_rounds=3)) for _ in range(2)] == [0, 1]


def test_span_files_remember_the_newest_requests_that_are_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_COMPLETE", 2)
    file, lines = tmp_path / "a.jsonl", otlp_lines(REQUESTS).splitlines(keepends=True)
    read = SpanFiles(tmp_path, [])
    for line in lines[:4]:
        with file.open("a") as log:
            log.write(line)
        assert len(read.complete()) == 1
    with file.open("a") as log:
        log.write(lines[3] + lines[0])  # of the newest and of the oldest one
    assert ([one.trace for one in read.complete()], read.late) == ([trace_id(0)], 3)


def _message(line):
    document = json.loads(line)
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):  # base64 in JSON of protobuf
            span[key] = _in_base64(span[key])
    return ParseDict(document, ExportTraceServiceRequest())


def _in_base64(text):
    raw = bytes.fromhex(text) if len(text) == 32 else text.encode()
    return base64.b64encode(raw).decode()
