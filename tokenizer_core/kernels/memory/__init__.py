"""Argument types, memory allocation and access by address."""
