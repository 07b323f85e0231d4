"""A judge of one's own: a sentence is supported where a sentence of the contexts has all of its words."""

from ragassay import Sample, Units, judge


@judge(name="words")
def by_words(sample: Sample, units: Units) -> dict:
    """An entry for each sentence of the answer; what is left out of the form is missing, never guessed."""
    answer = []
    for label, sentence in units.answer.items():
        evidence = [c for c, text in units.contexts.items() if set(sentence.split()) <= set(text.split())]
        support = "supported" if evidence else "not_found"
        answer.append({"id": label, "support": support, "evidence": evidence[:1]})
    return {"answer": answer, "refusal": "not find" in sample.answer}
