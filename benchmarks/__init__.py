"""Benchmarks of bpeline and other libraries on the same files, in fresh processes.

`python -m benchmarks --help` lists the measurements. Results are lines of JSON in
benchmarks/results/NAME.jsonl.
"""
