"""Kernels: NumPy arrays in, NumPy arrays out. No files, no classes, no strings, no allocation."""

from bpeline.tokenizer_core.kernels.compiling.machines import require_known_machine

require_known_machine()

# Windows has none of what this imports, and Numba must not be imported before it.
from bpeline.tokenizer_core.address_space import KERNELS, require_addresses  # noqa: E402

require_addresses(KERNELS, "compiling and loading kernels")
