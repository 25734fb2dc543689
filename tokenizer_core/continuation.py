"""A tokenizer of others continued: words become the ids it makes of them, and these are merged on.

For tokenizers whose merges cannot be replayed one by one (`training.extension` does that): merges
in any order, tokens that no merge makes, words taken whole, characters instead of bytes.
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

# Where a tokenizer leaves texts whole: words, the spaces before them, and line feeds. New tokens
# begin with spaces or have none, as those that SentencePiece's own trainer makes.
SPACED_WORDS = r" *[^ \n]+| +|\n+"
COVERAGE = 0.9995  # of all characters: those that are no tokens become some until it is reached
_MERGES_AT_ONCE = 256
_TIE_BREAKS = ("smallest-ids", "first-seen")
_SPACE, _MARK = b" ", "▁".encode()
_MARKING = (
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
)


def pattern_of_words(base: Tokenizer) -> SplitPattern:
    """How a corpus is cut into words from which the tokenizer is continued.

    Its own split pattern, or words with the spaces before them where that leaves texts whole.

    Raises:
        InvalidOption: see `continue_merges`.
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
    """A tokenizer with more merges, learned from new words, after those of ``base``.

    Every word becomes the ids that ``base`` makes of it; again and again the most frequent pair of
    ids becomes a new id. Ids of new tokens follow the highest one in use, and merges all that there
    are. A pair whose text is a token already becomes that token and takes no new id. Characters
    that are no tokens, where tokens are made of characters, become tokens first, the most frequent
    first, until `COVERAGE` of all characters is reached.

    Args:
        base: byte-level BPE, or BPE over characters, with merges.
        counts: words cut by `pattern_of_words`.
        vocab_size: of the new tokenizer, at most: fewer where no pair occurs ``min_count`` times.
        tie_break: of equally frequent pairs the one with the ``smallest-ids``, or ``first-seen``.
        min_count, min_word_count: rarer pairs and rarer words are left out.
        on_progress: called at most ten times a second.

    Raises:
        InvalidOption: a tokenizer without merges, one that changes texts in other ways than are
            known here, words that it would change, or a parameter out of range.
        EmptyCorpus, CorpusError: no words, or too many for 64 bits.

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
            f"a tokenizer of others cannot be continued with the tie-break {tie_break!r}",
            f"accepted: {', '.join(_TIE_BREAKS)}",
            "leave it out for 'smallest-ids'",
        )
    new_ids = vocab_size - base.vocab_size
    if new_ids < 0:
        raise InvalidOption(
            f"the tokenizer has {base.vocab_size:,} ids, and {vocab_size:,} were asked for",
            f"{base.vocab_size:,} or more",
            "a smaller vocabulary needs no training",
        )
    frequent = prune(counts, min_word_count)[0]
    if not len(frequent):
        raise EmptyCorpus(
            "there are no words to continue from",
            "word counts with a word at least",
            "is the corpus empty, or does min_word_count leave nothing?",
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
    """Each new id with the ids of the old tokenizer that its text was, for initialising embeddings.

    Special tokens stand for no text.

    Args:
        base: the old tokenizer.
        tokenizer: one that continues it.
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
    """Words as rows of symbols, and the id of each symbol of the alphabet: int64 ``[base]``."""

    words: SymbolWords
    ids: NDArray[np.int64]


class _Growing:
    """A spec to which tokens are added."""

    def __init__(self, spec: TokenizerSpec) -> None:
        self._spec = spec
        self._tokens: dict[int, bytes] = {}
        self._merges: list[tuple[int, int, int]] = []  # ids: left, right, result
        self._next = spec.largest_id + 1
        self._ids = dict(spec.ids)

    @property
    def added(self) -> int:
        """How many ids are new."""
        return len(self._tokens)

    def tokenizer(self) -> Tokenizer:
        """What has been made of the spec until now."""
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
        """New tokens that no merge makes."""
        for character in characters:
            self._add(character)

    def learn(self, engine: MergeEngine, rows: _Rows, goal: int, reporter: Reporter) -> bool:
        """Take over what the engine learns, until there are so many new ids or no pair is left.

        Returns:
            False where a pair became a token that was there before: the engine takes them for two.
        """
        ids = rows.ids.tolist()
        tokens = [self._spec.vocab.get(id_) or self._tokens[id_] for id_ in ids]
        more = True
        while more and self.added < goal:
            done = engine.merges_done
            more = engine.learn(done + min(_MERGES_AT_ONCE, goal - self.added))
            reporter.look()
            for left, right in engine.learned[done:, :2].tolist():
                made = tokens[left] + tokens[right]
                known = self._ids.get(made)
                result = self._next if known is None else known
                self._merges.append((ids[left], ids[right], result))
                if known is not None:
                    return False
                self._add(made)
                tokens.append(made)
                ids.append(result)
        reporter.finish()
        return True

    def _add(self, token: bytes) -> None:
        self._tokens[self._next], self._ids[token] = token, self._next
        self._next += 1


def text_form_of(base: Tokenizer) -> str:
    """The Unicode form in which ``base`` sees every text; empty for as it is given."""
    pipeline = base.spec.pipeline
    normalizer = None if pipeline is None else pipeline.normalizer
    if normalizer is None or not isinstance(base.algorithm, ByteBpe):
        return ""
    return normalizer.name


def _check(base: Tokenizer) -> None:
    """Refuse tokenizers that cannot be continued."""
    algorithm, pipeline = base.algorithm, base.spec.pipeline
    if not base.merges or not isinstance(algorithm, ByteBpe | SentencePieceBpe):
        _refuse("it has no merges that could be continued")
    normalizer = None if pipeline is None else pipeline.normalizer
    name = "none" if normalizer is None else normalizer.name
    if isinstance(algorithm, ByteBpe):
        if name not in ("none", *TEXT_FORMS):
            _refuse(f"its normalizer ({name}) changes texts before words are counted")
        if pipeline is not None and pipeline.prefix is not None:
            _refuse("it puts something in front of texts before words are counted")
        base.pattern.require_every_byte()
        return
    if algorithm.by_piece or algorithm.user_defined:
        _refuse(
            "the ranks of its merges follow from scores of pieces, and those of new ones would not",
            "import its tokenizer.json instead of the .model: it lists the merges",
        )
    if base.pattern.regex != WHOLE_TEXT and [one.regex for one in base.pattern.steps] != [" "]:
        _refuse("its texts are cut into words in a way that is not foreseen over characters")
    steps = () if normalizer is None else normalizer.steps
    if any(step.described() not in _MARKING for step in steps):
        _refuse(f"its normalizer ({name}) does more than write spaces as ▁")


def _refuse(why: str, next_step: str = "train a new tokenizer: `bpeline train`") -> NoReturn:
    raise InvalidOption(
        f"this tokenizer cannot be extended: {why}",
        "accepted are byte-level BPE, and BPE over characters such as Llama 2's, with merges, and "
        f"with no normalizer, {', '.join(TEXT_FORMS)}, or one that writes spaces as ▁",
        next_step,
    )


def _encoder_of_words(tokenizer: Tokenizer) -> Encoder:
    """What makes ids of words that are normalized already."""
    encoder = tokenizer.encoder
    return encoder.inner if isinstance(encoder, PreparedEncoder) else encoder


def _seen(base: Tokenizer, counts: WordCounts) -> tuple[WordCounts, list[bytes]]:
    """Words as the merges of the tokenizer see them.

    Without those that hold the text of an added token, which is found before words are cut, or of
    one that stands for a byte or for unknown characters: merged, it would be taken for that.
    """
    words = counts.words()
    over_characters = isinstance(base.algorithm, SentencePieceBpe)
    if over_characters:
        words = [word.replace(_SPACE, _MARK) for word in words]
    barred = [token.encode() for token in base.spec.found_whole]
    if over_characters:
        barred += [base.vocab[id_] for id_ in _stand_ins(base)]
        barred += [token.replace(_SPACE, _MARK) for token in barred]
    if not barred:
        return counts, words
    spans = spans_of_lengths(words)
    matcher = SpecialTokenMatcher(list(dict.fromkeys(barred)))
    _, found = matcher.find_in_spans(Text.of(b"".join(words)), spans)
    kept = np.flatnonzero(found == 0)
    if len(kept) == len(words):
        return counts, words
    return counts.take(kept), [words[index] for index in kept.tolist()]


def _rows(tokenizer: Tokenizer, words: list[bytes], counts: WordCounts) -> _Rows:
    """The ids of words, cut at those that stand for what is no token."""
    ids, ends = _encoder_of_words(tokenizer).encode_words(words)
    barred = np.zeros(tokenizer.spec.largest_id + 2, np.bool_)
    if isinstance(tokenizer.algorithm, SentencePieceBpe):
        barred[_stand_ins(tokenizer)] = True
    of_word = np.repeat(np.arange(len(words)), np.diff(ends, prepend=0))
    # A row begins with a word, at a barred id and after one; such an id is a row of its own.
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
    """Ids that stand for characters that are no tokens."""
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
    """Characters to become tokens, the most frequent first, the smaller of equal ones first.

    Not those of one byte: where bytes stand for characters they are one token as it is, and a line
    feed with another id would change every text.
    """
    points = np.frombuffer(b"".join(words).decode().encode("utf-32-le"), np.uint32)
    lengths = np.fromiter((len(word.decode()) for word in words), np.int64, len(words))
    found, inverse = np.unique(points, return_inverse=True)
    often = np.zeros(len(found), np.int64)
    np.add.at(often, inverse, np.repeat(counts, lengths))
    total = int(often.sum())
    left = sorted(
        (-count, chr(point))
        for point, count in zip(found.tolist(), often.tolist(), strict=True)
        if point >= 0x80 and chr(point).encode() not in base.spec.ids
    )
    covered, chosen = total + sum(count for count, _ in left), list[bytes]()
    for count, character in left:
        if covered >= COVERAGE * total or len(chosen) >= most:
            break
        chosen.append(character.encode())
        covered -= count
    return chosen
