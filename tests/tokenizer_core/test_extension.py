"""Extending a tokenizer: old ids for ever, and the certificate that would notice otherwise."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import learn_merges, train_bpe
from bpeline.tokenizer_core.training.extension import (
    certify_extension,
    extended,
    merges_to_continue,
)
from bpeline.tokenizer_core.vocabulary.numbering import TIE_BREAKS

SPECIALS = ["<|end|>", "<|pad|>"]


def words(seed: int, letters: str = "abcdeé") -> WordCounts:
    random_ = random.Random(seed)
    found = {
        " " + "".join(random_.choices(letters, k=random_.randint(1, 9))): random_.randint(1, 9)
        for _ in range(400)
    }
    return WordCounts.from_mapping({word.encode(): count for word, count in found.items()})


def grown(base: Tokenizer, counts: WordCounts, merges: int, tie_break: str) -> Tokenizer:
    given = merges_to_continue(base, tie_break)
    learned = learn_merges(counts, len(given) + merges, tie_break=tie_break, given=given)
    return extended(base, learned.pairs(), tie_break)


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_on_the_same_words_it_is_what_training_more_makes(tie_break: str) -> None:
    base = train_bpe(words(1), 300, special_tokens=SPECIALS, tie_break=tie_break)
    more = train_bpe(words(1), 340, special_tokens=SPECIALS, tie_break=tie_break)
    assert grown(base, words(1), 40, tie_break).digest == more.digest


@pytest.mark.parametrize("special_ids", ["first", "last"])
@pytest.mark.parametrize("seed", range(5))
def test_on_other_words_every_old_id_stays(seed: int, special_ids: str) -> None:
    base = train_bpe(words(seed), 300, special_tokens=SPECIALS, special_ids=special_ids)  # type: ignore[arg-type]
    other = words(seed + 100, "cdefgé中")
    larger = grown(base, other, 60, "smallest-ids")
    assert larger.vocab_size == base.vocab_size + 60
    assert sorted(larger.vocab) == list(range(larger.vocab_size))
    assert {id_: larger.vocab[id_] for id_ in base.vocab} == dict(base.vocab)
    assert larger.special_tokens == base.special_tokens
    texts = [word.decode() for word in other.words() + words(seed).words()]
    certificate = certify_extension(base, larger, [*texts, "", "<|end|> 漢字 \n"])
    assert (certificate.ids_kept, certificate.new_ids) == (base.vocab_size, 60)
    assert certificate.first_new_id == base.vocab_size
    assert 0 < certificate.texts_unchanged < certificate.texts == len(texts) + 2
    assert base.digest[:12] in str(certificate)


def test_the_certificate_is_refused_where_anything_moved() -> None:
    base = train_bpe(words(3), 300, special_tokens=SPECIALS)
    larger = grown(base, words(4), 20, "smallest-ids")
    vocab, merges = dict(larger.vocab), larger.merges
    vocab[290], vocab[291] = vocab[291], vocab[290]
    moved = Tokenizer(vocab, merges, larger.special_tokens)
    with pytest.raises(InvalidTokenizer, match=r"\b290\b"):
        certify_extension(base, moved, [])
    reordered = Tokenizer(larger.vocab, sorted(merges, key=lambda m: len(m[0] + m[1])), SPECIALS)
    with pytest.raises(InvalidTokenizer, match="merges"):
        certify_extension(base, reordered, [])
    with pytest.raises(InvalidTokenizer, match="split pattern"):
        certify_extension(base, Tokenizer(larger.vocab, merges, SPECIALS, "cl100k"), [])
    whole = Tokenizer(larger.vocab, merges, SPECIALS, ignore_merges=True)
    with pytest.raises(InvalidTokenizer, match="split pattern"):
        certify_extension(base, whole, [])


def test_what_cannot_be_extended_is_refused() -> None:
    base = train_bpe(words(3), 300)
    whole = Tokenizer({**base.vocab, 300: b"whole"}, base.merges)
    for tokenizer in (whole, Tokenizer(base.vocab, base.merges, ignore_merges=True)):
        with pytest.raises(InvalidOption, match=str(tokenizer.vocab_size)):
            merges_to_continue(tokenizer, "smallest-ids")
    learned = learn_merges(words(4), 60).pairs()
    with pytest.raises(InvalidTokenizer, match="merges"):
        extended(base, learned, "smallest-ids")
    special = Tokenizer({**base.vocab, 300: b" zz"}, base.merges, [" zz"])
    counts = WordCounts.from_mapping({b" zz": 50})
    with pytest.raises(InvalidSpecialToken, match="' zz'"):
        grown(special, counts, 2, "smallest-ids")


def test_an_extension_can_be_extended() -> None:
    base = train_bpe(words(5), 300, special_tokens=SPECIALS)
    twice = grown(grown(base, words(6), 20, "smallest-ids"), words(7), 20, "smallest-ids")
    certificate = certify_extension(base, twice, [" abc de é"])
    assert certificate.new_ids == 40
    assert np.array_equal(
        merges_to_continue(twice, "smallest-ids")[: len(base.merges)],
        merges_to_continue(base, "smallest-ids"),
    )
