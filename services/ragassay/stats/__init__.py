"""How far numbers can be trusted: intervals, tests, ratios, power and change points. Pure and seeded.

Import from the modules: ``from ragassay.stats.intervals import mean_interval``. Nothing here reads, writes or remembers;
the same input and seed give the same result. docs/statistics.md: which question each function answers, and why this way.
"""
