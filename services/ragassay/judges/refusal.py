"""Tells a refusal from an answer by how its first sentence begins. English only.

The patterns are anchored: they must match from the start of a sentence, after a lead-in such as "Unfortunately," or
"Based on the documents,". A text that merely mentions what is not known further on is an answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_SOURCE = (
    r"(?:the |this |these |those |any |none of the |your )?(?:(?:provided|given|available|retrieved|supplied|above|search) )*"
    r"(?:contexts?|documents?|documentation|(?:search )?results?|sources?|passages?|texts?|articles?|handbook|information|"
    r"excerpts?|materials?|snippets?)(?: (?:provided|given|available|above|retrieved))?"
)
_NOT = r"(?:do not|don't|does not|doesn't|did not|didn't|can not|cannot|can't|could not|couldn't|am not able to|am unable to|was not able to|was unable to|will not|won't|have not|haven't)"
_LEAD = (
    r"(?:(?:i am|i'm|we are|we're) (?:very |so )?(?:sorry|afraid)[,.]?(?: but| that)?\s+|sorry[,.]?(?: but)?\s+"
    r"|apologies[,.]?(?: but)?\s+|(?:i|we) apologi[sz]e[,.]?(?: but)?\s+|unfortunately,?\s+|however,?\s+|as an ai[^,]{0,40},\s+"
    rf"|(?:based on|from|according to|given|in|within) {_SOURCE},?\s+)*"
)
_REFUSALS = (
    rf"(?:i|we) {_NOT} (?:really |currently |directly )?"
    r"(?:know\b|answer|find|found|provide|help|assist|determine|say\b|tell|see any|locate|generate|comply|confirm|"
    r"have (?:any |enough |sufficient |access|the |information|an answer))",
    r"there(?: is|'s| was| are| were) (?:no|not|not enough|not any|insufficient) (?:[\w-]+ ){0,3}"
    r"(?:information|answer|mention|details?|data|evidence|indication|references?)\b",
    rf"{_SOURCE} (?:do not|don't|does not|doesn't|did not|didn't) (?:[a-z]+ly )?"
    r"(?:provide|contain|mention|include|specify|say|state|answer|give|cover|address|have|discuss|describe|indicate)\b",
    rf"{_SOURCE} (?:is|are) (?:not related|not relevant|irrelevant|insufficient)\b",
    r"it(?: is|'s) (?:not clear|unclear|unknown|not specified|not stated|not mentioned|not known|not possible to|impossible to)\b",
    r"(?:no|insufficient|not enough) (?:[\w-]+ ){0,2}(?:information|answer|data|context|details?)\b",
    r"(?:unable|not able) to (?:answer|find|determine|provide|help)\b",
    r"the (?:answer|information|question)\b[^.;]{0,120}\b(?:is|was|are|cannot be|can't be) (?:not )?"
    r"(?:available|provided|found|given|mentioned|specified|answered|in the)\b",
    r"(?:this|that) (?:is|was) not (?:mentioned|specified|stated|provided|covered|found|described)\b",
    r"(?:not (?:mentioned|specified|stated|provided|found|available)|n/a|unknown|no answer|none)\b[^,;]{0,40}$",
)
_REFUSAL = re.compile(_LEAD + "(?:" + "|".join(_REFUSALS) + ")", re.IGNORECASE)
_POSITIVE = re.compile(r"\b(?:is|was|are) (?:available|provided|found|given|mentioned|specified|in the)\b", re.IGNORECASE)


def refuses(sentences: Sequence[str]) -> bool:
    """Does an answer, cut into its sentences, refuse? Its first sentence does, and so do half of all, or there are two."""
    refusing = [_is_refusal(sentence) for sentence in sentences]
    return bool(refusing) and refusing[0] and (len(refusing) <= 2 or 2 * sum(refusing) >= len(refusing))


def _is_refusal(sentence: str) -> bool:
    plain = sentence.replace("’", "'").strip(" \"'“”")
    found = _REFUSAL.match(plain)
    return found is not None and not (found.group().lower().startswith("the ") and _POSITIVE.search(found.group()))
