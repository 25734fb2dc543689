"""Superwords over runs of words learned from passages: first words, then merges of whole words.

The rule of Schmidt et al., "Boundless Byte Pair Encoding" (arXiv 2504.00178), in the fast form of
arXiv 2604.05192: once the words are learned, adjacent pre-tokens that are one token each and hold a
letter form runs, and BPE goes on over these with one pre-token as one symbol. `reference` is the
same in plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.superword_bpe.codec import (
    SuperwordBpe,
    SuperwordEncoder,
    holds_letter,
)
from bpeline.tokenizer_core.algorithms.superword_bpe.passage_rows import CutPassages, cut_passages
from bpeline.tokenizer_core.algorithms.superword_bpe.passages import words_of
from bpeline.tokenizer_core.algorithms.superword_bpe.run_engine import RunEngine, least_count
from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.encoding import BytePairEncoder
from bpeline.tokenizer_core.merging import (
    Checkpoint,
    Course,
    LearnedMerges,
    OnProgress,
    SymbolWords,
    learn_with,
    prune,
)
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import (
    learn_merges,
    merges_for,
    refuse_special_tokens_in_words,
)
from bpeline.tokenizer_core.vocabulary import (
    byte_order,
    token_bytes,
    validate_special_tokens,
    vocab_from_merges,
)

_ALGORITHM = "superword-bpe 1"  # to be counted up when the same settings learn other merges
_BYTES = 256


@checked
def train_superword_bpe(
    counts: WordCounts,
    vocab_size: int,
    *,
    special_tokens: tuple[str, ...] | list[str] = (),
    tie_break: str = "smallest-ids",
    min_count: int = 2,
    min_word_count: int = 1,
    resume_from: Path | str | Checkpoint | None = None,
    checkpoint: Path | str | None = None,
    on_progress: OnProgress | None = None,
    passages: CutPassages | None = None,
) -> Tokenizer:
    """Train a tokenizer some of whose tokens are several whole words.

    As many merges of words are learned as the vocabulary has room for. Then they are gone through
    again: where a pair of adjacent words occurs more often than the next merge did, it is merged
    instead, and the last merges of words find no room any more. Among equally frequent pairs of
    words the smallest (left bytes, right bytes) goes first.

    Ids: the special tokens, the 256 bytes, the merges in this order.

    Args:
        counts: counts of passages: counted with `superword_passages` as pattern.
        vocab_size: special tokens, bytes and merges together.
        special_tokens: should be the ones that the passages were counted with.
        tie_break, min_count: of merges of words, see `learn_merges`.
        min_word_count: rarer passages are left out.
        resume_from, checkpoint, on_progress: see `merging.Course`. The checkpoint serves every
            vocabulary size; merges of whole words, which do not, have one of their own beside it.
        passages: those of ``min_word_count`` or more, where they have been cut before.

    Raises:
        InvalidPattern: counts of anything but passages.
        InvalidOption, EmptyCorpus, CorpusError, CorruptFile, DiskFull: as `learn_merges`.
        InvalidSpecialToken: a special token occurs in the passages, or became a token.

    Example:
        >>> from bpeline.tokenizer_core.algorithms import superword_passages
        >>> seen = {b"of the cat": 3, b"of the dog": 2}
        >>> counts = WordCounts.from_mapping(seen, superword_passages("gpt2"))
        >>> made = train_superword_bpe(counts, 256 + 5)
        >>> [left + right for left, right in made.merges]
        [b'he', b'of', b'the', b' the', b'of the']
    """
    words_of(counts.pattern)  # refuses what are no passages, before anything else
    specials = validate_special_tokens(special_tokens)
    merges = merges_for(vocab_size, specials)
    refuse_special_tokens_in_words(specials, counts)
    frequent, _ = prune(counts, min_word_count)
    passages = passages or cut_passages(frequent)
    learned = learn_merges(
        passages.words,
        merges,
        tie_break=tie_break,
        min_count=min_count,
        resume_from=resume_from,
        checkpoint=checkpoint,
        on_progress=on_progress,
    )
    tokens = token_bytes(learned.pairs(), byte_order(tie_break))
    with_letters = [id_ for id_, token in enumerate(tokens) if holds_letter(token)]
    symbols = np.array(sorted(with_letters, key=tokens.__getitem__), np.int64)
    engine = partial(_engine_of, passages, learned, symbols, tokens, byte_order(tie_break))
    settings = digest_of(
        {
            "algorithm": _ALGORITHM,
            "tie_break": tie_break,
            "min_count": min_count,
            "min_word_count": min_word_count,
            "merges": len(learned),
        }
    )
    course = _beside(Course(resume_from, checkpoint, on_progress=on_progress), len(learned))
    above = learn_with(engine, len(learned), counts, settings, course)
    pairs, whole = _in_order(learned, above, symbols)
    left, right = np.array(pairs, np.int64).reshape(-1, 2).T
    made = vocab_from_merges(left, right, byte_order(tie_break), specials)
    return Tokenizer(
        made.vocab,
        made.merges,
        made.special_tokens,
        pattern=counts.pattern,
        algorithm=SuperwordBpe(whole),
    )


def _engine_of(
    passages: CutPassages,
    learned: LearnedMerges,
    symbols: NDArray[np.int64],
    tokens: list[bytes],
    order: Sequence[int],
) -> RunEngine:
    base_tokens = tuple(tokens[id_] for id_ in symbols.tolist())
    of_words = _symbols_of_words(passages, learned, symbols, base_tokens, order)
    runs = passages.runs(of_words, least_count(learned.counts))
    words = SymbolWords(
        *runs,
        np.zeros(len(runs[2]), np.int64),
        np.arange(len(symbols), dtype=np.int32),
        base_tokens,
    )
    return RunEngine(words, learned.counts)


def words_of_passages(passages: WordCounts) -> WordCounts:
    """The counts of the words that passages consist of.

    Raises:
        InvalidPattern: counts of anything but passages.
    """
    return cut_passages(passages).words.in_order_of_sight()


def words_beside(
    merges: Checkpoint,
    number: int,
    passages: SplitPattern,
    special_tokens: Sequence[str],
    tie_break: str,
) -> Tokenizer:
    """The tokenizer of words alone that superwords were learned beside.

    Args:
        merges: the checkpoint of `train_superword_bpe`.
        number: how many of them, the first ones.
        passages: the split pattern of the counts.
        special_tokens, tie_break: as they were given.
    """
    left, right = merges.left[:number], merges.right[:number]
    made = vocab_from_merges(left, right, byte_order(tie_break), special_tokens)
    return Tokenizer(made.vocab, made.merges, made.special_tokens, pattern=words_of(passages))


def passage_tokens(
    tokenizer: Tokenizer, passages: CutPassages
) -> tuple[NDArray[np.uint32], NDArray[np.int64]] | None:
    """The ids of passages that are cut already, as `Encoder.encode_rows` gives them.

    None of a tokenizer that merges no runs of words.
    """
    encoder = tokenizer.encoder
    return encoder.encode_passages(passages) if isinstance(encoder, SuperwordEncoder) else None


def _symbols_of_words(
    passages: CutPassages,
    learned: LearnedMerges,
    symbols: NDArray[np.int64],
    base_tokens: Sequence[bytes],
    order: Sequence[int],
) -> NDArray[np.int32]:
    """By word: the place among ``symbols`` of the one token that it is, or −1."""
    byte_ids = np.empty(_BYTES, np.int64)
    byte_ids[list(order)] = np.arange(_BYTES)
    results = np.arange(_BYTES, _BYTES + len(learned))
    parts = learned.left.astype(np.int64), learned.right.astype(np.int64)
    encoder = BytePairEncoder(byte_ids, *parts, results, passages.words.pattern)
    content = np.frombuffer(bytearray(b"".join(base_tokens)), np.uint8)
    offsets = np.cumsum([0, *map(len, base_tokens)], dtype=np.int64)
    words = passages.numbers_of(content, offsets)
    ids, ends = encoder.encode_rows(content, offsets)
    alone = (words >= 0) & (np.diff(ends, prepend=0) == 1)
    place = np.full(_BYTES + len(learned), -1, np.int32)
    place[symbols] = np.arange(len(symbols), dtype=np.int32)
    found = np.full(len(passages.words), -1, np.int32)
    found[words[alone]] = place[ids[ends[alone] - 1]]
    return found


def _in_order(
    learned: LearnedMerges, above: LearnedMerges, symbols: NDArray[np.int64]
) -> tuple[list[tuple[int, int]], tuple[int, ...]]:
    """All merges in the numbering of training, and the ranks of those of whole words."""
    pairs, whole = list[tuple[int, int]](), list[int]()
    ids = [*symbols.tolist()]  # of each symbol; those of words are of the numbering before
    number = dict(zip(range(_BYTES), range(_BYTES), strict=True))
    recorded, word = learned.counts.tolist(), 0
    firsts, seconds = learned.left.tolist(), learned.right.tolist()
    made = iter(zip(above.left.tolist(), above.right.tolist(), above.counts.tolist(), strict=True))
    best = next(made, None)
    superwords = list[int]()

    def id_of(symbol: int) -> int:
        return number[ids[symbol]] if symbol < len(ids) else superwords[symbol - len(ids)]

    while len(pairs) < len(learned):
        here = _BYTES + len(pairs)
        if best is not None and best[2] > recorded[word]:
            whole.append(len(pairs))
            pairs.append((id_of(best[0]), id_of(best[1])))
            superwords.append(here)
            best = next(made, None)
        else:
            pairs.append((number[firsts[word]], number[seconds[word]]))
            number[_BYTES + word] = here
            word += 1
    return pairs, tuple(whole)


def superwords_beside(checkpoint: Path, merges: str = "*[0-9]") -> str:
    """The name of the file beside a checkpoint that keeps merges of whole words; a glob of all."""
    return f"{checkpoint.name}.superwords-{merges}"


def _beside(course: Course, merges: int) -> Course:
    """The course of merges of whole words, in a file beside that of the words."""

    def other(path: Path) -> Path:
        return path.with_name(superwords_beside(path, str(merges)))

    saved = course.saved_in
    known = other(saved) if saved is not None and other(saved).exists() else None
    kept = None if course.kept_in is None else other(course.kept_in)
    return replace(course, resume_from=known, checkpoint=kept)
