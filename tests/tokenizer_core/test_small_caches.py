"""Caches of words of any size give the same ids, and always come to an end."""

from __future__ import annotations

import numpy as np
import pytest

from bpeline.tokenizer_core.encoding.encoding_memory import SharedWords, WordCache
from bpeline.tokenizer_core.encoding.merge_encoding import BytePairEncoder
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.text import Text

IDENTITY = np.arange(256)
MERGES = np.array([97, 256, 98]), np.array([98, 97, 99]), np.array([256, 257, 258])
SIZES = [*range(132), 255, 256, 257, 511, 512, 513, 1_000, 1_024, 2_000, 2_048, 4_096, 4_097]
EVERY_CHARACTER = SplitPattern(regex="(?s:.)")
# 1,024 distinct words of two bytes; 300 bytes of distinct words; words that fill the arena
TWO_BYTES = "".join(map(chr, range(0x100, 0x500)))
FEW = "".join(map(chr, range(0x100, 0x100 + 150)))
LONG = " ".join(f"{number:03}" + "ab" * 60 for number in range(16))
TABLES = 40  # that one text may fill: 32 batches of 64 words at least, and some


@pytest.fixture(autouse=True)
def tables_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends a test that would go on replacing tables for ever."""
    made = 0
    after = SharedWords.after

    def counted(words: SharedWords, full: WordCache) -> WordCache:
        nonlocal made
        made += 1
        assert made <= len(SIZES) * 3 * TABLES, "tables are replaced for ever"
        return after(words, full)

    monkeypatch.setattr(SharedWords, "after", counted)


def encoder_of(pattern: SplitPattern, cache_words: int) -> BytePairEncoder:
    return BytePairEncoder(IDENTITY, *MERGES, pattern, cache_words)


@pytest.mark.parametrize("text", [TWO_BYTES, FEW, LONG], ids=["most", "few", "long words"])
def test_every_small_cache_encodes_short_texts_of_distinct_words(text: str) -> None:
    pattern = SplitPattern.named("gpt2") if text == LONG else EVERY_CHARACTER
    content = text.encode()
    expected = encoder_of(pattern, 0).encode_short(content)
    whole = Text.of(content * 3)
    span, behind = np.array([[0, whole.size]]), np.array([-1])
    for cache_words in SIZES:
        encoder = encoder_of(pattern, cache_words)
        for _ in range(2):  # with a table that is empty, then with one that is not
            assert encoder.encode_short(content) == expected, cache_words
        ids, _ = encoder.encode(whole, span, behind)
        assert ids.tolist() == encoder_of(pattern, 0).encode(whole, span, behind)[0].tolist()


def test_a_table_that_others_fill_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst that other threads can do: each new table is full before it is used."""
    after = SharedWords.after

    def full_at_once(words: SharedWords, full: WordCache) -> WordCache:
        table = after(words, full)
        for part in (table.short, table.long):
            part.used[0] = 3 * part.slots // 4
        return table

    monkeypatch.setattr(SharedWords, "after", full_at_once)
    content = TWO_BYTES.encode()
    encoder = encoder_of(EVERY_CHARACTER, 100)
    expected = encoder_of(EVERY_CHARACTER, 0).encode_short(content)
    assert encoder.encode_short(content) == expected
    whole = Text.of(content)
    ids, _ = encoder.encode(whole, np.array([[0, whole.size]]), np.array([-1]))
    assert ids.tolist() == expected
