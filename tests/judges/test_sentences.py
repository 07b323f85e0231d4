"""The cut into sentences: what ends one, what does not, and what it costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragassay.core.text import sentences

CASES: dict[str, tuple[str, list[str]]] = {
    "nothing": ("", []),
    "white space": (" \n\t ", []),
    "no letters": ("... !!! --- 👍", []),
    "no full stop": ("Paris lies on the Seine", ["Paris lies on the Seine"]),
    "two sentences": ("It rains. We stay.", ["It rains.", "We stay."]),
    "question and exclamation": ("Is it so? Yes! Good.", ["Is it so?", "Yes!", "Good."]),
    "several marks": ("Really?! Yes.", ["Really?!", "Yes."]),
    "title": ("Dr. Smith met Mr. Jones. They spoke.", ["Dr. Smith met Mr. Jones.", "They spoke."]),
    "title before a starter": ("See fig. The first one. Then go.", ["See fig. The first one.", "Then go."]),
    "saint": ("St. Mary is in Newcastle.", ["St. Mary is in Newcastle."]),
    "for example": ("Use a tool, e.g. Vim or nano. Save.", ["Use a tool, e.g. Vim or nano.", "Save."]),
    "that is": ("The owner, i.e. Anna, signs.", ["The owner, i.e. Anna, signs."]),
    "et al": ("Shown by Lee et al. Journal of Tests, 2020.", ["Shown by Lee et al. Journal of Tests, 2020."]),
    "etc at the end": ("Bring pens, paper etc. The rest is here.", ["Bring pens, paper etc.", "The rest is here."]),
    "time of day goes on": ("Open until 5 p.m. Monday to Friday.", ["Open until 5 p.m. Monday to Friday."]),
    "time of day at the end": ("It closes at 5 p.m. The door locks.", ["It closes at 5 p.m.", "The door locks."]),
    "country goes on": ("The U.S. Army left. All did.", ["The U.S. Army left.", "All did."]),
    "country at the end": ("He lives in the U.S. He likes it.", ["He lives in the U.S.", "He likes it."]),
    "company": ("Acme Inc. Europe grew. It hired.", ["Acme Inc. Europe grew.", "It hired."]),
    "company at the end": ("He joined Acme Inc. It grew.", ["He joined Acme Inc.", "It grew."]),
    "initials": ("J. K. Rowling wrote it. J. A. Smith did not.", ["J. K. Rowling wrote it.", "J. A. Smith did not."]),
    "letter at the end": ("It holds vitamin C. It is sour.", ["It holds vitamin C.", "It is sour."]),
    "I at the end": ("So do I. Then we go.", ["So do I.", "Then we go."]),
    "number sign": ("See no. 5 in the list. Done.", ["See no. 5 in the list.", "Done."]),
    "no as a word": ("The answer is no. We do not ship.", ["The answer is no.", "We do not ship."]),
    "month": ("It opens on Dec. 24 at noon.", ["It opens on Dec. 24 at noon."]),
    "decimal": ("It costs 3.50 USD. Pay now.", ["It costs 3.50 USD.", "Pay now."]),
    "number at the end": ("It was 1998. They left.", ["It was 1998.", "They left."]),
    "version": ("Install v1.2.3 first. Then restart.", ["Install v1.2.3 first.", "Then restart."]),
    "web address": ("See https://example.com/a?b=c.html for more. Go.", ["See https://example.com/a?b=c.html for more.", "Go."]),
    "web address at the end": ("Visit example.com. It helps.", ["Visit example.com.", "It helps."]),
    "mail": ("Write to jo.doe@example.com. We answer.", ["Write to jo.doe@example.com.", "We answer."]),
    "dot name": ("Built on .NET and Node.js today.", ["Built on .NET and Node.js today."]),
    "code": ("Call foo.bar(x) and obj.run(). It returns.", ["Call foo.bar(x) and obj.run().", "It returns."]),
    "quote inside": ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
    "quote goes on": ('"Is it far?" she asked.', ['"Is it far?" she asked.']),
    "curly quotes": ("“It is.” “Good.”", ["“It is.”", "“Good.”"]),
    "brackets": ("It rains (a lot.) We stay.", ["It rains (a lot.)", "We stay."]),
    "name with a mark": ("Yahoo! said so. It did.", ["Yahoo! said so.", "It did."]),
    "ellipsis goes on": ("Well... maybe so. Fine.", ["Well... maybe so.", "Fine."]),
    "ellipsis ends": ("Wait… What now?", ["Wait…", "What now?"]),
    "lower case of any script": ("Das ist etc. übrig. Gut.", ["Das ist etc. übrig.", "Gut."]),
    "citation": ("It takes 14 days.[1] Refunds are free.[2][3] Ask.", ["It takes 14 days.[1]", "Refunds are free.[2][3]", "Ask."]),
    "bullets": ("Steps:\n- Open it\n- Close it.", ["Steps:", "Open it", "Close it."]),
    "other bullets": ("• one\n* two\n– three", ["one", "two", "three"]),
    "numbered": ("Do this:\n1. Open it.\n2) Close it.\n(3) Go.", ["Do this:", "Open it.", "Close it.", "Go."]),
    "numbered without a colon": ("Do this\n1. Open it\n2. Close it", ["Do this", "Open it", "Close it"]),
    "number on a wrapped line": ("The answer is\n42. It is known.", ["The answer is 42.", "It is known."]),
    "numbered in line": ("Steps: 1. Open the page.", ["Steps: 1. Open the page."]),
    "headings": ("# Refunds\nThey take 14 days.\n## More\nAsk us.", ["Refunds", "They take 14 days.", "More", "Ask us."]),
    "table": ("Prices\n| Plan | USD |\n|---|---|\n| Team | 20 |", ["Prices", "| Plan | USD |", "| Team | 20 |"]),
    "wrapped lines": ("It takes\nfourteen days. Then\nit ends.", ["It takes fourteen days.", "Then it ends."]),
    "paragraphs": ("First part\n\nSecond part", ["First part", "Second part"]),
    "windows lines": ("One.\r\nTwo.\r\n\r\nThree", ["One.", "Two.", "Three"]),
    "bold": ("**Dr. Who** is old. **He** is.", ["**Dr. Who** is old.", "**He** is."]),
    "chinese": ("今天下雨。我们在家！好吗？", ["今天下雨。", "我们在家！", "好吗？"]),
    "japanese quotes": ("「行く。」と言った。終わり。", ["「行く。」", "と言った。", "終わり。"]),
    "hindi": ("यह सच है। वह गया।", ["यह सच है।", "वह गया।"]),
    "arabic": ("هل هذا صحيح؟ نعم.", ["هل هذا صحيح؟", "نعم."]),
    "spanish": ("¿Es verdad? Sí. ¡Claro!", ["¿Es verdad?", "Sí.", "¡Claro!"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_text_is_cut_where_a_reader_would_cut_it(case: str) -> None:
    text, expected = CASES[case]
    assert sentences(text) == expected


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
def test_every_piece_is_stripped_and_says_something_and_no_word_is_lost_but_list_numbers(text: str) -> None:
    pieces = sentences(text)
    assert all(piece == piece.strip() and any(c.isalnum() for c in piece) for piece in pieces)
    letters = [c for c in text if c.isalpha()]
    assert [c for piece in pieces for c in piece if c.isalpha()] == letters


@given(st.lists(st.sampled_from(["It rains.", "We stay!", "Is it 3.5?", "Dr. No left."]), max_size=6))
def test_sentences_joined_by_spaces_come_back(pieces: list[str]) -> None:
    assert sentences(" ".join(pieces)) == pieces
