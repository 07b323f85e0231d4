"""The judge's instructions: ours, or those of a user's file, which have to say all that the form of a reply needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from ragassay.core.errors import BadSettings, NotFound
from ragassay.core.eval_config import JudgePrompt
from ragassay.core.models import Covered, Step, Support, Truth
from ragassay.core.prompts import Prompt, load, prompt_of

OURS = "judge/verdict"
LONGEST = 100_000  # characters
_WORDS = (  # keys of the form, and what their values may be
    *("answer", "evidence", "support", *get_args(Support), "truth", *get_args(Truth)),
    *("facts", "covered", *get_args(Covered), "why", "relevance", *get_args(Step), "refusal"),
)
_LABELS = ("[Q]", "[A", "[C", "[G")
_HINT = "write {{ verdict }} where our instructions shall stand, or copy what they say of it (prompts/judge/verdict.md)"


def read_prompt(path: Path, where: str | None = None) -> JudgePrompt:
    """The prompt in a user's file; ``{{ verdict }}`` in it stands for ours.

    Raises NotFound, and BadSettings for what is no text, has another slot, or lacks what a reply can't be filled without.
    """
    if not path.is_file():
        raise NotFound(f"{path}: there is no such file", where=where)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadSettings(f"{path}: is not UTF-8 text (byte {error.start})", where=where) from None
    prompt = JudgePrompt(name=path.name, text=text)
    try:
        _check(instructions(prompt).text)
    except BadSettings as error:
        raise BadSettings(f"{path}: {error.message}", where=where, hint=error.hint) from None
    return prompt


def instructions(prompt: JudgePrompt | None) -> Prompt:
    """The system message of a judge, without criteria. Its version is that of the whole text, ours in it included."""
    ours = load(OURS)
    if prompt is None:
        return ours
    given = prompt_of(prompt.name, prompt.text)
    if odd := sorted(given.slots - {"verdict"}):
        raise BadSettings(f"has the slot {{{{ {odd[0]} }}}}, for which there is nothing", hint=_HINT)
    return prompt_of(prompt.name, given.render(verdict=ours.text)) if given.slots else given


def _check(text: str) -> None:
    if len(text) > LONGEST:
        raise BadSettings(f"has {len(text):,} characters; at most {LONGEST:,} can be read")
    lacking = [word for word in dict.fromkeys(("JSON", *_WORDS)) if not re.search(rf"(?<!\w){word}(?!\w)", text)]
    lacking += [label for label in (*_LABELS, "<sample") if label not in text]
    if lacking:
        raise BadSettings(f"does not speak of {', '.join(lacking)}, which the form of a reply needs", hint=_HINT)
