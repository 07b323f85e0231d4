"""Other names of our metrics: spellings of trec_eval and others, RAGAS's and DeepEval's names, and what comes nearest."""

from __future__ import annotations

SPELLINGS = {
    "p": "precision",
    "prec": "precision",
    "r": "recall",
    "rr": "mrr",
    "recip_rank": "mrr",
    "reciprocal_rank": "mrr",
    "ap": "map",
    "success": "hit",
    "hit_rate": "hit",
    "ndcg_cut": "ndcg",
    "map_cut": "map",
    "rprec": "r_precision",
    "q": "q_measure",
    "alpha_ndcg_cut": "alpha_ndcg",
    "ild": "intra_list_diversity",
    "kendall": "kendall_tau",
    "spearman": "spearman_rho",
    "bertscore": "bertscore_f1",
    "rouge_1": "rouge1",
    "rouge_2": "rouge2",
    "rouge_l": "rougeL",
    "rouge_score": "rougeL",
    "answer_similarity": "semantic_similarity",
    "answer_relevancy": "relevance",
    "answer_relevance": "relevance",
    "response_relevancy": "relevance",
    "answer_correctness": "correctness",
    "factual_correctness": "correctness",
    "groundedness": "faithfulness",
    "response_groundedness": "faithfulness",
    "contextual_precision": "context_precision",
    "llm_context_precision_with_reference": "context_precision",
    "contextual_recall": "context_recall",
    "llm_context_recall": "context_recall",
}
"""{lower-case name: ours}, where both ask the same, if not always by the same formula."""

NEAREST = {
    "answer_accuracy": ("correctness", "which has a judge compare sentences and facts, not rate the whole answer"),
    "contextual_relevancy": ("context_precision", "which asks what was needed, not what is about the query"),
    "context_relevance": ("context_precision", "which asks what was needed, not what is about the query"),
    "context_relevancy": ("context_precision", "which asks what was needed, not what is about the query"),
    "context_utilization": ("context_precision", "which goes by the answer where rows have no ground truth"),
    "llm_context_precision_without_reference": (
        "context_precision",
        "which goes by the answer where rows have no ground truth",
    ),
    "non_llm_context_precision_with_reference": ("precision_retrieved@10", "which goes by document ids"),
    "id_based_context_precision": ("precision_retrieved@10", "which looks at the first so many ids"),
    "non_llm_context_recall": ("recall@10", "which goes by document ids"),
    "id_based_context_recall": ("recall@10", "which looks at the first so many ids"),
    "context_entity_recall": ("context_recall", "which counts facts, not entities"),
    "noise_sensitivity": ("faithfulness", "where higher is better, and which does not ask what is wrong"),
    "hallucination": ("faithfulness", "where higher is better, and which looks at the answer's sentences"),
    "bleu_score": ("rougeL", "which has no penalty for brevity"),
    "non_llm_string_similarity": ("token_f1", "which compares words, not letters"),
    "string_presence": ("exact_match", "which asks for the whole answer"),
}
"""{name of RAGAS or DeepEval that none of ours means: (the nearest of ours, how that differs)}."""


def split_names(text: str) -> list[str]:
    """The names in a text that has commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]
