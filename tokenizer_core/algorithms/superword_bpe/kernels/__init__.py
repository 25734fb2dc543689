"""Kernels of this algorithm alone."""
