"""Benchmarks: us and the peers on the same file, in fresh processes; equality before speed.

`python -m benchmarks FILE…` measures, `python -m benchmarks.render` writes the README's table and
chart, `python -m benchmarks.scaling FILE` measures cost against corpus and vocabulary size.
Everything measured is kept as JSON in benchmarks/results.
"""
