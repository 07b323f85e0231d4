"""A report and a comparison that are the same in every run of the tests, with texts that would do harm if they could."""

import pypdfium2

from handmade_reports import make_report, row
from ragassay.analysis.comparison import compare
from ragassay.core.models import Result, Usage
from ragassay.core.report import RunInfo, Source

FORMULA, MARKUP, TYPST = (
    '=HYPERLINK("http://x.test")',
    "<script>alert(1)</script> | `x`",
    '#import "x.typ": * $ @a *b* _c_',
)
CJK = "東京は日本の首都です。Привет, नमस्ते"
TIMES = {"created_at": "2026-01-31T14:05:09.000+00:00", "finished_at": "2026-01-31T14:06:00.000+00:00"}


def _rows(system, better):
    texts = {1: FORMULA, 2: MARKUP, 3: TYPST, 4: CJK}
    rows = []
    for n in range(1, 13):
        right = float(n % 4 != 0 or (better and n == 12))
        made = row(
            n,
            system,
            query=texts.get(n, f"question {n}"),
            category="factual" if n % 2 else "how-to",
            metadata={"tier": n, "tags": ["a", "=b"], "late": n > 6, "weight": n if n % 2 else n / 4},
            cost=0.001 * n,
            latency=100.0 * n + 50 * better,
            mrr=1 / (1 + n % 3),
            correctness=None if n == 5 else right,
            accurate=None if n == 5 else right,
        )
        given = {
            "answer": texts.get(n, f"answer {n}"),
            "ground_truth_answer": ("the truth",),
            "evaluation": Usage(calls=1, input_tokens=90, output_tokens=10, cost_usd=0.0001),
        }
        rows.append(Result(**{**dict(made), **given}))
    rows[9] = rows[9].model_copy(update={"error": "the system timed out", "answer": None})
    return rows


def a_report(*systems):
    """Two systems on twelve queries; one score is missing, one response failed."""
    found = {name: _rows(name, name == "hybrid") for name in systems or ("bm25", "hybrid")}
    made = make_report(found, run="20260131-140509-france-0001", seed=7)
    provenance = made.provenance.model_copy(
        update={
            "systems": {name: Source(name=name, digest="1" * 64, rows=12) for name in found},
            "configuration_digest": "2" * 64,
        }
    )
    run = RunInfo(**{**dict(made.run), **TIMES, "status": "finished", "duration_s": 51.0})
    return made.model_copy(update={"run": run, "provenance": provenance})


def a_comparison():
    """The two systems of ``a_report``, the first as the baseline."""
    return compare([(a_report(), None)]).model_copy(update={"ragassay": "0"})


def text_of(made):
    """All text of a PDF without spaces, since lines break anywhere."""
    with pypdfium2.PdfDocument(made) as document:
        return "".join("".join(page.get_textpage().get_text_range().split()) for page in document).replace("\u200b", "")


def squeezed(text):
    return "".join(text.split())
