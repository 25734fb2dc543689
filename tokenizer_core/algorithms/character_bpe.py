"""Character BPE (Sennrich et al. 2016): value, encoder and decoder, trainer, codes files.

subword-nmt's codes files hold a version, then one merge per line. Version 0.2 joins the mark of
the end of a word to the last character (``t</w>``); version 0.1 and files without a version
have it as a symbol of its own. They hold no vocab and no ids: loading numbers the unknown
token, the characters, then what merges make. Characters in no merge are not in them either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks, merging, word_encoding
from bpeline.tokenizer_core.algorithms.kernels.words import SCRATCH_OF_RANDOM, merge_at_random
from bpeline.tokenizer_core.bounded_files import read_bounded, refuse, text_of
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.formats import pattern_left_out, refuse_other_algorithms
from bpeline.tokenizer_core.merging import Checkpoint, OnProgress
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.tokenizer_spec import Algorithm, TokenizerSpec
from bpeline.tokenizer_core.training import merged, refuse_special_tokens_in_words
from bpeline.tokenizer_core.vocabulary import shown, validate_special_tokens
from bpeline.tokenizer_core.word_encoding import Decide, Decision, WordAlgorithm, WordCoders

_LONGER_FROM = np.array([0xC0, 0xE0, 0xF0], np.uint8)  # leads of characters of 2, 3 and 4 bytes


@dataclass(frozen=True, slots=True)
class CharacterBpe(Algorithm):
    """Byte pair encoding over characters, with a symbol for the end of a word.

    A word is encoded by applying the merge of lowest rank at all its places, from left to right,
    until none applies (Sennrich et al. 2016, ``subword-nmt``).

    Attributes:
        end_of_word: the text that marks the end of a word in tokens: ``st</w>`` is not ``st``.
        joined: whether the mark is part of a word's last character (``subword-nmt`` 0.2) or a
            symbol of its own that merges may join (the paper, ``subword-nmt`` 0.1).
        unknown: the token of characters that the vocab does not hold.
    """

    name: ClassVar[str] = "char-bpe"
    has_merges: ClassVar[bool] = True
    end_of_word: str = "</w>"
    joined: bool = False
    unknown: str = "<unk>"


KIND = CharacterBpe


def coders(spec: TokenizerSpec) -> WordCoders:
    """The encoder and the decoder.

    Raises:
        InvalidTokenizer: tokens that are not UTF-8, or no unknown token.
    """
    algorithm = spec.algorithm
    assert isinstance(algorithm, CharacterBpe)
    tokens = word_encoding.spelled_tokens(spec)
    end, joined = algorithm.end_of_word, algorithm.joined
    words = word_encoding.by_rank(tokens.ids, tokens.merges, tokens.marks["unknown"], end, joined)
    texts = word_encoding.without_ends(spec.vocab, end, tokens, joined)
    return word_encoding.coders_of_words(words, texts, spec.pattern)


def with_dropout(merged: WordAlgorithm, dropout: float, state: NDArray[np.uint32]) -> WordAlgorithm:
    """`by_rank` with merges left out at random: see `merge_at_random`."""
    marking, _, slots, hash_key, _ = merged.known

    def kernel(text: Any, places: Any, lengths: Any, *others: Any) -> None:
        is_one = 1 + np.searchsorted(_LONGER_FROM, text[places], side="right") == lengths
        merge_at_random(text, places, lengths, is_one, dropout, state, *others)

    return WordAlgorithm(kernel, (marking, slots, hash_key), SCRATCH_OF_RANDOM)


def train_char_bpe(
    counts: WordCounts,
    merges: int,
    *,
    end_of_word: str = merging.END_OF_WORD,
    joined: bool = False,
    tie_break: str = "first-seen",
    min_count: int = 2,
    min_word_count: int = 1,
    unknown: str = "<unk>",
    special_tokens: Sequence[str] = (),
    resume_from: Path | str | Checkpoint | None = None,
    checkpoint: Path | str | None = None,
    on_progress: OnProgress | None = None,
) -> Tokenizer:
    """Train character BPE (Sennrich et al. 2016).

    Ids: the unknown token, the special tokens, the characters (and with ``joined`` those that end
    words), the merges.

    Args:
        counts: word counts, by white space or another pattern.
        merges: how many at most; fewer when no pair occurs ``min_count`` times.
        end_of_word: the mark of the end of a word; words may hold it, see
            `merging.words_with_ends`.
        joined: whether it is part of the last character (``subword-nmt`` 0.2).
        tie_break: ``first-seen`` (the paper's program) or ``greatest-bytes`` (``subword-nmt``: the
            greatest pair of texts); see `tokenizer_core.vocabulary.numbering.TIE_BREAKS`.
        min_count, min_word_count: rarer pairs and rarer words are left out.
        unknown: the token of unknown characters.
        special_tokens: further tokens.
        resume_from, checkpoint, on_progress: see `Course`.

    Raises:
        InvalidOption: a parameter out of range, or a checkpoint of other counts or settings.
        InvalidSpecialToken: empty, duplicate, or occurring in the words.
        EmptyCorpus, CorpusError: no words, or too many for 64 bits.
        CorruptFile, DiskFull: see `learn_with`.
    """
    checks.instance("counts", counts, WordCounts)
    merges = checks.whole_number("merges", merges)
    checks.text("unknown", unknown)
    specials = validate_special_tokens(checks.texts("special_tokens", special_tokens))
    refuse_special_tokens_in_words(specials, counts)
    settings = merging.CharacterSettings(end_of_word, joined, tie_break, min_count, min_word_count)
    words = merging.words_with_ends(merging.prune(counts, min_word_count)[0], end_of_word, joined)
    course = merging.Course(resume_from, checkpoint, on_progress=on_progress)
    learned = merging.learn_characters(counts, words, merges, settings, course)
    pairs = merging.pairs_of_texts(words, learned)[len(words.ends) if joined else 0 :]
    first = _first_of_characters(words, end_of_word, joined, unknown, specials)
    return Tokenizer(
        merging.numbered(first, (left + right for left, right in pairs)),
        [(left.encode(), right.encode()) for left, right in pairs],
        specials,
        counts.pattern,
        algorithm=CharacterBpe(end_of_word, joined, unknown),
    )


def character_base(
    counts: WordCounts,
    min_word_count: int = 1,
    *,
    end_of_word: str = merging.END_OF_WORD,
    joined: bool = False,
    unknown: str = "<unk>",
    special_tokens: Sequence[str] = (),
) -> list[str]:
    """The tokens that `train_char_bpe` begins with: its least vocabulary.

    Raises:
        InvalidOption, EmptyCorpus: as `train_char_bpe`.
    """
    words = merging.words_with_ends(merging.prune(counts, min_word_count)[0], end_of_word, joined)
    return _first_of_characters(words, end_of_word, joined, unknown, special_tokens)


def _first_of_characters(
    words: merging.CharacterWords,
    end_of_word: str,
    joined: bool,
    unknown: str,
    specials: Sequence[str],
) -> list[str]:
    """All symbols, or with ``joined`` the characters and those that end words."""
    base = list(words.tokens)
    if joined:
        base.remove(end_of_word)
        base += [words.tokens[left] + words.tokens[right] for left, right in words.ends.tolist()]
    return list(dict.fromkeys([unknown, *specials, *base]))


def explained(spec: TokenizerSpec) -> Decide:
    """Explains words of a tokenizer."""
    algorithm = spec.algorithm
    assert isinstance(algorithm, CharacterBpe)
    end, joined = algorithm.end_of_word, algorithm.joined
    ranks: dict[tuple[str, str], int] = {}
    for rank, (left, right) in enumerate(spec.merges):
        ranks.setdefault((left.decode(), right.decode()), rank)

    def decide(word: str) -> Iterator[Decision]:
        symbols = [*word[:-1], word[-1] + end] if joined else [*word, end]
        while present := [pair for pair in pairwise(symbols) if pair in ranks]:
            best = min(present, key=ranks.__getitem__)
            symbols = merged(symbols, best, best[0] + best[1])
            yield Decision(f"rank {ranks[best]}", best, tuple(symbols))

    return decide


END_OF_WORD = "</w>"
_MOST_SHOWN = 2_000  # characters in a warning
_VERSIONS = {"0.1": False, "0.2": True}  # whether the mark is joined to the last character


def save(tokenizer: TokenizerParts, path: Path) -> None:
    """Write the codes file that ``subword-nmt apply-bpe --codes`` reads.

    Raises:
        InvalidOption: the tokenizer follows another algorithm.
        InvalidTokenizer: another mark of the end of a word, or a token with a space or line break.
    """
    refuse_other_algorithms(tokenizer, "character BPE", CharacterBpe)
    algorithm = tokenizer.spec.algorithm
    assert isinstance(algorithm, CharacterBpe)
    pairs = [(left.decode(), right.decode()) for left, right in tokenizer.spec.merges]
    if algorithm.end_of_word != END_OF_WORD:
        raise InvalidTokenizer(
            f"words of this tokenizer end in {algorithm.end_of_word!r}",
            f"in a codes file they end in {END_OF_WORD!r}",
            "save it as 'bpeline'",
        )
    if any(set(" \r\n") & set(left + right) for left, right in pairs):
        raise InvalidTokenizer(
            "a merge of this tokenizer joins a space or a line break",
            "in a codes file a space stands between the two sides of a merge",
            "save it as 'bpeline'",
        )
    version = "0.2" if algorithm.joined else "0.1"
    lines = [f"#version: {version}", *(f"{left} {right}" for left, right in pairs), ""]
    DURABLE.write(path, "\n".join(lines).encode())


def left_out(tokenizer: TokenizerParts) -> dict[str, Any]:
    """Split pattern, unknown token, special tokens, and the characters that no merge holds."""
    assert isinstance(tokenizer.spec.algorithm, CharacterBpe)
    return {
        "pattern": pattern_left_out(tokenizer),
        "unknown": tokenizer.spec.algorithm.unknown,
        "special_tokens": list(tokenizer.spec.special_tokens),
        "characters": _unmerged(tokenizer),
    }


def forgotten(tokenizer: TokenizerParts) -> str:
    """What nobody can find out from the file again, and how its reader is told; or nothing."""
    assert isinstance(tokenizer.spec.algorithm, CharacterBpe)
    unmerged = _unmerged(tokenizer)
    if not unmerged:
        return ""
    shown = repr(unmerged[:_MOST_SHOWN])
    if len(unmerged) > _MOST_SHOWN:
        shown += " and so on (`bpeline export`, with --json, prints them all)"
    return (
        f"characters that stand in no merge, {len(unmerged):,} here, are not in a codes file, and "
        f"whoever reads it without them finds {tokenizer.spec.algorithm.unknown} instead. Read it "
        f"with Tokenizer.load(PATH, characters=…), which are {shown}; or save it as 'bpeline', "
        "which keeps everything"
    )


def _unmerged(tokenizer: TokenizerParts) -> str:
    """The characters with an id that no merge holds, in the order of their ids."""
    merged = b"".join(left + right for left, right in tokenizer.spec.merges).decode()
    tokens = [token.decode() for _, token in sorted(tokenizer.spec.vocab.items())]
    return "".join(one for one in tokens if len(one) == 1 and one not in merged)


def load(
    path: Path,
    *,
    merges: int | None = None,
    unknown: str = "<unk>",
    characters: str | None = None,
    pattern: SplitPattern | str = "whitespace",
    special_tokens: Sequence[str] = (),
) -> TokenizerSpec:
    """Read a codes file.

    Args:
        merges: how many of its first merges to take; by default all.
        unknown: the token of characters that the vocab does not hold.
        characters: what the vocab holds besides the characters in the merges; empty for nothing.
        pattern: the split pattern, which the file does not name.
        special_tokens: further tokens, numbered after the unknown one.

    Raises:
        MissingSource: no such file. InvalidTokenizer: malformed.
        InvalidOption: no ``characters`` were given.
    """
    pairs, joined = read_codes(path)
    if characters is None:
        raise InvalidOption(
            f"{path} does not say which characters it knows besides those in its merges: any other "
            f"would be {unknown}",
            "those characters in one string (`bpeline export` prints them, `subword-nmt get-vocab` "
            "lists them), or an empty one where there are none",
            "name them: Tokenizer.load(PATH, characters='qxz'), and wherever a command takes a "
            f"tokenizer: {path},characters=qxz; none: {path},characters=",
        )
    pairs = pairs[:merges]
    parts = [part for pair in pairs for part in pair]
    inner = [part.removesuffix(END_OF_WORD) for part in parts]
    single = dict.fromkeys(sorted({*characters, *(c for part in inner for c in part)}))
    last = [c + END_OF_WORD for c in single] if joined else [END_OF_WORD]
    made = [left + right for left, right in pairs]
    tokens = dict.fromkeys([unknown, *special_tokens, *single, *last, *parts, *made])
    vocab = {id_: token.encode() for id_, token in enumerate(tokens)}
    return TokenizerSpec.checked(
        vocab,
        [(left.encode(), right.encode()) for left, right in pairs],
        list(special_tokens),
        pattern,
        algorithm=CharacterBpe(END_OF_WORD, joined, unknown),
    )


def read_codes(path: Path) -> tuple[list[tuple[str, str]], bool]:
    """The merges of a codes file, each pair once, and whether the mark of the end is joined."""
    lines = text_of(read_bounded(path), path).rstrip("\n").split("\n")
    joined = False
    if lines[0].startswith("#version:"):
        version = lines.pop(0).removeprefix("#version:").strip()
        if version not in _VERSIONS:
            refuse(path, f"has the version {shown(version)}", "versions 0.1 and 0.2 are read")
        joined = _VERSIONS[version]
    pairs: dict[tuple[str, str], None] = {}
    for number, line in enumerate(lines):
        if not line and len(lines) == 1:
            break
        parts = line.strip("\r\n ").split(" ")
        if len(parts) != 2:
            refuse(path, f"has no pair of tokens at merge {number}: {shown(line)}")
        pairs.setdefault((parts[0], parts[1]))
    return list(pairs), joined
