"""Kernels that read, cut and encode a short text in one call: the ids of the others."""

from __future__ import annotations

import random

import pytest

from bpeline.tokenizer_core import train_from_iterator
from bpeline.tokenizer_core.encoding import merge_encoding
from bpeline.tokenizer_core.encoding.encoding_memory import SHORT_TEXT
from bpeline.tokenizer_core.encoding.merge_encoding import BytePairEncoder
from bpeline.tokenizer_core.kernels.encoding.encode_text import encode_span
from bpeline.tokenizer_core.kernels.memory.python_lists import bytes_are_known
from bpeline.tokenizer_core.splitting import SUPERWORDS
from bpeline.tokenizer_core.splitting.pretokenization import MASK_KERNELS
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer

PATTERNS = sorted(set(MASK_KERNELS) - {SUPERWORDS})  # it has none
PIECES = [
    "a", "B", " ", "  ", "\n", "\r\n", "'s", "'LL", "1", "2345", "…", "ä", "漢", "🙂", "/",
    "\u0301", "I'm", "it's", "\t", "\u3000", "e", "the ", " and", "!?", "\x00",
]  # fmt: skip


def encoder_of(pattern: str, text: str, cache_words: int | None = None) -> BytePairEncoder:
    tokenizer = train_from_iterator([text], vocab_size=600, pattern=pattern)
    if cache_words is not None:
        tokenizer = Tokenizer(
            tokenizer.vocab, tokenizer.merges, pattern=pattern, cache_words=cache_words
        )
    encoder = tokenizer.encoder
    assert isinstance(encoder, BytePairEncoder)
    assert (encoder._short_kernel is not None) == bytes_are_known()
    encoder._may_wait = False
    return encoder


@pytest.mark.parametrize("pattern", PATTERNS)
def test_ids_are_those_of_long_texts(pattern: str, english_and_code: str) -> None:
    encoder = encoder_of(pattern, english_and_code[:50_000])
    generator = random.Random(pattern)
    for turn in range(400):
        if turn % 3:
            text = "".join(generator.choices(PIECES, k=generator.randrange(300)))
        else:
            begin = generator.randrange(len(english_and_code) - 3000)
            text = english_and_code[begin : begin + generator.randrange(2_000)]
        content = text.encode()[: generator.choice((7, 8, 9, 63, 64, 65, 127, 128, SHORT_TEXT))]
        content = content.decode(errors="ignore").encode()
        expected = encoder.encode_whole(Text.of(content)).tolist()
        assert encoder.encode_short(content) == expected, content


def test_the_longest_and_the_emptiest_one_after_the_other(english_and_code: str) -> None:
    encoder = encoder_of("gpt2", english_and_code[:50_000])
    longest = english_and_code[:SHORT_TEXT].encode()[:SHORT_TEXT].decode(errors="ignore").encode()
    for content in (longest, b"", b"x" * SHORT_TEXT, b"a", b" " * SHORT_TEXT, longest, b"\0"):
        assert encoder.encode_short(content) == encoder.encode_whole(Text.of(content)).tolist()


def test_a_cache_that_fills_changes_nothing(english_and_code: str) -> None:
    encoder = encoder_of("cl100k", english_and_code[:50_000], cache_words=128)
    for begin in range(0, 40_000, 1_000):
        content = english_and_code[begin : begin + 1_000].encode()
        expected = encoder.encode_whole(Text.of(content)).tolist()
        assert encoder.encode_short(content) == expected


@pytest.mark.skipif(not bytes_are_known(), reason="objects of this Python are not read")
def test_only_bytes_are_read_where_they_lie(english_and_code: str) -> None:
    encoder = encoder_of("gpt2", english_and_code[:50_000])
    for other in (bytearray(b"some text"), memoryview(b"some text"), "some text"):
        with pytest.raises(TypeError, match="expected bytes"):
            encoder.encode_short(other)  # type: ignore[arg-type]
    assert (
        encoder.encode_short(b"some text") == encoder.encode_whole(Text.of(b"some text")).tolist()
    )


def test_a_few_texts_are_not_compiled_for(
    english_and_code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = encoder_of("o200k", english_and_code[:50_000])
    kernel = encoder._short_kernel or encode_span
    expected = encoder.encode_whole(Text.of(b"some text")).tolist()
    encoder._may_wait = True
    monkeypatch.setitem(merge_encoding._calls_left, kernel, 2)
    for left, waits in ((1, True), (0, True), (0, False), (0, False)):
        assert encoder.encode_short(b"some text") == expected
        assert (merge_encoding._calls_left[kernel], encoder._may_wait) == (left, waits)
