"""Foreign and own file formats of tokenizers: one file per format, no format knows another."""
