"""Weights of the local judge. Written by ``benchmarks/judge/fit.py``; docs/judge-accuracy.md names the labelled sets."""

SUPPORT = {
    "intercept": -3.2728,
    "pool": 1.4531,
    "window": 1.6099,
    "pool_prefix": 1.5547,
    "pairs": 0.9377,
    "unknown_numbers": -1.5772,
    "unknown_names": -0.9139,
    "copied_changes": -0.6593,
    "copied_sign": -1.5608,
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
    "support_max": 0.91,
    "correctness": 0.96,
}
