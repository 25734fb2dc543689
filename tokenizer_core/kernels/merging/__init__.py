"""Merges learned."""
