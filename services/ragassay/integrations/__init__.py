"""Ragassay inside other tools: pytest, traces and trackers of experiments. Each tool is imported when it is used, not before."""
