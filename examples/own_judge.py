"""A custom judge: a sentence is supported if a sentence of the contexts has all of its words."""

import re

from ragassay import Sample, Units, judge


@judge(name="words")
def by_words(sample: Sample, units: Units) -> dict:
    """An entry for each sentence of the answer; what is left out of the form is missing, never guessed."""
    contexts = {label: set(re.findall(r"\w+", text.lower())) for label, text in units.contexts.items()}
    answer = []
    for label, sentence in units.answer.items():
        evidence = [c for c, words in contexts.items() if set(re.findall(r"\w+", sentence.lower())) <= words]
        answer.append({"id": label, "support": "supported" if evidence else "not_found", "evidence": evidence})
    return {"answer": answer, "refusal": "not find" in sample.answer}
