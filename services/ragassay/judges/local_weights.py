"""Weights of the local judge. Written by ``benchmarks/judge/fit.py``; docs/judge-accuracy.md names the labelled sets."""

SUPPORT = {
    "intercept": -3.2697,
    "pool": 1.4519,
    "window": 1.6089,
    "pool_prefix": 1.5531,
    "pairs": 0.9383,
    "unknown_numbers": -1.5779,
    "unknown_names": -0.915,
    "copied_changes": -0.6586,
    "copied_sign": -1.5615,
}
CORRECTNESS = {"intercept": -3.4761, "quoted": 2.1613, "words": 5.0895, "unknown_numbers": -1.2361, "refusal": -1.8996}
BALANCED_ACCURACY = {"support_min": 0.63, "support_max": 0.92, "correctness": 0.96}
