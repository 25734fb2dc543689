"""Prints one digest of everything that a training makes; run in processes that differ otherwise."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Take the cell of the matrix as JSON, do the job, print the digest."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cell", type=json.loads)
    cell = parser.parse_args().cell
    os.umask(cell["umask"])
    from bpeline.tokenizer_core import Tokenizer, count_words, train_bpe
    from bpeline.tokenizer_core.merging.checkpoint import load_checkpoint

    text = (Path(cell["corpus"])).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        parts = [text[: len(text) // 3], text[len(text) // 3 :]]
        for number in cell["order"]:
            (root / f"{number}.txt").write_text(parts[number], encoding="utf-8")
        counts = count_words(
            str(root / "*.txt"),
            pattern=cell["pattern"],
            special_tokens=["<|endoftext|>"],
            workers=cell["workers"],
            chunk_bytes=cell["chunk_bytes"],
        )
        tokenizer = train_bpe(
            counts,
            900,
            special_tokens=["<|endoftext|>"],
            tie_break="smallest-ids",
            checkpoint=root / "checkpoint",
        )
        digest = hashlib.sha256()
        tokenizer.save(root / "saved", format="bpeline")
        tokenizer.save(root / "tokenizer.json", format="hf")
        for path in ("saved/tokenizer.bin", "saved/manifest.json"):
            digest.update((root / path).read_bytes())
        digest.update((root / "tokenizer.json").read_bytes())
        digest.update(load_checkpoint(root / "checkpoint").left.tobytes())
        again = Tokenizer.load(root / "saved")
        ids = again.encode_batch([*parts, text], threads=cell["workers"])
        digest.update(json.dumps(ids).encode())
        shards = tokenizer.encode_files(
            [root / "0.txt", root / "1.txt"], root / "tokens", threads=cell["workers"]
        )
        digest.update(json.dumps([document.tolist() for document in shards]).encode())
        digest.update(counts.digest.encode() + counts.first_positions.tobytes())
    sys.stdout.write(digest.hexdigest())


if __name__ == "__main__":
    main()
