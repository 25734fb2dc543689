"""Character BPE (Sennrich et al. 2016): encoder, decoder, trainer, codes files.

A subword-nmt codes file has an optional version line, then one merge per line. Version 0.2 joins
the end-of-word mark to the last character (``t</w>``); version 0.1 and files without a version
treat it as a symbol of its own. The file holds neither ids nor characters outside of merges:
loading numbers the unknown token, the characters, then the results of merges.
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

_LONGER_FROM = np.array([0xC0, 0xE0, 0xF0], np.uint8)  # least lead bytes of 2, 3 and 4 byte chars


@dataclass(frozen=True, slots=True)
class CharacterBpe(Algorithm):
    """Byte pair encoding over characters, with a symbol for the end of a word.

    Encoding applies the merge of lowest rank at all its places, left to right, until none applies
    (Sennrich et al. 2016, ``subword-nmt``).

    Attributes:
        end_of_word: the text that marks the end of a word in tokens: ``st</w>`` is not ``st``.
        joined: the mark is part of a word's last character (``subword-nmt`` 0.2), not a symbol of
            its own that merges can join (the paper, ``subword-nmt`` 0.1).
        unknown: the token for characters that the vocab does not hold.
    """

    name: ClassVar[str] = "char-bpe"
    has_merges: ClassVar[bool] = True
    end_of_word: str = "</w>"
    joined: bool = False
    unknown: str = "<unk>"


KIND = CharacterBpe


def coders(spec: TokenizerSpec) -> WordCoders:
    algorithm = spec.algorithm
    assert isinstance(algorithm, CharacterBpe)
    tokens = word_encoding.spelled_tokens(spec)
    end, joined = algorithm.end_of_word, algorithm.joined
    words = word_encoding.by_rank(tokens.ids, tokens.merges, tokens.marks["unknown"], end, joined)
    texts = word_encoding.without_ends(spec.vocab, end, tokens, joined)
    return word_encoding.coders_of_words(words, texts, spec.pattern)


def with_dropout(merged: WordAlgorithm, dropout: float, state: NDArray[np.uint32]) -> WordAlgorithm:
    """Like `by_rank` with BPE-dropout, see `merge_at_random`."""
    marking, _, slots, hash_key, _ = merged.known

    def kernel(text: Any, places: Any, lengths: Any, *others: Any) -> None:
        is_single = 1 + np.searchsorted(_LONGER_FROM, text[places], side="right") == lengths
        merge_at_random(text, places, lengths, is_single, dropout, state, *others)

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

    Ids: the unknown token, the special tokens, the characters (with ``joined`` also those that end
    words), the merges.

    Args:
        counts: word counts, by white space or another pattern.
        merges: the largest number of merges; fewer if no pair occurs ``min_count`` times.
        end_of_word: the end-of-word mark; words may contain it, see `merging.words_with_ends`.
        joined: make the mark part of the last character (``subword-nmt`` 0.2).
        tie_break: ``first-seen`` (the paper's program) or ``greatest-bytes`` (``subword-nmt``: the
            greatest pair of texts); see `tokenizer_core.vocabulary.numbering.TIE_BREAKS`.
        min_count, min_word_count: rarer pairs and rarer words are left out.
        resume_from, checkpoint, on_progress: see `CheckpointPolicy`.

    Raises:
        InvalidOption: a parameter out of range, or a checkpoint of other counts or settings.
        InvalidSpecialToken: empty, duplicate, or present in the words.
        EmptyCorpus, CorpusError: no words, or counts that exceed 64 bits.
        CorruptFile, DiskFull: see `learn_with`.
    """
    checks.instance("counts", counts, WordCounts)
    merges = checks.whole_number("merges", merges)
    checks.text("unknown", unknown)
    specials = validate_special_tokens(checks.texts("special_tokens", special_tokens))
    refuse_special_tokens_in_words(specials, counts)
    settings = merging.CharacterSettings(end_of_word, joined, tie_break, min_count, min_word_count)
    words = merging.words_with_ends(merging.prune(counts, min_word_count)[0], end_of_word, joined)
    course = merging.CheckpointPolicy(resume_from, checkpoint, on_progress=on_progress)
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
    """The initial tokens of `train_char_bpe`: its smallest vocabulary."""
    words = merging.words_with_ends(merging.prune(counts, min_word_count)[0], end_of_word, joined)
    return _first_of_characters(words, end_of_word, joined, unknown, special_tokens)


def _first_of_characters(
    words: merging.CharacterWords,
    end_of_word: str,
    joined: bool,
    unknown: str,
    specials: Sequence[str],
) -> list[str]:
    """The initial tokens; with ``joined`` the characters and those that end words."""
    base = list(words.tokens)
    if joined:
        base.remove(end_of_word)
        base += [words.tokens[left] + words.tokens[right] for left, right in words.ends.tolist()]
    return list(dict.fromkeys([unknown, *specials, *base]))


def explained(spec: TokenizerSpec) -> Decide:
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
    """Write the codes file that ``subword-nmt apply-bpe --codes`` reads."""
    refuse_other_algorithms(tokenizer, "character BPE", CharacterBpe)
    algorithm = tokenizer.spec.algorithm
    assert isinstance(algorithm, CharacterBpe)
    pairs = [(left.decode(), right.decode()) for left, right in tokenizer.spec.merges]
    if algorithm.end_of_word != END_OF_WORD:
        raise InvalidTokenizer(
            f"the end-of-word mark of this tokenizer is {algorithm.end_of_word!r}",
            f"expected {END_OF_WORD!r} for a codes file",
            "save it as 'bpeline'",
        )
    if any(set(" \r\n") & set(left + right) for left, right in pairs):
        raise InvalidTokenizer(
            "a merge of this tokenizer joins a space or a line break",
            "expected neither: in a codes file a space separates the two sides of a merge",
            "save it as 'bpeline'",
        )
    version = "0.2" if algorithm.joined else "0.1"
    lines = [f"#version: {version}", *(f"{left} {right}" for left, right in pairs), ""]
    DURABLE.write(path, "\n".join(lines).encode())


def left_out(tokenizer: TokenizerParts) -> dict[str, Any]:
    """The arguments of `load` that a codes file does not hold."""
    assert isinstance(tokenizer.spec.algorithm, CharacterBpe)
    return {
        "pattern": pattern_left_out(tokenizer),
        "unknown": tokenizer.spec.algorithm.unknown,
        "special_tokens": list(tokenizer.spec.special_tokens),
        "characters": _unmerged(tokenizer),
    }


def forgotten(tokenizer: TokenizerParts) -> str:
    """Warning about the characters that a codes file loses; may be empty."""
    assert isinstance(tokenizer.spec.algorithm, CharacterBpe)
    unmerged = _unmerged(tokenizer)
    if not unmerged:
        return ""
    shown = repr(unmerged[:_MOST_SHOWN])
    if len(unmerged) > _MOST_SHOWN:
        shown += " and so on (`bpeline export`, with --json, prints them all)"
    return (
        f"characters that are in no merge, {len(unmerged):,} here, are missing from a codes file: "
        f"loaded without them, they become {tokenizer.spec.algorithm.unknown}. Pass them to "
        f"Tokenizer.load(PATH, characters=…): {shown}; or save it as 'bpeline', which keeps "
        "everything"
    )


def _unmerged(tokenizer: TokenizerParts) -> str:
    """The single-character tokens that are in no merge, in order of id."""
    merged = b"".join(left + right for left, right in tokenizer.spec.merges).decode()
    tokens = [token.decode() for _, token in sorted(tokenizer.spec.vocab.items())]
    return "".join(text for text in tokens if len(text) == 1 and text not in merged)


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
        merges: how many merges to read; all by default.
        characters: further characters of the vocab, besides those in merges; empty for none.
            Required, because the file does not hold them.
        special_tokens: further tokens, numbered after the unknown one.
    """
    pairs, joined = read_codes(path)
    if characters is None:
        raise InvalidOption(
            f"{path} does not hold the characters outside of its merges: they would all become "
            f"{unknown}",
            "expected these characters in one string, empty for none (`bpeline export` prints them,"
            " `subword-nmt get-vocab` lists them)",
            "name them: Tokenizer.load(PATH, characters='qxz'), or where a command takes a "
            f"tokenizer: {path},characters=qxz; none: {path},characters=",
        )
    pairs = pairs[:merges]
    parts = [part for pair in pairs for part in pair]
    inner = [part.removesuffix(END_OF_WORD) for part in parts]
    single = dict.fromkeys(sorted({*characters, *(c for part in inner for c in part)}))
    last = [c + END_OF_WORD for c in single] if joined else [END_OF_WORD]
    joined_texts = [left + right for left, right in pairs]
    tokens = dict.fromkeys([unknown, *special_tokens, *single, *last, *parts, *joined_texts])
    vocab = {id_: token.encode() for id_, token in enumerate(tokens)}
    return TokenizerSpec.checked(
        vocab,
        [(left.encode(), right.encode()) for left, right in pairs],
        list(special_tokens),
        pattern,
        algorithm=CharacterBpe(END_OF_WORD, joined, unknown),
    )


def read_codes(path: Path) -> tuple[list[tuple[str, str]], bool]:
    """The distinct merges of a codes file, and whether the end-of-word mark is joined."""
    lines = text_of(read_bounded(path), path).rstrip("\n").split("\n")
    joined = False
    if lines[0].startswith("#version:"):
        version = lines.pop(0).removeprefix("#version:").strip()
        if version not in _VERSIONS:
            refuse(path, f"has the version {shown(version)}", "expected version 0.1 or 0.2")
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
