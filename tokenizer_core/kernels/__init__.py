"""Kernels: NumPy arrays in, NumPy arrays out. No files, no classes, no strings, no allocation."""
