"""A system of one's own: it answers with the passage that shares most words with the query."""

from ragassay import strategy

PASSAGES = {"paris": "Paris is the capital of France.", "seine": "The Seine flows through Paris."}


@strategy(name="most_words")
def ask(query: str) -> dict:
    """The answer and where it comes from; any other field of a response may stand here."""
    words = set(query.lower().split())
    best = max(PASSAGES, key=lambda doc: len(words & set(PASSAGES[doc].lower().split())))
    return {"answer": PASSAGES[best], "contexts": [PASSAGES[best]], "retrieved_doc_ids": [best]}
