"""Weights of the local judge. Written by ``benchmarks/judge/fit.py``; docs/judges.md names the labelled sets."""

SUPPORT = {
    "intercept": -3.5099,
    "pool": 0.7798,
    "sentence": 0.7273,
    "window": 0.7305,
    "pool_prefix": 0.8448,
    "sentence_prefix": 0.8443,
    "window_prefix": 0.8523,
    "pairs": 0.4618,
    "triples": 0.045,
    "fours": 0.1109,
    "subsequence": 0.7431,
    "unknown_numbers": -1.4786,
    "unknown_names": -0.6763,
    "sign": -0.106,
    "copied_lost": -0.7891,
    "copied_sign": -1.5388,
}
CORRECTNESS = {
    "intercept": -3.4761,
    "quoted": 2.1613,
    "words": 5.0895,
    "unknown_numbers": -1.2361,
    "refusal": -1.8996,
}
BALANCED_ACCURACY = {
    "support_min": 0.63,
    "support_max": 0.9,
    "correctness": 0.96,
}
