"""Weights of the local judge. Written by ``benchmarks/judge/fit.py``; docs/judge-accuracy.md names the labelled sets."""

SUPPORT = {
    "intercept": -3.4554,
    "pool": 2.3158,
    "window": 2.3955,
    "pairs": 0.8206,
    "unknown_numbers": -1.8595,
}
BALANCED_ACCURACY = {
    "support_min": 0.63,
    "support_max": 0.9,
    "correctness": 0.93,
}
