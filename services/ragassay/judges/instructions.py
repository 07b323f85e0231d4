"""The judge's instructions: ours, or a user's file that adds to them, since they say what the form of a reply needs."""

from __future__ import annotations

from pathlib import Path

from ragassay.core.errors import BadSettings, NotFound
from ragassay.core.eval_config import JudgePrompt
from ragassay.core.prompts import Prompt, load, prompt_of

OURS = "judge/verdict"
LONGEST = 100_000  # characters


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
