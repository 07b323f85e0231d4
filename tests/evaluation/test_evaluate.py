"""One chunk through respond, judge, score and account."""

import asyncio
import threading
from dataclasses import replace

import pytest

from fakes import FakeEmbedder
from offline_runs import FakeRuntime, ScriptedJudge, results_of, sample
from ragassay.core.errors import BudgetReached, MissingExtra
from ragassay.core.eval_config import RunConfig
from ragassay.core.models import Rating, Response, Score, Usage
from ragassay.evaluation.evaluate import evaluate, respond
from ragassay.judges.panel import Panel, Rater
from ragassay.llm.journal import MemoryJournal
from ragassay.metrics.metric import parse


def run(samples, *names, rule="correctness >= 0.5 else semantic_similarity >= 0.8", **options):
    return results_of(samples, *names, accurate=rule, **options)


def test_one_judgement_serves_all_judged_metrics_of_samples_with_something_to_judge():
    judge, bare = ScriptedJudge(), sample(2, response=Response(retrieved_doc_ids=["paris"]))
    names = ["faithfulness", "completeness", "relevance", "correctness", "context_precision", "context_recall"]
    result, _ = run([sample(1), bare], *names, judge=judge)
    assert {name: result.scores[name].value for name in names} == dict.fromkeys(names, 1.0)
    assert judge.asked == ["q1"]


def test_metrics_that_the_rule_reads_are_computed_but_not_reported():
    [result] = run([sample()], "accurate", rule="faithfulness >= 0.9")
    assert [(name, score.value) for name, score in result.scores.items()] == [("accurate", 1.0)]


def test_a_failed_judge_is_a_reason_not_a_zero():
    failed = ScriptedJudge(q1=Rating(reason="the provider was away", usage=Usage(calls=1), waste=Usage(calls=2)))
    [result] = run([sample()], "faithfulness", "mrr", judge=failed)
    assert result.scores["faithfulness"] == Score.absent("the provider was away", "failed")
    assert result.scores["mrr"].value == 1.0
    assert result.waste.calls == 2


def test_texts_are_embedded_while_the_judge_is_asked(monkeypatch):
    asked, embedding, embed = threading.Event(), threading.Event(), FakeEmbedder.embed

    class Waiting(ScriptedJudge):
        async def judge(self, samples, journal):
            asked.set()
            assert await asyncio.to_thread(embedding.wait, 10)
            return await super().judge(samples, journal)

    def embed_once_asked(self, texts):
        embedding.set()
        assert asked.wait(10)
        return embed(self, texts)

    monkeypatch.setattr(FakeEmbedder, "embed", embed_once_asked)
    [result] = run([sample()], "faithfulness", "semantic_similarity", "accurate", judge=Waiting())
    assert None not in [score.value for score in result.scores.values()]


@pytest.mark.parametrize(
    ("names", "answers"), [("accurate", {"Lyon."}), ("semantic_similarity accurate", {"Marseille.", "Lyon."})]
)
def test_what_only_the_rule_falls_back_on_is_computed_for_the_rows_that_need_it(monkeypatch, names, answers):
    embedded, embed = set(), FakeEmbedder.embed

    def embed_and_note(self, texts):
        embedded.update(texts)
        return embed(self, texts)

    monkeypatch.setattr(FakeEmbedder, "embed", embed_and_note)
    rows = [sample(1, answer="Marseille."), sample(2, answer="Lyon.", contexts=None)]
    results = run(rows, *names.split(), rule="faithfulness >= 0.5 else semantic_similarity >= 0.8")
    decided_by = [row.scores["accurate"].details["decided_by"] for row in results]
    assert decided_by == ["faithfulness >= 0.5", "semantic_similarity >= 0.8"]
    assert {text for text in embedded if text in ("Marseille.", "Lyon.")} == answers


def test_each_of_several_ratings_falls_back_where_it_alone_does_not_decide():
    spec = RunConfig(accurate="context_precision >= 0.5 else semantic_similarity >= 0.8")
    row, config = sample(answer="Paris."), FakeRuntime().scoring(spec, [parse("accurate")])
    said = asyncio.run(ScriptedJudge().judge([row], None))[0].verdict
    facts = tuple(fact.model_copy(update={"evidence": ()}) for fact in said.facts)  # then no context was needed
    undecided = ScriptedJudge(q1=Rating(verdict=said.model_copy(update={"facts": facts})))
    config = replace(config, panel=Panel([Rater((ScriptedJudge(), undecided))]))
    [result] = asyncio.run(evaluate([row], "default", config, MemoryJournal()))
    assert result.scores["accurate"].details["decided_by"] == "context_precision >= 0.5"
    assert [rating.scores for rating in result.ratings] == [{"accurate": 1.0}, {"accurate": 1.0}]


def test_the_error_of_a_judge_counts_more_than_that_of_an_embedder(monkeypatch):
    class Refused(ScriptedJudge):
        async def judge(self, samples, journal):
            raise BudgetReached("no call is left")

    def fail(self, texts):
        raise MissingExtra("the model", "models")

    monkeypatch.setattr(FakeEmbedder, "embed", fail)
    with pytest.raises(BudgetReached):
        run([sample()], "faithfulness", "semantic_similarity", judge=Refused())


def test_a_query_without_a_response_scores_zero_in_retrieval_and_nothing_in_answers():
    [none, failed] = run(
        [sample(response=None), sample(2, response=Response(error="timeout"))], "recall@5", "faithfulness"
    )
    assert (none.scores["recall@5"].value, none.responded) == (0.0, False)
    assert none.scores["faithfulness"].reason == "the system gave no response"
    assert (failed.scores["faithfulness"].reason, failed.error) == ("the system failed: timeout", "timeout")


def test_an_unknown_cost_is_worked_out_from_tokens_and_price_and_marked():
    # gpt-4o-mini: 0.15 USD a million in, 0.60 out: 1000 * 0.15 / 1e6 + 100 * 0.60 / 1e6
    [result] = run([sample()], "mrr")
    assert result.cost_usd == pytest.approx(0.00021)
    assert result.priced_by_us is True


def test_the_time_of_a_row_is_its_own_and_not_the_mean_of_its_chunk():
    class Slow:
        name = "slow"

        async def respond(self, sample):
            await asyncio.sleep(0.3 if sample.query_id == "q1" else 0.0)
            return Response(answer="x", latency_ms=1000.0 if sample.query_id == "q1" else 1.0)

    rows = [sample(1).model_copy(update={"query_id": f"q{n}"}) for n in (1, 2, 3)]
    config = FakeRuntime().scoring(RunConfig(), [parse("mrr")])

    async def evaluated():
        return await evaluate(await respond(rows, Slow()), "slow", config, MemoryJournal(), timed_here=True)

    slow, *quick = asyncio.run(evaluated())
    assert slow.duration_ms >= 1000
    assert all(row.duration_ms < 500 for row in quick)


def test_ungraded_every_relevant_document_counts_one_and_the_threshold_says_which_are():
    graded = sample(relevant_doc_ids=None, relevance_scores={"paris": 1, "lyon": 3, "rome": -1})
    # retrieved: paris (1), lyon (3); 1 / log2(3) = 0.6309
    # as given: (1 + 3 * 0.6309) / (3 + 1 * 0.6309) = 0.7967; from 2 only lyon counts, at rank 2: 0.6309 / 1
    for options, ndcg, precision in (
        ({}, 0.7967, 1.0),
        ({"graded": False}, 1.0, 1.0),
        ({"graded": False, "relevant_from": 2.0}, 0.6309, 0.5),
    ):
        [result] = run([graded], "ndcg@2", "precision@2", **options)
        assert [one.value for one in result.scores.values()] == pytest.approx([ndcg, precision], abs=5e-5)
