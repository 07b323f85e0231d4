"""Nightly runs: at which times a schedule is due, and one job for each of them, whatever happens."""
