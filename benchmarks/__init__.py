"""Benchmarks: us and the peers on the same file, in fresh processes; equality before speed.

`python -m benchmarks NAME FILE…` measures (`--help` lists what), `python -m benchmarks pages`
writes the tables and pictures of README and docs, `python -m benchmarks changes` compares the last
results with those before, `python -m benchmarks zoo FOLDER` reads tokenizer files beside their own
libraries. Every result is a line of JSON in benchmarks/results/NAME.jsonl.
"""
