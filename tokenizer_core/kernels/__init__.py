"""Kernels: NumPy arrays in, NumPy arrays out. No files, no classes, no strings, no allocation."""

import os
import struct
import sys

from bpeline.tokenizer_core.errors import BpelineError


def require_known_machine() -> None:
    """Refuse where kernels would read numbers wrongly, or cannot be kept safely.

    They load eight bytes as one number, lowest byte first, and take addresses for int64; what is
    compiled lies where POSIX's owners, permissions and descriptors protect it.

    Raises:
        BpelineError: says what this machine is.
    """
    bits = 8 * struct.calcsize("P")
    if (os.name, sys.byteorder, bits) == ("posix", "little", 64):
        return
    raise BpelineError(
        f"this is a {sys.byteorder}-endian machine of {bits} bits, with {os.name} files",
        "64 bits, little-endian, POSIX: Linux or macOS on x86-64 or ARM",
        "on Windows use WSL",
    )


require_known_machine()

# Windows has none of what this imports, and Numba must not be imported before it.
from bpeline.tokenizer_core.machine import KERNELS, require_addresses  # noqa: E402

require_addresses(KERNELS, "compiling and loading kernels")
