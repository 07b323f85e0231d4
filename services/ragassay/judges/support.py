"""The chance that contexts support a sentence, and that an answer is right: few features of words, and a logistic of them.

``benchmarks/judge/fit.py`` fits the weights, which lie in ``local_weights.json`` with where they come from. No feature needs
an embedding model: similarity of meaning added nothing on sets that it was not fitted on (docs/judges.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

from ragassay.core.text import LONGEST_WORD, content, numbers, stem, words
from ragassay.judges.matching import START, Match, Pool, SentenceTerms, share_lacking

SUPPORT_FEATURES = (
    *("window", "pool", "alike", "pairs", "missing", "unknown_names", "unknown_numbers", "sign", "length", "denied"),
    *("copied", "copied_triples", "copied_names", "copied_numbers", "copied_sign"),
)
CORRECTNESS_FEATURES = ("stands_in_it", "words", "spelling", "unknown_numbers", "refusal", "length")
COPIED_FROM = 0.4  # of a sentence's triples of words: from this share on it counts as copied
COPIED_OVER = 0.4  # so much more of them, and it counts as copied wholly
MOST_SPELLINGS = 1_000_000  # pairs of a truth's and an answer's words; of longer texts no spellings are compared
SIMILAR_SPELLING = 0.8  # ratio of difflib from which two words are one
LONGEST_LOGIT = 12.0  # beyond, a probability is 0 or 1 to the digits that are kept
_WEIGHTS = Path(__file__).with_name("local_weights.json")


@cache
def weights() -> Mapping[str, Any]:
    """Weights by feature, and their provenance."""
    loaded: Mapping[str, Any] = json.loads(_WEIGHTS.read_text(encoding="utf-8"))
    return loaded


def left_out() -> tuple[float, float, float]:
    """Balanced accuracy on labelled sets that it was not fitted on: least and greatest on support, and on correctness."""
    measured = dict(weights()["provenance"]["left_out"])
    place = measured.pop("columns").index("balanced_accuracy")
    about = {
        part: [measured[name][place] for name in weights()["provenance"][part]] for part in ("support", "correctness")
    }
    return min(about["support"]), max(about["support"]), min(about["correctness"])


def probability(logit: float) -> float:
    """The logistic function, to 6 digits."""
    return round(1 / (1 + math.exp(-max(-LONGEST_LOGIT, min(LONGEST_LOGIT, logit)))), 6)


def support_features(claim: SentenceTerms, pool: Pool, matched: Match) -> tuple[float, ...]:
    """What ``SUPPORT_FEATURES`` names, of a sentence and the sentences that may support it.

    Shares of the sentence's stems in its evidence (the best window of up to three neighbouring sentences) and in the
    pool, also where only their first letters agree; of its pairs of words in the pool; how many stems the pool lacks, as
    log(1 + n); shares of its names and numbers that the evidence lacks; 1 where it and its evidence differ in negation;
    log(1 + words); 1 where a sentence denies it. The others say how far the sentence is copied word by word, and how far it
    departs from its source where it is: log(1 + triples of words that are not there), and the same as above.
    """
    claim = pool.in_its_units(claim)
    evidence = pool.window(claim, matched.around)
    held = pool.tokens_of(evidence)
    pairs, triples = claim.pairs, claim.triples
    lost = sum(triple not in pool.triples for triple in triples)
    in_order = 1 - lost / len(triples) if triples else float(claim.stems <= pool.tokens)
    copied = min(1.0, max(0.0, (in_order - COPIED_FROM) / COPIED_OVER))
    alike = sum(one in pool.tokens or (len(one) >= START and one[:START] in pool.starts) for one in claim.stems)
    unknown_names, unknown_numbers = share_lacking(claim.names, held), share_lacking(claim.numbers, held)
    sign = float(bool(matched.around) and claim.negated != any(pool.sentences[i].negated for i in evidence))
    return (
        1 - share_lacking(claim.stems, held),
        1 - share_lacking(claim.stems, pool.tokens),
        alike / max(len(claim.stems), 1),
        sum(pair in pool.pairs for pair in pairs) / len(pairs) if pairs else float(claim.stems <= pool.tokens),
        math.log1p(len(claim.stems - pool.tokens)),
        unknown_names,
        unknown_numbers,
        sign,
        math.log1p(len(claim.sequence)),
        float(matched.denied_by is not None),
        copied,
        copied * math.log1p(lost),
        copied * unknown_names,
        copied * unknown_numbers,
        copied * sign,
    )


def support_logit(features: Sequence[float]) -> float:
    """Log odds that people would call a sentence supported."""
    return _logit("support", SUPPORT_FEATURES, features)


def answer_probability(logits: Sequence[float]) -> float:
    """Chance that people would call a whole answer supported, from the log odds of its sentences: the least decides."""
    return probability(min(logits) + float(weights()["support"]["per_log_sentences"]) * math.log(len(logits)))


def correctness_features(query: str, answer: str, truths: Sequence[str], *, refusal: bool) -> tuple[float, ...]:
    """What ``CORRECTNESS_FEATURES`` names, of an answer and the ground truth that it is nearest to.

    1 where the truth stands in the answer word by word; share of the truth's stems in the answer, without those of the
    query; the same with words that are spelt alike; share of its numbers that the answer lacks; 1 where the answer
    refuses; log(1 + words).
    """
    said = words(answer)
    text, stems, in_digits = f" {' '.join(said)} ", frozenset(map(stem, said)), numbers(answer)
    known = content(query)
    best: tuple[float, ...] = (0.0, 0.0, 0.0, 1.0)
    for truth in truths:
        wanted = (content(truth) - known) or content(truth)
        if not wanted:
            continue
        exact = float(f" {' '.join(w for w in words(truth) if w not in ('the', 'a', 'an'))} " in text)
        share = 1 - share_lacking(wanted, stems | in_digits)
        near = stems if len(wanted) * len(stems) <= MOST_SPELLINGS else ()
        alike = sum(w in stems or any(_alike(w, s) for s in near) for w in wanted) / len(wanted)
        best = max(
            best,
            (exact, share, alike, share_lacking(numbers(truth), in_digits)),
            key=lambda f: (f[0] + f[1] + f[2], -f[3]),
        )
    return (*best, float(refusal), math.log1p(len(said)))


def correctness_logit(features: Sequence[float]) -> float:
    """Log odds that people would call an answer correct."""
    return _logit("correctness", CORRECTNESS_FEATURES, features)


def _logit(part: str, names: Sequence[str], features: Sequence[float]) -> float:
    fitted = weights()[part]
    total: float = fitted["intercept"]
    for name, value in zip(names, features, strict=True):
        total += fitted["features"][name] * value
    return total


def _alike(a: str, b: str) -> bool:
    """Are two words one but for their spelling?"""
    if not 4 <= min(len(a), len(b)) <= LONGEST_WORD or a[0] != b[0] or abs(len(a) - len(b)) > 3:
        return False
    return SequenceMatcher(None, a, b, autojunk=False).ratio() >= SIMILAR_SPELLING
