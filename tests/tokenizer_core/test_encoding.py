"""The engine under the tokenizer: spans, gains, derived merges, and kernels against plain twins."""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.encoding import batch_encoding
from bpeline.tokenizer_core.encoding.merge_encoding import BytePairEncoder, derive_merges
from bpeline.tokenizer_core.errors import InvalidUtf8
from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel
from bpeline.tokenizer_core.kernels.encoding.encode_word import MOST_RUNS, encode_runs
from bpeline.tokenizer_core.kernels.encoding.word_cache import workspace_at
from bpeline.tokenizer_core.kernels.memory.types import I64, I64s, U8s, U32s, U64s
from bpeline.tokenizer_core.kernels.tables.word_queue import next_start
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer

MakeTokenizer = Callable[..., Tokenizer]
IDENTITY = np.arange(256)


def encoder_of(merges: list[reference.Pair], cache_words: int = 64) -> BytePairEncoder:
    """Bytes are their own ids, merge k makes 256 + k."""
    ids = {bytes([byte]): byte for byte in range(256)}
    ids |= {left + right: 256 + rank for rank, (left, right) in enumerate(merges)}
    columns = [(ids[left], ids[right], ids[left + right]) for left, right in merges]
    left, right, results = np.array(columns, np.int64).reshape(-1, 3).T.copy()
    pattern = SplitPattern.named("gpt2")
    return BytePairEncoder(IDENTITY, left, right, results, pattern, cache_words)


def gains_of(merges: list[tuple[bytes, bytes]], words: WordCounts) -> NDArray[np.int64]:
    return encoder_of(merges).gains(words.word_bytes, words.offsets, words.counts)


def ids_by_reference(word: bytes, merges: Iterable[reference.Pair]) -> list[int]:
    return _ids_by_reference(word, tuple(merges))


@functools.cache
def _ids_by_reference(word: bytes, merges: tuple[reference.Pair, ...]) -> list[int]:
    ids = {bytes([byte]): byte for byte in range(256)}
    ids |= {left + right: 256 + rank for rank, (left, right) in enumerate(merges)}
    ranks = {merge: rank for rank, merge in enumerate(merges)}
    return [ids[symbol] for symbol in reference.merge_word(word, ranks)]


@pytest.fixture(scope="module")
def tie_heavy_merges() -> list[reference.Pair]:
    random_ = random.Random(5)
    words = {"".join(random_.choices("aab", k=random_.randint(2, 12))): 1 for _ in range(300)}
    return reference.train({word.encode(): 1 for word in words}, 120)


@pytest.mark.parametrize("cache_words", [0, 2, 1024])
def test_words_short_and_long_are_merged_as_the_reference_does(
    tie_heavy_merges: list[reference.Pair], cache_words: int
) -> None:
    random_ = random.Random(11)
    encoder = encoder_of(tie_heavy_merges, cache_words)
    lengths = [*range(1, 20), 63, 64, 65, 66, 150] * 3
    words = ["".join(random_.choices("aaab", k=length)).encode() for length in lengths]
    words += [b"a" * length for length in lengths] + [b"ab" * length for length in lengths]
    for _ in range(2):  # the second time from the cache
        ids, ends = encoder.encode_words(words)
        begin = 0
        for word, end in zip(words, ends.tolist(), strict=True):
            expected = ids_by_reference(word, tie_heavy_merges)
            assert ids[begin:end].tolist() == expected, f"REPRO: {word!r}"
            begin = end


def test_words_that_differ_in_length_or_last_byte_alone_are_kept_apart() -> None:
    encoder = encoder_of([(b"\0", b"\0"), (b"a", b"\0")], cache_words=2)
    words = [b"\0" * length for length in range(1, 18)]
    words += [b"a" + b"\0" * length for length in range(17)]
    words += [b"x" * 14 + bytes([byte]) for byte in range(256)]
    for _ in range(3):
        ids, ends = encoder.encode_words(words)
        begin = 0
        for word, end in zip(words, ends.tolist(), strict=True):
            expected = ids_by_reference(word, [(b"\0", b"\0"), (b"a", b"\0")])
            assert ids[begin:end].tolist() == expected
            begin = end


def test_words_of_more_ids_than_an_entry_holds_are_encoded_all_the_same() -> None:
    encoder = encoder_of([])
    words = [bytes(range(65, 65 + length)) for length in range(1, 16)] * 3
    ids, _ = encoder.encode_words(words)
    assert ids.tolist() == [byte for word in words for byte in word]


@pytest.mark.parametrize("cache_words", [2, 16, 1 << 10])
def test_long_words_are_remembered_forgotten_and_never_confused(
    tie_heavy_merges: list[reference.Pair], cache_words: int
) -> None:
    random_ = random.Random(13)
    encoder = encoder_of(tie_heavy_merges, cache_words)
    base = "".join(random_.choices("aab", k=130))
    words = [base[:length].encode() for length in (15, 16, 17, 24, 31, 32, 33, 127, 128, 129)]
    for at in range(0, 40, 3):  # words that differ in one byte
        words.append((base[:at] + "c" + base[at + 1 : 40]).encode())
    words += ["".join(random_.choices("ab", k=random_.randint(16, 60))).encode() for _ in range(60)]
    for _ in range(4):
        random_.shuffle(words)
        ids, ends = encoder.encode_words(words)
        begin = 0
        for word, end in zip(words, ends.tolist(), strict=True):
            expected = ids_by_reference(word, tie_heavy_merges)
            assert ids[begin:end].tolist() == expected, f"REPRO: {word!r}"
            begin = end


def test_spans_are_independent_and_carry_the_ids_behind_them() -> None:
    encoder = encoder_of([(b"a", b"b"), (b"ab", b"ab")])
    text = Text.of(b"abab" * 40)
    spans = np.array([[0, 3], [3, 3], [3, 160], [159, 159]])
    behind = np.array([9_001, 9_002, -1, 9_003])
    ids, ends = encoder.encode(text, spans, behind)
    expected = [256, ord("a"), 9_001, 9_002, ord("b"), *[257] * 39, 9_003]
    assert ids.tolist() == expected
    assert ends.tolist() == [3, 4, 44, 45]
    none, no_ends = encoder.encode(text, np.empty((0, 2), np.int64), np.empty(0, np.int64))
    assert (len(none), len(no_ends)) == (0, 0)


def test_scratch_grows_in_the_middle_of_a_text_and_is_given_back() -> None:
    encoder = encoder_of([(b"a", b"b"), (b"ab", b"ab")])
    content = b"ab x " + b"ab" * 50_000 + b" y " + b"ab" * 90_001 + b" z"
    ids = encoder.encode_whole(Text.of(content)).tolist()
    expected = [256, 32, ord("x"), 32, *[257] * 25_000, 32, ord("y"), 32, *[257] * 45_000, 256]
    assert ids == [*expected, 32, ord("z")]
    assert all(workspace.scratch.nbytes <= 1 << 20 for workspace in encoder._idle.values())


def random_merges(random_: random.Random, letters: str, proper: bool) -> list[reference.Pair]:
    """Merges that nobody trained: many of their tokens fall apart when they are merged anew.

    Proper ones make every token once; the others make some in two ways.
    """
    tokens = [letter.encode() for letter in letters]
    merges: dict[reference.Pair, None] = {}
    made = set(tokens)
    for _ in range(random_.randint(1, 60)):
        left, right = random_.choice(tokens), random_.choice(tokens)
        if len(left + right) > 40 or (proper and left + right in made):
            continue
        merges[left, right] = None
        if left + right not in made:
            tokens.append(left + right)
        made.add(left + right)
    return list(merges)


@pytest.mark.night
@pytest.mark.parametrize("proper", [True, False])
def test_any_merges_give_what_the_reference_gives(proper: bool) -> None:
    random_ = random.Random(29)
    unstable = made_twice = 0
    for _ in range(150):
        letters = random_.choice(["a", "ab", "abc", "ab\0"])
        merges = random_merges(random_, letters, proper)
        results = [left + right for left, right in merges]
        made_twice += len(results) > len(set(results))
        unstable += sum(len(ids_by_reference(token, merges)) > 1 for token in results)
        encoder = encoder_of(merges, random_.choice([0, 64]))
        words = ["".join(random_.choices(letters, k=n)).encode() for n in range(1, 90, 3)]
        words += [letters.encode() * n for n in range(1, 40)] + results
        for _ in range(2):
            ids, ends = encoder.encode_words(words)
            begin = 0
            for word, end in zip(words, ends.tolist(), strict=True):
                assert ids[begin:end].tolist() == ids_by_reference(word, merges), (
                    f"REPRO: {word!r} with {merges}"
                )
                begin = end
    assert unstable > 100, "the merges must tempt"
    assert (made_twice == 0) is proper


def test_a_cache_that_is_full_grows_then_forgets_and_never_errs() -> None:
    random_ = random.Random(31)
    encoder = encoder_of([(b"a", b"b"), (b"ab", b"a")], cache_words=5_000)
    words = [bytes(random_.choices(b"abcdefgh", k=random_.randint(1, 20))) for _ in range(24_000)]
    content = b" ".join(words)
    text = Text.of(content)
    without = encoder_of([(b"a", b"b"), (b"ab", b"a")], cache_words=0)
    expected = without.encode_whole(text)
    for _ in range(3):
        assert np.array_equal(encoder.encode_whole(text), expected)
    (workspace,) = encoder._idle.values()
    assert workspace.words is encoder._words.table
    for table in (workspace.words.short, workspace.words.long):
        assert 0 < int(table.used[0]) <= table.slots // 2
    assert workspace.words.short.slots == 16_384


def test_workspaces_are_as_many_as_calls_at_once(trained: MakeTokenizer) -> None:
    encoder = trained("gpt2").encoder
    for _ in range(5):
        encoder.encode_words([b"one", b"after", b"the", b"other"])
    idle = len(encoder._idle)
    encoder.encode_words([b"again"])
    assert len(encoder._idle) == idle >= 1


def test_a_thread_has_again_what_it_had(trained: MakeTokenizer) -> None:
    encoder = trained("gpt2").encoder
    both_work = threading.Barrier(2)

    def borrowed(wait: bool = False) -> int:
        with encoder._workspace() as workspace:
            if wait:
                both_work.wait()
            return id(workspace)

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        had = [thread.submit(borrowed, True) for thread in (one, other)]
        first, second = (done.result() for done in had)
        assert first != second
        for thread, own in ((one, first), (other, second), (other, second), (one, first)):
            assert thread.submit(borrowed).result() == own
    assert borrowed() in (first, second)  # who ended leaves it to others


# Gains


@settings(max_examples=80, deadline=None)
@given(
    words=st.dictionaries(
        st.text("abc", min_size=1, max_size=12).map(str.encode), st.integers(1, 9), max_size=20
    )
)
def test_gains_give_the_number_of_tokens_at_every_vocab_size(words: dict[bytes, int]) -> None:
    merges = reference.train(words, 15, min_count=1)
    counts = WordCounts.from_mapping(words)
    gains = gains_of(merges, counts)
    assert gains.dtype == np.int64
    assert len(gains) == len(merges)
    for size in range(len(merges) + 1):
        ranks = {merge: rank for rank, merge in enumerate(merges[:size])}
        tokens = sum(n * len(reference.merge_word(word, ranks)) for word, n in words.items())
        assert counts.total_bytes - gains[:size].sum() == tokens


def test_gains_are_counted_in_64_bits_and_on_long_words() -> None:
    counts = WordCounts.from_mapping({b"ab" * 1_000: 2**40, b"ab": 2**50})
    gains = gains_of([(b"a", b"b"), (b"b", b"b")], counts)
    assert gains.tolist() == [1_000 * 2**40 + 2**50, 0]
    assert gains_of([], counts).tolist() == []
    assert gains_of([(b"a", b"b")], WordCounts.from_mapping({})).tolist() == [0]


# Merges derived from ranks


def test_merges_are_derived_from_tokens_in_order(trained: MakeTokenizer) -> None:
    tokenizer = trained("gpt2")
    tokens = [left + right for left, right in tokenizer.merges]
    ids = {token: id_ for id_, token in tokenizer.vocab.items()}
    byte_ids = np.array([ids[bytes([byte])] for byte in range(256)])
    left, right, results = derive_merges(byte_ids, {ids[token]: token for token in tokens})
    assert results.tolist() == [ids[token] for token in tokens]
    derived = [
        (tokenizer.vocab[a], tokenizer.vocab[b])
        for a, b in zip(left.tolist(), right.tolist(), strict=True)
    ]
    assert derived == tokenizer.merges


def test_a_token_that_no_merge_makes_is_left_out_and_parts_may_be_later() -> None:
    def derived(tokens: dict[int, bytes]) -> list[list[int]]:
        return [part.tolist() for part in derive_merges(IDENTITY, tokens)]

    a, b, x, z = b"abxz"
    assert derived({256: b"ab", 257: b"xyz"}) == [[a], [b], [256]]
    assert derived({256: b"abz", 257: b"ab"}) == [[257, a], [z, b], [256, 257]]
    assert derived({256: b"aa", 257: b"aaa"})[:2] == [[a, 256], [a, a]]
    assert derived({256: b"xab", 300: b"xa", 257: b"ab"}) == [
        [x, a, x],
        [257, b, a],
        [256, 257, 300],
    ]
    assert derived({}) == [[], [], []]


# Mechanics of kernels


@entry_kernel
def _next_start(marks: U64s, after: I64, end: I64) -> I64:
    return next_start(marks, after, end)


@pytest.mark.night
def test_the_next_start_is_the_next_set_bit() -> None:
    _next_start(np.zeros(8, np.uint64), 0, 1)  # compiled before Hypothesis looks at the clock

    @given(starts=st.sets(st.integers(0, 300)), after=st.integers(0, 300), size=st.integers(1, 100))
    def check(starts: set[int], after: int, size: int) -> None:
        marks = np.zeros(8, np.uint64)
        for start in starts:
            marks[start >> 6] |= np.uint64(1 << (start & 63))
        end = after + size
        expected = min((start for start in starts if start > after), default=end)
        assert _next_start(marks, after, end) == min(expected, end)

    check()


# Long texts


@pytest.mark.night
def test_long_texts_have_the_ids_of_one_piece_with_any_number_of_threads(
    trained: MakeTokenizer, mixed_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_encoding, "PART", 300)
    content = mixed_text.encode()
    for pattern in ("gpt2", "cl100k", "o200k"):
        tokenizer = trained(pattern)
        whole = tokenizer.encoder.encode_whole(Text.of(content))
        assert len(list(batch_encoding._edges(content, tokenizer.pattern))) > 500, (
            "the text must be cut often"
        )
        for threads in (1, 3):
            assert np.array_equal(tokenizer.encode_to_numpy(mixed_text, threads=threads), whole)
    regex = trained(r"\p{L}+|[^\p{L}]{1,3}")
    ids = regex.encoder.encode_whole(Text.of(content))
    assert np.array_equal(regex.encode_to_numpy(content, threads=2), ids)


def test_broken_utf8_is_found_wherever_it_stands(
    trained: MakeTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_encoding, "PART", 64)
    content = "one дом 漢字 more ".encode() * 40
    for at in range(5, len(content), 37):
        broken = content[:at] + b"\xff" + content[at:]
        with pytest.raises(UnicodeDecodeError) as expected:
            broken.decode()
        with pytest.raises(InvalidUtf8, match=rf"byte {expected.value.start}\b"):
            trained("gpt2").encode_to_numpy(broken, threads=2)


# Lists of merges that hold more than merging uses, and those in which ranks may fall


Merges = list[reference.Pair]


def searches(merges: Merges) -> bool:
    """Whether words are searched for tokens; they are merged step by step otherwise."""
    return "trie" in encoder_of(merges)._tables


def every_way(tokens: list[bytes]) -> Merges:
    """Each way to put a token together, in order of the tokens, then of the parts: Llama 3's."""
    ranks = {bytes([byte]): -1 for byte in range(256)}
    ranks |= {token: rank for rank, token in enumerate(tokens)}
    merges: Merges = []
    for token in tokens:
        ways = [(token[:at], token[at:]) for at in range(1, len(token))]
        known = [way for way in ways if way[0] in ranks and way[1] in ranks]
        merges += sorted(known, key=lambda way: (ranks[way[0]], ranks[way[1]]))
    return merges


def merged_one_by_one(word: bytes, merges: Merges) -> list[int]:
    """The pair of lowest rank at its leftmost place, then again: not all places of it at once."""
    ranks = {merge: rank for rank, merge in enumerate(merges)}
    ids = {bytes([byte]): byte for byte in range(256)}
    ids |= {left + right: 256 + rank for (left, right), rank in ranks.items()}
    symbols = [bytes([byte]) for byte in word]
    while True:
        places = [(ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in ranks]
        if not places:
            return [ids[symbol] for symbol in symbols]
        at = min(places)[1]
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]


def assert_merged_one_by_one(merges: Merges, words: list[bytes]) -> None:
    ids, ends = encoder_of(merges).encode_words(words)
    begin = 0
    for word, end in zip(words, ends.tolist(), strict=True):
        expected = merged_one_by_one(word, merges)
        assert ids[begin:end].tolist() == expected, f"REPRO: {word!r} by {merges}"
        begin = end


@pytest.mark.parametrize("seed", range(6))
def test_of_every_way_to_make_a_token_one_is_kept(seed: int) -> None:
    random_ = random.Random(seed)
    syllables = ["".join(random_.choices("abc", k=random_.randint(1, 3))) for _ in range(9)]
    words = {"".join(random_.choices(syllables, k=3)).encode(): 1 for _ in range(300)}
    trained = reference.train(words, 90)
    merges = every_way([left + right for left, right in trained])
    assert len(merges) > len(trained)
    assert searches(merges)
    tried = list(words) + [bytes(random_.choices(b"abc", k=n)) for n in range(1, 80)]
    assert_merged_one_by_one(merges, tried)
    ids, _ = encoder_of(merges).encode_words(tried)
    by_trained = encoder_of(trained).encode_words(tried)[0]
    made = [left + right for left, right in trained]
    last = {
        token: 256 + rank for rank, (left, right) in enumerate(merges) for token in [left + right]
    }
    assert ids.tolist() == [last[made[id_ - 256]] if id_ > 255 else id_ for id_ in by_trained]


@pytest.mark.parametrize(
    "merges",
    [
        [(b"ab", b"c"), (b"a", b"b")],
        [(b"ab", b"c"), (b"a", b"b"), (b"bc", b"d"), (b"b", b"c")],
        [(b"ab", b"c"), (b"a", b"b"), (b"a", b"bc"), (b"b", b"c")],
    ],
    ids=["a part is made later", "two", "the token as well"],
)
def test_where_ranks_may_fall_words_are_merged(merges: Merges) -> None:
    assert not searches(merges)
    words = [b"abc", b"abcd", b"bcd", b"aabcc", b"abcabcd" * 9]
    assert_merged_one_by_one(merges, words)


def test_a_part_that_is_made_after_the_token_does_no_harm() -> None:
    merges = [(b"a", b"b"), (b"a", b"bc"), (b"ab", b"c"), (b"b", b"c")]
    assert searches(merges)
    assert_merged_one_by_one(merges, [b"abc", b"bc", b"bcabc", b"aabcbc" * 20])


def test_a_part_that_nothing_makes_is_never_there() -> None:
    columns = [(97, 98, 256), (999, 98, 257), (256, 256, 258)]
    left, right, results = np.array(columns, np.int64).T.copy()
    encoder = BytePairEncoder(IDENTITY, left, right, results, SplitPattern.named("gpt2"))
    assert "trie" in encoder._tables
    assert encoder.encode_words([b"ababab"])[0].tolist() == [258, 256]


@pytest.mark.night
def test_random_lists_are_encoded_as_they_say_whatever_is_left_out() -> None:
    random_ = random.Random(41)
    searched = merged = 0
    for _ in range(400):
        letters = random_.choice(["a", "ab", "abc"])
        merges = random_merges(random_, letters, proper=False)
        random_.shuffle(merges)
        if not known_ids(merges):
            continue
        searched += searches(merges)
        merged += not searches(merges)
        words = ["".join(random_.choices(letters, k=n)).encode() for n in range(1, 60, 2)]
        words += [left + right for left, right in merges]
        assert_merged_one_by_one(merges, words)
    assert searched > 20
    assert merged > 20


def known_ids(merges: Merges) -> bool:
    """Whether each part is a byte or made by some merge."""
    made = {left + right for left, right in merges} | {bytes([byte]) for byte in range(256)}
    return all(part in made for merge in merges for part in merge)


# Words of few runs


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
