"""Publications of tokenizers so small that making one takes no time."""

from __future__ import annotations

from pathlib import Path

from bpeline.registry.records.publication import CorpusInput, Publication
from bpeline.tokenizer_core.tokenizer import Tokenizer


def small_tokenizer(*words: bytes) -> Tokenizer:
    """The 256 bytes, and the merges that build each word from its left."""
    vocab = {number: bytes([number]) for number in range(256)}
    merges = []
    for word in words:
        for end in range(2, len(word) + 1):
            pair = (word[: end - 1], word[end - 1 : end])
            if pair not in merges:
                merges.append(pair)
                vocab[len(vocab)] = word[:end]
    return Tokenizer(vocab, merges)


def publication_of(root: Path, *words: bytes, name: str = "news", run_id: str = "") -> Publication:
    """The publication of a small tokenizer that knows the given words; its files are below."""
    tokenizer = small_tokenizer(*words)
    run_id = run_id or f"run-{tokenizer.digest[:8]}"
    directory = root / f"{name}-{run_id}"
    tokenizer.save(directory, format="bpeline")
    return Publication(
        name=name,
        digest=tokenizer.digest,
        tokenizer_directory=directory,
        run_id=run_id,
        corpus_digest="c" * 64,
        counts_digest="d" * 64,
        vocab_size=tokenizer.vocab_size,
        pattern="gpt2",
        params={"vocab_size": tokenizer.vocab_size, "sources": ["a.txt", "b.txt"]},
        metrics={"compression/bytes_per_token": 2.5, "train/seconds": 0.25},
        curve=((256, 1.0), (tokenizer.vocab_size, 2.5)),
        inputs=(CorpusInput("web", "/corpus/*.txt", "e" * 64),),
        report="# news\n\nA small tokenizer.\n",
        created_at="2026-01-02T03:04:05+00:00",
    )
