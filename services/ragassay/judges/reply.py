"""Reads a judge's reply: finds the JSON object in it, and takes from it what was asked. Trusts nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeVar, get_args

import orjson

from ragassay.core.models import Covered, CriterionVerdict, FactVerdict, SentenceVerdict, Step, Support, Truth
from ragassay.judges.verdict import RawVerdict, Units
from ragassay.llm import readable

Value = TypeVar("Value", bound=str)
SUPPORTS: tuple[Support, ...] = get_args(Support)
TRUTHS: tuple[Truth, ...] = get_args(Truth)
COVERS: tuple[Covered, ...] = get_args(Covered)
STEPS: tuple[Step, ...] = get_args(Step)
_KEYS = frozenset(("answer", "facts"))
_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
_OBJECT = re.compile(r'\{\s*"')
_LONGEST, _MOST_OBJECTS, _LONGEST_WHY = 500_000, 50, 300
_REASON = re.compile(r"(?:^|(?<=[\s;,.(\[]))\[?([AG]\d+)\]?\s*[:=-]")


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object that has these properties, all of them and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def enum_schema(values: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of a text that is one of these."""
    return {"type": "string", "enum": list(values)}


_TEXT = {"type": "string"}
_LABELS = {"type": "array", "items": _TEXT}
_LOOKED_AT = {"id": _TEXT, "evidence": _LABELS}


def _list_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": object_schema(properties)}


def with_counts(schema: Mapping[str, Any], counts: Mapping[str, int]) -> dict[str, Any]:
    """The schema with the exact number of entries of these lists: without it, weak models leave entries out."""
    listed = schema["properties"]
    counted = {name: {**listed[name], "minItems": n, "maxItems": n} for name, n in counts.items() if name in listed}
    return {**schema, "properties": {**listed, **counted}}


def reply_schema(*, criteria: bool) -> dict[str, Any]:
    """The JSON schema of a reply, without the numbers of entries, which ``with_counts`` adds for each sample.

    Evidence stands before the label: who names the label first has not looked yet. The reasons are one text: one for each
    unit, also where nothing is wrong, was more than half of what a reply costs (decision 41). Numbers are literals.
    ``criteria``: is the answer judged by criteria in the user's words as well?
    """
    return object_schema(
        {
            "answer": _list_of({**_LOOKED_AT, "support": enum_schema(SUPPORTS), "truth": enum_schema(TRUTHS)}),
            "facts": _list_of({**_LOOKED_AT, "covered": enum_schema(COVERS)}),
            "why": _TEXT,
            "relevance": enum_schema(STEPS),
            "refusal": {"type": "boolean"},
            **({"criteria": _list_of({"id": _TEXT, "why": _TEXT, "step": enum_schema(STEPS)})} if criteria else {}),
        }
    )


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """The verdict in a reply, and the ids for which it is incomplete."""

    raw: RawVerdict
    missing: list[str]


def find_object(text: str, sample: str, keys: frozenset[str] = _KEYS) -> dict[str, Any] | None:
    """The one object with any of ``keys`` in a reply, bare, fenced or with words and thoughts around it; else None.

    Two such objects are one too many, and an object that stands in the sample is the sample's, not the judge's.
    """
    text = _THOUGHTS.sub("", text).strip()
    if len(text) > _LONGEST:
        return None
    candidates = [(value, raw) for value, raw in _objects(text) if isinstance(value, dict) and keys & value.keys()]
    if len(candidates) != 1:
        return None
    value, raw = candidates[0]
    return None if _without_spaces(raw) in _without_spaces(sample) else value


def parse_reply(reply: Mapping[str, Any], units: Units) -> ParsedReply:
    """The verdict on the units that were asked; ids that were not asked are ignored.

    An id that comes twice with different values counts as missing, as does one with a value outside the schema; its
    other values are kept.
    """
    why, reasons = _reasons(reply.get("why"))
    raw = RawVerdict(relevance=one_of(reply.get("relevance"), STEPS), why=why)
    refusal = reply.get("refusal")
    raw.refusal = refusal if isinstance(refusal, bool) else None
    for label, entries in _by_id(reply.get("answer"), units.answer).items():
        raw.sentences[label] = SentenceVerdict(
            id=label,
            text=units.answer[label],
            support=_agreed(entries, "support", SUPPORTS),
            evidence=_labels(entries[0].get("evidence")),
            truth=_agreed(entries, "truth", TRUTHS),
            why=short_reason(entries[0].get("why")) or reasons.get(label, ""),
        )
    for label, entries in _by_id(reply.get("facts"), units.facts).items():
        raw.facts[label] = FactVerdict(
            id=label,
            text=units.facts[label],
            covered=_agreed(entries, "covered", COVERS),
            evidence=_labels(entries[0].get("evidence")),
            why=short_reason(entries[0].get("why")) or reasons.get(label, ""),
        )
    for label, entries in _by_id(reply.get("criteria"), units.criteria).items():
        raw.criteria[label] = CriterionVerdict(
            id=label,
            name=units.criteria[label],
            step=_agreed(entries, "step", STEPS),
            why=short_reason(entries[0].get("why")),
        )
    return ParsedReply(raw, [label for label in units.ids if _is_incomplete(label, raw, units)])


def merge(first: ParsedReply, second: ParsedReply) -> ParsedReply:
    """The first reply, with what it lacked taken from the second; nothing that it had is changed."""
    raw, others, missing = first.raw, second.raw, []
    for label in first.missing:
        sentence, fact = others.sentences.get(label), others.facts.get(label)
        complete = label not in second.missing
        if sentence and (complete or label not in raw.sentences):
            raw.sentences[label] = sentence
        if fact and (complete or label not in raw.facts):
            raw.facts[label] = fact
        if complete and label in others.criteria:
            raw.criteria[label] = others.criteria[label]
        if not complete:
            missing.append(label)
    if raw.relevance is None:
        raw.relevance, raw.why = others.relevance, others.why
    if raw.refusal is None:
        raw.refusal = others.refusal
    return ParsedReply(raw, missing)


def _objects(text: str) -> Iterator[tuple[Any, str]]:
    """Every JSON object in a text that is not inside another, with the characters that it was read from."""
    try:
        yield orjson.loads(text), text
    except orjson.JSONDecodeError:
        decoder, start, tried = json.JSONDecoder(), 0, 0
        while (opening := _OBJECT.search(text, start)) and tried < _MOST_OBJECTS:
            tried += 1
            try:
                value, end = decoder.raw_decode(text, opening.start())
            except (ValueError, RecursionError):
                start = opening.end()
                continue
            yield readable(value), text[opening.start() : end]
            start = end


def _without_spaces(text: str) -> str:
    return "".join(text.split())


def _by_id(entries: object, known: Mapping[str, str]) -> dict[str, list[Mapping[str, Any]]]:
    """The entries of each known id, in the order of the units."""
    by_id: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and (label := label_in(entry.get("id"))) in known:
            by_id.setdefault(label, []).append(entry)
    return {label: by_id[label] for label in known if label in by_id}


def _agreed(entries: Sequence[Mapping[str, Any]], key: str, allowed: Sequence[Value]) -> Value | None:
    """The value that all entries of one id have; None where they differ or it is not one of ``allowed``."""
    values = {one_of(entry.get(key), allowed) for entry in entries}
    return values.pop() if len(values) == 1 else None


def one_of(given: object, allowed: Sequence[Value]) -> Value | None:
    """Which of the allowed words was given, in any case; None where it is none of them."""
    text = "_".join(given.lower().split()) if isinstance(given, str) else ""
    return next((value for value in allowed if value == text), None)


def label_in(value: object) -> str:
    """A unit's id as our code writes it; empty where there is none."""
    return value.strip(" []().:").upper() if isinstance(value, str) else ""


def _labels(value: object) -> tuple[str, ...]:
    named = re.split(r"[,;\s]+", value) if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(label for label in map(label_in, named) if label)


def short_reason(why: object) -> str:
    """A reason on one line, cut where it is too long; empty where there is none."""
    return " ".join(why.split())[:_LONGEST_WHY] if isinstance(why, str) else ""


def _reasons(given: object) -> tuple[str, dict[str, str]]:
    """What a text says of the whole, and of each unit behind its label: ``Late. A2: 7, not 30; G1: left out``."""
    text = given if isinstance(given, str) else ""
    named = list(_REASON.finditer(text))
    reasons: dict[str, str] = {}
    for one, following in zip_longest(named, named[1:]):
        said = text[one.end() : following.start() if following else len(text)]
        reasons.setdefault(one[1], short_reason(said.rstrip(" \n\t;,([")))
    return short_reason(text[: named[0].start()] if named else text).rstrip(" ;,"), reasons


def _is_incomplete(label: str, raw: RawVerdict, units: Units) -> bool:
    """Is anything that was asked about this unit unanswered?"""
    if label in units.criteria:
        return label not in raw.criteria or raw.criteria[label].step is None
    if label in units.facts:
        return label not in raw.facts or raw.facts[label].covered is None
    sentence = raw.sentences.get(label)
    if sentence is None:
        return True
    return (units.has_contexts and sentence.support is None) or (units.has_truth and sentence.truth is None)
