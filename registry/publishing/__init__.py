"""From a finished tokenizer to a registered version: its files, exactly once."""
