"""What an exception becomes as the reason of a missing score: one line that shows nothing of the server's insides."""

import pickle

import pytest

from ragassay.core.errors import LONGEST_REASON, AssayError, BadData, BadInput, NotFound, NothingToEvaluate, reason_from

TRACEBACK = """Traceback (most recent call last):
  File "/srv/app/llm/worker.py", line 31, in handle
    answer = model.ask(prompt)
RuntimeError: CUDA out of memory
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no such file: /srv/models/private/weights.bin", "no such file: .../weights.bin"),
        ("[Errno 2] '/home/someone/.cache/x' is gone", "[Errno 2] '.../x' is gone"),
        ("see file:///srv/app/config.yaml", "see .../config.yaml"),
        (r"can't open C:\Users\someone\model.bin", "can't open .../model.bin"),
        (TRACEBACK, "RuntimeError: CUDA out of memory"),
        (f"the provider failed (500): {TRACEBACK}", "the provider failed (500): RuntimeError: CUDA out of memory"),
        ('{"detail": "Traceback (most recent call last):\\\\n  x\\\\nKeyError: 1"}', '{"detail": " KeyError: 1"}'),
        ("red \x1b[31m\x00text\u202e here", "red [31m text here"),
        ("POST https://example.com/v1/chat/completions: 500", "POST https://example.com/v1/chat/completions: 500"),
        ("true and/or false, 1/2, ./a/b", "true and/or false, 1/2, ./a/b"),
    ],
)
def test_a_reason_is_one_line_without_paths_tracebacks_and_control_characters(text, reason):
    assert reason_from(RuntimeError(text)) == reason


def test_a_reason_is_short_and_our_own_errors_keep_what_to_do_next():
    assert len(reason_from(ValueError("x" * 10_000))) == LONGEST_REASON
    assert reason_from(BadInput("too long", where="m", hint="shorten it")) == "m: too long; shorten it"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadInput("too long", where="m", hint="shorten it"), ValueError),
        (BadData(["a.json:1: no", "a.json:2: no"], hint="look"), ValueError),
        (NothingToEvaluate("there are no rows", where="a.csv"), ValueError),
        (NotFound("there is no such file", where="a.csv", hint="name another"), FileNotFoundError),
    ],
)
def test_an_error_is_also_the_one_of_python_and_says_the_same_from_another_process(error, kind):
    assert isinstance(error, AssayError)
    assert isinstance(error, kind)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.hint) == (type(error), str(error), error.hint)
