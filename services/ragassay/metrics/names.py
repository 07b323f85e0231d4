"""How the name of a metric is read: its parameter, and other names for it, of trec_eval, RAGAS, DeepEval and others.

Names carry their parameter: ``ndcg@10``, ``rbp@0.8``; a name that is parsed prints back the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from ragassay.core.errors import BadSettings, UnknownName

LARGEST_K = 1_000_000
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
    "id_based_context_precision": ("precision_retrieved@10", "which looks at the first k ids"),
    "non_llm_context_recall": ("recall@10", "which goes by document ids"),
    "id_based_context_recall": ("recall@10", "which looks at the first k ids"),
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


def read_name(text: str, known: Callable[[str], bool]) -> tuple[str, str]:
    """The metric's own name, in small letters, and the text of its parameter; a name that is not ``known`` may remain."""
    family, _, parameter = text.partition("@")
    key = family.lower() if known(SPELLINGS.get(family.lower(), family)) else family.lower().replace("-", "_")
    if not parameter and not known(SPELLINGS.get(key, key)):  # ndcg_cut_10
        head, _, tail = key.rpartition("_")
        if tail.replace(".", "", 1).isdigit():
            key, parameter = head, tail
    if not known(SPELLINGS.get(key, key)):  # AnswerRelevancyMetric, as a class is called
        key = _words(family)
    return SPELLINGS.get(key, key).lower(), parameter


def parameter_value(family: str, takes: str | None, parameter: str, text: str, *, optional: bool) -> float | None:
    """The number of a metric's parameter; ``text`` is what the user wrote. Raises BadSettings for one that can't be."""
    if takes is None and parameter:
        raise BadSettings(f"metric {text!r}: {family} takes no cutoff", hint=f"write {family}")
    if not parameter:
        if takes is None or optional:
            return None
        hint = f"write, for example, {family}@{'10' if takes == 'k' else '0.8'}"
        raise BadSettings(f"metric {text!r} needs a value after @", hint=hint)
    try:
        value = float(parameter)
    except ValueError:
        value = math.nan
    if takes == "k" and not (1 <= value <= LARGEST_K and value == int(value)):
        what = f"the cutoff must be a whole number from 1 to {LARGEST_K:,}, not {parameter!r}"
        raise BadSettings(f"metric {text!r}: {what}")
    if takes == "p" and not 0 < value < 1:
        raise BadSettings(f"metric {text!r}: the persistence must lie between 0 and 1, not {parameter!r}")
    return value


def unknown_metric(text: str, families: Sequence[str]) -> UnknownName:
    """The error on a name that is none of the ``families``: with the near matches, or the nearest by meaning."""
    error = UnknownName("metric", text.strip(), families)
    if nearest := NEAREST.get(_words(text.strip())):
        error.hint = f"the nearest of ours is {nearest[0]}, {nearest[1]}"
    else:
        own = "one of your own is a plug-in (--import, plugins, RAGASSAY_PLUGINS), or declared under criteria"
        error.hint = f"{error.hint}; {own}"
    return error


def _words(name: str) -> str:
    """``answer_relevancy`` of a class's name such as ``AnswerRelevancyMetric``."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return parted.lower().removesuffix("_metric").replace("-", "_")
