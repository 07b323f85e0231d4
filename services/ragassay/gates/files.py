"""Gate results as files: JUnit XML for a build server, Markdown for a pull request, JSON for programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import orjson

from ragassay.errors import BadSettings, UnknownName
from ragassay.files import write_whole
from ragassay.gates.check import GateReport, GateResult
from ragassay.gates.wording import number

MARKER = "<!-- ragassay gates -->"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPED = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>|#~"})


def junit(report: GateReport) -> bytes:
    """A test suite with a test case for each gate; the class name is the system."""
    missed = str(len(report.missed))
    attributes = {"name": "ragassay gates", "tests": str(len(report.results)), "failures": missed, "errors": "0"}
    suites = ElementTree.Element("testsuites", attributes)
    suite = ElementTree.SubElement(suites, "testsuite", {**attributes, "skipped": "0"})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in {"run": report.run, "baseline": report.baseline, "dataset": report.dataset}.items():
        if value is not None:
            ElementTree.SubElement(properties, "property", {"name": name, "value": _printable(value)})
    for result in report.results:
        place = {"classname": _printable(result.system), "name": _printable(result.name)}
        case = ElementTree.SubElement(suite, "testcase", place)
        if result.passed:
            ElementTree.SubElement(case, "system-out").text = _printable(result.reason)
        else:
            said = _printable(result.reason)
            ElementTree.SubElement(case, "failure", {"message": said, "type": result.cause}).text = said
    ElementTree.indent(suites)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def markdown(report: GateReport) -> bytes:
    """A table for a pull request. Its first line is a hidden marker, by which a later comment can replace this one."""
    total, missed = len(report.results), len(report.missed)
    verdict = f"{missed} of {total} gates missed" if missed else f"all {total} gates passed"
    compared = f", baseline `{_code(report.baseline)}`" if report.baseline else ""
    lines = [
        MARKER,
        f"## ragassay: {verdict}",
        "",
        f"Run `{_code(report.run)}` on {_text(report.dataset)}{compared}.",
        "",
        "| | gate | value | scored | why |",
        "| --- | --- | --- | --- | --- |",
        *(_line(result) for result in sorted(report.results, key=lambda result: result.passed)),
    ]
    return ("\n".join(lines) + "\n").encode()


def json(report: GateReport) -> bytes:
    """The document ``gates``; its schema: ``ragassay schema gates``."""
    return orjson.dumps(report.model_dump(mode="json"), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


_WRITERS: dict[str, Callable[[GateReport], bytes]] = {"json": json, "md": markdown, "xml": junit}


def writer_for(path: Path) -> Callable[[GateReport], bytes]:
    """What writes a file of this extension; raises UnknownName, and BadSettings where no file can be."""
    extension = path.suffix.removeprefix(".").lower()
    if extension not in _WRITERS:
        raise UnknownName("output of gates", path.name, [f"*.{name}" for name in _WRITERS])
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"lies in {str(path.parent)!r}, which is no folder"
        raise BadSettings(f"output {str(path)!r} {what}")
    return _WRITERS[extension]


def write(report: GateReport, path: Path) -> None:
    """Write the results to a file; it is whole or absent."""
    write_whole(path, writer_for(path)(report))


def _line(result: GateResult) -> str:
    value = "none" if result.value is None else number(result.value, result.threshold)
    sign = "passed" if result.passed else "**missed**"
    return f"| {sign} | {_text(result.name)} | {value} | {result.n}/{result.rows} | {_text(result.reason)} |"


def _printable(text: str) -> str:
    """Without the characters that XML forbids."""
    return _NOT_XML.sub("\ufffd", text)


def _code(text: str) -> str:
    return " ".join(text.split()).replace("`", "'")


def _text(text: str) -> str:
    return " ".join(text.split()).translate(_ESCAPED)
