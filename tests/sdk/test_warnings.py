"""Warnings of the library name the user's line, whatever loop or thread the work runs in."""

import asyncio
import inspect
import subprocess
import sys
import warnings

import ragassay
from offline_runs import GOOD

ROWS = [{"answerr" if key == "answer" else key: value for key, value in GOOD.items()}]  # of which the reader warns


def here():
    return inspect.currentframe().f_back.f_lineno


def shown(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = call()
    return [(one.filename, one.lineno) for one in caught if "answerr" in str(one.message)], line


def test_evaluate_warns_at_the_line_that_called_it():
    def call():
        ragassay.evaluate(ROWS, metrics="mrr")
        return here() - 1

    found, line = shown(call)
    assert found == [(__file__, line)]


def test_within_an_event_loop_and_awaited_too():
    async def both():
        ragassay.evaluate(ROWS, metrics="mrr")
        first = here() - 1
        await ragassay.aevaluate(ROWS, metrics="mrr")
        return [first, here() - 1]

    found, lines = shown(lambda: asyncio.run(both()))
    assert found == [(__file__, line) for line in lines]


def test_evaluate_prints_no_line_for_each_query_without_a_relevant_result(tmp_path):
    code = (
        "import ragassay\nrow = {'query': 'When?', 'answer': 'At two.', 'relevant_doc_ids': ['a'], 'retrieved_doc_ids': ['b']}\n"
        "ragassay.evaluate([row], metrics='mrr')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
