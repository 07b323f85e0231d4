"""What is read in a text: where its sentences end, its words, stems, numbers, denials and refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.tokenizers import DefaultTokenizer

from ragassay.core.text import content, negated, numbers, refuses, sentences, stem, words

CASES: dict[str, tuple[str, list[str]]] = {
    "nothing": ("", []),
    "no letters": ("... !!! --- 👍", []),
    "no full stop": ("Paris lies on the Seine", ["Paris lies on the Seine"]),
    "question and exclamation": ("Is it so? Yes! Good.", ["Is it so?", "Yes!", "Good."]),
    "title": ("Dr. Smith met Mr. Jones. They spoke.", ["Dr. Smith met Mr. Jones.", "They spoke."]),
    "for example": ("Use a tool, e.g. Vim or nano. Save.", ["Use a tool, e.g. Vim or nano.", "Save."]),
    "etc at the end": ("Bring pens, paper etc. The rest is here.", ["Bring pens, paper etc.", "The rest is here."]),
    "time of day goes on": ("Open until 5 p.m. Monday to Friday.", ["Open until 5 p.m. Monday to Friday."]),
    "country goes on": ("The U.S. Army left. All did.", ["The U.S. Army left.", "All did."]),
    "country at the end": ("He lives in the U.S. He likes it.", ["He lives in the U.S.", "He likes it."]),
    "initials": ("J. K. Rowling wrote it. J. A. Smith did not.", ["J. K. Rowling wrote it.", "J. A. Smith did not."]),
    "no as a word": ("The answer is no. We do not ship.", ["The answer is no.", "We do not ship."]),
    "decimal": ("It costs 3.50 USD. Pay now.", ["It costs 3.50 USD.", "Pay now."]),
    "code": ("Call foo.bar(x) and obj.run(). It returns.", ["Call foo.bar(x) and obj.run().", "It returns."]),
    "quote inside": ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
    "curly quotes": ("“It is.” “Good.”", ["“It is.”", "“Good.”"]),
    "name with a mark": ("Yahoo! said so. It did.", ["Yahoo! said so.", "It did."]),
    "ellipsis goes on": ("Well... maybe so. Fine.", ["Well... maybe so.", "Fine."]),
    "lower case of any script": ("Das ist etc. übrig. Gut.", ["Das ist etc. übrig.", "Gut."]),
    "citation": ("It takes 14 days.[1] Refunds are free.[2][3] Ask.", ["It takes 14 days.[1]", "Refunds are free.[2][3]", "Ask."]),
    "bullets": ("Steps:\n- Open it\n- Close it.", ["Steps:", "Open it", "Close it."]),
    "numbered": ("Do this:\n1. Open it.\n2) Close it.\n(3) Go.", ["Do this:", "Open it.", "Close it.", "Go."]),
    "numbered in line": ("Steps: 1. Open the page.", ["Steps: 1. Open the page."]),
    "headings": ("# Refunds\nThey take 14 days.\n## More\nAsk us.", ["Refunds", "They take 14 days.", "More", "Ask us."]),
    "table": ("Prices\n| Plan | USD |\n|---|---|\n| Team | 20 |", ["Prices", "| Plan | USD |", "| Team | 20 |"]),
    "wrapped lines": ("It takes\nfourteen days. Then\nit ends.", ["It takes fourteen days.", "Then it ends."]),
    "chinese": ("今天下雨。我们在家！好吗？", ["今天下雨。", "我们在家！", "好吗？"]),
    "japanese quotes": ("「行く。」と言った。終わり。", ["「行く。」", "と言った。", "終わり。"]),
    "hindi": ("यह सच है। वह गया।", ["यह सच है।", "वह गया।"]),
    "arabic": ("هل هذا صحيح؟ نعم.", ["هل هذا صحيح؟", "نعم."]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_text_is_cut_where_a_reader_would_cut_it(case):
    text, expected = CASES[case]
    assert sentences(text) == expected


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
def test_every_piece_is_stripped_and_says_something_and_no_word_is_lost_but_list_numbers(text):
    pieces = sentences(text)
    assert all(piece == piece.strip() and any(c.isalnum() for c in piece) for piece in pieces)
    letters = [c for c in text if c.isalpha()]
    assert [c for piece in pieces for c in piece if c.isalpha()] == letters


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The U.S. isn't far_off", ["the", "u", "s", "isn", "t", "far", "off"]),
        ("Größe, naïve!", ["größe", "naïve"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("東京は広い", ["東", "京", "は", "広", "い"]),
        ("iPhone 15 Pro 价格", ["iphone", "15", "pro", "价", "格"]),
        ("…—!", []),
    ],
)
def test_words_are_found_in_every_script(text, expected):
    assert words(text) == expected


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=80))
def test_words_of_ascii_are_the_tokens_of_rouge_score(text):
    assert words(text) == DefaultTokenizer().tokenize(text)


FAMILIES = """refund refunds refunded refunding / company companies / stop stops stopped stopping / use uses used
quick quickly / organise organize organised organizes / pay pays payment payments paying / box boxes / three 3"""


@pytest.mark.parametrize("family", FAMILIES.replace("\n", " / ").split(" / "))
def test_forms_of_a_word_share_a_stem_and_other_words_do_not(family):
    assert len(set(map(stem, family.split()))) == 1
    assert all(stem(one) != stem(other) for one, other in (("bus", "but"), ("class", "clas"), ("days", "dates")))


def test_content_leaves_out_words_that_carry_no_meaning_unless_there_are_no_others():
    assert content("The refunds are not for you, but for the company.") == {"refund", "company"}
    assert content("Yes, it is.") == {"yes", "it", "is"}
    assert content("!?") == frozenset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,000 and 1000.0 and 01000", {"1000"}),
        ("2.50 or 2.5", {"2.5"}),
        ("0 and 0.0 and 0.5", {"0", "0.5"}),
        ("v1.2.3 and B2B and 10kg", {"10"}),
        ("the season 2018–19", {"2018", "2019"}),
        ("twelve of twenty, but one", {"12", "20"}),
        ("3,14", {"3,14"}),
        ("from noon (12 pm) to midnight", {"12:00", "0:00"}),
        ("nothing", set()),
    ],
)
def test_numbers_have_one_spelling(text, expected):
    assert numbers(text) == expected


DENIALS = """It does not ship. / It doesn't ship. / It doesn’t ship / no refunds / It cannot / without a fee / It never does"""
NO_DENIALS = "It ships. / Not only that, it ships too. / See no. 5. / nothings / a knot"


def test_a_denial_is_seen_and_what_denies_nothing_is_none():
    assert [text for text in DENIALS.split(" / ") if not negated(text)] == []
    assert [text for text in NO_DENIALS.split(" / ") if negated(text)] == []


REFUSALS = """
I'm sorry, but I couldn’t find any information about this. /
Sorry, I can't help with that. / Unfortunately, I was not able to find the release date. /
We don't have enough information to answer. / There is no information about refunds in the documents. /
No relevant information was found. / Insufficient context. / Unable to answer. /
The provided context does not contain the answer. / The context doesn't mention shipping. /
According to the context, there is no mention of a fee. / As an AI language model, I cannot answer this. /
The information about parks is not provided. / Not specified. / Unknown / N/A / "I cannot answer this question." /
I could not find it. Please contact support. / I could not find it. However, the handbook covers refunds. /
I don't know, but you can ask the desk. / The documents don't mention a fee. They only cover loans of 2019. /
Das weiß ich leider nicht. / Dazu gibt es in den Unterlagen keine Angaben. / Die Dokumente enthalten dazu nichts. /
Je ne sais pas. Les documents ne le disent pas. / No lo sé.
"""
ANSWERS = """
Refunds take 14 days. / No, refunds are not possible after 30 days. / No. / None of the plans is free. /
You can't cancel after the trial. / The context menu does not open. / The documents must be signed. /
The plan includes refunds. The price is not specified. / I know it well. / There is no charge for refunds. /
I don't know for sure, but the hall costs 80 euros an evening. /
It is not clear from the documents, but it probably takes a week. / I don't know for sure. The hall costs 80 euros. /
The context does not say. I think it opens at noon. / Die Halle kostet 80 Euro. /
I couldn't find the fee. Refunds take 14 days. They are free. Ask the owner.
"""


@pytest.mark.parametrize("text", REFUSALS.replace(" /\n", " / ").strip().split(" / "))
def test_a_refusal_is_seen(text):
    assert refuses(sentences(text))


@pytest.mark.parametrize("text", ["", *ANSWERS.replace(" /\n", " / ").strip().split(" / ")])
def test_an_answer_is_not_a_refusal(text):
    assert not refuses(sentences(text))
