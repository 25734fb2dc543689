"""Kernels that read, cut and encode a short text in one call: the ids of the others."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bpeline.tokenizer_core import train_from_iterator
from bpeline.tokenizer_core.encoding import merge_encoding
from bpeline.tokenizer_core.encoding.encoding_memory import SHORT_TEXT
from bpeline.tokenizer_core.encoding.merge_encoding import BytePairEncoder
from bpeline.tokenizer_core.kernels.encoding.encode_text import encode_span
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
    assert encoder._short_kernel is not None
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


def test_only_bytes_are_read_where_they_lie(english_and_code: str) -> None:
    encoder = encoder_of("gpt2", english_and_code[:50_000])
    expected = encoder.encode_whole(Text.of(b"some text")).tolist()
    assert encoder.encode_short(b"some text") == expected
    for other in (bytearray(b"some text"), memoryview(b"some text"), "some text", Bytes(b"some")):
        with pytest.raises(TypeError, match=type(other).__name__):
            encoder.encode_short(other)  # type: ignore[arg-type]


class Bytes(bytes):
    __slots__ = ()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_of_all_widths(pattern: str, english_and_code: str) -> None:
    """Python keeps characters in one, two or four bytes: each kind is read by loops of its own."""
    encoder = encoder_of(pattern, english_and_code[:50_000] + 40 * "ä漢字🙂 ÿŀ߿ࠀ")
    encoder.encode_short(b"")
    generator = random.Random(pattern)
    letters = "aZ 0'\n\x7f\x80\xa0äÿ\u0100\u03b1\u07ff\u0800\u20ac漢\ud7ff\ue000\uffff"
    letters += "\U00010000🙂\U0010ffff"
    for size in [*range(40), *range(55, 75), 300, 1_000]:
        for most in (7, 11, 16, 19, len(letters)):
            text = "".join(generator.choices(letters[:most], k=size))
            expected = encoder.encode_whole(Text.of(text.encode())).tolist()
            assert encoder.encode_short(text.encode()) == expected, text


@pytest.mark.parametrize("size", [SHORT_TEXT - 1, SHORT_TEXT, SHORT_TEXT + 1])
def test_texts_around_the_longest(size: int, english_and_code: str) -> None:
    encoder = encoder_of("gpt2", english_and_code[:50_000])
    content = (english_and_code[:size].encode())[:size].decode(errors="ignore").encode()
    content += b"a" * (size - len(content))
    expected = encoder.encode_whole(Text.of(content)).tolist()
    for _ in range(2):
        assert encoder.encode_short(content) == expected


def test_threads_share_what_encodes_at_once(english_and_code: str) -> None:
    """Nobody else runs while a text is encoded; and the cache of words is replaced all the time."""
    encoder = encoder_of("cl100k", english_and_code[:50_000], cache_words=128)
    texts = [english_and_code[begin : begin + 400] for begin in range(0, 60_000, 400)]
    expected = [encoder.encode_whole(Text.of(text.encode())).tolist() for text in texts]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def encode(offset: int) -> int:
        wrong = 0
        for number in range(len(texts)):
            place = (number + offset) % len(texts)
            content = texts[place].encode()
            wrong += encoder.encode_short(content) != expected[place]
        return wrong

    try:
        with ThreadPoolExecutor(6) as pool:
            assert sum(pool.map(encode, range(0, 120, 20))) == 0
    finally:
        sys.setswitchinterval(before)


def test_ids_that_have_no_ints(english_and_code: str) -> None:
    vocab = {byte: bytes([byte]) for byte in range(256)} | {1 << 20: b"ab"}
    tokenizer = Tokenizer(vocab, [(b"a", b"b")])
    encoder = tokenizer.encoder
    assert isinstance(encoder, BytePairEncoder)
    encoder._may_wait = False
    for _ in range(3):
        assert tokenizer.encode("abc ab") == [1 << 20, 99, 32, 1 << 20]


@pytest.mark.parametrize("letter", ["a", "é", "漢", "🙂", "\ud800"])
def test_arrays_of_short_texts(letter: str, english_and_code: str) -> None:
    tokenizer = train_from_iterator([english_and_code[:50_000]], vocab_size=600)
    for length in (0, 1, 7, 999, 1_000, 1_001):
        text = ("the" + letter * length)[:length]
        expected = tokenizer.encode_batch([text])[0]
        for dtype in (np.uint32, np.int64):
            ids = tokenizer.encode_to_numpy(text, dtype=dtype)
            assert (ids.dtype, ids.tolist()) == (dtype, expected)
        assert tokenizer.encode_to_numpy(text, "all", "text").tolist() == expected
        assert tokenizer.count(text) == len(expected)


def test_without_the_interpreters_lock_texts_share_no_workspace(
    english_and_code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_encoding, "_LOCKED", False)
    tokenizer = train_from_iterator([english_and_code[:50_000]], vocab_size=600)
    encoder = tokenizer.encoder
    assert isinstance(encoder, BytePairEncoder)
    encoder._may_wait = False
    for text in ("some text", english_and_code[:3_000], "é漢🙂", ""):
        expected = encoder.encode_whole(Text.of(text.encode())).tolist()
        for _ in range(2):
            assert tokenizer.encode(text) == encoder.encode_short(text.encode()) == expected
    assert encoder._at_once is None


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
