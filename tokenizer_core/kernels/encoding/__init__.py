"""Text encoded and decoded."""
