"""Kernels that count words."""
