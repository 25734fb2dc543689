"""Flows and the command line: the order of steps, parallelism and retries."""
