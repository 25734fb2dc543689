"""From what people type to a tokenizer in memory."""
