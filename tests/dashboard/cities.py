"""Questions on cities with answers, for runs to look at."""

NAUGHTY = "<script>alert(1)</script>"


def rows(answers=("Paris.", "Rome.", "")):
    """A question for each answer, of which only Paris is right; the categories are even and odd."""
    for n, answer in enumerate(answers):
        yield {
            "query_id": f"q{n}",
            "query": f"Which city is number {n}?",
            "ground_truth_answer": "Paris.",
            "answer": answer,
            "contexts": ["The first city is Paris. It lies on the Seine.", "Rome is another city."],
            "relevant_doc_ids": ["d1"],
            "retrieved_doc_ids": ["d2", "d1"],
            "category": "even" if n % 2 == 0 else "odd",
        }


def cities(right, count=20):
    """Questions with costs and times, of each twenty the first ``right`` well answered."""
    for n in range(count):
        yield {
            "query_id": f"q{n}",
            "query": f"Which city is number {n} on the long list that the railway published? {NAUGHTY}",
            "ground_truth_answer": f"The city is Paris {n}.",
            "answer": f"The city is Paris {n}." if n % 20 < right else "I like turtles.",
            "contexts": [f"The city is Paris {n}. Trains run each hour.", "Rome is another city."],
            "relevant_doc_ids": ["d1"],
            "retrieved_doc_ids": ["d2", "d1"],
            "latency_ms": 100 + n,
            "cost_usd": 0.001,
            "category": "even" if n % 2 == 0 else "odd",
        }
