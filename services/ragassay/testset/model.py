"""Questions that a language model writes about passages, and checks without seeing the answers that it wrote."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel

from ragassay.core.aio import together
from ragassay.core.models import Usage
from ragassay.core.prompts import load
from ragassay.core.protocols import Journal
from ragassay.core.text import content, numbers
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.judges.structured import SampleCalls, StructuredCall
from ragassay.llm import LLM
from ragassay.testset.generate import Candidate

PER_PASSAGE = 2  # questions with an answer that are asked for
_SPARE = 1.5  # times as many as wanted, since some are thrown away
_TOKENS, _CHECK_TOKENS = 1500, 400
_SAME = 0.5  # share of the shorter answer's stems that the other one must have


class QuestionForm(BaseModel):
    """One question; category and difficulty are checked by our code."""

    question: str
    answerable: bool
    answer: str
    evidence: str
    category: Literal["factual", "conceptual", "procedural", "comparative", "troubleshooting"]
    difficulty: Literal["easy", "medium", "hard"]


class QuestionsForm(BaseModel):
    """The form in which a model writes questions about a passage."""

    questions: list[QuestionForm]


class CheckForm(BaseModel):
    """The form in which it answers one of them without seeing the answer that it wrote."""

    clear: bool
    answerable: bool
    answer: str


CATEGORIES, DIFFICULTIES = (get_args(QuestionForm.model_fields[name].annotation) for name in ("category", "difficulty"))


class QuestionWriter:
    """Writes questions with the model behind ``llm``; every call goes through the journal, so none is paid twice."""

    def __init__(self, llm: LLM, journal: Journal) -> None:
        self._llm, self._calls = llm, SampleCalls(journal)
        self._prompt, self._check = load("synthesis/questions"), load("synthesis/check")
        self._write, self._answer = (
            StructuredCall(llm, prompt.text, prompt.version, form, name, purpose="synthesis", who="the model")
            for prompt, form, name in ((self._prompt, QuestionsForm, "questions"), (self._check, CheckForm, "check"))
        )

    @property
    def settings(self) -> dict[str, Any]:
        """All that determines the questions beside the passages: model, parameters, versions of the prompts."""
        prompts = {prompt.name: prompt.version for prompt in (self._prompt, self._check)}
        return {**self._llm.settings, "prompts": prompts}

    @property
    def spent(self) -> Usage:
        """What the calls so far have spent."""
        return self._calls.usage + self._calls.waste

    async def write(self, corpus: Corpus, count: int, *, seed: int, unanswerable: float) -> list[Candidate]:
        """Candidates for ``count`` questions, those that failed a check with the reason, from passages that are drawn.

        Raises BudgetReached, BadSettings (key, model) and ProviderDown; what is answered by then is not paid again.
        """
        drawn = sorted(corpus.passages, key=lambda each: hashlib.sha256(f"{seed}\0{each.id}".encode()).digest())
        needed = math.ceil(_SPARE * count * max((1 - unanswerable) / PER_PASSAGE, unanswerable))
        without = unanswerable > 0
        written = await together([self._about(passage, without) for passage in drawn[:needed]])
        return [candidate for of_passage in written for candidate in of_passage]

    async def _about(self, passage: Passage, without: bool) -> list[Candidate]:
        wanted = f"Write {PER_PASSAGE} answerable questions{' and 1 that is not answerable' if without else ''}."
        reply = await self._ask(self._write, passage, wanted, _TOKENS)
        if isinstance(reply, str):
            return [self._candidate(passage, {"question": f"(passage {passage.id})"}, reply)]
        rows = reply.get("questions")
        rows = rows if isinstance(rows, list) else []
        return await together([self._checked(passage, row) for row in rows if isinstance(row, Mapping)])

    async def _checked(self, passage: Passage, row: Mapping[str, Any]) -> Candidate:
        if why := _misfit(row, passage):
            return self._candidate(passage, row, why)
        asked = f"Question: {row['question']}"
        reply = await self._ask(self._answer, passage, asked, _CHECK_TOKENS)
        return self._candidate(passage, row, reply if isinstance(reply, str) else _disagreement(row, reply))

    async def _ask(self, call: StructuredCall, passage: Passage, text: str, limit: int) -> dict[str, Any] | str:
        """The object in the reply, or why there is none."""
        code = hashlib.sha256(f"{passage.id}\0{passage.full}".encode()).hexdigest()[:8]
        prompt = f"<passage {code}>\n{passage.full}\n</passage {code}>\n{text}"
        answer = call.answer(passage.id, prompt, limit, self._calls, dict)
        value, reason = await self._calls.outcome(answer, "the model")
        return reason or "the model gave no answer" if value is None else value

    def _candidate(self, passage: Passage, row: Mapping[str, Any], unfit: str | None) -> Candidate:
        return Candidate(
            str(row.get("question", "")),
            str(row.get("answer", "")) if row.get("answerable") else "",
            (passage,),
            str(row.get("category", "")),
            str(row.get("difficulty", "")),
            "model" if row.get("answerable") else "model, unanswerable",
            details={"evidence": row["evidence"]} if row.get("answerable") and "evidence" in row else {},
            unfit=unfit,
        )


def _misfit(row: Mapping[str, Any], passage: Passage) -> str | None:
    """What our code finds wrong with a question; None when nothing."""
    texts = [row.get(key) for key in ("question", "answer", "evidence")]
    if not all(isinstance(text, str) for text in texts) or not isinstance(row.get("answerable"), bool):
        return "the model's reply could not be read"
    if row.get("category") not in CATEGORIES or row.get("difficulty") not in DIFFICULTIES:
        return "its category or difficulty is none that was offered"
    if row["answerable"] and not row["answer"].strip():
        return "it has no answer"
    evidence = " ".join(str(row["evidence"]).split()).casefold()
    if row["answerable"] and (not evidence or evidence not in " ".join(passage.full.split()).casefold()):
        return "its evidence does not stand in the passage"
    return None


def _disagreement(row: Mapping[str, Any], check: Mapping[str, Any]) -> str | None:
    """Why the check speaks against a question; None when it doesn't."""
    if check.get("clear") is not True:
        return "it is not clear without its passage"
    if check.get("answerable") is not row["answerable"]:
        return "its passage does not answer it" if row["answerable"] else "its passage answers it, and should not"
    if not row["answerable"]:
        return None
    ours, theirs = content(row["answer"]), content(str(check.get("answer", "")))
    alike = len(ours & theirs) >= _SAME * max(1, min(len(ours), len(theirs)))
    same_numbers = numbers(row["answer"]) == numbers(str(check.get("answer", ""))) or not numbers(row["answer"])
    return None if alike and same_numbers else "asked again, the model answers it differently"
