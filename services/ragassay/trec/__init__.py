"""Qrels and runs in the manner of trec_eval: read fast, ranked and scored."""
