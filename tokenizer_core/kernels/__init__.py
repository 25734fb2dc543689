"""Kernels: NumPy arrays in, NumPy arrays out. No files, no classes, no strings, no allocation."""

from bpeline.tokenizer_core.kernels.compiling.machines import require_known_machine

require_known_machine()
