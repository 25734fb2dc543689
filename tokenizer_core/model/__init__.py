"""What a tokenizer is: its vocab, its merges, the rules both keep to."""
