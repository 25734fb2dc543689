"""The command line. Each command parses options, calls a flow or a query, and prints."""
