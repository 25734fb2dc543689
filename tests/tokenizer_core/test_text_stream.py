"""Streams of text cut anew: the same ids as the whole, in little memory, in every script."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest
import regex
from tempting_texts import tempting_texts

from bpeline.tokenizer_core import (
    WordCounts,
    reference,
    train_char_bpe,
    train_frequency_bpe,
    train_wordpiece,
)
from bpeline.tokenizer_core.encoding import batch_encoding
from bpeline.tokenizer_core.encoding.batch_encoding import cut_stream
from bpeline.tokenizer_core.splitting import Cuts, Punkt, SentenceBreaks, sentence_spans
from bpeline.tokenizer_core.splitting.regex_spellings import NAMED_PATTERNS
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.text import Text, utf8_of
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary.special_tokens import SpecialPolicy

BYTES = {byte: bytes([byte]) for byte in range(256)}


@pytest.mark.parametrize("name", NAMED_PATTERNS)
def test_streams_of_tempting_texts_are_cut_to_the_same_ids(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    specials = {"<|a|>": 256, "。x": 257, "' s": 258}
    vocab = BYTES | {id_: token.encode() for token, id_ in specials.items()}
    tokenizer = Tokenizer(vocab, [], specials, SplitPattern.named(name))
    random_ = random.Random(name)
    texts = tempting_texts(11)
    cut = 0
    for piece, enough in ((1, 3), (3, 20), (40, 60), (500, 200)):
        monkeypatch.setattr(batch_encoding, "_ENOUGH", enough)
        for _ in range(40):
            parts = [next(texts) for _ in range(4)]
            parts += random_.choices([*specials, "<|", "。", "' ", "\ud83d\udc4d", "\udc4d"], k=3)
            random_.shuffle(parts)
            text = "".join(parts)
            pieces = [text[i : i + piece] for i in range(0, len(text), piece)]
            for allowed in ({}, specials):
                special = tuple(token.encode() for token in allowed)
                cuts = Cuts(pairs=tokenizer.pattern.cut_pairs, special_tokens=special)
                parts = cut_stream(pieces, SpecialPolicy(allowed), cuts)
                streamed = [part.decode() for part in parts]
                cut += len(streamed)
                assert "".join(streamed).encode() == utf8_of(text)
                # Pre-tokens decide the ids of every vocab, these bytes do not.
                apart = [
                    pre_token for part in streamed for pre_token in spans(part, tokenizer, allowed)
                ]
                assert apart == spans(text, tokenizer, allowed), f"REPRO: {text!r}"
                streamed_ids = list(tokenizer.encode_iterable(pieces, set(allowed)))
                assert streamed_ids == tokenizer.encode(text, set(allowed))
    assert cut > 500


def spans(text: str, tokenizer: Tokenizer, allowed: dict[str, int]) -> list[str]:
    """Pre-tokens and special tokens of a text, by the `regex` package."""
    longest_first = sorted(allowed, key=len, reverse=True)
    parts = (
        regex.split("|".join(f"({regex.escape(s)})" for s in longest_first), text)
        if allowed
        else [text]
    )
    return [
        pre_token
        for part in parts
        if part
        for pre_token in ([part] if part in allowed else cut_by_regex(part, tokenizer))
    ]


def cut_by_regex(part: str, tokenizer: Tokenizer) -> list[str]:
    whole = part.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return reference.split(whole, tokenizer.pattern.regex)


@pytest.mark.night
@pytest.mark.parametrize("name", ["gpt2", "o200k", "kimi", "deepseek-v3"])
def test_a_stream_of_chinese_without_spaces_takes_little_memory(name: str) -> None:
    random_ = random.Random(5)
    characters = [chr(point) for point in range(0x4E00, 0x9FA0)]
    sentences = [random_.choices(characters, k=random_.randint(3, 30)) for _ in range(200)]
    paragraph = "".join("".join(words) + random_.choice("，。！？") for words in sentences)
    pieces = 20_000_000 // len(paragraph.encode()) + 1
    cuts = Cuts(pairs=SplitPattern.named(name).cut_pairs, special_tokens=(b"<|end|>",))
    size = 0
    tracemalloc.start()
    for text in cut_stream((paragraph for _ in range(pieces)), SpecialPolicy({}), cuts):
        size += len(text)
        assert len(text) < 240_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == pieces * len(paragraph.encode())
    assert peak < 8_000_000


COUNTS = WordCounts.from_mapping({b"low": 5, b"lower": 2, b"newest": 6}, "whitespace")
OVER_CHARACTERS: dict[str, Callable[[], Tokenizer]] = {
    "char-bpe": lambda: train_char_bpe(COUNTS, 6),
    "wordpiece": lambda: train_wordpiece(COUNTS, 30),
    "frequency-bpe, lines": lambda: train_frequency_bpe(COUNTS, 6, sentences="lines"),
    "frequency-bpe, punkt": lambda: train_frequency_bpe(
        COUNTS, 6, word_sentences="text", min_sentence_characters=2
    ),
    "frequency-bpe, none": lambda: train_frequency_bpe(COUNTS, 6, sentences="none"),
}


@cache
def over_characters(name: str) -> Tokenizer:
    """Made when it is asked for: it takes NLTK, which takes a second to import."""
    return OVER_CHARACTERS[name]()


@pytest.mark.parametrize("name", OVER_CHARACTERS)
def test_ids_over_characters_come_in_pieces_too(name: str, seed: int) -> None:
    tokenizer, random_ = over_characters(name), random.Random(seed)
    parts = [
        "low ",
        "newest",
        "\n",
        "\r\n",
        " lowest",
        "\ufeff",
        ". Low",
        "\n\n \n",
        "newest. Low ",
    ]
    text = "".join(random_.choices(parts, k=60_000))
    pieces, at = [], 0
    while at < len(text):
        size = random_.choice([1, 7, 5_000])
        pieces.append(text[at : at + size])
        at += size
    assert list(tokenizer.encode_iterable(pieces)) == tokenizer.encode(text)


def test_punkt_finds_the_same_sentences_in_both_parts(seed: int) -> None:
    random_, cut = random.Random(seed), 0
    parts = [
        *("low", "Low", "J.", "a", "5.", "3.5", "e.g.", "Mr.", "ж", "中。", "x_y", "--", "..."),
        *("..!?   \n\t\u00a0\u2028\")(”',"),
        *(". Low", "newest. New", "? What ", "! ", "end. 5 "),
    ]
    for _ in range(3000):
        text = "".join(random_.choices(parts, k=random_.randint(2, 200)))
        begin = random_.choice([1, 1, random_.randint(1, len(text))])
        end = random_.choice([len(text), random_.randint(0, len(text))])
        place = first_break(text, begin, end)
        if place < 0:
            continue
        cut += 1
        assert begin <= place < end
        from_there = text[begin - 1 :]
        assert sentences(text[begin - 1 : place]) + sentences(text[place:]) == sentences(from_there)
        # What comes after the end changes nothing.
        more = text[:end] + "".join(random_.choices(parts, k=5))
        later = sentences(text[begin - 1 : place]) + sentences(more[place:])
        assert later == sentences(more[begin - 1 :])
    assert cut > 500


def first_break(text: str, begin: int, end: int) -> int:
    """`SentenceBreaks.first` of characters: what is behind the end is not known yet."""
    content = text[begin - 1 : end].encode()
    known = len(text[begin - 1 : begin].encode())
    found = SentenceBreaks(Punkt()).first(content, known, len(content) - SentenceBreaks.LOOK)
    return found if found < 0 else begin - 1 + len(content[:found].decode())


def test_where_punkt_finds_sentences_no_more_than_one_is_held() -> None:
    held = 0

    def pieces() -> Iterator[str]:
        nonlocal held
        for _ in range(6):
            held += 1
            yield "A newest low is low. " * 4_000

    first = next(iter(over_characters("frequency-bpe, punkt").encode_iterable(pieces())))
    assert first == over_characters("frequency-bpe, punkt").token_to_id("<line/>")
    assert held == 1


def sentences(text: str) -> list[str]:
    content = text.encode()
    spans = sentence_spans(Text.of(content), np.array([[0, len(content)]]), Punkt()).tolist()
    return [content[begin:end].decode() for begin, end in spans]


@pytest.mark.night
@pytest.mark.parametrize("name", OVER_CHARACTERS)
def test_a_stream_of_words_takes_little_memory(name: str) -> None:
    tokenizer = over_characters(name)
    list(tokenizer.encode_iterable(["low\n"]))
    piece = "Low lower newest.\n" * 4_000
    tracemalloc.start()
    times = 4 if "punkt" in name else 400  # NLTK is slow, slower yet while memory is traced
    ids = sum(1 for _ in tokenizer.encode_iterable(piece for _ in range(times)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ids >= times * 4_000 * 3
    assert peak < 90_000_000  # 27 MB of text; a table of 64 MiB for words is a part of it
