"""Digests: one hash function and one canonical form, so that equal things have equal names."""

from __future__ import annotations

import hashlib
import json
from typing import Any

DIGEST_LENGTH = 64  # hexadecimal digits of a SHA-256


def digest_of_bytes(*parts: Any) -> str:
    """SHA-256 of the concatenated buffers, as 64 hexadecimal digits.

    Args:
        parts: anything with the buffer protocol (bytes, memoryview, contiguous NumPy arrays).
    """
    state = hashlib.sha256()
    for part in parts:
        state.update(part)
    return state.hexdigest()


def canonical_json(value: Any) -> bytes:
    """``value`` as UTF-8 JSON with sorted keys and no insignificant white space.

    Bytes are not JSON: callers write them as hexadecimal or through the printable mapping.
    NaN and infinities raise ``ValueError``.
    """
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode()


def digest_of(value: Any) -> str:
    """Digest of a JSON value in canonical form."""
    return digest_of_bytes(canonical_json(value))
