"""Soft verdicts: what a judge's labels are worth by the probabilities of the words that it might have written instead.

After G-Eval (Liu et al., 2023), which weighs a grade by the probabilities of its tokens; here it is each label of each unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ragassay.judges.reply import ParsedReply, label_in
from ragassay.judges.verdict import COVERED, SUPPORT, TRUTH
from ragassay.models import FactVerdict, SentenceVerdict
from ragassay.protocols import Reply

WORTH: Mapping[str, Mapping[str, float]] = {"support": SUPPORT, "truth": TRUTH, "covered": COVERED}
_VALUE = re.compile(r'[{,]\s*"(id|support|truth|covered)"\s*:\s*"([^"\\]*)"')
_AROUND = " \t\n\"'"


def with_scores(parsed: ParsedReply, reply: Reply) -> ParsedReply:
    """The verdict with the scores of its labels, where the reply has probabilities."""
    if reply.alternatives is None:
        return parsed
    scores = label_scores(reply.text, reply.alternatives)
    for label, sentence in parsed.raw.sentences.items():
        found = {f"{key}_score": scores[label, key] for key in ("support", "truth") if (label, key) in scores}
        asked = {key: score for key, score in found.items() if getattr(sentence, key.removesuffix("_score"))}
        parsed.raw.sentences[label] = SentenceVerdict.model_copy(sentence, update=asked)
    for label, fact in parsed.raw.facts.items():
        if (label, "covered") in scores and fact.covered:
            parsed.raw.facts[label] = FactVerdict.model_copy(fact, update={"covered_score": scores[label, "covered"]})
    return parsed


def label_scores(text: str, alternatives: Sequence[tuple[int, Mapping[str, float]]]) -> dict[tuple[str, str], float]:
    """By unit and key (``A1``, ``support``), what the label is worth, 0 to 1; a unit that comes twice has none."""
    scores: dict[tuple[str, str], float] = {}
    twice: set[tuple[str, str]] = set()
    unit = ""
    for match in _VALUE.finditer(text):
        key, value = match[1], match[2]
        if key == "id":
            unit = label_in(value)
            continue
        if (unit, key) in scores:
            twice.add((unit, key))
        scores[unit, key] = _expected(value, match.start(2), WORTH[key], alternatives)
    return {place: score for place, score in scores.items() if place not in twice}


def _expected(
    value: str, start: int, worth: Mapping[str, float], alternatives: Sequence[tuple[int, Mapping[str, float]]]
) -> float:
    """What a label that begins at ``start`` is worth on average over the labels that might stand there."""
    chances = dict.fromkeys(worth, 0.0)
    for place, likely in alternatives:
        if not place <= start < place + len(next(iter(likely))):
            continue
        for token, chance in likely.items():
            word = token.strip(_AROUND).lower()
            meant = [label for label in worth if word and (label.startswith(word) or word.startswith(label))]
            for label in [value] if value in meant else meant:  # "a" may begin "agrees" and "absent"
                chances[label] += chance / (1 if value in meant else len(meant))
        break
    total = sum(chances.values())
    if not total:  # the token was certain, or says nothing of the label yet
        return worth.get(value, 0.0)
    return min(1.0, sum(worth[label] * chance for label, chance in chances.items()) / total)
