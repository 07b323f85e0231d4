"""What a rule decides about one request, and which of its spans are read."""

import pytest

from live_traffic import GOOD, WRONG, spans_of, trace_id
from ragassay.datasets.traces import SpanRule, TraceSpan
from ragassay.live.decide import decide, is_sampled, share_in_contexts
from ragassay.live.models import LiveRule


def test_is_sampled_is_the_same_share_for_whoever_asks():
    ids = [trace_id(n) for n in range(4000)]
    chosen = {id_ for id_ in ids if is_sampled(id_, 0.1)}
    assert 330 < len(chosen) < 470  # 400, and three and a half standard deviations of 19
    assert chosen < {id_ for id_ in ids if is_sampled(id_, 0.2)}
    assert not any(is_sampled(id_, 0.0) for id_ in ids)
    assert all(is_sampled(id_, 1.0) for id_ in ids)


def test_share_in_contexts_counts_the_answers_words():
    assert share_in_contexts("Backups start at two.", ["The backup starts at two o'clock."]) == 1.0
    assert share_in_contexts(WRONG, [GOOD]) == 0.0
    assert share_in_contexts("", [GOOD]) == 1.0


@pytest.mark.parametrize(
    ("spans", "rule", "status", "cause"),
    [
        (spans_of(1), LiveRule(rate=1.0), "evaluating", "sampled"),
        (spans_of(1), LiveRule(rate=0.0), "not_sampled", None),
        (spans_of(1, error="down", answer=None), LiveRule(rate=0.0), "evaluating", "error"),
        (spans_of(1, error="down", answer=None), LiveRule(rate=0.0, errors=False), "not_sampled", None),
        (spans_of(1, context=WRONG), LiveRule(rate=0.0, low_score=0.5), "evaluating", "low_score"),
        (spans_of(1), LiveRule(rate=0.0, low_score=0.5), "not_sampled", None),
        (spans_of(1, answer=None), LiveRule(rate=1.0), "no_answer", None),
    ],
)
def test_decide_by_rule(spans, rule, status, cause):
    decision = decide(spans, rule, "shop")
    assert (decision.status, decision.cause) == (status, cause)
    assert (decision.sample is not None) == (status == "evaluating")


def test_decide_reads_the_spans_that_a_rule_names():
    trace = trace_id(5)
    tool = TraceSpan(trace, "d", "a", "TOOL", 1.0, 2.0, {"output.value": "The final words."}, name="compose")
    wiki = {"retrieval.documents.0.document.content": "From the wiki."}
    other = TraceSpan(trace, "e", "a", "CHAIN", 1.0, 2.0, wiki, name="wiki")
    spans = [*spans_of(5), tool, other]
    rule = LiveRule(rate=1.0, spans=SpanRule(answer="compose", retrieval="wiki"))
    decision = decide(spans, rule, "shop")
    assert decision.sample.answer == "The final words."
    assert decision.sample.contexts == ("From the wiki.",)
    assert decision.read_from == {"query": "answer", "answer": "compose", "contexts": "wiki"}


def test_decide_a_row_that_can_not_be_read_says_why():
    spans = [span for span in spans_of(5) if span.kind != "RETRIEVER"]
    bad = TraceSpan(trace_id(5), "f", "a", "LLM", 1.0, 2.0, {"llm.token_count.prompt": -5}, name="x")
    decision = decide([*spans, bad], LiveRule(rate=1.0), "shop")
    assert decision.status == "failed"
    assert "input_tokens" in decision.reason
