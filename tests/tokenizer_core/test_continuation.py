"""Tokenizers of others continued: old ids stay, new ones are those of the plain reference."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.continuation import (
    continue_merges,
    pattern_of_words,
    recipes,
    text_form_of,
)
from bpeline.tokenizer_core.counting.count_corpus import count_words
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import (
    EmptyCorpus,
    InvalidOption,
    InvalidSpecialToken,
    InvalidTokenizer,
)
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import learn_merges, train_bpe
from bpeline.tokenizer_core.training.extension import (
    certify_extension,
    extended,
    merges_to_continue,
)
from bpeline.tokenizer_core.vocabulary.numbering import TIE_BREAKS

OLD = "the cat sat on the mat, naïve 12 the then there caché\n"
NEW = (
    "seventy serving service services: where is the severed seven-headed serpent? 中文 中文 naïve\n"
)


def random_counts(seed: int, letters: str = "abcdeé") -> WordCounts:
    draw = random.Random(seed)
    found = {
        " " + "".join(draw.choices(letters, k=draw.randint(1, 8))): draw.randint(1, 9)
        for _ in range(150)
    }
    return WordCounts.from_mapping({word.encode(): count for word, count in found.items()})


def with_orphans(base: Tokenizer, seed: int, whole: bool) -> Tokenizer:
    """The tokenizer with tokens that no merge makes, and merges in another order."""
    draw = random.Random(seed)
    vocab, merges = dict(base.vocab), list(base.merges)
    for word in draw.sample(random_counts(seed).words(), 12):
        if word not in vocab.values():
            vocab[max(vocab) + draw.randint(1, 3)] = word
    return Tokenizer(vocab, merges, base.special_tokens, ignore_merges=whole)


def byte_words(counts: WordCounts) -> dict[tuple[bytes, ...], int]:
    return {tuple(bytes([byte]) for byte in word): count for word, count in counts.items()}


@pytest.mark.parametrize("seed", range(6))
def test_merges_are_those_of_the_reference(seed: int) -> None:
    base = with_orphans(train_bpe(random_counts(seed), 290), seed, whole=False)
    counts = random_counts(seed + 50, "cdeéfg")
    ours = continue_merges(base, counts, base.vocab_size + 40)
    expected = reference.continue_training(
        byte_words(counts), dict(base.spec.ids), list(base.merges), 40
    )
    assert list(ours.merges)[: len(base.merges)] == list(base.merges)
    assert list(ours.merges)[len(base.merges) :] == expected
    assert {id_: ours.vocab[id_] for id_ in base.vocab} == dict(base.vocab)
    new = sorted(ours.vocab.keys() - base.vocab.keys())
    assert new == list(range(max(base.vocab) + 1, max(base.vocab) + 41))


def test_a_pair_whose_text_is_a_token_takes_no_new_id() -> None:
    base = Tokenizer({**dict(enumerate(map(bytes, zip(range(256))))), 300: b"ab"}, [])
    counts = WordCounts.from_mapping({b"abab": 10, b"cab": 3})
    merges = [(b"a", b"b"), (b"ab", b"ab")]
    ours = continue_merges(with_merge(base), counts, 259)
    assert list(ours.merges)[1:] == merges
    assert ours.encode("ab abab") == [300, 32, 302]
    assert [ours.vocab[id_] for id_ in (301, 302)] == [b"xy", b"abab"]


def with_merge(base: Tokenizer) -> Tokenizer:
    """Something must have merges to be continued."""
    return Tokenizer({**base.vocab, 301: b"xy"}, [(b"x", b"y")])


def test_words_taken_whole_are_not_merged_inside() -> None:
    base = train_bpe(WordCounts.from_mapping({b" ab": 9}), 258)
    whole = Tokenizer({**base.vocab, 258: b" zzz"}, base.merges, ignore_merges=True)
    counts = WordCounts.from_mapping({b" zzz": 1000, b" xyz": 5})
    ours = continue_merges(whole, counts, 261)
    assert ours.encode(" zzz") == [258]
    assert b"zz" not in ours.vocab.values()


def peer_of(kind: str) -> Any:
    if kind == "characters":
        peer = tokenizers.Tokenizer(
            models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
        )
        peer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
        special = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256))]
        parts = decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()
        peer.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)])
    else:
        peer = tokenizers.Tokenizer(models.BPE(ignore_merges=kind == "whole"))
        peer.normalizer = normalizers.NFC()
        peer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        peer.decoder = decoders.ByteLevel()
        special = ["<|end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if kind != "characters" else [],
        show_progress=False,
    )
    peer.train_from_iterator([OLD] * 3, trainer)
    return peer


@pytest.mark.parametrize("kind", ["bytes", "whole", "characters"])
def test_an_imported_one_is_continued_and_its_library_reads_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    peer_of(kind).save(str(path))
    if kind == "characters":  # added tokens of bytes would be found in texts
        import json

        document = json.loads(path.read_text())
        document["added_tokens"] = document["added_tokens"][:2]
        path.write_text(json.dumps(document))
    base = Tokenizer.load(path)
    corpus = tmp_path / "new.txt"
    corpus.write_text(NEW * 20)
    counts = count_words(corpus, pattern_of_words(base), text_form=text_form_of(base))
    ours = continue_merges(base, counts, base.vocab_size + 20)
    assert ours.vocab_size == base.vocab_size + 20
    assert {id_: ours.vocab[id_] for id_ in base.vocab} == dict(base.vocab)
    assert len(ours.encode(NEW)) < len(base.encode(NEW))
    exported = tmp_path / "continued.json"
    ours.save(exported, format="hf")
    library = tokenizers.Tokenizer.from_file(str(exported))
    for text in (OLD, NEW, " ", "", "e\u0301 cafe\u0301", "<s> x <|end|>", "ab  cd 中中文", "☃"):
        assert library.encode(text, add_special_tokens=False).ids == ours.encode(text), text
        assert ours.decode(ours.encode(text)) == base.decode(base.encode(text))
    for id_, old in recipes(base, ours):
        assert set(old) <= base.vocab.keys()
        assert ours.decode([id_]) == ours.decode(old)


def test_characters_become_tokens_before_they_merge(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    peer_of("characters").save(str(path))
    base = Tokenizer.load(path)
    counts = WordCounts.from_mapping({" 中文".encode(): 90, b"\n": 500, " ß".encode(): 1})
    ours = continue_merges(base, counts, base.vocab_size + 4)
    new = [ours.vocab[id_].decode() for id_ in sorted(ours.vocab.keys() - base.vocab.keys())]
    assert new == ["中", "文", "ß", "▁中"]
    assert ours.encode("\n") == base.encode("\n")
    few = continue_merges(base, counts, base.vocab_size + 1)
    assert sorted(few.vocab.keys() - base.vocab.keys()) == [max(base.vocab) + 1]


def test_texts_of_bytes_and_added_tokens_never_become_them(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    peer_of("characters").save(str(path))
    base = Tokenizer.load(path)
    counts = WordCounts.from_mapping({b" <0x41>": 900, b" <unk>": 500, b" <s>": 300, b" sat": 3})
    ours = continue_merges(base, counts, base.vocab_size + 20)
    assert ours.encode("<0x4") == base.encode("<0x4")
    assert len(set(ours.vocab.values())) == ours.vocab_size
    base = train_bpe(random_counts(2), 280, special_tokens=["<|end|>"])
    counts = WordCounts.from_mapping({b"<|end|>": 900, b" <|end|>s": 500, b" xy": 4})
    assert continue_merges(base, counts, 290).vocab_size == 282


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
def test_texts_are_counted_in_their_form_wherever_chunks_end(form: str, tmp_path: Path) -> None:
    import unicodedata

    draw = random.Random(7)
    letters = ["e\u0301", "é", "a", "1", " ", "\n", "ﬁ", "\u0323", "가", "각", "中", "."]
    text = "".join(draw.choices(letters, k=3000))
    given, formed = tmp_path / "given.txt", tmp_path / "formed.txt"
    given.write_text(text)
    formed.write_text(unicodedata.normalize(form, text))
    expected = count_words(formed, "qwen2").to_mapping()
    for chunk_bytes in (16, 100, 1 << 20):
        found = count_words(given, "qwen2", chunk_bytes=chunk_bytes, text_form=form)  # type: ignore[arg-type]
        assert found.to_mapping() == expected, chunk_bytes


def test_what_cannot_be_continued_is_refused(tmp_path: Path) -> None:
    counts = random_counts(1)
    base = train_bpe(counts, 270)
    for wrong, message in (
        ({"vocab_size": 100}, r"\b100\b"),
        ({"vocab_size": 300, "tie_break": "greatest-bytes"}, "tie-break"),
        ({"vocab_size": 300, "min_count": 0}, "min_count"),
    ):
        with pytest.raises(InvalidOption, match=message):
            continue_merges(base, counts, **wrong)  # type: ignore[arg-type]
    with pytest.raises(EmptyCorpus):
        continue_merges(base, WordCounts.empty(), 300)
    peer = peer_of("bytes")
    peer.normalizer = normalizers.Lowercase()
    path = tmp_path / "tokenizer.json"
    peer.save(str(path))
    with pytest.raises(InvalidOption, match="Lowercase"):
        pattern_of_words(Tokenizer.load(path))
    pieces = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    pieces.save(str(path))
    with pytest.raises(InvalidOption) as refused:
        pattern_of_words(Tokenizer.load(path))
    assert "merges" in refused.value.happened


# Extensions


SPECIALS = ["<|end|>", "<|pad|>"]


def grown(base: Tokenizer, counts: WordCounts, merges: int, tie_break: str) -> Tokenizer:
    given = merges_to_continue(base, tie_break)
    learned = learn_merges(counts, len(given) + merges, tie_break=tie_break, given=given)
    return extended(base, learned.pairs(), tie_break)


@pytest.mark.parametrize("tie_break", TIE_BREAKS)
def test_on_the_same_words_it_is_what_training_more_makes(tie_break: str) -> None:
    base = train_bpe(random_counts(1), 300, special_tokens=SPECIALS, tie_break=tie_break)
    more = train_bpe(random_counts(1), 340, special_tokens=SPECIALS, tie_break=tie_break)
    assert grown(base, random_counts(1), 40, tie_break).digest == more.digest


@pytest.mark.parametrize("special_ids", ["first", "last"])
@pytest.mark.parametrize("seed", range(5))
def test_on_other_words_every_old_id_stays(seed: int, special_ids: str) -> None:
    base = train_bpe(random_counts(seed), 300, special_tokens=SPECIALS, special_ids=special_ids)  # type: ignore[arg-type]
    other = random_counts(seed + 100, "cdefgé中")
    larger = grown(base, other, 60, "smallest-ids")
    assert larger.vocab_size == base.vocab_size + 60
    assert sorted(larger.vocab) == list(range(larger.vocab_size))
    assert {id_: larger.vocab[id_] for id_ in base.vocab} == dict(base.vocab)
    assert larger.special_tokens == base.special_tokens
    texts = [word.decode() for word in other.words() + random_counts(seed).words()]
    certificate = certify_extension(base, larger, [*texts, "", "<|end|> 漢字 \n"])
    assert (certificate.ids_kept, certificate.new_ids) == (base.vocab_size, 60)
    assert certificate.first_new_id == base.vocab_size
    assert 0 < certificate.texts_unchanged < certificate.texts == len(texts) + 2
    assert base.digest[:12] in str(certificate)


def test_the_certificate_is_refused_where_anything_moved() -> None:
    base = train_bpe(random_counts(3), 300, special_tokens=SPECIALS)
    larger = grown(base, random_counts(4), 20, "smallest-ids")
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
    base = train_bpe(random_counts(3), 300)
    whole = Tokenizer({**base.vocab, 300: b"whole"}, base.merges)
    for tokenizer in (whole, Tokenizer(base.vocab, base.merges, ignore_merges=True)):
        with pytest.raises(InvalidOption, match=str(tokenizer.vocab_size)):
            merges_to_continue(tokenizer, "smallest-ids")
    learned = learn_merges(random_counts(4), 60).pairs()
    with pytest.raises(InvalidTokenizer, match="merges"):
        extended(base, learned, "smallest-ids")
    special = Tokenizer({**base.vocab, 300: b" zz"}, base.merges, [" zz"])
    counts = WordCounts.from_mapping({b" zz": 50})
    with pytest.raises(InvalidSpecialToken, match="' zz'"):
        grown(special, counts, 2, "smallest-ids")


def test_an_extension_can_be_extended() -> None:
    base = train_bpe(random_counts(5), 300, special_tokens=SPECIALS)
    twice = grown(
        grown(base, random_counts(6), 20, "smallest-ids"), random_counts(7), 20, "smallest-ids"
    )
    certificate = certify_extension(base, twice, [" abc de é"])
    assert certificate.new_ids == 40
    assert np.array_equal(
        merges_to_continue(twice, "smallest-ids")[: len(base.merges)],
        merges_to_continue(base, "smallest-ids"),
    )
