"""Extend an imported tokenizer with merges learned on its own ids.

For tokenizers whose merges cannot be replayed one by one as `training.extension` does: merges in
any order, tokens without a merge, words that are whole tokens, or characters instead of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms import WHOLE_TEXT, SentencePieceBpe
from bpeline.tokenizer_core.corpus import TEXT_FORMS
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.encoding import Encoder, PreparedEncoder, spans_of_lengths
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption
from bpeline.tokenizer_core.merging import (
    MergeEngine,
    OnProgress,
    Reporter,
    SymbolWords,
    prune,
    validate_options,
)
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.tokenizer_spec import ByteBpe, TokenizerSpec
from bpeline.tokenizer_core.vocabulary import Merge, MergeList, SpecialTokenMatcher

# For tokenizers that do not split texts: words with the spaces before them, and line feeds. New
# tokens then start with spaces or have none, as in SentencePiece's own trainer.
SPACED_WORDS = r" *[^ \n]+| +|\n+"
COVERAGE = 0.9995  # share of all characters that must be tokens; missing ones are added
_MERGES_AT_ONCE = 256
_TIE_BREAKS = ("smallest-ids", "first-seen")
_SPACE, _MARK = b" ", "▁".encode()
_MARKING = (
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
)


def pattern_of_words(base: Tokenizer) -> SplitPattern:
    """Return the pattern that splits a corpus into words for `continue_merges`.

    This is the tokenizer's own pattern, or `SPACED_WORDS` if it does not split texts.
    """
    _check(base)
    if isinstance(base.algorithm, SentencePieceBpe):
        return SplitPattern(SPACED_WORDS)
    return base.pattern


def continue_merges(
    base: Tokenizer,
    counts: WordCounts,
    vocab_size: int,
    *,
    tie_break: str = "smallest-ids",
    min_count: int = 2,
    min_word_count: int = 1,
    on_progress: OnProgress | None = None,
) -> Tokenizer:
    """Extend a tokenizer with merges learned from new words.

    Words are encoded with ``base``; then the most frequent pair of ids becomes a new id,
    repeatedly. New ids follow the highest id, and new merges are appended. A pair whose text is
    already a token becomes that token, without a new id. For BPE over characters, unknown
    characters become tokens first, by frequency, until `COVERAGE` of all characters is reached.

    Args:
        counts: words split by `pattern_of_words`.
        vocab_size: maximum size of the new tokenizer; smaller if pairs become too rare.
        tie_break: ``smallest-ids`` or ``first-seen``.
        min_count, min_word_count: minimum counts of a merged pair and of a word.
        on_progress: called at most ten times a second.

    Raises:
        InvalidOption: the tokenizer cannot be extended, or a parameter is out of range.
        EmptyCorpus, CorpusError: no words, or counts beyond 64 bits.

    Example:
        >>> from bpeline import Tokenizer, count_words               # doctest: +SKIP
        >>> base = Tokenizer.load("llama3/tokenizer.json")           # doctest: +SKIP
        >>> counts = count_words(["corpus"], pattern_of_words(base)) # doctest: +SKIP
        >>> continue_merges(base, counts, 130_000)                   # doctest: +SKIP
    """
    validate_options(0, tie_break, min_count, min_word_count)
    _check(base)
    if tie_break not in _TIE_BREAKS:
        raise InvalidOption(
            f"an imported tokenizer cannot be extended with the tie-break {tie_break!r}",
            f"expected: {', '.join(_TIE_BREAKS)}",
            "leave it out for 'smallest-ids'",
        )
    new_ids = vocab_size - base.vocab_size
    if new_ids < 0:
        raise InvalidOption(
            f"vocab_size {vocab_size:,} is smaller than the tokenizer's {base.vocab_size:,} ids",
            f"expected {base.vocab_size:,} or more",
            "to get a smaller vocabulary, no training is needed",
        )
    frequent = prune(counts, min_word_count)[0]
    if not len(frequent):
        raise EmptyCorpus(
            "there are no words to continue from",
            "expected word counts with at least one word",
            "check that the corpus is not empty and min_word_count is not too high",
        )
    frequent, words = _seen(base, frequent)
    growing = _Growing(base.spec)
    if isinstance(base.algorithm, SentencePieceBpe):
        growing.add_characters(_missing_characters(base, words, frequent.counts, new_ids))
    while growing.added < new_ids:
        now = growing.tokenizer()
        rows = _rows(now, words, frequent)
        engine = MergeEngine(rows.words, tie_break=tie_break, min_count=min_count)
        reporter = Reporter(on_progress, engine, new_ids - growing.added)
        if growing.learn(engine, rows, new_ids, reporter):
            break
    return growing.tokenizer()


def recipes(base: Tokenizer, tokenizer: Tokenizer) -> Iterator[tuple[int, list[int]]]:
    """Yield each new id with the ids that the old tokenizer used for its text.

    Useful to initialise embeddings. Special tokens are skipped.
    """
    reserved = set(tokenizer.special_tokens.values())
    new = sorted(tokenizer.vocab.keys() - base.vocab.keys() - reserved)
    ids, ends = _encoder_of_words(base).encode_words([tokenizer.vocab[id_] for id_ in new])
    begin = 0
    for id_, end in zip(new, ends.tolist(), strict=True):
        yield id_, ids[begin:end].tolist()
        begin = end


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Words as rows of symbols, and the token id of each symbol: int64 ``[base]``."""

    words: SymbolWords
    ids: NDArray[np.int64]


class _Growing:
    """A spec with the tokens and merges added so far."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self._spec = spec
        self._tokens: dict[int, bytes] = {}
        self._merges: list[tuple[int, int, int]] = []  # ids: left, right, result
        self._next = spec.largest_id + 1
        self._ids = dict(spec.ids)

    @property
    def added(self) -> int:
        return len(self._tokens)

    def tokenizer(self) -> Tokenizer:
        spec = self._spec
        if not self._tokens and not self._merges:
            return Tokenizer.of_spec(spec)
        vocab = {**spec.vocab, **self._tokens}
        added = np.array(self._merges, np.int64).reshape(-1, 3).T
        left, right, results = map(np.concatenate, zip(spec.merge_ids, added, strict=True))
        merges: Sequence[Merge] = MergeList(vocab, left, right, results)
        if not isinstance(spec.algorithm, ByteBpe):
            merges = [*spec.merges, *merges[len(spec.merges) :]]
        return Tokenizer.of_spec(
            TokenizerSpec.checked(
                vocab,
                merges,
                spec.special_tokens,
                spec.pattern,
                algorithm=spec.algorithm,
                ignore_merges=spec.ignore_merges,
                pipeline=spec.pipeline,
            )
        )

    def add_characters(self, characters: Sequence[bytes]) -> None:
        for character in characters:
            self._add(character)

    def learn(self, engine: MergeEngine, rows: _Rows, goal: int, reporter: Reporter) -> bool:
        """Copy merges up to ``goal`` new ids; False when one made an existing token."""
        ids = rows.ids.tolist()
        tokens = [self._spec.vocab.get(id_) or self._tokens[id_] for id_ in ids]
        more = True
        while more and self.added < goal:
            done = engine.merges_done
            more = engine.learn(done + min(_MERGES_AT_ONCE, goal - self.added))
            reporter.look()
            for left, right in engine.learned[done:, :2].tolist():
                token = tokens[left] + tokens[right]
                existing = self._ids.get(token)
                result = self._next if existing is None else existing
                self._merges.append((ids[left], ids[right], result))
                if existing is not None:
                    return False
                self._add(token)
                tokens.append(token)
                ids.append(result)
        reporter.finish()
        return True

    def _add(self, token: bytes) -> None:
        self._tokens[self._next], self._ids[token] = token, self._next
        self._next += 1


def text_form_of(base: Tokenizer) -> str:
    """Return the Unicode form that ``base`` normalizes texts to; "" for none."""
    pipeline = base.spec.pipeline
    normalizer = None if pipeline is None else pipeline.normalizer
    if normalizer is None or not isinstance(base.algorithm, ByteBpe):
        return ""
    return normalizer.name


def _check(base: Tokenizer) -> None:
    algorithm, pipeline = base.algorithm, base.spec.pipeline
    if not base.merges or not isinstance(algorithm, ByteBpe | SentencePieceBpe):
        _refuse("it has no merges that could be continued")
    normalizer = None if pipeline is None else pipeline.normalizer
    name = "none" if normalizer is None else normalizer.name
    if isinstance(algorithm, ByteBpe):
        if name not in ("none", *TEXT_FORMS):
            _refuse(f"its normalizer ({name}) changes texts before words are counted")
        if pipeline is not None and pipeline.prefix is not None:
            _refuse("it adds a prefix to texts before words are counted")
        base.pattern.require_every_byte()
        return
    if algorithm.by_piece or algorithm.user_defined:
        _refuse(
            "the ranks of its merges come from piece scores, which new merges would not have",
            "import its tokenizer.json, which lists the merges, instead of the .model",
        )
    if base.pattern.regex != WHOLE_TEXT and [part.regex for part in base.pattern.steps] != [" "]:
        _refuse("it splits texts into words in a way that is not supported for characters")
    steps = () if normalizer is None else normalizer.steps
    if any(step.described() not in _MARKING for step in steps):
        _refuse(f"its normalizer ({name}) does more than replace spaces with ▁")


def _refuse(why: str, next_step: str = "train a new tokenizer: `bpeline train`") -> NoReturn:
    raise InvalidOption(
        f"this tokenizer cannot be extended: {why}",
        "expected byte-level BPE or BPE over characters (such as Llama 2's), with merges, and no "
        f"normalizer, {', '.join(TEXT_FORMS)}, or one that replaces spaces with ▁",
        next_step,
    )


def _encoder_of_words(tokenizer: Tokenizer) -> Encoder:
    """Return the encoder for words that are already normalized."""
    encoder = tokenizer.encoder
    return encoder.inner if isinstance(encoder, PreparedEncoder) else encoder


def _seen(base: Tokenizer, counts: WordCounts) -> tuple[WordCounts, list[bytes]]:
    """Return words as the merges see them, without those that contain reserved text."""
    words = counts.words()
    over_characters = isinstance(base.algorithm, SentencePieceBpe)
    if over_characters:
        words = [word.replace(_SPACE, _MARK) for word in words]
    # Merges must not make the text of an added token, or of one that stands for a byte.
    reserved = [token.encode() for token in base.spec.found_whole]
    if over_characters:
        reserved += [base.vocab[id_] for id_ in _stand_ins(base)]
        reserved += [token.replace(_SPACE, _MARK) for token in reserved]
    if not reserved:
        return counts, words
    spans = spans_of_lengths(words)
    matcher = SpecialTokenMatcher(list(dict.fromkeys(reserved)))
    _, matches = matcher.find_in_spans(Text.of(b"".join(words)), spans)
    indices = np.flatnonzero(matches == 0)
    if len(indices) == len(words):
        return counts, words
    return counts.take(indices), [words[index] for index in indices.tolist()]


def _rows(tokenizer: Tokenizer, words: list[bytes], counts: WordCounts) -> _Rows:
    """Encode words, and cut them at ids that stand for unknown characters."""
    ids, ends = _encoder_of_words(tokenizer).encode_words(words)
    barred = np.zeros(tokenizer.spec.largest_id + 2, np.bool_)
    if isinstance(tokenizer.algorithm, SentencePieceBpe):
        barred[_stand_ins(tokenizer)] = True
    of_word = np.repeat(np.arange(len(words)), np.diff(ends, prepend=0))
    # A row begins at a word, at a barred id and after it, so a barred id is a row of its own.
    begins = np.zeros(len(ids) + 1, np.bool_)
    begins[0] = begins[-1] = True
    begins[1:-1] = of_word[1:] != of_word[:-1]
    at = np.flatnonzero(barred[ids])
    begins[at] = begins[at + 1] = True
    offsets = np.flatnonzero(begins).astype(np.int64)
    rows = of_word[offsets[:-1]]
    present = np.zeros(len(barred), np.bool_)
    present[ids] = True
    alphabet = np.flatnonzero(present)
    numbers = np.cumsum(present, dtype=np.int32) - np.int32(1)
    tokens = tuple(tokenizer.vocab[id_] for id_ in alphabet.tolist())
    symbols = SymbolWords(
        numbers[ids],
        offsets,
        counts.counts[rows],
        counts.first_positions[rows],
        np.arange(len(alphabet), dtype=np.int32),
        tokens,
    )
    return _Rows(symbols, alphabet.astype(np.int64))


def _stand_ins(tokenizer: Tokenizer) -> list[int]:
    """Return the ids that stand for characters without a token."""
    algorithm = tokenizer.algorithm
    assert isinstance(algorithm, SentencePieceBpe)
    names = [f"<0x{byte:02X}>" for byte in range(256)] if algorithm.byte_fallback else []
    if algorithm.unknown is not None:
        names.append(algorithm.unknown)
    by_text = {token: id_ for id_, token in tokenizer.vocab.items()}
    return [by_text[name.encode()] for name in names if name.encode() in by_text]


def _missing_characters(
    base: Tokenizer, words: list[bytes], counts: NDArray[np.int64], most: int
) -> list[bytes]:
    """Return non-ASCII characters to add as tokens, by frequency, then code point."""
    points = np.frombuffer(b"".join(words).decode().encode("utf-32-le"), np.uint32)
    lengths = np.fromiter((len(word.decode()) for word in words), np.int64, len(words))
    characters, inverse = np.unique(points, return_inverse=True)
    often = np.zeros(len(characters), np.int64)
    np.add.at(often, inverse, np.repeat(counts, lengths))
    total = int(often.sum())
    # Byte tokens cover ASCII, and a second id for line feeds would change every text.
    left = sorted(
        (-count, chr(point))
        for point, count in zip(characters.tolist(), often.tolist(), strict=True)
        if point >= 0x80 and chr(point).encode() not in base.spec.ids
    )
    covered, chosen = total + sum(count for count, _ in left), list[bytes]()
    for count, character in left:
        if covered >= COVERAGE * total or len(chosen) >= most:
            break
        chosen.append(character.encode())
        covered -= count
    return chosen
