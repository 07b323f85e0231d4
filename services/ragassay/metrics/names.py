"""How the name of a metric is read: its parameter, and other names for it, of trec_eval, RAGAS, DeepEval and others.

Names carry their parameter: ``ndcg@10``, ``rbp@0.8``; a name that is parsed prints back the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from ragassay.core.errors import BadSettings

LARGEST_K = 1_000_000
_OTHERS = {
    "precision": "p prec",
    "recall": "r",
    "mrr": "rr recip_rank reciprocal_rank",
    "map": "ap map_cut",
    "hit": "success hit_rate",
    "ndcg": "ndcg_cut",
    "r_precision": "rprec",
    "q_measure": "q",
    "alpha_ndcg": "alpha_ndcg_cut",
    "intra_list_diversity": "ild",
    "kendall_tau": "kendall",
    "spearman_rho": "spearman",
    "bertscore_f1": "bertscore",
    "rouge1": "rouge_1",
    "rouge2": "rouge_2",
    "rougeL": "rouge_l rouge_score",
    "semantic_similarity": "answer_similarity answer_accuracy",
    "relevance": "answer_relevancy answer_relevance response_relevancy",
    "correctness": "answer_correctness factual_correctness",
    "faithfulness": "groundedness response_groundedness",
    "context_precision": "contextual_precision llm_context_precision_with_reference",
    "context_recall": "contextual_recall llm_context_recall",
}
SPELLINGS = {theirs: ours for ours, names in _OTHERS.items() for theirs in names.split()}
"""{lower-case name: ours}, where both ask the same, if not always by the same formula."""


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


def argument_value(family: str, param: str | None, argument: str, text: str, *, optional: bool) -> float | None:
    """The number of a metric's parameter; ``text`` is what the user wrote. Raises BadSettings for one that can't be."""
    if param is None and argument:
        raise BadSettings(f"metric {text!r}: {family} takes no cutoff", hint=f"write {family}")
    if not argument:
        if param is None or optional:
            return None
        hint = f"write, for example, {family}@{'10' if param == 'k' else '0.8'}"
        raise BadSettings(f"metric {text!r} needs a value after @", hint=hint)
    try:
        value = float(argument)
    except ValueError:
        value = math.nan
    if param == "k" and not (1 <= value <= LARGEST_K and value == int(value)):
        what = f"the cutoff must be a whole number from 1 to {LARGEST_K:,}, not {argument!r}"
        raise BadSettings(f"metric {text!r}: {what}")
    if param == "p" and not 0 < value < 1:
        raise BadSettings(f"metric {text!r}: the persistence must lie between 0 and 1, not {argument!r}")
    return value


def _words(name: str) -> str:
    """``answer_relevancy`` of a class's name such as ``AnswerRelevancyMetric``."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return parted.lower().removesuffix("_metric").replace("-", "_")
