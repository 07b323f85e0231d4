"""The pytest plugin as pip installs it: found by its entry point, beside other plugins."""

pytest_plugins = ["pytester"]

TEST = """
def test_faq(rag_eval):
    rag_eval([{"question": "Who?", "retrieved_doc_ids": ["d1"], "qrels": ["d1"]}], metrics=["mrr"])
    rag_eval.expect("mrr >= 1")

def test_own(tmp_path):
    pass
"""


def test_pytest_finds_it_and_a_test_that_asks_for_it_evaluates(pytester):
    pytester.makepyfile(test_faq=TEST)
    done = pytester.runpytest_subprocess("-n", "2", "--strict-markers")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["plugins: *ragassay-*", "test_faq.py::test_faq  run *: 1 of 1 expectations met"])
