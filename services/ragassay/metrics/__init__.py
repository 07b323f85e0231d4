"""Metrics: each a few lines on a chunk's ranked gains, on a verdict, or on a sample.

``metric`` declares and finds them, ``scoring`` computes them. The modules that hold them are imported when a name is
looked up that is not registered yet.
"""
