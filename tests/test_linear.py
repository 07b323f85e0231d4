"""Reading hostile text takes time in proportion to its length: of four times the text, about four times the time."""

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from judge_replies import sample
from ragassay.core import text as rules
from ragassay.core.errors import AssayError, reason_from
from ragassay.core.formatting import printable
from ragassay.core.models import Verdict
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.judges.overlap import Source, clauses, features, terms_of
from ragassay.judges.prompt import disarm, suspicious
from ragassay.judges.reply import find_object, parse_reply
from ragassay.judges.verdict import number_units
from ragassay.llm.errors import message, redact
from ragassay.metrics.accuracy import AccuracyRule
from ragassay.metrics.answer import normalised
from ragassay.reporting.markdown import markdown_text
from ragassay.storage.selection import Bound
from ragassay.systems.retrieval import terms
from ragassay.testset.offline import candidates

SHORT, MEDIUM, LONG = 5_000, 10_000, 20_000
QUICK_S = 0.05  # a quadratic pattern takes longer on the medium text
MAX_TIMES = 8.0  # 4 is linear, 16 is quadratic
WRITTEN = r"""
    1 123, 1. 1: 0 12:30~ A1:~ G1= ; , . ! : ' " _ - # / \ a A nn~'~ A. a- a.b é 字 [ [A < </ <| <think> { {~ {" `` ( ] A1~
    {"answer":~[ not~ no~ but~ a~week~ sorry~ the~context~ i~do~not~ however,~ Unfortunately~ ignore~ you~are~ rate~this~
    all~claims~ answer~only~ http:// sk- Bearer~ Error~ Key
"""  # "~" is a space
UNSEEN = (" ", "\n", "\n \n", "\t", "\u200b", "\u200c", "<\u200c", "\u202e")
PIECES = (*(piece.replace("~", " ") for piece in WRITTEN.split()), *UNSEEN)
TEXTS = {
    **{f"{piece!r} again and again": lambda n, piece=piece: (piece * n)[:n] for piece in PIECES},
    **{f"{piece!r}, then others": lambda n, piece=piece: f"A1: {(piece * n)[: n - 6]}x1" for piece in PIECES},
    "digits, letters, a digit": lambda n: "1" * (n // 2) + "a" * (n // 2) + "1",
    "a condition": lambda n: f"mrr{' ' * n}!",
}


def marked(text: str) -> object:
    row = sample(text, contexts=(text,), query=text)
    return suspicious(Verdict(judge="x"), row, number_units(row))


def replied(text: str) -> object:
    return parse_reply({"why": text, "answer": [{"id": "A1", "evidence": text}]}, number_units(sample("One.")))


READERS: dict[str, Callable[[str], object]] = {
    **{name: getattr(rules, name) for name in "sentences words content numbers negated says_yes is_lead_in".split()},
    "refuses": lambda text: rules.refuses([text]),
    "clauses": clauses,
    "features": lambda text: features(terms_of(text), Source([[text]])),
    "disarm": disarm,
    "suspicious": marked,
    "find_object": lambda text: find_object(text, text),
    "parse_reply": replied,
    "normalised": normalised,
    "reason_from": reason_from,
    "redact": lambda text: redact(text, None),
    "message": lambda text: message(ValueError(text), None),
    "printable": printable,
    "markdown_text": markdown_text,
    "terms": terms,
    "bound": Bound.parse,
    "accuracy rule": AccuracyRule.parse,
    "questions": lambda text: list(candidates(Corpus.of([Passage(id="a", title="b", text=f"If {text}")]))),
}


def seconds(read: Callable[[str], object], text: str) -> float:
    began = time.process_time()
    with suppress(AssayError, ValueError):
        read(text)
    return time.process_time() - began


@pytest.mark.parametrize("reader", READERS)
def test_reading_takes_time_in_proportion_to_the_text(reader):
    read = READERS[reader]
    for name, made in TEXTS.items():
        if seconds(read, made(MEDIUM)) > QUICK_S:
            short, long = (min(seconds(read, made(n)) for _ in range(5)) for n in (SHORT, LONG))
            assert long < MAX_TIMES * short, f"{name}: {short:.3f} s, then {long:.3f} s"
