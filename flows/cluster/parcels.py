"""How large the parcels are that a cluster is given; knows no cluster."""

from __future__ import annotations

PARCEL_BYTES = 256 << 20  # about a second of counting, a thousand times what placing a task costs
MOST_PARCELS = 4096  # what a scheduler holds without effort
PARCELS_PER_WORKER = 8  # so that all workers end at about the same time


def parcels_of(size: int, workers: int) -> int:
    """How many parcels to make of ``size`` bytes.

    Small corpora make a few for each worker, larger ones parcels of `PARCEL_BYTES`; the largest
    never more than `MOST_PARCELS`, which then grow.

    Args:
        size: bytes of all files.
        workers: that share them.
    """
    by_size = -(-size // PARCEL_BYTES)
    return min(MOST_PARCELS, max(by_size, PARCELS_PER_WORKER * workers))
