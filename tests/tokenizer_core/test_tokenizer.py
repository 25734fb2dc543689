"""Encode and decode: equal to the reference, HuggingFace and tiktoken; laws; refusals."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tiktoken
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.encoding import batch_encoding
from bpeline.tokenizer_core.encoding.batch_encoding import cut_stream
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    InvalidSpecialToken,
    InvalidUtf8,
    UnknownToken,
)
from bpeline.tokenizer_core.formats.tiktoken import encoding_arguments
from bpeline.tokenizer_core.splitting import Cuts
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary.special_tokens import SpecialPolicy

MakeTokenizer = Callable[..., Tokenizer]
END = "<|endoftext|>"
LETTERS_OR_NOT = r"\p{L}+|[^\p{L}]{1,3}"
PATTERNS = ["gpt2", "cl100k", LETTERS_OR_NOT]
BYTES = {byte: bytes([byte]) for byte in range(256)}


@pytest.fixture(scope="module", params=PATTERNS, ids=["gpt2", "cl100k", "own"])
def with_pattern(request: pytest.FixtureRequest, trained: MakeTokenizer) -> Tokenizer:
    return trained(request.param)


@pytest.fixture(scope="module")
def huggingface(
    with_pattern: Tokenizer, tmp_path_factory: pytest.TempPathFactory
) -> tokenizers.Tokenizer:
    path = tmp_path_factory.mktemp("hf") / "tokenizer.json"
    with_pattern.save(path, "hf")
    return tokenizers.Tokenizer.from_file(str(path))


@pytest.fixture(scope="module")
def tiktoken_encoding(with_pattern: Tokenizer) -> tiktoken.Encoding:
    return tiktoken.Encoding("ours", **encoding_arguments(with_pattern))


def assert_same(actual: list[list[int]], expected: list[list[int]], texts: list[str]) -> None:
    for ids, expected_ids, text in zip(actual, expected, texts, strict=True):
        assert ids == expected_ids, f"REPRO: {text!r}"


# The same ids as others


@pytest.mark.night
@pytest.mark.parametrize("specials_known", [False, True])
def test_ids_are_those_of_huggingface(
    with_pattern: Tokenizer,
    huggingface: tokenizers.Tokenizer,
    fuzz_texts: list[str],
    specials_known: bool,
) -> None:
    huggingface.encode_special_tokens = not specials_known
    expected = [encoding.ids for encoding in huggingface.encode_batch(fuzz_texts)]
    allowed = "all" if specials_known else "none"
    assert_same(with_pattern.encode_batch(fuzz_texts, None, allowed), expected, fuzz_texts)


@pytest.mark.night
def test_ids_are_those_of_tiktoken(
    with_pattern: Tokenizer, tiktoken_encoding: tiktoken.Encoding, fuzz_texts: list[str]
) -> None:
    expected = [tiktoken_encoding.encode_ordinary(text) for text in fuzz_texts]
    assert_same([with_pattern.encode(text) for text in fuzz_texts], expected, fuzz_texts)


def test_special_tokens_are_those_of_tiktoken_when_none_begins_another(
    with_pattern: Tokenizer, tiktoken_encoding: tiktoken.Encoding, fuzz_texts: list[str]
) -> None:
    # tiktoken tries special tokens in no particular order; ours takes the longest.
    allowed = {END, "<|a|>", "<fim middle>"}
    texts = [text.replace("<|a|><|b|>", "") for text in fuzz_texts[:5_000]]
    expected = [
        tiktoken_encoding.encode(text, allowed_special=allowed, disallowed_special=())
        for text in texts
    ]
    assert_same([with_pattern.encode(text, allowed) for text in texts], expected, texts)


@pytest.mark.night
def test_a_long_mixed_text_has_the_ids_of_both_peers(
    with_pattern: Tokenizer,
    huggingface: tokenizers.Tokenizer,
    tiktoken_encoding: tiktoken.Encoding,
    mixed_text: str,
) -> None:
    ids = with_pattern.encode(mixed_text)
    huggingface.encode_special_tokens = True
    assert ids == tiktoken_encoding.encode_ordinary(mixed_text)
    assert ids == huggingface.encode(mixed_text).ids
    assert with_pattern.decode(ids) == mixed_text


@pytest.mark.parametrize("length", [14, 15, 16, 17, 63, 64, 65, 66, 99, 100, 101, 1_000, 100_000])
@pytest.mark.parametrize("letters", ["a", "ab", "abz", "thelowing"])
def test_words_of_every_length_have_the_ids_of_tiktoken(
    tokenizer: Tokenizer, length: int, letters: str
) -> None:
    peer = tiktoken.Encoding("ours", **encoding_arguments(tokenizer))
    random_ = random.Random(length)
    repeated = letters * (length // len(letters) + 1)
    for word in (repeated, "".join(random_.choices(letters, k=length))):
        text = " " + word[: length - 1] + " a"
        assert tokenizer.encode(text) == peer.encode_ordinary(text)


@pytest.mark.parametrize("unit", ["a", " ", "\n", "^", "ab", "1", "\u0301", "中"])
def test_a_million_repeats_are_encoded_and_come_back(tokenizer: Tokenizer, unit: str) -> None:
    text = unit * 1_000_000
    ids = tokenizer.encode_to_numpy(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode_to_numpy(text).tolist() == ids.tolist()


@pytest.mark.night
@settings(max_examples=300, deadline=None)
@given(
    words=st.dictionaries(
        st.text("abc é", min_size=1, max_size=9), st.integers(1, 5), min_size=1, max_size=12
    ),
    text=st.lists(st.sampled_from(["a", "b", "c", " ", "é", "<s>", "<", "ab"]), max_size=40),
)
def test_ids_are_those_of_the_reference(words: dict[str, int], text: list[str]) -> None:
    merges = reference.train({word.encode(): count for word, count in words.items()}, 20)
    vocab = BYTES | {256 + i: left + right for i, (left, right) in enumerate(merges)}
    vocab |= {1000: b"<s>", 1001: b"b<s"}
    specials = {"<s>": 1000, "b<s": 1001}
    ours = Tokenizer(vocab, merges, specials, r" ?\w+|[^\w]")
    joined = "".join(text)
    regex = r" ?\w+|[^\w]"
    assert ours.encode(joined) == reference.encode(
        joined, {i: t for i, t in vocab.items() if i < 1000}, merges, regex
    )
    assert ours.encode(joined, "all") == reference.encode(joined, vocab, merges, regex, specials)


# Laws


@settings(max_examples=200, deadline=None)
@given(text=st.text())
def test_text_survives_the_round_trip(text: str) -> None:
    ours = Tokenizer(BYTES | {256: b"ab", 257: b" a"}, [(b"a", b"b"), (b" ", b"a")])
    assert ours.decode(ours.encode(text), errors="strict") == text
    content = text.encode()
    assert ours.decode_bytes(ours.encode_to_numpy(content)) == content
    assert ours.count(text) == len(ours.encode(text))


def test_surrogates_follow_the_rule_of_tiktoken(tokenizer: Tokenizer) -> None:
    peer = tiktoken.Encoding("ours", **encoding_arguments(tokenizer))
    pairs = ("\ud83d\udc4d", "\udc4d\ud83d", "\ud800\ud83d\udc4d")
    for text in ("\ud800", "a\udfffb", "x\ud83d", *pairs):
        assert tokenizer.encode(text) == peer.encode_ordinary(text)
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"


@pytest.mark.night
@pytest.mark.parametrize("allowed", ["none", "all"])
def test_a_stream_has_the_ids_of_the_whole(
    with_pattern: Tokenizer,
    mixed_text: str,
    allowed: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_encoding, "_ENOUGH", 20)
    random_ = random.Random(3)
    for _ in range(100):
        begin = random_.randrange(len(mixed_text))
        text = mixed_text[begin : begin + 2_000]
        pieces = []
        at = 0
        while at < len(text):
            size = random_.randint(0, 9)
            pieces.append(text[at : at + size])
            at += size
        expected = with_pattern.encode(text, allowed)
        assert list(with_pattern.encode_iterable(pieces, allowed)) == expected


def test_a_stream_is_cut_where_it_may_be_and_kept_where_not() -> None:
    policy = SpecialPolicy({})
    gpt2, unknown = (
        Cuts(pairs=SplitPattern.parse(one).cut_pairs, special_tokens=(b"<|end|>", b"stop here"))
        for one in ("gpt2", r"\b\w+")
    )
    words = ["word and more "] * 40_000
    assert max(map(len, cut_stream(words, policy, gpt2))) < 140_000
    assert b"".join(cut_stream(words, policy, gpt2)).decode() == "".join(words)
    assert len(list(cut_stream(words, policy, unknown))) == 1
    separated = ["text without cuts<|e", "nd|>"] * 20_000
    assert max(map(len, cut_stream(separated, policy, unknown))) < 140_000
    inside = ["stop", " ", "here"] * 40_000
    for text in cut_stream(inside, policy, gpt2):
        assert text.startswith(b"stop here")
        assert text.endswith(b"stop here")


def test_every_token_encodes_to_itself_and_has_bytes_of_its_own(with_pattern: Tokenizer) -> None:
    specials = set(with_pattern.special_tokens.values())
    ordinary = {i: t for i, t in with_pattern.vocab.items() if i not in specials}
    ids, ends = with_pattern.encoder.encode_words(list(ordinary.values()))
    assert ids.tolist() == list(ordinary)
    assert ends.tolist() == list(range(1, len(ordinary) + 1))
    assert len(set(ordinary.values())) == len(ordinary)


def test_merges_in_order_of_training_are_merges_by_rank(
    tokenizer: Tokenizer, fuzz_texts: list[str]
) -> None:
    words = {word for text in fuzz_texts[:60] for word in reference.split(text, r"\S+|\s+")}
    plain = [word for word in words if word][:60]
    for word in plain:
        symbols: reference.Symbols = tuple(bytes([byte]) for byte in word.encode())
        for merge in tokenizer.merges:
            symbols = reference.merge_pair(symbols, merge)
        ids, _ = tokenizer.encoder.encode_words([word.encode()])
        assert [tokenizer.vocab[i] for i in ids.tolist()] == list(symbols)


@pytest.mark.night
def test_threads_change_no_ids(
    tokenizer: Tokenizer, fuzz_texts: list[str], mixed_text: str
) -> None:
    expected = [tokenizer.encode(text) for text in fuzz_texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokenizer.encode, fuzz_texts)) == expected
    texts = [*fuzz_texts, mixed_text, "", mixed_text[::-1], mixed_text]
    one = tokenizer.encode_batch(texts, threads=1)
    assert one[:-4] == expected
    assert one == tokenizer.encode_batch(texts, threads=3)
    assert one == tokenizer.encode_batch(iter(texts))
    assert tokenizer.encode_batch([]) == []
    assert tokenizer.encode_batch(["", ""], allowed_special="all") == [[], []]


# Ids to text and tokens


@pytest.mark.parametrize("unknown", [-1, 10**6, 2**40, None, "a", [1], 1.5])
def test_unknown_ids_are_refused(tokenizer: Tokenizer, unknown: int) -> None:
    with pytest.raises(UnknownToken):
        tokenizer.decode([5, unknown])
    with pytest.raises(UnknownToken):  # many ids are decoded by a kernel
        tokenizer.decode([5] * 10_000 + [unknown])
    with pytest.raises(UnknownToken):
        tokenizer.id_to_token(unknown)


def test_half_a_character_decodes_as_asked() -> None:
    ours = Tokenizer(BYTES, [])
    half = "é".encode()[:1]
    assert ours.decode(list(half)) == "\ufffd"
    assert ours.decode_bytes(list(half)) == half
    with pytest.raises(UnicodeDecodeError):
        ours.decode(list(half), errors="strict")
    assert ours.decode([*half, 65], errors="ignore") == "A"
    with pytest.raises(InvalidOption):
        ours.decode([65], errors="backslashreplace")  # type: ignore[arg-type]


@pytest.mark.parametrize("highest", [300, 1 << 23])
def test_many_ids_decode_as_few_do(highest: int) -> None:
    vocab = BYTES | {257: b"ab" * 9, 299: b"x" * 1_000, highest: b"12345678"}
    ours = Tokenizer(vocab, [])
    ids = [0, 257, 255, highest, 299, 7, 257] * 500
    expected = b"".join(vocab[id_] for id_ in ids)
    arrays = (np.array(ids), np.array(ids, np.uint32), np.array(ids, object))
    for many in (ids, tuple(ids), iter(ids), *arrays):
        assert ours.decode_bytes(many) == expected
    assert ours.decode(iter(ids), "ignore") == expected.decode(errors="ignore")
    read_only = np.array(ids, np.uint32)
    read_only.flags.writeable = False
    assert ours.decode_bytes(read_only[::2]) == b"".join(vocab[id_] for id_ in ids[::2])
    for absent in (256, 258, highest + 1):
        with pytest.raises(UnknownToken, match=str(absent)):
            ours.decode_bytes(np.array([*ids, absent], np.uint32))


@pytest.mark.parametrize(
    ("largest", "fitting", "refused"),
    [
        (255, ["u1", "i2", "f2", "i8"], ["i1", "?", "S4", "O"]),
        (2_048, ["f2", "i2"], ["u1"]),
        (2_049, ["u2", "f4"], ["f2", "i1"]),
        (65_535, ["u2", "i4", "f4"], ["i2", "u1"]),
        (65_536, ["u4", "i4", "f4"], ["u2", "i2", "f2"]),
        ((1 << 24) - 1, ["u4", "i8", "f4"], ["u2"]),  # the largest there is
    ],
)
def test_no_dtype_makes_another_id_of_an_id(
    largest: int, fitting: list[str], refused: list[str]
) -> None:
    vocab = {id_: bytes([id_]) for id_ in range(255)} | {largest: b"\xff"}
    tokenizer = Tokenizer(vocab, [])
    for name in fitting:
        assert tokenizer.encode_to_numpy(b"\xc3\xbf", dtype=name).tolist() == [0xC3, 0xBF]
    for name in refused:
        with pytest.raises(InvalidOption, match=f"{largest:,}"):
            tokenizer.encode_to_numpy("a", dtype=name)
    one = Tokenizer({id_: bytes([id_]) for id_ in range(256)}, [])
    assert one.encode_padded(["a"], pad_id=300, pad_to=2, dtype="u2")[0].tolist() == [[97, 300]]
    with pytest.raises(InvalidOption, match=r"300 .*uint8"):
        one.encode_padded(["a"], pad_id=300, pad_to=2, dtype="u1")


def test_tokens_are_found_by_name(tokenizer: Tokenizer) -> None:
    assert tokenizer.token_to_id(END) == tokenizer.special_tokens[END]
    for token in ("the", b"the", b"\xff", " "):
        id_ = tokenizer.token_to_id(token)
        assert tokenizer.id_to_token(id_) == (token if isinstance(token, bytes) else token.encode())
    with pytest.raises(UnknownToken):
        tokenizer.token_to_id("no such token")


@pytest.mark.parametrize("wrong", [b"bytes", 5, None, ["a"], bytearray(b"a"), memoryview(b"a")])
def test_what_is_no_string_is_a_type_error(tokenizer: Tokenizer, wrong: object) -> None:
    for _ in range(20):  # the first are encoded while kernels are loaded
        tokenizer.encode("a string")
    with pytest.raises(TypeError):
        tokenizer.encode(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        tokenizer.encode_batch(["a", wrong])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        list(tokenizer.encode_iterable(["a", wrong]))  # type: ignore[list-item]
    with pytest.raises(TypeError):
        tokenizer.encode_batch("one text")
    with pytest.raises(TypeError):
        tokenizer.encode_iterable("one text")


def test_a_subclass_of_str_is_the_string_it_is(tokenizer: Tokenizer) -> None:
    class Hostile(str):
        def encode(self, *_: object) -> bytes:  # type: ignore[override]
            return b"\xff\xfe"

        def find(self, *_: object) -> int:  # type: ignore[override]
            return -1

    assert tokenizer.encode(Hostile("text")) == tokenizer.encode("text")
    assert tokenizer.encode_batch([Hostile("text")]) == [tokenizer.encode("text")]
    with pytest.raises(InvalidSpecialToken):
        tokenizer.encode_batch([Hostile(END)], on_special="error")


def test_bytes_must_be_utf8(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidUtf8, match="byte 1"):
        tokenizer.encode_to_numpy(b"a\xff")


def test_less_than_one_thread_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidOption, match="threads"):
        tokenizer.encode_batch(["a"], threads=0)


def test_a_tokenizer_moves_to_another_process(tokenizer: Tokenizer) -> None:
    moved = pickle.loads(pickle.dumps(tokenizer))
    assert moved.digest == tokenizer.digest
    assert moved.encode("some text") == tokenizer.encode("some text")


def test_the_digest_is_of_the_behaviour_and_nothing_else() -> None:
    vocab = BYTES | {256: b"ab", 257: b"bc", 300: b"<s>"}
    merges = [(b"a", b"b"), (b"b", b"c")]
    one = Tokenizer(vocab, merges, ["<s>"])
    assert one.digest == Tokenizer(dict(reversed(vocab.items())), merges, {"<s>": 300}).digest
    swapped = vocab | {256: b"bc", 257: b"ab"}
    others = [
        Tokenizer(vocab, merges[::-1], ["<s>"]),
        Tokenizer(vocab, merges, []),
        Tokenizer(vocab, merges, ["<s>"], "cl100k"),
        Tokenizer(swapped, merges, ["<s>"]),
        Tokenizer(vocab, merges[:1], ["<s>"]),
        Tokenizer(vocab, merges, ["<s>"], ignore_merges=True),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 7


def test_what_a_tokenizer_gives_out_does_not_reach_inside(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    digest = tokenizer.digest
    tokenizer.merges.clear()
    tokenizer.special_tokens.clear()
    with pytest.raises(TypeError):
        tokenizer.vocab[5] = b"x"  # type: ignore[index]
    tokenizer.save(tmp_path / "copy")
    assert Tokenizer.load(tmp_path / "copy").digest == digest
    assert "special" in repr(tokenizer)
