"""Superwords over runs of words: merges, ids and passages are those of the plain reference."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from tempting_texts import odd_texts

from bpeline.tokenizer_core import (
    Tokenizer,
    WordCounts,
    reference,
    train_bpe,
    train_superword_bpe,
)
from bpeline.tokenizer_core.algorithms import (
    SuperwordBpe,
    passage_tokens,
    superword_passages,
    words_beside,
    words_of_passages,
)
from bpeline.tokenizer_core.algorithms.superword_bpe import reference as oracle
from bpeline.tokenizer_core.algorithms.superword_bpe.passage_rows import cut_passages
from bpeline.tokenizer_core.algorithms.superword_bpe.run_engine import RunEngine
from bpeline.tokenizer_core.derived import of_size
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption, InvalidPattern
from bpeline.tokenizer_core.evaluation import bytes_per_token_at, evaluate, has_curve
from bpeline.tokenizer_core.merging import load_checkpoint
from bpeline.tokenizer_core.splitting import NAMED_PATTERNS, SplitPattern, pre_tokens
from bpeline.tokenizer_core.word_encoding import explain_words

PATTERNS = ("gpt2", "cl100k", "o200k", "tekken", "llama3", "qwen2", "qwen3.5")
# What tempts: equal words side by side, words that begin others, contractions, no letters.
PARTS = ["a", "aa", "b", "ab", "ha", "it's", "'s", "B2", "the", "A", "É", "中文", "x,y", "a'sb",
         "\n", "of the", "e\u0301", "''s", "7th", "—", "\t", "AbcDef"]  # fmt: skip


def counted(documents: Sequence[str], name: str) -> WordCounts:
    pattern, found = superword_passages(name), Counter[bytes]()
    for document in documents:
        found.update(piece.encode() for piece in pre_tokens(document, pattern))
    return WordCounts.from_mapping(found, pattern)


def merges_of(tokenizer: Tokenizer) -> list[tuple[bool, tuple[bytes, bytes]]]:
    assert isinstance(tokenizer.algorithm, SuperwordBpe)
    whole = set(tokenizer.algorithm.whole)
    return [(rank in whole, pair) for rank, pair in enumerate(tokenizer.merges)]


def agree(documents: Sequence[str], name: str, merges: int, least: int, ties: str) -> int:
    expected = oracle.train(
        documents, NAMED_PATTERNS[name], merges, min_count=least, tie_break=ties
    )
    made = train_superword_bpe(
        counted(documents, name), 256 + merges, min_count=least, tie_break=ties
    )
    assert merges_of(made) == expected
    for text in (*documents, "a a a a a a a it's the the of the the a", ""):
        tokens = [made.vocab[id_] for id_ in made.encode(text)]
        assert tokens == oracle.encode(text, NAMED_PATTERNS[name], expected)
    return sum(whole for whole, _ in expected)


@pytest.mark.parametrize("name", PATTERNS)
def test_merges_and_ids_are_those_of_the_reference(name: str, seed: int) -> None:
    random_ = random.Random(seed)
    superwords = 0
    for space in (" ", "", " "):
        few = random_.sample(PARTS, 6)
        documents = [space.join(random_.choices(few, k=random_.randrange(30))) for _ in range(8)]
        ties = random_.choice(["smallest-ids", "greatest-bytes"])
        superwords += agree(documents, name, random_.randrange(60), random_.choice([1, 2]), ties)
    assert agree(["the cat of the dog of the cat"] * 5, name, 30, 1, "smallest-ids") > 0


@pytest.mark.night
def test_real_text_gives_what_the_reference_gives(seed: int) -> None:
    text = Path(__file__).parents[1].joinpath("support", "README.md").read_text()
    parts = text.split("\n\n")
    random.Random(seed).shuffle(parts)
    for name in ("gpt2", "o200k"):
        assert agree(["\n\n".join(parts[k::4]) for k in range(4)], name, 300, 1, "smallest-ids")


@pytest.mark.parametrize("name", PATTERNS)
def test_words_of_passages_are_words_of_the_text(name: str, seed: int) -> None:
    random_ = random.Random(seed)
    regex = NAMED_PATTERNS[name]
    for _ in range(300):
        text = random_.choice(["", " "]).join(random_.choices(PARTS, k=20))
        pieces = pre_tokens(text, superword_passages(name))
        again = [word for piece in pieces for word in reference.split(piece, regex)]
        words = reference.split(text, regex)
        letters = [word for word in words if any(map(str.isalpha, word))]
        assert [word for word in again if any(map(str.isalpha, word))] == letters
        assert "".join(pieces) == text


def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut a few bytes at a time, in three threads, with buckets that many pairs share."""
    home = "bpeline.tokenizer_core.algorithms.superword_bpe.passage_rows"
    for name, value in (
        ("_BLOCK", 64), ("_LEAST_PART", 16), ("_NUMBERED_AT_ONCE", 7), ("_MOST_BUCKET_BITS", 3),
    ):  # fmt: skip
        monkeypatch.setattr(f"{home}.{name}", value)
    monkeypatch.setattr(f"{home}.available_processors", lambda: 3)


@pytest.mark.parametrize("name", PATTERNS)
def test_passages_are_rows_of_words_however_they_are_cut(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_parts(monkeypatch)
    random_ = random.Random(seed)
    texts = [random_.choice(["", " "]).join(random_.choices(PARTS, k=9)) for _ in range(60)]
    passages = counted(texts, name)
    if random_.random() < 0.5:
        passages = passages.sorted()
    cut, sums = cut_passages(passages), dict[bytes, list[int]]()
    for (passage, count), first in zip(passages.items(), passages.first_positions, strict=True):
        at = int(first)
        for piece in map(str.encode, reference.split(passage.decode(), NAMED_PATTERNS[name])):
            known = sums.setdefault(piece, [0, at])
            sums[piece] = [known[0] + count, min(known[1], at)]
            at += len(piece)
    words = cut.words.words()
    columns = cut.words.counts.tolist(), cut.words.first_positions.tolist()
    assert dict(zip(words, map(list, zip(*columns, strict=True)), strict=True)) == sums
    spelled, counts = list[bytes](), list[int]()
    for rows in cut.rows:
        for begin, end in pairwise([0, *rows.ends.tolist()]):
            spelled.append(b"".join(words[number] for number in rows.numbers[begin:end]))
        counts += rows.counts.tolist()
    assert list(zip(spelled, counts, strict=True)) == list(passages.items())


def test_merges_are_the_same_however_passages_are_cut(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(seed)
    documents = [" ".join(random_.choices(PARTS[:14], k=40)) for _ in range(30)]
    counts = counted(documents, "gpt2")
    whole = train_superword_bpe(counts, 256 + 90)
    in_small_parts(monkeypatch)
    assert train_superword_bpe(counts, 256 + 90).digest == whole.digest
    agree(documents, "gpt2", 90, 2, "greatest-bytes")


def test_cut_passages_have_the_tokens_of_passages(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(seed)
    documents = [" ".join(random_.choices(PARTS, k=random_.randrange(60))) for _ in range(40)]
    documents += ["of the cat " * 40]
    counts = counted(documents, "gpt2")
    made = train_superword_bpe(counts, 256 + 90, passages=cut_passages(counts))
    in_small_parts(monkeypatch)
    ids, ends = made.encoder.encode_rows(counts.word_bytes, counts.offsets)
    again = made.encoder.encode_words(counts.words())
    cut = passage_tokens(made, cut_passages(counts))
    assert cut is not None
    for others in (again, cut):
        assert (others[0].tolist(), others[1].tolist()) == (ids.tolist(), ends.tolist())
    plain = train_bpe(words_of_passages(counts), 300)
    assert passage_tokens(plain, cut_passages(counts)) is None


def test_words_that_64_bits_cannot_count_are_refused() -> None:
    counts = WordCounts.from_mapping({b"a b": 1 << 62, b"c": 1}, superword_passages("gpt2"))
    with pytest.raises(InvalidOption, match="64-bit"):
        train_superword_bpe(counts, 260)


def test_the_checkpoint_makes_the_words_that_superwords_are_measured_beside(tmp_path: Path) -> None:
    counts = counted(["of the cat and of the dog in the house"] * 4, "o200k")
    place, end = tmp_path / "merges", ["<|end|>"]
    train_superword_bpe(counts, 280, special_tokens=end, min_count=1, checkpoint=place)
    merges = load_checkpoint(place)
    expected = train_bpe(words_of_passages(counts), 270, special_tokens=end, min_count=1)
    assert expected.vocab_size == 270
    made = words_beside(merges, 270 - 257, counts.pattern, end, "smallest-ids")
    assert made.digest == expected.digest


def test_equal_pairs_that_overlap_count_once() -> None:
    texts = ["na na na"] * 4 + ["na of"] * 5
    made = oracle.train(texts, NAMED_PATTERNS["gpt2"], 8, min_count=1)
    assert merges_of(train_superword_bpe(counted(texts, "gpt2"), 264, min_count=1)) == made
    assert oracle.count_apart({(b"a",) * 3: 2, (b"a",) * 4: 1}) == {(b"a", b"a"): 4}


def test_tokens_are_numbered_anew_where_there_is_no_number_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    documents = ["the cat sat on the mat and the cat sat on the dog"] * 9 + ["one two three four"]
    counts = counted(documents, "gpt2")
    expected = train_superword_bpe(counts, 330, min_count=1)
    assert len(expected.algorithm.whole) > 8  # type: ignore[attr-defined]
    begun, number_anew = list[int](), RunEngine._number_anew

    def counting(engine: RunEngine) -> None:
        begun.append(engine.merges_done)
        number_anew(engine)

    home = "bpeline.tokenizer_core.algorithms.superword_bpe.run_engine._NUMBERS"
    monkeypatch.setattr(home, 250)
    monkeypatch.setattr(RunEngine, "_number_anew", counting)
    assert train_superword_bpe(counts, 330, min_count=1).digest == expected.digest
    assert len(begun) > 1


def test_it_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    documents = ["of the cat and of the dog in the house", "it's the end of the day"] * 4
    documents += [f"{word} alone" for word in ("unusual", "seldom", "rare")]
    counts = counted(documents, "cl100k")
    whole = train_superword_bpe(counts, 340, min_count=1)
    place = tmp_path / "merges"

    class Interrupted(Exception):
        pass

    def interrupt(progress: object) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        train_superword_bpe(counts, 340, min_count=1, checkpoint=place, on_progress=interrupt)
    resumed = train_superword_bpe(counts, 340, min_count=1, checkpoint=place, resume_from=place)
    assert resumed.digest == whole.digest
    both = sorted(path.name for path in tmp_path.iterdir() if "superwords" in path.name)
    assert both[0].startswith("merges.superwords-")
    again = train_superword_bpe(counts, 340, min_count=1, checkpoint=place, resume_from=place)
    assert again.digest == whole.digest
    smaller = train_superword_bpe(counts, 300, min_count=1, checkpoint=place, resume_from=place)
    assert smaller.digest == train_superword_bpe(counts, 300, min_count=1).digest


def test_files_places_and_streams(tmp_path: Path) -> None:
    documents = ["of the cat in the house of the dog 中文 " * 5] * 4
    made = train_superword_bpe(counted(documents, "gpt2"), 300, special_tokens=["<|end|>"])
    assert any(len(token.split()) > 1 for token in made.vocab.values())
    made.save(tmp_path / "kept")
    read = Tokenizer.load(tmp_path / "kept")
    assert (read.digest, read.algorithm) == (made.digest, made.algorithm)
    text = "".join(documents) + "<|end|> of the cat"
    ids = read.encode(text)
    assert read.decode(ids) == text
    assert list(read.encode_iterable(text[at : at + 7] for at in range(0, len(text), 7))) == ids
    placed = read.encode_with_offsets(text)
    assert list(placed.ids) == ids
    assert read.encode(read.truncate(text, 9)) == read.encode(read.truncate(text, 9))[:9]
    assert read.encode_batch([text, "", "in the"])[0] == ids
    allowed = read.encode(text, allowed_special="all")
    assert read.special_tokens["<|end|>"] in allowed
    for format_ in ("hf", "gpt2", "tiktoken", "gguf", "transformers", "sentencepiece"):
        with pytest.raises(InvalidOption, match="superword-bpe"):
            made.save(tmp_path / format_, format=format_)  # type: ignore[arg-type]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidPattern, match="starcoder"):
        superword_passages("starcoder")
    with pytest.raises(InvalidPattern, match="cuts no passages"):
        train_superword_bpe(WordCounts.from_mapping({b"a": 1}), 300)
    assert superword_passages(superword_passages("o200k")) == superword_passages("o200k")
    assert superword_passages(SplitPattern.named("gpt2")).regex != NAMED_PATTERNS["gpt2"]
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b"ab"}
    for whole in ((1,), (0, 7)):
        with pytest.raises(BpelineError, match="1 merges"):
            Tokenizer(vocab, [(b"a", b"b")], algorithm=SuperwordBpe(whole))
    for described in ({"whole": [1, 1]}, {"whole": [-1]}, {"whole": 3}, {}, {"whole": ["0"]}):
        assert SuperwordBpe.of_description(described) is None


@pytest.mark.night
@pytest.mark.parametrize("name", PATTERNS)
def test_odd_texts_are_learned_from_and_encoded_as_by_the_reference(name: str, seed: int) -> None:
    """Every script, NULs, white space alone, CRLF, long words."""
    texts = list(islice(odd_texts(seed), 60))
    agree(texts[:30], name, 120, 2, "smallest-ids")
    made = train_superword_bpe(counted(texts[:30], name), 256 + 120)
    for text in texts:
        ids = made.encode(text)
        expected = oracle.encode(text, NAMED_PATTERNS[name], merges_of(made))
        assert [made.vocab[id_] for id_ in ids] == expected, repr(text)
        assert made.decode(ids) == text


@pytest.mark.parametrize("name", ["gpt2", "o200k"])
def test_a_smaller_size_is_what_training_it_makes(name: str, seed: int) -> None:
    """Words that only more ids make one token change no merge before them, whole words or not."""
    random_, joined = random.Random(f"{name} {seed}"), 0
    for _ in range(12):
        parts = random_.sample(PARTS, random_.randint(2, len(PARTS)))
        documents = [" ".join(random_.choices(parts, k=30)) for _ in range(20)]
        counts, least = counted(documents, name), random_.choice((1, 2))
        ties = random_.choice(("smallest-ids", "greatest-bytes"))
        settings: dict[str, Any] = {
            "min_count": least,
            "tie_break": ties,
            "special_tokens": ["<s>"],
        }
        largest = train_superword_bpe(counts, 257 + 60, **settings)
        assert isinstance(largest.algorithm, SuperwordBpe)
        joined += len(largest.algorithm.whole)
        for size in random_.choices(range(257, largest.vocab_size + 1), k=6):
            smaller, expected = (
                of_size(largest, size),
                train_superword_bpe(counts, size, **settings),
            )
            assert smaller.digest == expected.digest
            assert smaller.encode(documents[0]) == expected.encode(documents[0])
        for wrong in (256, largest.vocab_size + 1):
            with pytest.raises(InvalidOption, match="was asked for"):
                of_size(largest, wrong)
    assert joined > 10, "else there is little to go wrong"


@pytest.mark.parametrize("name", ["gpt2", "o200k"])
def test_gains_tell_how_many_tokens_each_smaller_size_takes(name: str, seed: int) -> None:
    """Of text that was learned from, and of other text: each size encodes it by itself."""
    random_ = random.Random(f"gains {name} {seed}")
    for _ in range(6):
        parts = random_.sample(PARTS, random_.randint(2, len(PARTS)))
        documents = [" ".join(random_.choices(parts, k=30)) for _ in range(20)]
        others = [" ".join(random_.choices(PARTS, k=30)) for _ in range(5)]
        counts = counted(documents, name)
        largest = train_superword_bpe(counts, 258 + 60, special_tokens=["<s>", "<t>"])
        assert has_curve(largest)
        for texts, words in ((documents, counts), (others, counted(others, name))):
            gains = largest.merge_gains(words)
            sizes = range(258, largest.vocab_size + 1)
            curve = bytes_per_token_at(largest, words.total_bytes, gains, sizes)
            for size, value in curve:
                smaller = of_size(largest, size)
                tokens = sum(len(smaller.encode(text)) for text in texts)
                assert words.total_bytes / value == pytest.approx(tokens, abs=1e-6), size
            assert evaluate(largest, [text.encode() for text in texts]).curve[-1] == curve[-1]


def test_the_last_step_of_an_explanation_is_what_the_encoder_gives(seed: int) -> None:
    random_ = random.Random(seed)
    documents = [" ".join(random_.choices(PARTS, k=30)) for _ in range(20)]
    made = train_superword_bpe(counted(documents, "gpt2"), 256 + 80, min_count=1)
    over = 0
    for text in documents:
        for one in explain_words(made, text):
            assert made.encode(one.word) == list(one.ids)
            if not one.steps:
                assert len(one.ids) == len(one.word.encode())
                continue
            expected = [made.vocab[id_].decode(errors="replace") for id_ in one.ids]
            assert list(one.steps[-1].symbols) == expected
            over += any(step.why.startswith("whole words") for step in one.steps)
    assert over, "some superword is explained"
