"""Numba kernels: NumPy arrays in, NumPy arrays out; the caller allocates."""

import os
import struct
import sys

from bpeline.tokenizer_core.errors import BpelineError


def require_known_machine() -> None:
    """Raise `BpelineError` on machines that kernels do not support.

    Kernels load eight bytes as one little-endian number and store addresses as int64. The cache
    of their machine code is protected by POSIX owners, permissions and descriptors.
    """
    bits = 8 * struct.calcsize("P")
    if (os.name, sys.byteorder, bits) == ("posix", "little", 64):
        return
    raise BpelineError(
        f"this machine is not supported: {sys.byteorder}-endian, {bits} bits, {os.name} files",
        "expected 64 bits, little-endian, POSIX: Linux or macOS on x86-64 or ARM",
        "on Windows use WSL",
    )


require_known_machine()

# The imports below need POSIX; the check above must run before Numba is imported.
from bpeline.tokenizer_core.machine import KERNELS, require_addresses  # noqa: E402

require_addresses(KERNELS, "compiling and loading kernels")
