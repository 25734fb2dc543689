"""Kernels that encode and decode text."""
