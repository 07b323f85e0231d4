"""Tells a refusal from an answer by how its first sentence begins. English only.

The patterns are anchored: they must match from the start of a sentence, after a lead-in such as "Unfortunately," or
"Based on the documents,". A text that merely mentions further on what is not known is an answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_NOT = (
    r"(?:do|does|did|is|are|was|were|could|can|will|have|has)(?: ?not|n't)|can't|won't"
    r"|(?:am|was|are|were) (?:not able|unable) to"
)
_SOURCE = (
    r"(?:(?:the|this|these|those|any|your|none of the|provided|given|available|retrieved|supplied|above|search) ){0,4}"
    r"(?:contexts?|documents?|documentation|results?|sources?|passages?|texts?|articles?|handbook|information|excerpts?)"
    r"(?: (?:provided|given|available|above|retrieved))?"
)
_LEAD = (
    r"(?:(?:(?:i am|i'm|we are|we're) (?:very |so )?(?:sorry|afraid)|sorry|apologies|(?:i|we) apologi[sz]e)"
    r"[,.]?(?: but| that)?\s+"
    r"|(?:unfortunately|however|as an ai[^,]{0,40}),?\s+"
    rf"|(?:based on|from|according to|given|in|within) {_SOURCE},?\s+){{0,3}}"
)
_GIVEN = (
    r"(?:answered|available|provided|found|given|mentioned|specified|stated|covered|described|known|clear|in the)\b"
)
_WANT = (
    r"(?:know\b|answer|find|found|provide|help|assist|determine|say\b|tell|see any|locate|generate|comply|confirm"
    r"|have (?:any |enough |sufficient |access|the |information|an answer))"
)
_THING = r"(?:information|answer|mention|details?|data|evidence|indication|references?|results?|documents?|contexts?)\b"
_SAY = (
    r"(?:provide|contain|mention|include|specify|say|state|answer|give|cover|address|have|discuss|describe|indicate)"
    r"(?:e?s)?\b"
)
_REFUSALS = (
    # I could not find, I don't have enough information
    rf"(?:i|we) (?:{_NOT}) (?:really |currently |directly )?{_WANT}",
    # There is no information, None of the documents answers, No relevant information, Unable to answer
    rf"there(?:'s| is| was| are| were) (?:no|not|insufficient) (?:[\w-]+ ){{0,3}}{_THING}",
    rf"none of {_SOURCE} (?:{_SAY}|(?:is|are)\b)",
    r"(?:no|insufficient|not enough) (?:[\w-]+ ){0,2}(?:information|answer|data|context|details?)\b",
    r"(?:unable|not able) to (?:answer|find|determine|provide|help)\b",
    # The context does not say, The documents are irrelevant
    rf"{_SOURCE} (?:{_NOT}) (?:[a-z]+ly )?{_SAY}",
    rf"{_SOURCE} (?:is|are) (?:not related|not relevant|irrelevant|insufficient)\b",
    # It is not clear, That is not mentioned, The answer can't be found, Not specified.
    rf"(?:it|this|that)(?: is|'s| was) (?:unclear|unknown|impossible to|not possible to|not {_GIVEN})",
    rf"the (?:answer|information|question)\b[^.;]{{0,120}}? (?:(?:is|was|are) not|can(?:not|'t) be) {_GIVEN}",
    rf"not {_GIVEN}[^,;]{{0,40}}$",
    r"(?:n/a|unknown|no answer|none)\W*$",
)
_REFUSAL = re.compile(f"{_LEAD}(?:{'|'.join(_REFUSALS)})", re.IGNORECASE)


def refuses(sentences: Sequence[str]) -> bool:
    """Does an answer refuse, given its sentences? Its first one does, and with it at least half of them, or of two."""
    refusing = [_REFUSAL.match(sentence.replace("’", "'").lstrip(" \"'“”")) is not None for sentence in sentences]
    return bool(refusing) and refusing[0] and 2 * sum(refusing) >= len(refusing)
