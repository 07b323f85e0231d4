"""Questions that a language model writes about passages, and checks without seeing the answers that it wrote."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from ragassay.core.aio import together
from ragassay.core.draws import draw_key
from ragassay.core.models import Usage
from ragassay.core.prompts import Prompt, load
from ragassay.core.protocols import Journal
from ragassay.core.text import content, numbers
from ragassay.datasets.corpus import Corpus, Passage
from ragassay.judges.reply import SampleCalls, StructuredCall
from ragassay.llm import LLM
from ragassay.testset.generate import Candidate

PER_PASSAGE = 2  # questions that are asked for
_SPARE = 1.5  # times as many as wanted, since some are thrown away
_TOKENS, _CHECK_TOKENS = 1500, 400  # at most, of a reply
_SAME = 0.5  # share of the shorter answer's stems that the other one must have


class QuestionForm(BaseModel):
    """One question."""

    question: str
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


class QuestionWriter:
    """Writes questions with the model behind ``llm``; every call goes through the journal, so none is paid twice."""

    def __init__(self, llm: LLM, journal: Journal) -> None:
        self._llm, self._calls = llm, SampleCalls(journal)
        self._prompts = load("synthesis/questions"), load("synthesis/check")
        self._write = self._structured(self._prompts[0], QuestionsForm, "questions")
        self._answer = self._structured(self._prompts[1], CheckForm, "check")

    def _structured(self, prompt: Prompt, form: type[BaseModel], name: str) -> StructuredCall:
        return StructuredCall(self._llm, prompt.text, prompt.version, form, name, purpose="synthesis", who="the model")

    @property
    def settings(self) -> dict[str, Any]:
        """All that determines the questions beside the passages: model, parameters, versions of the prompts."""
        return {**self._llm.settings, "prompts": {prompt.name: prompt.version for prompt in self._prompts}}

    @property
    def spent(self) -> Usage:
        """What the calls so far have spent."""
        return self._calls.usage + self._calls.waste

    async def write(self, corpus: Corpus, count: int, *, seed: int) -> list[Candidate]:
        """Candidates for ``count`` questions, those that failed a check with the reason, from passages that are drawn.

        Raises BudgetReached, BadSettings (key, model) and ProviderDown; what is answered by then is not paid again.
        """
        drawn = sorted(corpus.passages, key=lambda each: draw_key(seed, each.id))
        needed = math.ceil(_SPARE * count / PER_PASSAGE)
        written = await together([self._about(passage) for passage in drawn[:needed]])
        return [candidate for of_passage in written for candidate in of_passage]

    async def _about(self, passage: Passage) -> list[Candidate]:
        reply = await self._ask(self._write, passage, f"Write {PER_PASSAGE} questions.", _TOKENS)
        if isinstance(reply, str):
            return [_candidate(passage, {"question": f"(passage {passage.id})"}, reply)]
        rows = reply.get("questions")
        rows = rows if isinstance(rows, list) else []
        return await together([self._checked(passage, row) for row in rows if isinstance(row, Mapping)])

    async def _checked(self, passage: Passage, row: Mapping[str, Any]) -> Candidate:
        if why := _misfit(row, passage):
            return _candidate(passage, row, why)
        reply = await self._ask(self._answer, passage, f"Question: {row['question']}", _CHECK_TOKENS)
        return _candidate(passage, row, reply if isinstance(reply, str) else _disagreement(row, reply))

    async def _ask(self, call: StructuredCall, passage: Passage, text: str, limit: int) -> dict[str, Any] | str:
        """The object in the reply, or why there is none."""
        code = hashlib.sha256(f"{passage.id}\0{passage.full}".encode()).hexdigest()[:8]
        prompt = f"<passage {code}>\n{passage.full}\n</passage {code}>\n{text}"
        answer = call.answer(passage.id, prompt, limit, self._calls, dict)
        value, reason = await self._calls.outcome(answer, "the model")
        return reason or "the model gave no answer" if value is None else value


def _candidate(passage: Passage, row: Mapping[str, Any], unfit: str | None) -> Candidate:
    question, answer, category, difficulty = (
        str(row.get(key, "")) for key in ("question", "answer", "category", "difficulty")
    )
    details = {"evidence": row["evidence"]} if "evidence" in row else {}
    return Candidate(question, answer, passage, category, difficulty, details=details, unfit=unfit)


def _misfit(row: Mapping[str, Any], passage: Passage) -> str | None:
    try:
        form = QuestionForm.model_validate(row)
    except ValidationError:
        return "the model's reply could not be read"
    if not form.answer.strip():
        return "it has no answer"
    evidence = " ".join(form.evidence.split()).casefold()
    if not evidence or evidence not in " ".join(passage.full.split()).casefold():
        return "its evidence does not stand in the passage"
    return None


def _disagreement(row: Mapping[str, Any], check: Mapping[str, Any]) -> str | None:
    if check.get("clear") is not True:
        return "it is not clear without its passage"
    if check.get("answerable") is not True:
        return "its passage does not answer it"
    ours, theirs = content(row["answer"]), content(str(check.get("answer", "")))
    alike = len(ours & theirs) >= _SAME * max(1, min(len(ours), len(theirs)))
    same_numbers = numbers(row["answer"]) == numbers(str(check.get("answer", ""))) or not numbers(row["answer"])
    return None if alike and same_numbers else "asked again, the model answers it differently"
