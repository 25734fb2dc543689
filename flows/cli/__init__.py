"""The command line: parse, call one flow or one query, print. Nothing slow is imported before."""
