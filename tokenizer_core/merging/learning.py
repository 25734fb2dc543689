"""The learning loop with checkpoints and progress reports; words over characters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import CorruptFile, EmptyCorpus, InvalidOption
from bpeline.tokenizer_core.merging.checkpoint import (
    Checkpoint,
    CheckpointSchedule,
    Merger,
    OnProgress,
    Reporter,
    load_checkpoint,
    save_checkpoint,
)
from bpeline.tokenizer_core.merging.merge_engine import MergeEngine, SymbolWords
from bpeline.tokenizer_core.vocabulary import validate_tie_break

MERGES_PER_CHECKPOINT = 1000
_CALL_SECONDS = 0.03  # per kernel call: negligible overhead, and Ctrl-C works
_FIRST_CALL = 32  # merges
_DEFAULTS = (
    "the defaults are min_count=2, min_word_count=1, max_token_bytes=None, checkpoint_every=1000"
)


@dataclass(frozen=True, slots=True)
class PrunedWords:
    """The distinct words and occurrences that ``min_word_count`` removed."""

    words: int
    occurrences: int


NOTHING = PrunedWords(0, 0)


def prune(counts: WordCounts, min_word_count: int) -> tuple[WordCounts, PrunedWords]:
    """Return the words with at least ``min_word_count``, and the size of the rest."""
    checks.instance("counts", counts, WordCounts)
    min_word_count = checks.whole_number("min_word_count", min_word_count, 1)
    frequent = counts.at_least(min_word_count)
    if min_word_count > 1 and len(counts) and not len(frequent):
        raise EmptyCorpus(
            f"none of {len(counts)} words occurs {min_word_count} times",
            f"expected a min_word_count of at most {int(counts.counts.max())}, the highest count",
            "choose a smaller min_word_count, or leave it out",
        )
    if frequent is counts:
        return counts, NOTHING
    left_out = len(counts) - len(frequent), counts.total - frequent.total
    return frequent, PrunedWords(*left_out)


@dataclass(frozen=True, slots=True, eq=False)
class LearnedMerges:
    """Merges in order, in training ids: base tokens, then merges.

    Base tokens are the bytes in `byte_order` of the tie-break, or characters.

    Attributes:
        left, right: int32 [n].
        counts: int64 [n], each pair's count when it was merged.
        exhausted: training ended early because no pair was left.
        pruned: the words that ``min_word_count`` removed.
    """

    left: NDArray[np.int32]
    right: NDArray[np.int32]
    counts: NDArray[np.int64]
    exhausted: bool
    pruned: PrunedWords = NOTHING

    def __len__(self) -> int:
        return len(self.left)

    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.left.tolist(), self.right.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """Checkpoints and progress reports of a training; they do not change the result.

    Attributes:
        resume_from: a checkpoint of the same counts and settings.
        checkpoint: where to save the merges, during training and at the end; the checkpoint before
            is kept next to it.
        checkpoint_every: merges between two checkpoints (fewer if they take over a second).
        on_progress: called at most ten times a second and at the end.
    """

    resume_from: Path | str | Checkpoint | None = None
    checkpoint: Path | str | None = None
    checkpoint_every: int = MERGES_PER_CHECKPOINT
    on_progress: OnProgress | None = None

    def __post_init__(self) -> None:
        for name, place in (("resume_from", self.resume_from), ("checkpoint", self.checkpoint)):
            if place is not None and not isinstance(place, Checkpoint):
                checks.location(name, place)
        checks.set_whole_numbers(self, checkpoint_every=1)
        checks.function("on_progress", self.on_progress)

    @property
    def saved_in(self) -> Path | None:
        """The file to resume from, if any."""
        earlier = self.resume_from
        return None if earlier is None or isinstance(earlier, Checkpoint) else Path(earlier)

    @property
    def kept_in(self) -> Path | None:
        """The file to save checkpoints in, if any."""
        return None if self.checkpoint is None else Path(self.checkpoint)


def validate_options(
    merges: int,
    tie_break: str,
    min_count: int,
    min_word_count: int,
    max_token_bytes: int | None = None,
    every: int = MERGES_PER_CHECKPOINT,
) -> None:
    validate_tie_break(tie_break)
    for name, value, least in (
        ("merges", merges, 0),
        ("min_count", min_count, 1),
        ("min_word_count", min_word_count, 1),
        ("max_token_bytes", 1 if max_token_bytes is None else max_token_bytes, 1),
        ("checkpoint_every", every, 1),
    ):
        checks.whole_number(name, value, least, _DEFAULTS)


def learn_with(
    make_engine: Callable[[], Merger],
    merges: int,
    counts: WordCounts | None,
    settings: str,
    course: CheckpointPolicy,
    *,
    given: NDArray[np.int32] | None = None,
    pruned: PrunedWords = NOTHING,
) -> LearnedMerges:
    """Learn until there are ``merges`` merges, including those given or resumed.

    Args:
        make_engine: called unless the checkpoint holds all merges.
        counts: the words before pruning; None if no checkpoint is read or saved.
        settings: digest of all other settings that decide the merges, except their number.
        given: int32 [n, 2], merges that precede all learned ones.

    Raises:
        InvalidOption: a checkpoint of other counts or settings, or a missing one.
        CorpusError: counts that exceed 64 bits.
        CorruptFile: a damaged checkpoint, or one that contradicts these counts.
        DiskFull: no space for the checkpoint; the one before is still valid.
    """
    saved, kept_in = course.resume_from, course.kept_in
    if saved is not None and not isinstance(saved, Checkpoint):
        saved = load_checkpoint(Path(saved))
    keeps_merges = saved is not None or kept_in is not None
    digests = "", ""
    if keeps_merges:
        assert counts is not None
        digests = counts.digest, settings
    if saved is not None:
        saved.require_same_run(*digests)
        if len(saved) >= merges:
            if kept_in is not None and not kept_in.exists():
                save_checkpoint(kept_in, saved)
            columns = (saved.left[:merges], saved.right[:merges], saved.counts[:merges])
            return LearnedMerges(*columns, False, pruned)
    engine = make_engine()
    schedule = None
    if kept_in is not None:
        saved_merges = len(saved) if saved is not None and course.saved_in == kept_in else 0
        no_merges = np.zeros(0, np.int32)
        blank = Checkpoint(*digests, no_merges, no_merges, np.zeros(0, np.int64), engine.base)
        schedule = CheckpointSchedule(kept_in, blank, saved_merges, course.checkpoint_every)
    reporter = Reporter(course.on_progress, engine, merges)
    if given is not None:
        _run(engine, len(given), reporter, schedule, given.astype(np.int64))
    if saved is not None:
        pairs = np.stack([saved.left, saved.right], axis=1).astype(np.int64)
        _run(engine, len(saved), reporter, None, pairs)
        if not np.array_equal(engine.learned[: len(saved), 2], saved.counts):
            raise CorruptFile(
                "the merges of the checkpoint have other counts in these words",
                "expected the same count for each merge when it is replayed",
                "train again without resume_from, and please report this",
            )
    _run(engine, merges, reporter, schedule, None)
    if schedule is not None:
        schedule.save(engine.learned)
    reporter.finish()
    left, right, pair_counts = engine.learned.T
    return LearnedMerges(
        left.astype(np.int32),
        right.astype(np.int32),
        pair_counts.copy(),
        len(pair_counts) < merges,
        pruned,
    )


def _run(
    engine: Merger,
    goal: int,
    reporter: Reporter,
    schedule: CheckpointSchedule | None,
    given: NDArray[np.int64] | None,
) -> None:
    """Learn or apply ``given`` up to ``goal`` merges, in kernel calls of about 30 ms."""
    pace = _FIRST_CALL
    more = True
    while more and engine.merges_done < goal:
        done = engine.merges_done
        stop = min(goal, done + pace)
        if schedule is not None and schedule.next_stop > done:
            stop = min(stop, schedule.next_stop)
        began = time.monotonic()
        if given is None:
            more = engine.learn(stop)
        else:
            engine.apply(given, stop)
        if stop == done + pace:  # late merges are faster: adapt the number per call
            change = _CALL_SECONDS / max(time.monotonic() - began, 1e-6)
            pace = max(1, int(pace * min(max(change, 0.25), 4.0)))
        if schedule is not None:
            schedule.look(engine.learned)
        reporter.look()


_INSIDE = 1 << 21  # flag above every code point: the character is inside a word
_MARK = b"\xff"  # stands for a mark that is not a character; never valid in UTF-8


@dataclass(frozen=True, slots=True, eq=False)
class CharacterWords:
    """Words of characters and their base tokens.

    Attributes:
        tokens: the base tokens as text, by id.
        ends: (character, mark) ids of the characters that end words, if ends are marked.
        allows: whether merges may make a token of these bytes; None allows all.
    """

    words: SymbolWords
    tokens: tuple[str, ...]
    ends: NDArray[np.int64]
    allows: Callable[[bytes], bool] | None = None


def words_with_ends(counts: WordCounts, end_of_word: str, joined: bool = False) -> CharacterWords:
    """Each word as its characters and one symbol for its end.

    Base tokens are in the order of their text: by code point, the mark by its first character.

    Words may contain the text of the mark; inside a word it is ordinary characters. If the mark is
    a single character and not ``joined`` to the last one, it is the same symbol as that character,
    as in the papers' programs. Otherwise no merge makes a token that ends in the mark's text but
    does not end a word.
    """
    if not end_of_word:
        raise InvalidOption("the end-of-word mark is empty", "expected any other text", "'</w>'")
    points, offsets = _characters(counts)
    last = points[offsets[1:] - 1]
    is_character = len(end_of_word) == 1 and not joined
    place = ord(end_of_word[0]) << 1 if is_character else (ord(end_of_word[0]) << 1) | 1
    offsets = offsets + np.arange(len(offsets))
    content = np.empty(offsets[-1], np.int32)
    is_end = np.zeros(len(content), np.bool_)
    is_end[offsets[1:] - 1] = True
    content[is_end] = place
    content[~is_end] = points << 1
    distinct, rows = _numbered(content)
    tokens = tuple(
        end_of_word if number == place else chr(number >> 1) for number in distinct.tolist()
    )
    lasts = np.searchsorted(distinct, _numbered(last << 1)[0])
    mark = np.full(len(lasts), int(np.searchsorted(distinct, place)))
    ends = np.stack((lasts, mark), axis=1).astype(np.int64)
    character_words = _character_words(counts, rows, offsets, tokens, ends)
    if is_character or counts.words_with([end_of_word])[0] is None:
        return character_words
    spelled = list(character_words.words.base_tokens)
    spelled[mark[0]] = _MARK
    marked_words = replace(character_words.words, base_tokens=tuple(spelled))
    mark_text = end_of_word.encode()
    return replace(
        character_words, words=marked_words, allows=lambda token: not token.endswith(mark_text)
    )


def words_that_go_on(counts: WordCounts, continuation: str) -> CharacterWords:
    """Each word as its first character and its others with ``continuation`` in front.

    Base tokens are numbered by code point, those that begin words first.
    """
    if not continuation:
        raise InvalidOption(
            "the mark of tokens that continue a word is empty",
            "expected any text; words may contain it",
            "use '##', as BERT does",
        )
    points, offsets = _characters(counts)
    content = points | _INSIDE
    content[offsets[:-1]] = points[offsets[:-1]]
    distinct, rows = _numbered(content)
    tokens = tuple(
        continuation + chr(number ^ _INSIDE) if number & _INSIDE else chr(number)
        for number in distinct.tolist()
    )
    return _character_words(counts, rows, offsets, tokens, np.empty((0, 2), np.int64))


def _numbered(content: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The distinct values (below 2²²) in ascending order, and the index of each value."""
    present = np.zeros(2 * _INSIDE, np.bool_)
    present[content] = True
    distinct = np.flatnonzero(present)
    numbers = np.zeros(2 * _INSIDE, np.int32)
    numbers[distinct] = np.arange(len(distinct))
    return distinct, numbers[content]


def _characters(counts: WordCounts) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Code points of all words, and the offset of each word."""
    if not len(counts):
        raise EmptyCorpus(
            "there are no words to learn from",
            "expected word counts with at least one word",
            "check that the corpus is not empty and min_word_count not too high",
        )
    content = counts.word_bytes.tobytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InvalidOption(
            f"the words are not UTF-8 at byte {error.start} of all of them",
            "expected words of characters, as by the split patterns 'whitespace' and 'wordpunct'",
            "count the corpus again with invalid_utf8='replace'",
        ) from None
    points = np.frombuffer(text.encode("utf-32-le"), np.int32)
    leads = (counts.word_bytes & 0xC0) != 0x80
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(leads, dtype=np.int64)))
    return points, before[counts.offsets]


def _character_words(
    counts: WordCounts,
    rows: NDArray[np.int32],
    offsets: NDArray[np.int64],
    tokens: tuple[str, ...],
    ends: NDArray[np.int64],
) -> CharacterWords:
    ids = np.arange(len(tokens), dtype=np.int32)
    spelled = tuple(token.encode() for token in tokens)
    counted = counts.counts, counts.first_positions
    return CharacterWords(SymbolWords(rows, offsets, *counted, ids, spelled), tokens, ends)


END_OF_WORD = "</w>"
_CHARACTERS = "char-bpe 1"  # increase when the same settings learn other merges


@dataclass(frozen=True, slots=True)
class CharacterSettings:
    """Settings of `train_char_bpe` that decide which merges it learns."""

    end_of_word: str
    joined: bool
    tie_break: str
    min_count: int
    min_word_count: int

    def __post_init__(self) -> None:
        checks.text("end_of_word", self.end_of_word)
        object.__setattr__(self, "joined", checks.flag("joined", self.joined))
        validate_tie_break(self.tie_break)
        checks.set_whole_numbers(self, min_count=1, min_word_count=1)

    @property
    def digest(self) -> str:
        return digest_of({"algorithm": _CHARACTERS, **asdict(self)})


def learn_characters(
    counts: WordCounts,
    words: CharacterWords,
    merges: int,
    settings: CharacterSettings,
    course: CheckpointPolicy,
) -> LearnedMerges:
    """Learn the merges, after those of last characters and mark if ``joined``."""
    validate_options(merges, settings.tie_break, settings.min_count, settings.min_word_count)
    given = words.ends.astype(np.int32) if settings.joined else None
    engine = partial(
        MergeEngine,
        words.words,
        tie_break=settings.tie_break,
        min_count=settings.min_count,
        free_application=settings.joined,
        allows=words.allows,
    )
    goal = merges + (0 if given is None else len(given))
    return learn_with(engine, goal, counts, settings.digest, course, given=given)


def pairs_of_texts(
    words: CharacterWords, learned: LearnedMerges, continuation: str = ""
) -> list[tuple[str, str]]:
    """The texts of both parts of each merge, ``continuation`` dropped inside tokens."""
    tokens, pairs = list(words.tokens), []
    for left, right in learned.pairs():
        pair = tokens[left], tokens[right]
        pairs.append(pair)
        tokens.append(pair[0] + pair[1].removeprefix(continuation))
    return pairs


def numbered(first: Iterable[str], then: Iterable[str]) -> dict[int, bytes]:
    distinct = dict.fromkeys([*first, *then])
    return {id_: token.encode() for id_, token in enumerate(distinct)}
