"""Datasets: reading, checking, describing."""
