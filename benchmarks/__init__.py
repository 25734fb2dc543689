"""Benchmarks: us and the peers on the same file, in fresh processes; equality before speed.

`python -m benchmarks FILE…` measures training, `python -m benchmarks.encoding FILE…` encoding;
`python -m benchmarks.scaling FILE` measures cost against corpus and vocabulary size, and
`python -m benchmarks.render` writes the README's tables and charts.
Everything measured is kept as JSON in benchmarks/results.
"""
