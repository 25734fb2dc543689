"""Joint and separate vocabularies: the same as subword-nmt's, and figures counted by hand."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bpeline.flows.train_languages import vocabulary_of
from bpeline.tokenizer_core import count_words
from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.algorithms.character_bpe_text import (
    SubwordText,
    read_vocabulary,
)
from bpeline.tokenizer_core.algorithms.wordpiece import train_wordpiece
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.derived import RestrictedEncoding, token_counts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation.comparison import compare_choices
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import train_bpe

pytestmark = pytest.mark.fake_mlflow

joint_bpe = pytest.importorskip("subword_nmt.learn_joint_bpe_and_vocab")

STEMS = {
    "src": ["house", "water", "begin", "light", "under", "stand", "ing", "er", "London", "2024"],
    "tgt": ["haus", "wasser", "beginn", "licht", "unter", "stand", "ung", "er", "London", "2024"],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("languages")
    random_ = random.Random(4)
    paths = {}
    for language, stems in STEMS.items():
        lines = [
            " ".join(
                "".join(random_.choices(stems, k=random_.randint(1, 3)))
                for _ in range(random_.randint(1, 12))
            )
            for _ in range(300)
        ]
        paths[language] = directory / language
        paths[language].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths


@pytest.fixture(scope="module")
def joint(files: dict[str, Path]) -> Tokenizer:
    counts = count_words([str(path) for path in files.values()], "whitespace")
    return train_char_bpe(counts, 120, joined=True, tie_break="greatest-bytes")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # files that subword-nmt leaves open
def test_codes_and_vocabularies_are_those_of_subword_nmt(
    files: dict[str, Path], joint: Tokenizer, tmp_path: Path
) -> None:
    with (tmp_path / "codes").open("w") as output:
        arguments = argparse.Namespace(
            input=[path.open() for path in files.values()],
            vocab=[(tmp_path / name).open("w") for name in files],
            output=output,
            symbols=120,
            min_frequency=2,
            separator="@@",
            total_symbols=False,
            num_workers=1,
            verbose=False,
        )
        kept = [*arguments.input, *arguments.vocab]
        joint_bpe.learn_joint_bpe_and_vocab(arguments)
    for file in kept:
        file.close()
    joint.save(tmp_path / "ours", "subword-nmt")
    assert (tmp_path / "ours").read_text() == (tmp_path / "codes").read_text()
    for language, path in files.items():
        vocabulary = vocabulary_of(joint, count_words(path, "whitespace"))
        assert vocabulary == (tmp_path / language).read_text(encoding="utf-8")


def test_ids_are_restricted_as_subword_nmt_restricts_subwords(
    files: dict[str, Path], joint: Tokenizer
) -> None:
    words = count_words(files["src"], "whitespace")
    counts = token_counts(joint, words)
    text = files["tgt"].read_text(encoding="utf-8")
    listed = vocabulary_of(joint, words)
    undone = set()
    for threshold in (1, 2, 50, 400, 10**9):
        vocabulary = read_vocabulary(listed, threshold)
        printed = SubwordText(joint, vocabulary=vocabulary).apply(text).split()
        ids = RestrictedEncoding(joint, counts, threshold).encode(text)
        shown = [
            token[:-4] if token.endswith("</w>") else f"{token}@@"
            for token in (joint.vocab[id_].decode() for id_ in ids)
        ]
        assert shown == printed
        assert joint.decode(ids) == joint.decode(joint.encode(text))
        undone.add(len(ids))
    assert len(undone) == 3


@pytest.mark.parametrize("threshold", [1, 20, 10**9])
def test_bytes_are_restricted_by_undoing_merges(files: dict[str, Path], threshold: int) -> None:
    words = {name: count_words(path, "gpt2") for name, path in files.items()}
    both = count_words([str(path) for path in files.values()], "gpt2")
    tokenizer = train_bpe(both, 400, special_tokens=["<|end|>"])
    counts = token_counts(tokenizer, words["src"])
    parts = {left + right: (left, right) for left, right in reversed(tokenizer.merges)}

    def undone(token: bytes) -> list[bytes]:
        if counts[tokenizer.token_to_id(token)] >= threshold or token not in parts:
            return [token]
        return [part for side in parts[token] for part in undone(side)]

    text = files["tgt"].read_text(encoding="utf-8") + "<|end|> 漢"
    restricted = RestrictedEncoding(tokenizer, counts, threshold)
    ids = restricted.encode(text)
    tokens = [tokenizer.vocab[id_] for id_ in tokenizer.encode(text)]
    expected = [part for token in tokens for part in undone(token)]
    assert [tokenizer.vocab[id_] for id_ in ids] == expected
    assert tokenizer.decode(ids) == text
    assert restricted.encode("") == []


def test_counts_of_tokens_are_exact() -> None:
    words = WordCounts.from_mapping({b"ab": 2**60, b"b": 1, b"abab": 3})
    tokenizer = train_bpe(words, 257)
    counts = token_counts(tokenizer, words)
    assert counts.dtype == np.int64
    assert counts[tokenizer.token_to_id(b"ab")] == 2**60 + 6
    assert counts[tokenizer.token_to_id(b"b")] == 1
    assert counts.sum() == 2**60 + 7


def test_what_cannot_be_restricted_is_refused(joint: Tokenizer) -> None:
    pieces = train_wordpiece(WordCounts.from_mapping({b"ab": 5}, "whitespace"), 10)
    with pytest.raises(InvalidOption, match="merges"):
        RestrictedEncoding(pieces, np.zeros(10, np.int64), 1)
    with pytest.raises(InvalidOption, match=r"\b3\b"):
        RestrictedEncoding(joint, np.zeros(3, np.int64), 1)


def test_the_comparison_is_what_counting_by_hand_gives(files: dict[str, Path]) -> None:
    words = {name: count_words(path, "whitespace") for name, path in files.items()}
    both = count_words([str(path) for path in files.values()], "whitespace")
    joint = train_char_bpe(both, 60)
    separate = {name: train_char_bpe(counts, 60) for name, counts in words.items()}
    compared = compare_choices(words, joint, separate)
    texts = {name: path.read_text(encoding="utf-8").split() for name, path in files.items()}
    shared = set(texts["src"]) & set(texts["tgt"])
    assert compared.shared_words == len(shared) > 5
    for choice, tokenizers in (
        (compared.joint, dict.fromkeys(texts, joint)),
        (compared.separate, separate),
    ):
        used = {}
        for name, text in texts.items():
            tokenizer = tokenizers[name]
            seen = Counter(tokenizer.vocab[id_] for id_ in tokenizer.encode(" ".join(text)))
            used[name] = set(seen)
            figures = choice.languages[name]
            assert figures.tokens == tokenizer.vocab_size - 1  # <unk>
            assert (figures.used, figures.unseen) == (len(seen), figures.tokens - len(seen))
            assert figures.tokens_per_word == pytest.approx(seen.total() / len(text))
        assert choice.overlap == len(used["src"] & used["tgt"])
        cuts = [
            [[one.vocab[id_] for id_ in one.encode(word)] for word in sorted(shared)]
            for one in tokenizers.values()
        ]
        assert choice.split_alike == sum(map(list.__eq__, *cuts))
    assert compared.joint.ids == joint.vocab_size
    assert compared.joint.split_alike == len(shared) > compared.separate.split_alike
    assert compared.joint.languages["src"].unseen > compared.separate.languages["src"].unseen
    table = compared.as_text().splitlines()
    assert table[0].split() == ["joint", "separate"]
    assert len({len(line) for line in table}) == 1
