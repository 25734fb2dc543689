"""Every way of decoding gives what joining the tokens one by one gives."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding import decoding
from bpeline.tokenizer_core.encoding.decoding import Decoder
from bpeline.tokenizer_core.errors import InvalidOption, UnknownToken
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.word_encoding.word_algorithm import WordDecoder

VOCAB = {byte: bytes([byte]) for byte in range(256)} | {
    300: "é".encode(),
    301: "é".encode()[1:] + b"x",
    302: b"fifteen letters",
    303: b"sixteen letters.",
    304: "a long token, 世界, ".encode() * 20,
    305: "世界".encode()[:4],
}
SPARSE = {id_ * 1_000_003: token for id_, token in VOCAB.items()}
SIZES = [0, 1, 2, 8, 9, 25, 64, 300, 4_096, 4_097]


def joined(vocab: dict[int, bytes], ids: list[int]) -> bytes:
    return b"".join([vocab[id_] for id_ in ids])


@pytest.fixture
def decoder() -> Decoder:
    return Decoder(VOCAB)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["ascii", "any", "long"])
def test_lists_and_arrays_of_every_size(decoder: Decoder, size: int, kind: str) -> None:
    known = {"ascii": range(65, 91), "any": list(VOCAB), "long": [303, 304]}[kind]
    ids = np.random.default_rng(size).choice(known, size).tolist()
    expected = joined(VOCAB, ids)
    for given_ids in (ids, tuple(ids), iter(ids), np.array(ids, np.uint32), np.array(ids, int)):
        if not isinstance(given_ids, list | tuple | np.ndarray):
            assert decoder.decode(given_ids) == expected
            continue
        assert decoder.decode(given_ids) == expected
        assert decoder.text(given_ids, "replace") == expected.decode(errors="replace")
    assert Decoder(SPARSE).decode([id_ * 1_000_003 for id_ in ids]) == expected


@settings(max_examples=300)
@given(ids=st.lists(st.sampled_from([*VOCAB, 300, 301, 304, 305]), max_size=60))
def test_text_is_that_of_the_joined_bytes(ids: list[int]) -> None:
    decoder, expected = Decoder(VOCAB), joined(VOCAB, ids)
    assert decoder.text(ids, "replace") == expected.decode(errors="replace")
    assert decoder.text(ids, "ignore") == expected.decode(errors="ignore")
    try:
        strict = expected.decode()
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            decoder.text(ids, "strict")
    else:
        assert decoder.text(ids, "strict") == strict


@pytest.mark.parametrize("size", [1, 25, 5_000])
@pytest.mark.parametrize(
    "unknown",
    [
        -1,
        -65,
        299,
        306,
        612,
        613,
        2**30,
        2**30 + 65,
        2**32 + 65,
        2**63,
        2**70,
        np.int64(-1),
        np.uint64(2**63),
    ],
)
def test_what_is_no_id_is_named(decoder: Decoder, size: int, unknown: Any) -> None:
    ids: list[Any] = [65] * (size - 1) + [unknown]
    for decode in (decoder.decode, lambda ids: decoder.text(ids, "replace")):
        with pytest.raises(UnknownToken) as failure:
            decode(ids)
        assert f"id {unknown!r}"[:40] in str(failure.value)


@pytest.mark.parametrize("size", [1, 25, 5_000])
@pytest.mark.parametrize("same", [np.uint16(1), np.int64(1), np.array(1), np.int64(66)])
def test_numpy_integers_are_ids(decoder: Decoder, size: int, same: Any) -> None:
    ids = [65] * (size - 1) + [same]
    assert decoder.decode(ids) == b"A" * (size - 1) + bytes([same])
    assert decoder.text(ids, "replace") == "A" * (size - 1) + chr(same)


@pytest.mark.parametrize("size", [1, 2, 25, 5_000])
@pytest.mark.parametrize(
    "other",
    [True, False, np.True_, 1.0, 65.0, np.float64(65), float("nan"), slice(65, 70), "A", b"A",
     [65], (65,), np.array([65, 66]), None],
    ids=repr,
)  # fmt: skip
def test_what_is_no_whole_number_is_refused(decoder: Decoder, size: int, other: Any) -> None:
    for ids in ([65] * (size - 1) + [other], (*[65] * (size - 1), other)):
        for decode in (decoder.decode, lambda ids: decoder.text(ids, "replace")):
            with pytest.raises(UnknownToken, match=type(other).__name__):
                decode(ids)


@pytest.mark.parametrize(
    "other",
    [np.array([True, False]), np.array([65.0]), np.array(65), np.array([[65, 66]], np.uint32),
     np.array([[65, 66]]), np.array(["A"]), np.zeros((2, 0), np.uint32)],
    ids=lambda array: f"{array.dtype}-{array.ndim}",
)  # fmt: skip
def test_arrays_of_something_else_are_refused(decoder: Decoder, other: Any) -> None:
    marked = WordDecoder({**VOCAB, 1_000: b""}, spaced=False)
    for one in (decoder, marked, Decoder(SPARSE)):
        for decode in (one.decode, lambda ids, one=one: one.text(ids, "replace")):
            with pytest.raises(UnknownToken, match=str(other.dtype)):
                decode(other)
    assert decoder.decode(np.array([])) == b""
    assert decoder.decode(np.array([65, 66], object)) == b"AB"


@pytest.mark.parametrize("other", [True, slice(65, 70), [65], 1.0, "A"], ids=repr)
def test_words_are_decoded_from_whole_numbers_too(other: Any) -> None:
    decoder = WordDecoder({**VOCAB, 1: b""}, spaced=True)
    for ids in ([other], [65, other], iter([65, other])):
        with pytest.raises(UnknownToken, match=type(other).__name__):
            decoder.text(ids, "replace")


class Unlocked:
    """`cached_property` as it is from Python 3.12 on: threads may make the value at once."""

    def __init__(self, made: cached_property[Any]) -> None:
        self.function, self.name = made.func, made.attrname

    def __get__(self, instance: Any, owner: type) -> Any:
        if self.name not in instance.__dict__:
            instance.__dict__[self.name] = self.function(instance)
        return instance.__dict__[self.name]


def test_threads_that_decode_first_share_nothing_that_goes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each kernel call is given addresses of arrays that are still there."""
    for name, value in list(vars(Decoder).items()):
        if isinstance(value, cached_property):
            monkeypatch.setattr(Decoder, name, Unlocked(value))
    arrays = list[weakref.ref[NDArray[Any]]]()
    read = decoding.join_listed
    together = threading.Barrier(2)
    gone = list[int]()

    def remembered(*values: Any) -> NDArray[Any]:
        array = np.array(*values)
        arrays.append(weakref.ref(array))
        together.wait(60)  # both threads have made theirs before either goes on
        return array

    def watched(listed: int, facts: int, target: int, room: int) -> int:
        together.wait(60)  # and hold their addresses before either uses them
        there = [array for one in arrays if (array := one()) is not None]
        if not any(array.ctypes.data == facts for array in there):
            gone.append(facts)
            return -1
        return read(listed, facts, target, room)

    monkeypatch.setattr(decoding, "np", SimpleNamespace(**vars(np) | {"array": remembered}))
    monkeypatch.setattr(decoding, "join_listed", watched)
    for _ in range(5):
        decoder = Decoder(VOCAB)
        threads = [threading.Thread(target=decoder.decode, args=([65] * 30,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not gone


def test_a_subclass_of_list_is_asked_rather_than_read(decoder: Decoder) -> None:
    class Shifted(list[int]):
        def __iter__(self) -> Any:
            return (id_ + 1 for id_ in list.__iter__(self))

    assert decoder.decode(Shifted([65, 66] * 50)) == b"BC" * 50
    assert decoder.text(Shifted([65, 66] * 50), "replace") == "BC" * 50


def test_threads_do_not_share_the_memory_they_decode_into() -> None:
    decoder = Decoder(VOCAB)
    wrong: list[str] = []

    def decode_often(letter: int) -> None:
        for size in range(9, 400):
            text = decoder.text([letter] * size, "replace")
            if text != chr(letter) * size:
                wrong.append(text)

    threads = [threading.Thread(target=decode_often, args=(65 + i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Pretender:
    """An id by what `index` says, which is Python and may do anything."""

    def __init__(self, ids: list[Any], does: str) -> None:
        self.ids, self.does = ids, does

    def __index__(self) -> int:
        if self.does == "fail":
            raise RuntimeError("no id")
        if self.does == "empty":
            self.ids.clear()
        elif self.does == "decode":
            assert Decoder(VOCAB).text([66] * 50, "replace") == "B" * 50
        return 65


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (True, UnknownToken), (False, UnknownToken), (np.True_, UnknownToken),
        (65.0, UnknownToken), (np.float64(65), UnknownToken), ("A", UnknownToken),
        (None, UnknownToken), (-1, UnknownToken), (1 << 31, UnknownToken),
        (1 << 63, UnknownToken), (-(1 << 63), UnknownToken), (1 << 200, UnknownToken),
        (Pretender([], "fail"), RuntimeError),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", [0, 20, 39])
def test_items_that_are_no_ids(item: Any, error: type[Exception], place: int) -> None:
    ids = [65] * 40
    ids[place] = item
    for decode in (Decoder(VOCAB).decode, lambda ids: Decoder(VOCAB).text(ids, "replace")):
        with pytest.raises(error):
            decode(ids)


@pytest.mark.parametrize("item", [np.uint32(65), np.int8(65), Pretender([], "decode")])
def test_items_that_are_as_good_as_ids(item: Any) -> None:
    ids = [65] * 40 + [item]
    assert Decoder(VOCAB).decode(ids) == b"A" * 41
    assert Decoder(VOCAB).text(ids, "replace") == "A" * 41


def test_a_list_that_an_item_of_it_empties() -> None:
    ids: list[Any] = [66] * 40
    ids[1] = Pretender(ids, "empty")
    assert Decoder(VOCAB).decode(ids) in (b"", b"BA")


# Streams


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
