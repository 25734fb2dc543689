"""Kernels of one algorithm each."""
