"""Words of few runs, merged run by run, against the reference."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel
from bpeline.tokenizer_core.kernels.encoding.encode_word import MOST_RUNS, encode_runs
from bpeline.tokenizer_core.kernels.encoding.word_cache import workspace_at
from bpeline.tokenizer_core.kernels.memory.types import I64, I64s, U8s, U32s
from tests.tokenizer_core.test_encoding import encoder_of, ids_by_reference, random_merges


@entry_kernel
def encode_word_of_runs(word: U8s, length: I64, fields: I64s, ids: U32s) -> I64:
    place, target = np.int64(word.ctypes.data), np.int64(ids.ctypes.data)
    return encode_runs(place, length, workspace_at(fields.ctypes.data), target)


def encoded_runs(word: bytes, merges: list[reference.Pair]) -> list[int] | None:
    """The ids; None where the word is left to the search."""
    encoder = encoder_of(merges)
    ids = np.zeros(len(word) + 8, np.uint32)
    with encoder._workspace() as workspace:
        content = np.frombuffer(bytearray(word + bytes(8)), np.uint8)
        count = encode_word_of_runs(content, len(word), workspace.fields, ids)
    return ids[:count].tolist() if count else None


def word_of_runs(random_: random.Random, letters: str, most: int) -> bytes:
    lengths = [1, 2, 3, 7, 8, 16, 31, 64, 100]
    number = random_.randint(1, most)
    return "".join(
        random_.choice(letters) * random_.choice(lengths) for _ in range(number)
    ).encode()


@pytest.mark.night
def test_runs_are_merged_as_the_reference_does_by_any_proper_merges() -> None:
    random_ = random.Random(31)
    merged = left_alone = 0
    for _ in range(200):
        letters = random_.choice(["a", "ab", "abc", "ab\0"])
        merges = random_merges(random_, letters, proper=True)
        words = [word_of_runs(random_, letters, 6) for _ in range(8)]
        for word in words:
            found = encoded_runs(word, merges)
            merged += found is not None
            left_alone += found is None
            assert found in (None, ids_by_reference(word, merges)), f"REPRO: {word!r} by {merges}"
        ids, ends = encoder_of(merges).encode_words(words)
        expected = [ids_by_reference(word, merges) for word in words]
        assert ids.tolist() == [id_ for word in expected for id_ in word]
        assert ends.tolist() == np.cumsum([len(word) for word in expected]).tolist()
    assert merged > 1_000
    assert left_alone > 50


@pytest.mark.parametrize("length", [16, 17, 127, 128, 129, 1000])
@pytest.mark.parametrize("first", [b"", b"|", b"\n"])
def test_rulers_of_any_length_are_merged_by_tokens_of_many_lengths(
    first: bytes, length: int
) -> None:
    words = {first + b"-" * n: 1 for n in range(1, 70)} | {b"-" * n: 1 for n in range(1, 200)}
    merges = reference.train(words, 90)
    word = first + b"-" * length
    assert encoded_runs(word, merges) == ids_by_reference(word, merges)


def test_a_word_whose_runs_become_too_many_is_left_to_the_search() -> None:
    merges = [(b"a" * 2**n, b"a" * 2**n) for n in range(4)]
    word = b"".join(b"a" * 15 + b"b" for _ in range(MOST_RUNS // 2))  # four runs of each
    assert encoded_runs(word, merges) is None
    assert encoded_runs(word, []) == list(word)
    ids, _ = encoder_of(merges).encode_words([word])
    assert ids.tolist() == ids_by_reference(word, merges)


def test_a_word_of_short_runs_is_left_to_the_search() -> None:
    assert encoded_runs(b"aabb" * 8, [(b"a", b"a")]) is None
