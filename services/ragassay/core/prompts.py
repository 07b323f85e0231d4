"""Loads prompts by name. A prompt's version is the hash of its file, so a report says exactly which text a judge got."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ragassay.core.errors import BadSettings, UnknownName
from ragassay.core.package_data import folder

if TYPE_CHECKING:
    from jinja2 import Template

_NAME = re.compile(r"[a-z0-9_-]+(?:/[a-z0-9_-]+)*")
_FRONT = re.compile(r"---\n(.*?)\n---\n", re.DOTALL)


@dataclass(frozen=True)
class Prompt:
    """A prompt's text and where it came from. ``version`` is the first 12 hex digits of the file's SHA-256."""

    name: str
    version: str
    text: str

    @property
    def slots(self) -> frozenset[str]:
        """Names of the values that its text needs. Raises BadSettings if the text is no template."""
        return _template(self.text)[1]

    def render(self, **values: object) -> str:
        """The text as a Jinja template, filled with ``values``. Nothing is escaped: that is for the caller, who knows how.

        Raises BadSettings when a slot has no value or a value has no slot.
        """
        template, slots = _template(self.text)
        if slots != set(values):
            odd = ", ".join(sorted(slots ^ set(values)))
            raise BadSettings(f"prompt {self.name!r}: slots and values differ: {odd}")
        return template.render(values)


@lru_cache(maxsize=64)
def _template(text: str) -> tuple[Template, frozenset[str]]:
    from jinja2 import TemplateSyntaxError, meta
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # a user's own prompt is a template as well

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, autoescape=False)
    try:
        return environment.from_string(text), frozenset(meta.find_undeclared_variables(environment.parse(text)))
    except TemplateSyntaxError as error:
        raise BadSettings(f"is no template: line {error.lineno}: {error.message}") from None


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
