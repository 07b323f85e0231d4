"""Judges: they give one verdict per sample, over numbered units."""
