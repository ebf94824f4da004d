"""Benchmarks: one file per experiment, run as `python -m bench.<name> [--quick]`.

Each prints tables for people and, as its last line, one JSON object of ratios taken in that run. What it measured goes
to `bench/results/<name>.json`, with the machine it was measured on, and to charts beside it. Nothing here is a test:
a ratio says how this machine stands against a named peer or limit on this day.
"""
