"""Reads a judge's reply: finds the JSON object in it, and takes from it what was asked. Trusts nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

import orjson

from ragassay.judges.verdict import Claims, Units
from ragassay.models import Covered, FactVerdict, RelevanceStep, SentenceVerdict, Support, Truth

W = TypeVar("W", bound=str)
SUPPORTS: tuple[Support, ...] = get_args(Support)
TRUTHS: tuple[Truth, ...] = get_args(Truth)
COVERS: tuple[Covered, ...] = get_args(Covered)
STEPS: tuple[RelevanceStep, ...] = get_args(RelevanceStep)
_KEYS = frozenset(("answer", "facts"))
_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
_OBJECT = re.compile(r'\{\s*"')
_LONGEST, _MOST_OBJECTS, _LONGEST_WHY = 500_000, 50, 300


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _one_of(values: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


_TEXT = {"type": "string"}
_LABELS = {"type": "array", "items": _TEXT}
# The same for every sample, so that providers compile it once. Literals only: bounds on numbers are not taken by all.
SCHEMA: Mapping[str, Any] = _object(
    {
        "answer": {
            "type": "array",
            "items": _object(
                {"id": _TEXT, "support": _one_of(SUPPORTS), "evidence": _LABELS, "truth": _one_of(TRUTHS), "why": _TEXT}
            ),
        },
        "facts": {
            "type": "array",
            "items": _object({"id": _TEXT, "covered": _one_of(COVERS), "evidence": _LABELS, "why": _TEXT}),
        },
        "relevance": _one_of(STEPS),
        "refusal": {"type": "boolean"},
        "why": _TEXT,
    }
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says, and the ids that it says too little about."""

    claims: Claims
    missing: list[str]


def find_object(text: str, sample: str) -> dict[str, Any] | None:
    """The one object of the agreed form in a reply, bare, fenced or with words around it; else None.

    Two such objects are one too many, and an object that stands in the sample is the sample's, not the judge's.
    """
    text = _THOUGHTS.sub("", text).strip()
    if len(text) > _LONGEST:
        return None
    found = [(value, raw) for value, raw in _objects(text) if isinstance(value, dict) and not _KEYS.isdisjoint(value)]
    if len(found) != 1 or _bare(found[0][1]) in _bare(sample):
        return None
    return found[0][0]


def read(reply: Mapping[str, Any], asked: Units) -> Reading:
    """Take what is claimed about the units that were asked; ids that nobody asked for are left aside.

    An id that comes twice with different words counts as missing, as does one with a word that is none of the agreed
    ones; what else was said of it is kept.
    """
    claims = Claims(relevance=_word(reply.get("relevance"), STEPS), why=_why(reply))
    refusal = reply.get("refusal")
    claims.refusal = refusal if isinstance(refusal, bool) else None
    for label, entries in _by_id(reply.get("answer"), asked.answer).items():
        claims.sentences[label] = SentenceVerdict(
            id=label,
            text=asked.answer[label],
            support=_agreed(entries, "support", SUPPORTS),
            evidence=_labels(entries[0].get("evidence")),
            truth=_agreed(entries, "truth", TRUTHS),
            why=_why(entries[0]),
        )
    for label, entries in _by_id(reply.get("facts"), asked.facts).items():
        claims.facts[label] = FactVerdict(
            id=label,
            text=asked.facts[label],
            covered=_agreed(entries, "covered", COVERS),
            evidence=_labels(entries[0].get("evidence")),
            why=_why(entries[0]),
        )
    return Reading(claims, [label for label in asked.asked if _lacks(label, claims, asked)])


def merge(first: Reading, second: Reading) -> Reading:
    """The first reading, with what it lacked taken from the second; nothing that it had is changed."""
    claims, others, still = first.claims, second.claims, []
    for label in first.missing:
        sentence, fact = others.sentences.get(label), others.facts.get(label)
        whole = label not in second.missing
        if sentence and (whole or label not in claims.sentences):
            claims.sentences[label] = sentence
        if fact and (whole or label not in claims.facts):
            claims.facts[label] = fact
        if not whole:
            still.append(label)
    if claims.relevance is None:
        claims.relevance, claims.why = others.relevance, others.why
    if claims.refusal is None:
        claims.refusal = others.refusal
    return Reading(claims, still)


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
            yield value, text[opening.start() : end]
            start = end


def _bare(text: str) -> str:
    return "".join(text.split())


def _by_id(entries: object, known: Mapping[str, str]) -> dict[str, list[Mapping[str, Any]]]:
    """The entries of each known id, in the order of the units."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and (label := _label(entry.get("id"))) in known:
            found.setdefault(label, []).append(entry)
    return {label: found[label] for label in known if label in found}


def _agreed(entries: Sequence[Mapping[str, Any]], key: str, words: Sequence[W]) -> W | None:
    """The word that all entries of one id have; None where they differ or it is not one of ``words``."""
    said = {_word(entry.get(key), words) for entry in entries}
    return said.pop() if len(said) == 1 else None


def _word(value: object, words: Sequence[W]) -> W | None:
    text = "_".join(value.lower().split()) if isinstance(value, str) else ""
    return next((word for word in words if word == text), None)


def _label(value: object) -> str:
    return value.strip(" []().:").upper() if isinstance(value, str) else ""


def _labels(value: object) -> tuple[str, ...]:
    named = re.split(r"[,;\s]+", value) if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(label for label in map(_label, named) if label)


def _why(entry: Mapping[str, Any]) -> str:
    why = entry.get("why")
    return " ".join(why.split())[:_LONGEST_WHY] if isinstance(why, str) else ""


def _lacks(label: str, claims: Claims, asked: Units) -> bool:
    """Was anything that was asked about this unit left unsaid?"""
    if label in asked.facts:
        return label not in claims.facts or claims.facts[label].covered is None
    sentence = claims.sentences.get(label)
    if sentence is None:
        return True
    return (asked.has_contexts and sentence.support is None) or (asked.has_truth and sentence.truth is None)
