"""Text to ids and back, for texts of every length, in many threads."""
