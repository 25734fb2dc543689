"""Two tokenizers on the same documents: every figure against encoding word by word in Python."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
import regex
from huggingface_peers import saved_peer, small_peer
from tokenizers import normalizers

from bpeline.tokenizer_core import Tokenizer, WordCounts, count_texts, train_bpe
from bpeline.tokenizer_core.evaluation.comparison import (
    LONGEST,
    DocumentComparison,
    PassageSample,
    PassageToken,
    _compare_words,
    compare_measured,
    compare_vocabs,
    first_diverging_merge,
    middle_of,
)
from bpeline.tokenizer_core.evaluation.measuring import measure
from bpeline.tokenizer_core.splitting.regex_spellings import NAMED_PATTERNS

SPECIALS = ["<|end|>"]


def trained(text: str, size: int, pattern: str = "gpt2") -> Tokenizer:
    return train_bpe(count_texts([text], pattern), size, special_tokens=SPECIALS)


@pytest.fixture(scope="module")
def documents(english_and_code: str) -> list[bytes]:
    text = english_and_code[:60_000]
    cut = [text[begin : begin + 1500].encode() for begin in range(0, len(text), 1500)]
    return [*cut, b"", "Größe 数字 २०२४ é🙂 <|end|>  \n\n".encode()]


@pytest.fixture(scope="module")
def first(english_and_code: str) -> Tokenizer:
    return trained(english_and_code[:40_000], 600)


@pytest.fixture(scope="module")
def second(english_and_code: str) -> Tokenizer:
    return trained(english_and_code[30_000:90_000], 700)


def compare_on(
    first: Tokenizer, second: Tokenizer, documents: list[bytes], shown: int = 20
) -> DocumentComparison:
    before, after = measure([first, second], [document for document in documents if document])
    return compare_measured(first, second, before, after, shown)


def cut(tokenizer: Tokenizer, word: bytes) -> tuple[bytes, ...]:
    return tuple(tokenizer.vocab[id_] for id_ in tokenizer.encode(word.decode()))


def test_tokens_and_words_are_those_of_encoding_one_by_one(
    first: Tokenizer, second: Tokenizer, documents: list[bytes]
) -> None:
    found = compare_on(first, second, documents, shown=1_000_000)
    texts = [document.decode() for document in documents if document]
    assert found.documents == len(texts)
    assert found.bytes == sum(map(len, documents))
    assert found.first_tokens == sum(len(first.encode(text)) for text in texts)
    assert found.second_tokens == sum(len(second.encode(text)) for text in texts)
    assert found.change.value == pytest.approx(found.second_tokens / found.first_tokens - 1)

    words = Counter(w for text in texts for w in regex.findall(NAMED_PATTERNS["gpt2"], text))
    cuts = {
        word.encode(): (cut(first, word.encode()), cut(second, word.encode())) for word in words
    }
    changed = {word: both for word, both in cuts.items() if both[0] != both[1]}
    shown = found.segmentation
    assert (shown.words, shown.occurrences) == (len(words), words.total())
    assert shown.changed_words == len(changed) > 100
    assert shown.changed_occurrences == sum(words[word.decode()] for word in changed)
    cuts_of = [
        {w: {len(b"".join(one[side][: i + 1])) for i in range(len(one[side]) - 1)}
         for w, one in cuts.items()}
        for side in (0, 1)
    ]  # fmt: skip
    times = {word.encode(): count for word, count in words.items()}
    both = sum(times[w] * len(cuts_of[0][w] & cuts_of[1][w]) for w in cuts)
    either = sum(times[w] * len(cuts_of[0][w] | cuts_of[1][w]) for w in cuts)
    assert shown.stability == pytest.approx(both / either)
    assert 0 < shown.stability < 1
    listed = [*shown.worse, *shown.better, *shown.same_cost]
    assert {one.word: (one.first, one.second) for one in listed} == changed
    assert all(one.count == words[one.word.decode()] for one in listed)
    assert sum(one.cost for one in listed) == found.second_tokens - found.first_tokens


def test_the_dearest_words_come_first(
    first: Tokenizer, second: Tokenizer, documents: list[bytes]
) -> None:
    everything = compare_on(first, second, documents, shown=1_000_000).segmentation
    worse = [one.cost for one in everything.worse]
    better = [one.cost for one in everything.better]
    assert worse == sorted(worse, reverse=True)
    assert better == sorted(better)
    assert worse[-1] > 0 > better[-1]
    assert {one.cost for one in everything.same_cost} <= {0}
    few = compare_on(first, second, documents, shown=3).segmentation
    assert [one.cost for one in few.worse] == worse[:3]
    assert [one.cost for one in few.better] == better[:3]
    assert few.changed_words == everything.changed_words


def test_a_tokenizer_equals_itself(first: Tokenizer, documents: list[bytes]) -> None:
    found = compare_on(first, first, documents)
    assert (found.change.low, found.change.value, found.change.high) == (0, 0, 0)
    assert found.segmentation.changed_words == 0
    assert found.segmentation.stability == 1
    assert first_diverging_merge(first, first) is None
    assert compare_vocabs(first, first).shared == first.vocab_size


def test_other_patterns_are_compared_on_the_words_of_the_first(
    first: Tokenizer, english_and_code: str
) -> None:
    other = trained(english_and_code[:40_000], 600, "cl100k")
    words = [b" 20242024", b" 19861986", b"\n\n    ", b"\n        ", b" the", b" def", b"):\n"]
    found = _compare_words(first, other, WordCounts.from_mapping(dict.fromkeys(words, 3)), 20)
    listed = {one.word: one.second for one in (*found.worse, *found.better, *found.same_cost)}
    assert listed == {
        word: cut(other, word) for word in words if cut(first, word) != cut(other, word)
    }
    assert 0 < len(listed) < len(words)


def test_vocabs_differ_by_tokens_and_by_places() -> None:
    vocab = {id_: bytes([id_]) for id_ in range(256)}
    one = Tokenizer(vocab | {256: b"ab", 257: b"cd"}, [(b"a", b"b"), (b"c", b"d")])
    two = Tokenizer(vocab | {256: b"cd", 257: b"ef"}, [(b"c", b"d"), (b"e", b"f")])
    found = compare_vocabs(one, two)
    assert (found.added, found.removed, found.moved) == ((b"ef",), (b"ab",), ((b"cd", 257, 256),))
    assert found.shared == 257
    parting = first_diverging_merge(one, two)
    assert parting is not None
    assert (parting.rank, parting.first, parting.second) == (0, (b"a", b"b"), (b"c", b"d"))
    shorter = Tokenizer(vocab | {256: b"ab"}, [(b"a", b"b")])
    parting = first_diverging_merge(shorter, one)
    assert parting is not None
    assert (parting.rank, parting.first, parting.second) == (1, None, (b"c", b"d"))


def test_passages_that_cost_most_are_cut_by_both_and_say_where_they_differ(
    first: Tokenizer, second: Tokenizer, documents: list[bytes]
) -> None:
    sample = PassageSample()
    assert list(sample.watching(documents)) == documents
    passages = sample.compared(first, second, shown=4)
    costs = {
        len(second.encode(text)) - len(first.encode(text))
        for text in (middle_of(document).decode() for document in documents if document)
    }
    dearer = [one.cost for one in passages if one.cost > 0]
    cheaper = [one.cost for one in passages if one.cost < 0]
    assert dearer == sorted(dearer, reverse=True)
    assert cheaper == sorted(cheaper)
    assert len(cheaper) == 4
    assert min(costs) == min(cheaper)
    assert not dearer or max(costs) == max(dearer)
    for one in passages:
        for tokenizer, side, other in (
            (first, one.first, one.second), (second, one.second, one.first),
        ):  # fmt: skip
            assert [part.token for part in side] == [
                tokenizer.vocab[id_] for id_ in tokenizer.encode(one.text)
            ]
            assert [part.changed for part in side] == [
                place not in places(other) for place in places(side)
            ]


def test_passages_that_a_normalizer_changes_are_left_out(tmp_path: Path, first: Tokenizer) -> None:
    peer = small_peer()
    peer.normalizer = normalizers.NFC()
    second = Tokenizer.load(saved_peer(peer, tmp_path / "tokenizer.json"))
    documents = [b"the cat on the mat", "cafe\u0301 and tea".encode(), b"in plain letters"]
    sample = PassageSample()
    list(sample.watching(documents))
    kept = [one.text for one in sample.compared(first, second)]
    assert sorted(kept) == ["in plain letters", "the cat on the mat"]
    assert sorted(one.text for one in sample.compared(second, first)) == sorted(kept)
    peer.normalizer = normalizers.Prepend("_")
    third = Tokenizer.load(saved_peer(peer, tmp_path / "other.json"))
    assert sample.compared(first, third) == []
    assert compare_on(first, third, documents).second_tokens > 0


def places(side: tuple[PassageToken, ...]) -> list[tuple[int, int]]:
    ends = list(accumulate(len(one.token) for one in side))
    return list(pairwise([0, *ends]))


def test_a_passage_is_the_middle_of_a_document_and_whole_characters() -> None:
    assert middle_of(b"short") == b"short"
    assert middle_of("é".encode() * 3000).decode() == "é" * (
        len(middle_of("é".encode() * 3000)) // 2
    )
    words = b"".join(b" %d" % number for number in range(5000))
    piece = middle_of(words)
    assert len(piece) <= LONGEST
    assert piece in words
    assert set(piece.split()) <= set(words.split())


def test_of_many_documents_passages_are_kept_from_all_over() -> None:
    sample = PassageSample()
    for _ in sample.watching(b"%d" % number for number in range(100_000)):
        pass
    kept = [int(one) for one in sample._kept]
    assert 256 < len(kept) < 1024
    assert max(kept) > 99_000
    assert len({*map(int.__sub__, kept[1:], kept)}) == 1, "evenly"
