"""Loads prompts by name. A prompt's version is the hash of its file, so a report says exactly what a judge was told."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.package_data import folder

_NAME = re.compile(r"[a-z0-9_-]+(?:/[a-z0-9_-]+)*")
_FRONT = re.compile(r"---\n(.*?)\n---\n", re.DOTALL)
_SLOT = re.compile(r"\{\{ ?(\w+) ?\}\}")


@dataclass(frozen=True)
class Prompt:
    """A prompt's text and where it came from. ``version`` is the first 12 hex digits of the file's SHA-256."""

    name: str
    version: str
    text: str

    @property
    def slots(self) -> set[str]:
        """Names of its slots."""
        return set(_SLOT.findall(self.text))

    def render(self, **values: object) -> str:
        """The text with every ``{{ slot }}`` filled in. Nothing is escaped: that is for the caller, who knows how.

        Raises BadSettings when a slot has no value or a value has no slot.
        """
        if self.slots != set(values):
            odd = ", ".join(sorted(self.slots ^ set(values)))
            raise BadSettings(f"prompt {self.name!r}: slots and values differ: {odd}")
        return _SLOT.sub(lambda slot: str(values[slot.group(1)]), self.text)


def load(name: str) -> Prompt:
    """The prompt ``prompts/<name>.md``, for example ``judge/verdict``.

    Front matter (lines between two lines of ``---`` at its top) is for readers of the file and no part of the text.
    Raises UnknownName with the near matches, NotFound when the installation lacks the prompts.
    """
    return _load(folder("prompts"), name)


@cache
def _load(place: Path, name: str) -> Prompt:
    path = place / f"{name}.md"
    if not _NAME.fullmatch(name) or not path.is_file():
        known = [file.relative_to(place).with_suffix("").as_posix() for file in place.rglob("*.md")]
        raise UnknownName("prompt", name, known)
    return prompt_of(name, path.read_text(encoding="utf-8"))  # universal newlines: the version is the same everywhere


def prompt_of(name: str, content: str) -> Prompt:
    """The prompt in the content of a file, front matter and all."""
    front = _FRONT.match(content)
    text = content[front.end() :] if front else content
    return Prompt(name, hashlib.sha256(content.encode()).hexdigest()[:12], text.strip())
