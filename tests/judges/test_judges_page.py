"""The page about judges says what the code does."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from ragassay.judges import support

PAGE = Path(__file__).parents[2].joinpath("docs", "judges.md").read_text("utf-8")
EXAMPLES = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_every_number_that_the_page_works_out_is_what_the_code_gives():
    said = []
    test = doctest.DocTestParser().get_doctest(EXAMPLES, {}, "judges.md", "docs/judges.md", 0)
    failed, tried = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not failed, "".join(said)
    assert tried > 15


def test_the_agreement_that_reports_quote_is_that_of_the_page():
    tables = PAGE.split("<!-- fit measured -->")[1].split("<!-- /fit measured -->")[0]
    rows = {cells[0]: cells for line in tables.splitlines() if len(cells := line.strip("| ").split(" | ")) > 3}
    provenance = support.weights()["provenance"]
    for name in (*provenance["support"], *provenance["correctness"]):
        measured = dict(zip(provenance["left_out"]["columns"], provenance["left_out"][name], strict=True))
        for place, column in ((-3, "auc"), (-2, "balanced_accuracy"), (-1, "ece")):
            assert abs(float(rows[name][place]) - measured[column]) < 0.0056, (name, column)
