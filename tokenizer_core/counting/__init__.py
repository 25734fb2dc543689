"""Words and how often they occur: of a text, of a chunk, of a corpus."""
