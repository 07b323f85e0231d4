"""What the judge is shown of a sample: numbered lines between delimiters that text of the sample can't forge.

Each unit stands on one line behind its label, so nothing inside it can begin a line. Labels and delimiters inside the
text are disarmed, and characters that hide or reorder text are taken out; units that had such are suspicious.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ragassay.judges.verdict import Units
from ragassay.models import Sample

_JOINERS = "\u200c\u200d"  # some scripts need them, so they stay, and a label is recognised through them
_DECEIVING = "\u200b\u202a-\u202e\u2060-\u2064\u2066-\u206f\U000e0000-\U000e007f"
_INVISIBLE = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200e\u200f\ufeff\ud800-\udfff\x00-\x08\x0e-\x1b\x7f"
_PLAIN = re.compile(r"[ -;=-Z\\-~]*")  # printable ASCII without < and [
_TAKEN_OUT = re.compile(f"[{_DECEIVING}{_INVISIBLE}]")
_SUSPECT = re.compile(f"[{_DECEIVING}]")
_GAP = rf"[\s{_JOINERS}]*"
_LABEL = re.compile(rf"[\[［【〔⟦](?={_GAP}[ACGOQＡＣＧＯＱ]{_GAP}[\d\]］】〕⟧])", re.IGNORECASE)
_DELIMITER = re.compile(rf"[<＜‹〈](?={_GAP}[/／]?{_GAP}sample\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One sample as the judge sees it. ``deceiving`` are the units that held characters meant to hide or reorder."""

    text: str
    deceiving: tuple[str, ...]


def draw_up(sample: Sample, asked: Units, prompt_version: str) -> Sheet:
    """The sheet of a sample. Its marker is the same for the same sample, and can't be guessed from inside it."""
    others = sample.ground_truth_answer[1:] if asked.facts and not sample.key_facts else ()
    accepted = {f"O{n}": text for n, text in enumerate(others, 1)}
    sections: tuple[tuple[str, Mapping[str, str]], ...] = (
        ("Question", {"Q": sample.query}),
        ("Contexts", asked.contexts),
        ("Answer", asked.answer),
        ("Facts", asked.facts),
        ("Other accepted answers", accepted),
    )
    lines = [
        line
        for title, units in sections
        for line in ((f"{title}:", *(f"[{label}] {disarm(text)}" for label, text in units.items())) if units else ())
    ]
    body = "\n".join(lines)
    marker = hashlib.sha256(f"{prompt_version}\n{body}".encode()).hexdigest()[:16]
    return Sheet(
        text=f"<sample {marker}>\n{body}\n</sample {marker}>\n{_request(asked, accepted)}",
        deceiving=tuple(u for _, units in sections for u, text in units.items() if _deceives(text)),
    )


def disarm(text: str) -> str:
    """``text`` on one line, without hidden characters, in which nothing looks like a label or delimiter of ours."""
    if _PLAIN.fullmatch(text):  # nearly all text; what follows costs twenty times as much
        return " ".join(text.split())
    visible = " ".join(_TAKEN_OUT.sub("", text).split())
    return _DELIMITER.sub("(", _LABEL.sub("(", visible))


def _deceives(text: str) -> bool:
    return not text.isascii() and _SUSPECT.search(text) is not None


def _request(asked: Units, accepted: Mapping[str, str]) -> str:
    listed = [list(ids) for ids in (asked.answer, asked.facts) if ids]
    parts = [f"{ids[0]} to {ids[-1]}" if len(ids) > 1 else ids[0] for ids in listed]
    text = f"Give one entry for each of {' and '.join(parts)}."
    if not asked.contexts:
        text += " There are no contexts."
    if accepted:
        text += " An answer that says what an O says covers and agrees with the G as well."
    return text
