"""Text scanned: UTF-8, character classes, split patterns, places to cut."""
