"""Kernels that scan text: UTF-8, character classes, split patterns, cuts."""
