"""How good a tokenizer is, for whom, and where two of them differ; all in figures."""
