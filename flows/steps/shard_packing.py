"""Token shards packed into sequences beside them, and what people should know of it."""

from __future__ import annotations

from bpeline.flows.wording import counted
from bpeline.tokenizer_core.shards import TokenShards, pack_shards


def pack_beside(shards: TokenShards, length: int, seed: int) -> tuple[TokenShards, list[str]]:
    """Shuffle and pack documents into a directory below that of their shards.

    Returns:
        The sequences, and notes: what was written, what was left out, what may be missing.

    Raises:
        BpelineError: as `pack_shards`.
    """
    packed = pack_shards(shards, shards.path / f"packed-{length}-{seed}", length, seed=seed)
    rest = packed.manifest["packed"]["left_out_tokens"]
    notes = [
        f"{packed.path}: {counted(len(packed), 'sequence')} of {length:,} ids, documents shuffled "
        f"with the seed {seed}; {counted(rest, 'id')} at the end fill no sequence and are left out"
    ]
    if shards.manifest["end_of_text"] is None:
        notes.append("nothing stands between packed documents: --end-of-text puts an id there")
    return packed, notes
