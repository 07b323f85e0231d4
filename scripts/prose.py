"""Checks the prose of README, CONTRIBUTING, CHANGELOG and docs: words that a stranger would not use, long sentences, long lines.

    python scripts/prose.py     exit code 1 if something is found

Code blocks, tables' bars and links' addresses are not prose.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST_SENTENCE = 30  # words
LONGEST_LINE = 160  # characters, outside of tables and code
WORDS = re.compile(
    r"(?<!can't )\b(told|tells?|telling|stands?|stood|beside|whoever|nobody|somebody|lest|dear(?:er)?|mend(?:ed|s)?|anew|meanwhile"
    r"|in earnest|noticed|what becomes of|how much it bears|of its own|of one's own|in vain|ruler|so many|the door|doors"
    r"|every room|rooms|as it is|as they are|says? of)\b",
    re.IGNORECASE,
)
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LINK = re.compile(r"\]\([^)]*\)")
END = re.compile(r"(?<=[.!?:;])\s+|\n\s*\n|\n\s*(?=[-*#]|\d+\.)|\|")


def blank(match: re.Match[str]) -> str:
    """As many lines with nothing in them."""
    return "\n" * match.group().count("\n")


def problems(text: str) -> list[tuple[int, str]]:
    """Line and problem, in the order of the text."""
    prose = COMMENT.sub(blank, FENCE.sub(blank, text))
    found = []
    for number, line in enumerate(prose.splitlines(), 1):
        found += [(number, f"avoid {match.group()!r}") for match in WORDS.finditer(line)]
        if len(LINK.sub("]", line)) > LONGEST_LINE and not line.startswith("|") and "`: " not in line:
            found.append((number, f"line of {len(line)} characters (at most {LONGEST_LINE})"))
    start = 0
    for end in [*(match.span() for match in END.finditer(prose)), (len(prose), len(prose))]:
        sentence = prose[start : end[0]]
        if len(sentence.split()) > LONGEST_SENTENCE:
            number = prose.count("\n", 0, start) + 1
            found.append((number, f"sentence of {len(sentence.split())} words (at most {LONGEST_SENTENCE})"))
        start = end[1]
    return sorted(found)


def pages() -> list[Path]:
    """README, CONTRIBUTING, CHANGELOG and every page of docs/."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def main() -> None:
    """Print every problem as ``FILE:LINE: PROBLEM``."""
    count = 0
    for path in pages():
        for number, problem in problems(path.read_text(encoding="utf-8")):
            print(f"{path.relative_to(ROOT)}:{number}: {problem}")
            count += 1
    if count:
        sys.exit(f"{count} problems of prose")


if __name__ == "__main__":
    main()
