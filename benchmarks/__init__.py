"""Benchmarks: us and the peers on the same file, in fresh processes; equality before speed."""
