"""Text from ids one at a time, and in batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpeline.tokenizer_core.errors import InvalidOption, UnknownToken
from bpeline.tokenizer_core.tokenizer import Tokenizer

PLAIN = Tokenizer(
    {byte: bytes([byte]) for byte in range(256)} | {300: b"\xa9x", 301: b"\x9f\x91"}, []
)


@given(ids=st.lists(st.sampled_from([*range(256), 300, 301, 0xF0, 0xC3, 0xE2])))
def test_what_is_fed_and_flushed_is_what_decode_gives(ids: list[int]) -> None:
    stream = PLAIN.decode_stream()
    assert "".join(map(stream.feed, ids)) + stream.flush() == PLAIN.decode(ids)


def test_parts_of_characters_are_held_back() -> None:
    stream = PLAIN.decode_stream()
    assert [stream.feed(id_) for id_ in [65, 0xC3, 300, 0xF0, 0x9F, 0x91]] == [
        "A", "", "éx", "", "", "",
    ]  # fmt: skip
    assert stream.flush() == "\ufffd"
    assert stream.flush() == ""
    assert stream.feed(65) == "A"


def test_errors_are_as_asked() -> None:
    stream = PLAIN.decode_stream("strict")
    assert stream.feed(0xC3) == ""
    with pytest.raises(UnicodeDecodeError):
        stream.flush()
    with pytest.raises(InvalidOption):
        PLAIN.decode_stream("other")  # type: ignore[arg-type]
    stream = PLAIN.decode_stream()
    stream.feed(0xC3)
    with pytest.raises(UnknownToken):
        stream.feed(999)
    assert stream.feed(300) == "éx"


def test_a_batch_decodes_as_each_does(
    trained: Callable[..., Tokenizer], fuzz_texts: list[str]
) -> None:
    tokenizer = trained("gpt2")
    batch = tokenizer.encode_batch(fuzz_texts[:500])
    assert tokenizer.decode_batch(batch) == fuzz_texts[:500]
    assert tokenizer.decode_batch([]) == []
    with pytest.raises(UnicodeDecodeError):
        PLAIN.decode_batch([[65], [0xC3]], "strict")


def test_special_tokens_are_told_from_others(trained: Callable[..., Tokenizer]) -> None:
    tokenizer = trained("gpt2", "last")
    specials = {id_ for id_ in range(-1, max(tokenizer.vocab) + 2) if tokenizer.is_special(id_)}
    assert specials == set(tokenizer.special_tokens.values())
