"""Kernels that serve a single algorithm."""
