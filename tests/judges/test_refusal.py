"""What counts as a refusal, and what only mentions that something is not known."""

from __future__ import annotations

import pytest

from ragassay.core.text import refuses, sentences

REFUSALS = [
    "I don't know.",
    "I do not know the answer to that.",
    "I'm sorry, but I couldn’t find any information about this.",
    "Sorry, I can't help with that.",
    "Unfortunately, I was not able to find the release date.",
    "We don't have enough information to answer.",
    "There is no information about refunds in the documents.",
    "There are no search results that answer the question.",
    "None of the documents mentions a fee.",
    "No relevant information was found.",
    "Insufficient context.",
    "Unable to answer.",
    "The provided context does not contain the answer.",
    "The context doesn't mention shipping.",
    "These documents are not relevant.",
    "Based on the provided documents, it is not clear who owns it.",
    "According to the context, there is no mention of a fee.",
    "As an AI language model, I cannot answer this.",
    "It is unclear who opened the gate.",
    "That is not mentioned.",
    "The answer cannot be found in the given text.",
    "The information about parks is not provided.",
    "Not specified.",
    "Unknown",
    "N/A",
    '"I cannot answer this question."',
    "I could not find it. Please contact support.",
    "I could not find it. However, the handbook covers refunds.",
    "I don't know, but you can ask the desk.",
    "The documents don't mention a fee. They only cover loans of 2019.",
    "Das weiß ich leider nicht.",
    "Dazu gibt es in den Unterlagen keine Angaben.",
    "Die Dokumente enthalten dazu nichts.",
    "Je ne sais pas. Les documents ne le disent pas.",
    "No lo sé.",
]
ANSWERS = [
    "Refunds take 14 days.",
    "No, refunds are not possible after 30 days.",
    "No.",
    "None of the plans is free.",
    "You can't cancel after the trial.",
    "The context menu does not open.",
    "The documents must be signed.",
    "The answer is 42.",
    "The information is available on the billing page.",
    "It is not possible for guests, only for owners.",
    "Nobody knows.",
    "The plan includes refunds. The price is not specified.",
    "I know it well.",
    "There is no charge for refunds.",
    "Unknown devices are blocked after 3 attempts, and the owner is told.",
    "I don't know for sure, but the hall costs 80 euros an evening.",
    "I'm not able to find the exact price; however, it is about 80 euros.",
    "It is not clear from the documents, but it probably takes a week.",
    "I don't know for sure. The hall costs 80 euros.",
    "The context does not say. I think it opens at noon.",
    "Die Halle kostet 80 Euro.",
    "I couldn't find the fee. Refunds take 14 days. They are free. Ask the owner.",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_is_seen(text):
    assert refuses(sentences(text))


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_not_a_refusal(text):
    assert not refuses(sentences(text))


def test_an_empty_answer_is_not_a_refusal():
    assert not refuses([])
