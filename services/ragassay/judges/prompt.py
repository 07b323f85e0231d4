"""The instructions of a judge, and the prompt of a sample: numbered lines between delimiters that text of the sample can't forge.

Each unit is on one line behind its label, so nothing inside it can begin a line. Labels and delimiters inside the text
are escaped, and characters that hide or reorder text are taken out. Nothing else is kept from the judge. Text that
looks like an attempt to steer it is marked for a person to look at; a mark changes no verdict.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from ragassay.core.errors import BadSettings, NotFound
from ragassay.core.eval_config import JudgePrompt
from ragassay.core.models import Sample, Verdict
from ragassay.core.prompts import Prompt, load, prompt_of
from ragassay.core.text import content, is_lead_in
from ragassay.judges.verdict import Units

_JOINERS = "\u200c\u200d"  # some scripts need them, so they stay, and a label is recognised through them
_DECEIVING = "\u200b\u202a-\u202e\u2060-\u2064\u2066-\u206f\U000e0000-\U000e007f"
_INVISIBLE = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200e\u200f\ufeff\ud800-\udfff\x00-\x08\x0e-\x1b\x7f"
_PLAIN = re.compile(r"[ -;=-Z\\-~]*")  # printable ASCII without < and [
_TAKEN_OUT = re.compile(f"[{_DECEIVING}{_INVISIBLE}]")
_HIDING = re.compile(f"[{_DECEIVING}]")  # characters that are meant to hide or reorder text
_GAP = rf"[\s{_JOINERS}]*"
_LABEL = re.compile(  # "[H2O]" is none
    rf"[\[［【〔⟦](?={_GAP}(?:[ACGKOQＡＣＧＫＯＱ]{_GAP}[\d\]］】〕⟧]|[HＨ]{_GAP}\d+{_GAP}[\]］】〕⟧]))", re.IGNORECASE
)
_DELIMITER = re.compile(rf"[<＜‹〈](?={_GAP}(?:[/／]{_GAP})?sample\b)", re.IGNORECASE)
HISTORY = "judge/history"
OURS = "judge/verdict"
LONGEST = 100_000  # characters
LEAST_OVERLAP = 0.1  # of the stems of a sentence that is said to be supported, in the contexts and the history
_FEW_WORDS = 3
_JUDGE = r"(?:judges?|graders?|evaluators?|assessors?)"
_LABELLED = r"(?:correct|true|accurate|covered|(?:fully )?supported|grounded|relevant)"
_TO_THE_JUDGE = re.compile(  # for lower case, with one \b for all that begins with a word: every sentence is searched
    r"\b(?:(?:ignore|disregard|forget|override)\b.{0,30}\b(?:all|any|your|previous|prior|earlier|above|these)\b"
    r".{0,30}\b(?:instructions?|rules|prompts?|guidelines)\b"
    rf"|you are (?:now )?(?:an? |the )?(?:\w+ )?{_JUDGE}\b"
    rf"|(?:dear|attention|(?:notes?|messages?|instructions?) (?:to|for))[ ,:]+(?:the |all |any )?(?:\w+ )?{_JUDGE}\b"
    rf"|as (?:an?|the) (?:\w+ )?{_JUDGE},? (?:you|please)\b"
    r"|(?:rate|score|grade|mark|judge) (?:it|this|the|my|every|each|all|everything)\b"
    rf".{{0,40}}\b(?:full|highest|maximum|{_LABELLED})\b"
    r"|(?:give|award|assign) (?:it|this|the|my|every|each|all)\b.{0,30}"
    r"\b(?:(?:full|highest|maximum|top|perfect) (?:score|marks?|grade|rating|points)|10/10|5/5)"
    rf"|(?:all|every|each) (?:of the )?(?:sentences?|statements?|claims?|facts?|units?) (?:must|should|has to|have to) be"
    rf" (?:\w+ )?(?:as )?{_LABELLED}\b"
    rf"|(?:answer|reply|respond|output)\b.{{0,20}}\b(?:only|just)\b.{{0,20}}\b{_LABELLED}\b"
    r"|system (?:prompt|override)\b"
    r"|(?:support|covered|refusal|relevance|truth)\\?[\"']\s*:\s*\\?[\"']?"  # a piece of a verdict
    r"(?:supported|partly|not_found|contradicted|agrees|conflicts|absent|yes|no|true|false|full|mostly|barely|none)\b)"
    r"|^\W*(?:thought process\W*:|let'?s solve this (?:problem )?step by step)"
    r"|<\|\w+\|>|\[/?inst\]|<</?sys>>"
)
_DOTTED_I = {0x130: "i", 0x131: "i"}  # the two letters that lower case does not make an i of
_OUR_LABEL = re.compile(  # "K8s" is none
    rf"[\[【〔⟦]{_GAP}(?:[ACGO]{_GAP}\d|[HK]{_GAP}\d+{_GAP}[\]】〕⟧])", re.IGNORECASE
)


def render_prompt(sample: Sample, units: Units, prompt_version: str) -> str:
    """The prompt of a sample."""
    accepted = _accepted(sample, units)
    lines = sections(
        ("Earlier turns", units.history.items()),
        ("Question", [("Q", sample.query)]),
        ("Contexts", units.contexts.items()),
        ("Answer", units.answer.items()),
        ("Facts", units.facts.items()),
        ("Other accepted answers", accepted.items()),
    )
    return f"{enclosed('sample', lines, prompt_version)}\n{_request(units, accepted)}"


def sections(*titled: tuple[str, Collection[tuple[str, str]]]) -> list[str]:
    """Each title, and its texts behind their labels, a line each; without what is empty."""
    lines = []
    for title, texts in titled:
        if texts:
            lines += [f"{title}:", *(f"[{label}] {disarm(text)}" for label, text in texts)]
    return lines


def _accepted(sample: Sample, units: Units) -> dict[str, str]:
    """Further ground truths, by label; the first one's sentences are the facts."""
    others = sample.ground_truth_answer[1:] if units.facts and not sample.key_facts else ()
    return {f"O{n}": text for n, text in enumerate(others, 1)}


def enclosed(tag: str, lines: Iterable[str], prompt_version: str) -> str:
    """Lines between ``<tag M>`` and ``</tag M>``. M is the same for the same lines, and can't be guessed from inside them."""
    body = "\n".join(lines)
    marker = hashlib.sha256(f"{prompt_version}\n{body}".encode()).hexdigest()[:16]
    return f"<{tag} {marker}>\n{body}\n</{tag} {marker}>"


def _visible(text: str) -> str:
    return " ".join(_TAKEN_OUT.sub("", text).split())


def disarm(text: str) -> str:
    """``text`` on one line, without hidden characters, in which nothing looks like a label or delimiter of ours."""
    if _PLAIN.fullmatch(text):  # nearly all text; what follows costs twenty times as much
        return " ".join(text.split())
    return _DELIMITER.sub("(", _LABEL.sub("(", _visible(text)))


def _request(units: Units, accepted: Mapping[str, str]) -> str:
    listed = [list(ids) for ids in (units.answer, units.facts, units.criteria) if ids]
    parts = [f"{ids[0]} to {ids[-1]}" if len(ids) > 1 else ids[0] for ids in listed]
    text = f"Give one entry for each of {' and '.join(parts)}."
    if not units.contexts:
        text += " There are no contexts."
    if accepted:
        text += " An answer that says what an O says covers and agrees with the G as well."
    return f"{text}\n{load(HISTORY).text}" if units.history else text


def suspicious(verdict: Verdict, sample: Sample, units: Units) -> tuple[str, ...]:
    """Labels of texts that may steer the judge: they address it, hide characters or imitate our labels.

    And those of sentences called supported that share no word with contexts and history. ``A`` and ``C2`` stand for an answer or
    context whose hidden characters are in none of its sentences.
    """
    texts = {
        "Q": sample.query,
        **units.history,
        **units.contexts,
        **units.answer,
        **units.facts,
        **_accepted(sample, units),
    }
    marked = [label for label, text in texts.items() if _steers(text)]
    whole = {"A": sample.answer or "", **{f"C{n}.": text for n, text in enumerate(sample.contexts or (), 1)}}
    marked += [
        label.rstrip(".")
        for label, text in whole.items()
        if _HIDING.search(text) and not any(one.startswith(label) and _HIDING.search(texts[one]) for one in marked)
    ]
    sources = content(" ".join((*units.history.values(), *units.contexts.values())))
    for sentence in () if verdict.refusal else verdict.sentences:
        if sentence.support in ("supported", "partly") and not is_lead_in(sentence.text):
            stems = content(sentence.text)
            if len(stems) >= _FEW_WORDS and len(stems & sources) < LEAST_OVERLAP * len(stems):
                marked.append(sentence.id)
    return tuple(dict.fromkeys(marked))


def _steers(text: str) -> bool:
    if _PLAIN.fullmatch(text):  # nothing hidden, no label, no delimiter
        return _TO_THE_JUDGE.search(" ".join(text.lower().split())) is not None
    normal = unicodedata.normalize("NFKC", _visible(text)).translate(_DOTTED_I).lower()
    return any(one.search(normal) for one in (_TO_THE_JUDGE, _OUR_LABEL, _DELIMITER)) or bool(_HIDING.search(text))


def read_prompt(path: Path, where: str | None = None) -> JudgePrompt:
    """The prompt in a user's file; ``{{ verdict }}`` in it stands for ours.

    Raises NotFound, and BadSettings for what is no text, is too long, or has not this slot alone.
    """
    if not path.is_file():
        raise NotFound(f"{path}: there is no such file", where=where)
    try:
        prompt = JudgePrompt(name=path.name, text=path.read_text(encoding="utf-8-sig"))
        instructions(prompt)
    except UnicodeDecodeError as error:
        raise BadSettings(f"{path}: is not UTF-8 text (byte {error.start})", where=where) from None
    except BadSettings as error:
        raise BadSettings(f"{path}: {error.message}", where=where, hint=error.hint) from None
    return prompt


def instructions(prompt: JudgePrompt | None) -> Prompt:
    """The system message of a judge, without criteria. Its version is that of the whole text, ours in it included."""
    ours = load(OURS)
    if prompt is None:
        return ours
    if len(prompt.text) > LONGEST:
        raise BadSettings(f"has more than {LONGEST:,} characters")
    given = prompt_of(prompt.name, prompt.text)
    if given.slots != {"verdict"}:
        slots = ", ".join(sorted(given.slots)) or "none"
        hint = "write {{ verdict }} where our instructions shall stand (prompts/judge/verdict.md)"
        raise BadSettings(f"should have the slot {{{{ verdict }}}} and no other, has {slots}", hint=hint)
    return prompt_of(prompt.name, given.render(verdict=ours.text))
