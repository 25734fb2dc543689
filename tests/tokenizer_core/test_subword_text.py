"""Text cut into subwords as subword-nmt prints it: vocabulary, glossaries and dropout too."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from bpeline.tokenizer_core.algorithms.character_bpe import CharacterBpe
from bpeline.tokenizer_core.algorithms.character_bpe_text import (
    SubwordText,
    read_vocabulary,
)
from bpeline.tokenizer_core.algorithms.wordpiece import WordPiece
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer

apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
learn_bpe = pytest.importorskip("subword_nmt.learn_bpe")

LETTERS = "abcdeé中🀄"


def random_line(random_: random.Random) -> str:
    words = ["".join(random_.choices(LETTERS, k=random_.randint(1, 14))) for _ in range(8)]
    gaps = random_.choices([" ", " ", "  ", "\t", "\u00a0", "\r"], k=8)
    edges = random_.choices(["", "", " ", "  ", "\r"], k=2)
    return edges[0] + "".join(map(str.__add__, words, gaps)) + edges[1]


@pytest.fixture(scope="module")
def lines() -> list[str]:
    random_ = random.Random(5)
    return [random_line(random_) for _ in range(300)] + ["", " ", "  \r", "x"]


@pytest.fixture(scope="module", params=["0.1", "0.2"])
def codes(
    request: pytest.FixtureRequest, lines: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Codes that subword-nmt learned; with merges of the other version's kind thrown in."""
    learned = io.StringIO()
    words = io.StringIO("\n".join(line.replace("\r", "").replace("\u00a0", "") for line in lines))
    learn_bpe.learn_bpe(words, learned, 150)
    merges = learned.getvalue().split("\n")[1:-1]
    if request.param == "0.1":
        merges = [line.replace("</w>", "") if line.endswith("</w>") and i % 2 else line
                  for i, line in enumerate(merges)]  # fmt: skip
        merges += [f"{line.split()[1]} </w>" for line in merges[:20] if "</w>" not in line]
    path = tmp_path_factory.mktemp("codes") / "bpe.codes"
    path.write_text("\n".join([f"#version: {request.param}", *merges, ""]), encoding="utf-8")
    return path


def theirs(codes: Path, **options: object) -> object:
    with codes.open(encoding="utf-8") as file:
        return apply_bpe.BPE(file, **options)


def printed_by(bpe: object, lines: list[str], dropout: float = 0) -> str:
    return "".join(bpe.process_line(line + "\n", dropout) for line in lines)  # type: ignore[attr-defined]


@pytest.fixture
def ours(codes: Path) -> Tokenizer:
    return Tokenizer.load(codes, characters="")


@pytest.mark.night
def test_text_is_cut_as_subword_nmt_cuts_it(codes: Path, ours: Tokenizer, lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    expected = printed_by(theirs(codes), lines)
    assert "@@ " in expected
    assert SubwordText(ours).apply(text) == expected
    assert SubwordText(ours, separator="￭").apply(text) == printed_by(
        theirs(codes, separator="￭"), lines
    )


def test_a_prefix_of_the_merges_is_a_smaller_tokenizer(codes: Path, lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    smaller = SubwordText(Tokenizer.load(codes, merges=30, characters=""))
    assert smaller.apply(text) == printed_by(theirs(codes, merges=30), lines)


def test_subwords_outside_of_the_vocabulary_are_cut_again(
    codes: Path, ours: Tokenizer, lines: list[str]
) -> None:
    text = "".join(f"{line}\n" for line in lines)
    counts: dict[str, int] = {}
    for subword in SubwordText(ours).apply(text).split():
        counts[subword] = counts.get(subword, 0) + 1
    listed = "".join(f"{subword} {count}\n" for subword, count in counts.items())
    vocabulary = read_vocabulary(listed, threshold=12)
    assert vocabulary == apply_bpe.read_vocabulary(io.StringIO(listed), 12)
    assert 0 < len(vocabulary) < len(counts)
    restricted = SubwordText(ours, vocabulary=vocabulary).apply(text)
    assert restricted == printed_by(theirs(codes, vocab=vocabulary), lines)
    assert restricted != SubwordText(ours).apply(text)


def test_glossaries_are_never_cut(codes: Path, ours: Tokenizer, lines: list[str]) -> None:
    glossaries = ["ab+c", "中", r"[de]{3}", "é|🀄a"]
    # A return at the end of a word that a glossary divides is lost there, and stays here.
    lines = [line.replace("\r", "") for line in lines]
    text = "".join(f"{line}\n" for line in lines)
    expected = printed_by(theirs(codes, glossaries=glossaries), lines)
    assert SubwordText(ours, glossaries=glossaries).apply(text) == expected
    assert expected != printed_by(theirs(codes), lines)


@pytest.fixture
def seeded() -> Iterator[None]:
    state = random.getstate()
    random.seed(11)
    yield
    random.setstate(state)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("dropout", [0.1, 0.5, 1.0])
def test_dropout_draws_the_numbers_that_subword_nmt_draws(
    codes: Path, ours: Tokenizer, lines: list[str], dropout: float
) -> None:
    text = "".join(f"{line}\n" for line in lines)
    expected = printed_by(theirs(codes), lines, dropout)
    cutter = SubwordText(ours)
    assert cutter.apply(text, dropout, seed=11) == expected
    assert cutter.apply(text, dropout, seed=11) == expected
    if dropout < 1:
        assert cutter.apply(text, dropout, seed=12) != expected


def test_ids_are_those_of_the_printed_subwords(ours: Tokenizer, lines: list[str]) -> None:
    line = next(line for line in lines if "\u00a0" not in line and "\r" not in line)
    line = " ".join(line.split())
    algorithm = ours.algorithm
    assert isinstance(algorithm, CharacterBpe)
    tokens = [ours.vocab[id_].decode() for id_ in ours.encode(line)]
    ends = [
        token.removesuffix("</w>") + (" " if token.endswith("</w>") else "@@ ") for token in tokens
    ]
    printed = "".join(ends).replace("@@  ", " ").strip()
    assert printed == SubwordText(ours).apply(line)
    assert ours.decode(ours.encode(line)) == line


def test_codes_come_back_as_they_were_written(codes: Path, ours: Tokenizer, tmp_path: Path) -> None:
    ours.save(tmp_path / "again.codes", "subword-nmt")
    written = dict.fromkeys(codes.read_text(encoding="utf-8").split("\n"))
    assert (tmp_path / "again.codes").read_text(encoding="utf-8") == "\n".join(written)
    assert Tokenizer.load(tmp_path / "again.codes", characters="").digest == ours.digest


def test_what_cannot_be_used_is_refused(ours: Tokenizer, tmp_path: Path) -> None:
    other = Tokenizer({0: b"[UNK]", 1: b"a"}, [], algorithm=WordPiece())
    with pytest.raises(InvalidOption, match="wordpiece"):
        SubwordText(other)
    with pytest.raises(InvalidOption, match="wordpiece"):
        other.save(tmp_path / "x.codes", "subword-nmt")
    with pytest.raises(InvalidOption, match="glossary"):
        SubwordText(ours, glossaries=["(a"])
    with pytest.raises(InvalidOption, match="dropout"):
        SubwordText(ours).apply("a", dropout=1.5)
    with pytest.raises(InvalidOption, match="line 1"):
        read_vocabulary("subword\n")
    for content in ("#version: 3.0\na b\n", "a b c\n", "a\n"):
        (tmp_path / "bad.codes").write_text(content)
        with pytest.raises(InvalidTokenizer):
            Tokenizer.load(tmp_path / "bad.codes")
