"""The page about judges says what the code does."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from ragassay.judges import local, matching, support
from ragassay.judges.verdict import COVERED, SUPPORT
from ragassay.metrics.judged import STEPS
from ragassay.options import JobOptions

PAGE = Path(__file__).parents[2].joinpath("docs", "judges.md").read_text("utf-8")
EXAMPLES = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_every_number_that_the_page_works_out_is_what_the_code_gives():
    said = []
    test = doctest.DocTestParser().get_doctest(EXAMPLES, {}, "judges.md", "docs/judges.md", 0)
    failed, tried = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not failed, "".join(said)
    assert tried > 15


def test_the_page_names_every_answer_and_its_worth():
    for worth in (SUPPORT, COVERED, STEPS):
        assert all(word in PAGE for word in worth)
    assert "none 0, barely 0.25, partly 0.5, mostly 0.75, full 1" in PAGE
    assert f"`{JobOptions.accurate}`" in PAGE


def test_the_agreement_that_reports_quote_is_that_of_the_page():
    tables = PAGE.split("<!-- fit measured -->")[1].split("<!-- /fit measured -->")[0]
    rows = {cells[0]: cells for line in tables.splitlines() if len(cells := line.strip("| ").split(" | ")) > 3}
    provenance = support.weights()["provenance"]
    for name in (*provenance["support"], *provenance["correctness"]):
        measured = dict(zip(provenance["left_out"]["columns"], provenance["left_out"][name], strict=True))
        for place, column in ((-3, "auc"), (-2, "balanced_accuracy"), (-1, "ece")):
            assert abs(float(rows[name][place]) - measured[column]) < 0.0056, (name, column)


def test_the_page_gives_the_thresholds_and_weights_of_the_local_judge():
    weights = matching.WEIGHTS
    assert f"{weights['best']} x share of its word stems\n  in the best sentence" in PAGE
    assert f"{weights['union']} x share in" in PAGE
    assert f"{weights['similarity']} x cosine" in PAGE
    assert f"From {local.SUPPORTED} on it is supported, from {local.PARTLY} partly" in PAGE
    assert f"up to {matching.UNKNOWN_NUMBERS} for numbers and {matching.UNKNOWN_NAMES}" in PAGE
