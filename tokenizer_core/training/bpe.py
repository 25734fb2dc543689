"""Byte-level BPE training: texts or word counts in, merges or a tokenizer out.

The algorithm is that of Sennrich et al. 2016 over bytes: again and again the most frequent pair
becomes one token. `tokenizer_core.reference.train` is the same in plain Python.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.counting import TextsCounted, WordCounts, count_texts
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken
from bpeline.tokenizer_core.merging import (
    MERGES_PER_CHECKPOINT,
    Checkpoint,
    Course,
    LearnedMerges,
    MergeEngine,
    OnProgress,
    byte_words,
    learn_with,
    prune,
    validate_options,
)
from bpeline.tokenizer_core.splitting import SplitPattern, pre_tokens
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.token_rules import NO_RULES, Characters, TokenRules
from bpeline.tokenizer_core.vocabulary import (
    MAX_TOKEN_BYTES,
    SpecialIds,
    byte_order,
    refuse_clashes,
    token_bytes,
    validate_special_tokens,
    validate_tie_break,
    vocab_from_merges,
)

_BYTES = 256
_ALGORITHM = "byte-bpe 1"  # to be counted up when the same settings learn other merges
# A token of n bytes costs up to n − 1 merges, and each looks at all of the token's parts.
LONGEST_REQUIRED_TOKEN = 1 << 10  # bytes

Pair = tuple[int, int]
T = TypeVar("T")


def settings_digest(
    *,
    tie_break: str = "smallest-ids",
    min_count: int = 2,
    min_word_count: int = 1,
    max_token_bytes: int | None = None,
    given: NDArray[np.int32] | None = None,
    rules: TokenRules = NO_RULES,
) -> str:
    """Digest of what decides, besides the word counts, which merges are learned.

    The vocabulary size and the special tokens do not.
    """
    settings = {
        "algorithm": _ALGORITHM,
        "tie_break": tie_break,
        "min_count": min_count,
        "min_word_count": min_word_count,
        "max_token_bytes": longest_token(max_token_bytes),
        "given": None if given is None else digest_of_bytes(given.astype("<i4").tobytes()),
    }
    if rules:  # checkpoints of trainings without any were made before there were rules
        settings["rules"] = rules.digest
    return digest_of(settings)


def learn_merges(
    counts: WordCounts,
    merges: int,
    *,
    tie_break: str = "smallest-ids",
    min_count: int = 2,
    min_word_count: int = 1,
    max_token_bytes: int | None = None,
    given: NDArray[np.int32] | None = None,
    rules: TokenRules = NO_RULES,
    resume_from: Path | str | Checkpoint | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: int = MERGES_PER_CHECKPOINT,
    on_progress: OnProgress | None = None,
) -> LearnedMerges:
    """Learn up to ``merges`` merges.

    Merges are a prefix order: fewer merges are the first ones of more. So a checkpoint of any
    length serves every number of merges, and resuming gives what an uninterrupted run gives.

    Args:
        counts: the words; their order matters to ``first-seen`` alone (by first position).
        merges: how many at most, ``given`` ones included.
        tie_break: which of several equally frequent pairs goes first, see
            `tokenizer_core.reference.train`.
        min_count: rarer pairs are not merged; at least 1.
        min_word_count: rarer words are left out, as if the corpus did not hold them; 1 keeps all.
            Counts are sums over the whole corpus here, so nothing depends on how it was cut.
        max_token_bytes: pairs that would make longer tokens are not merged. None means 65,536,
            the most any tokenizer may hold.
        given: int32 [n, 2], merges to apply before learning: those of a tokenizer that is being
            extended, or `required_merges`; whether or not they occur in ``counts``.
        rules: which tokens are not made: a pair that would make one is passed over, and the next
            one is merged.
        resume_from, checkpoint, checkpoint_every, on_progress: see `Course`.

    Raises:
        InvalidOption: a parameter out of range, a checkpoint of other counts or settings, or
            ``given`` merges that make a token which the rules forbid.
        CorpusError: counts beyond 64 bits, see `check_bounds` of the engine.
        EmptyCorpus: no word occurs ``min_word_count`` times.
        CorruptFile: no whole checkpoint at ``resume_from``, or one that these counts contradict.
        DiskFull: no space for the checkpoint; the one before is whole.
    """
    validate_options(
        merges, tie_break, min_count, min_word_count, max_token_bytes, checkpoint_every
    )
    _validate_given(given, merges)
    ruled = rules is not NO_RULES and bool(rules)
    if ruled:
        rules.require_of_merges(given, tie_break, "the given merges")
    frequent, pruned = prune(counts, min_word_count)
    settings = ""
    if resume_from is not None or checkpoint is not None:
        settings = settings_digest(
            tie_break=tie_break,
            min_count=min_count,
            min_word_count=min_word_count,
            max_token_bytes=max_token_bytes,
            given=given,
            rules=rules,
        )
    engine = partial(
        MergeEngine,
        byte_words(frequent, tie_break),
        tie_break=tie_break,
        min_count=min_count,
        max_length=longest_token(max_token_bytes),
        free_application=given is not None,
        allows=rules.judge() if ruled else None,
        expected=merges,
    )
    course = Course(resume_from, checkpoint, checkpoint_every, on_progress)
    learned = learn_with(engine, merges, counts, settings, course, given=given, pruned=pruned)
    if ruled:
        rules.prove(token_bytes(learned.pairs(), byte_order(tie_break)))
    return learned


def _validate_given(given: NDArray[np.int32] | None, merges: int) -> None:
    """Refuse given merges that are no merges, or more than are wanted.

    Raises:
        InvalidOption: naming what they must be.
    """
    if given is None:
        return
    made = np.arange(_BYTES, _BYTES + len(given))[:, None]
    in_order = given.ndim == 2 and given.shape[1] == 2
    in_order = in_order and bool(np.all((given >= 0) & (given < made)))
    if not in_order or len(np.unique(given, axis=0)) != len(given):
        raise InvalidOption(
            "the given merges are not a list of different pairs of existing tokens",
            "an int32 array [n, 2]; row k, which makes token 256 + k, names two tokens below it",
            "take left and right of a LearnedMerges or a Checkpoint",
        )
    if len(given) > merges:
        raise InvalidOption(
            f"{len(given)} merges are given and only {merges} wanted",
            f"merges is {len(given)} or more",
            "a smaller vocabulary needs no training: keep the first merges",
        )


def train_bpe(
    counts: WordCounts,
    vocab_size: int,
    *,
    special_tokens: tuple[str, ...] | list[str] = (),
    tie_break: str = "smallest-ids",
    min_count: int = 2,
    min_word_count: int = 1,
    max_token_bytes: int | None = None,
    required_tokens: tuple[str, ...] | list[str] = (),
    forbid: str | tuple[str, ...] | list[str] = (),
    forbidden_tokens: str | bytes | tuple[str | bytes, ...] | list[str | bytes] = (),
    characters: Characters = "any",
    resume_from: Path | str | Checkpoint | None = None,
    on_progress: OnProgress | None = None,
    checkpoint: Path | str | None = None,
    special_ids: SpecialIds = "first",
) -> Tokenizer:
    """Train a byte-level BPE tokenizer.

    Ids: the special tokens in the given order, the 256 bytes in the order of the tie-break
    (`byte_order`), the merges; with ``special_ids="last"`` the special tokens follow the merges.
    The vocabulary stays smaller than ``vocab_size`` when the corpus does not hold enough pairs.

    Args:
        counts: word counts; their split pattern becomes the tokenizer's.
        vocab_size: special tokens, bytes and merges together.
        special_tokens: should be the ones that the words were counted with.
        tie_break, min_count, min_word_count, max_token_bytes, resume_from, on_progress, checkpoint:
            see `learn_merges`.
        required_tokens: texts that become tokens whatever the counts say; each must be one
            pre-token. Their merges come first, in the given order (`required_merges`).
        forbid: regexes, or names such as ``digits`` and ``email`` (`FORBIDDEN_LOOKS`): no token
            that is learned has a match in it. Special tokens are not asked about.
        forbidden_tokens: tokens that are not made, as bytes or text.
        characters: ``whole``: no token mixes a part of a character with anything else;
            ``left-to-right``: parts are merged only to complete a character from its left.
        special_ids: ``first`` or ``last``.

    Raises:
        InvalidOption: ``vocab_size`` smaller than 256, the special tokens and the merges of the
            required tokens; a token that cannot be required; rules that forbid a byte; and as
            `learn_merges`.
        InvalidPattern: the counts' split pattern drops text, such as ``whitespace``.
        InvalidSpecialToken: empty, duplicate, a single byte, a required token or part of one, or
            occurring in the words. All of this is refused before training starts.
        CorpusError, EmptyCorpus, CorruptFile, DiskFull: as `learn_merges`.
    """
    checks.instance("counts", counts, WordCounts)
    min_count = checks.whole_number("min_count", min_count, 1)
    min_word_count = checks.whole_number("min_word_count", min_word_count, 1)
    if max_token_bytes is not None:
        max_token_bytes = checks.whole_number("max_token_bytes", max_token_bytes, 1)
    counts.pattern.require_every_byte()
    specials = validate_special_tokens(checks.texts("special_tokens", special_tokens))
    merges = merges_for(vocab_size, specials)
    rules = NO_RULES
    if forbid or forbidden_tokens or characters != "any":
        rules = TokenRules.checked(forbid, forbidden_tokens, characters)
    nothing = np.empty(0, np.int32)
    vocab_from_merges(nothing, nothing, range(_BYTES), (), special_ids)  # refuses a wrong name now
    given = given_for(required_tokens, counts.pattern, merges, specials, tie_break, max_token_bytes)
    refuse_special_tokens_in_words(specials, counts)
    learned = learn_merges(
        counts,
        merges,
        tie_break=tie_break,
        min_count=min_count,
        min_word_count=min_word_count,
        max_token_bytes=max_token_bytes,
        given=given,
        rules=rules,
        resume_from=resume_from,
        checkpoint=checkpoint,
        on_progress=on_progress,
    )
    order = byte_order(tie_break)
    made = vocab_from_merges(learned.left, learned.right, order, specials, special_ids)
    return Tokenizer(made.vocab, made.merges, made.special_tokens, pattern=counts.pattern)


def train_from_iterator(
    texts: Iterable[Any],
    vocab_size: int,
    *,
    pattern: str | SplitPattern = "gpt2",
    special_tokens: Sequence[str] = (),
    workers: int | None = None,
    text_field: str = "text",
    on_counting: Callable[[TextsCounted], None] | None = None,
    **options: Any,
) -> Tokenizer:
    """Count the words of texts and train a byte-level BPE tokenizer on them.

    Args:
        texts, pattern, workers, text_field: see `count_texts`.
        vocab_size: see `train_bpe`.
        special_tokens: separate documents, are never counted, and have the first ids.
        on_counting: called with the progress of counting.
        options: further ones of `train_bpe`: ``min_count``, ``tie_break``, ``on_progress``, …

    Raises:
        InvalidOption: an option that `train_bpe` does not have.
        BpelineError: as `count_texts` and `train_bpe`.

    Example:
        >>> train_from_iterator(["low lower lowest"] * 9, 260).encode("lower")
        [257, 68, 81]
    """
    special_tokens = validate_special_tokens(checks.texts("special_tokens", special_tokens))
    merges_for(vocab_size, special_tokens)  # refuses too small a size before counting
    _check_options(options)
    counts = count_texts(
        texts, pattern, special_tokens, workers, text_field=text_field, on_progress=on_counting
    )
    return train_bpe(counts, vocab_size, special_tokens=special_tokens, **options)


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse options of `train_bpe` that it would refuse after the words are counted."""
    checks.options_of(train_bpe, options)
    for name in ("min_count", "min_word_count", "max_token_bytes"):
        if options.get(name) is not None:
            checks.whole_number(name, options[name], 1)
    validate_tie_break(options.get("tie_break", "smallest-ids"))
    rules = ("forbid", ()), ("forbidden_tokens", ()), ("characters", "any")
    TokenRules.checked(*(options.get(name, usual) for name, usual in rules))
    earlier, kept = options.get("resume_from"), options.get("checkpoint")
    Course(earlier, kept, on_progress=options.get("on_progress"))


def refuse_special_tokens_in_words(special_tokens: Sequence[str], counts: WordCounts) -> None:
    """Refuse special tokens that occur inside words: training could learn them as merges.

    Words counted with the same special tokens never hold one.

    Raises:
        InvalidSpecialToken: one occurs.
    """
    for token, word in zip(special_tokens, counts.words_with(special_tokens), strict=True):
        if word is not None:
            shown = word[:40].decode("utf-8", "replace")
            raise InvalidSpecialToken(
                f"the special token {token!r} occurs in the words, for instance in {shown!r}, so "
                "it could become an ordinary token",
                "words that were counted with the same special tokens, which never hold one",
                f"count the words with special_tokens=[{token!r}], or choose another",
            )


def merges_for(vocab_size: int, special_tokens: tuple[str, ...] | list[str] = ()) -> int:
    """How many merges fill a vocabulary.

    Raises:
        InvalidOption: the bytes and the special tokens alone are more than ``vocab_size``.
    """
    least = _BYTES + len(special_tokens)
    vocab_size = checks.whole_number("vocab_size", vocab_size)
    if vocab_size < least:
        raise InvalidOption(
            f"a vocabulary of {vocab_size} has no room for 256 bytes and "
            f"{len(special_tokens)} special tokens",
            f"vocab_size is a whole number from {least} on",
            "32000 is usual for one language, 100000 and more for many",
        )
    return vocab_size - least


def given_for(
    required_tokens: tuple[str, ...] | list[str],
    pattern: SplitPattern,
    merges: int,
    special_tokens: tuple[str, ...] = (),
    tie_break: str = "smallest-ids",
    max_token_bytes: int | None = None,
) -> NDArray[np.int32] | None:
    """The merges to begin with; None when no token is required.

    Raises:
        InvalidOption: a token that cannot be required, or more merges than ``merges``.
        InvalidSpecialToken: a special token is a byte, a required token or part of one.
    """
    validate_tie_break(tie_break)
    required_tokens = checks.texts("required_tokens", required_tokens)
    if not required_tokens:
        refuse_clashes(special_tokens, map(bytes, zip(range(_BYTES), strict=True)))
        return None
    given = required_merges(required_tokens, pattern, tie_break, max_token_bytes)
    if len(given) > merges:
        raise InvalidOption(
            f"making the required tokens takes {len(given)} merges, and the vocabulary has "
            f"room for {merges}",
            f"vocab_size is {_BYTES + len(special_tokens) + len(given)} or more",
            "choose a larger vocabulary or require fewer tokens",
        )
    refuse_clashes(special_tokens, token_bytes(map(tuple, given.tolist()), byte_order(tie_break)))
    return given


def longest_token(max_token_bytes: int | None) -> int:
    return MAX_TOKEN_BYTES if max_token_bytes is None else min(max_token_bytes, MAX_TOKEN_BYTES)


def required_merges(
    tokens: Sequence[str],
    pattern: SplitPattern | str,
    tie_break: str = "smallest-ids",
    max_token_bytes: int | None = None,
) -> NDArray[np.int32]:
    """Merges after which each of ``tokens`` is encoded as one token, whatever is learned later.

    Token by token: the token is encoded with the merges so far, then its first two parts are
    merged, wherever they are neighbours in it, until one part is left. The merges so far have
    smaller ranks and go first when text is encoded, so every token made here is reached. (From
    left to right over the *bytes* it would not be: after ``bc``, the merges ``a b`` and ``ab c``
    never make ``abc``.)

    A token is possible when the split pattern leaves it whole: no merge crosses the edges of a
    pre-token, so any other text could never be one token.

    Args:
        tokens: texts, such as ``" tokenizer"``; a leading space belongs to the token.
        pattern: what cuts text into pre-tokens.
        tie_break: decides how bytes are numbered.
        max_token_bytes: the longest token that training may make.

    Returns:
        int32 [m, 2]: as `learn_merges` takes them.

    Raises:
        InvalidOption: a single string instead of a sequence, an empty or repeated token, one
            that UTF-8 cannot hold, one that the pattern cuts, or one that is too long.
    """
    pattern = SplitPattern.parse(pattern)
    tokens = checks.texts("required_tokens", tokens)
    longest = min(max_token_bytes or LONGEST_REQUIRED_TOKEN, LONGEST_REQUIRED_TOKEN)
    seen: set[str] = set()
    for token in tokens:
        _refuse_impossible(token, pattern, longest)
        if token in seen:
            raise InvalidOption(
                f"the required token {token!r} is given twice",
                "each token has one id",
                f"give {token!r} once",
            )
        seen.add(token)
    ids = {byte: id_ for id_, byte in enumerate(byte_order(tie_break))}
    made: dict[Pair, int] = {}
    for token in tokens:
        parts = _encoded([ids[byte] for byte in token.encode()], made)
        while len(parts) > 1:
            pair = parts[0], parts[1]
            made[pair] = _BYTES + len(made)
            parts = merged(parts, pair, made[pair])
    return np.array(list(made), np.int32).reshape(-1, 2)


def _refuse_impossible(token: str, pattern: SplitPattern, longest: int) -> None:
    if not token:
        raise InvalidOption(
            f"{token!r} cannot be a required token",
            "a required token is a string of at least one character",
            "remove it from the list",
        )
    size = len(token.encode())
    if size > longest:
        raise InvalidOption(
            f"the required token {token[:40]!r}… has {size} bytes",
            f"required tokens have at most {longest} bytes, and at most max_token_bytes",
            "make it a special token, or raise max_token_bytes",
        )
    pieces = pre_tokens(token, pattern)
    if pieces != [token]:
        name = pattern.name or pattern.regex
        shown = ", ".join(map(repr, pieces[:4])) + (", …" if len(pieces) > 4 else "")
        raise InvalidOption(
            f"the required token {token!r} is cut by the split pattern {name!r}: {shown}",
            "a required token is one pre-token, such as ' word' with its leading space",
            f"require its pieces, or make it a special token: special_tokens=[{token!r}]",
        )


def _encoded(parts: list[int], made: dict[Pair, int]) -> list[int]:
    """``parts`` after all merges made so far, the earliest first."""
    while len(parts) > 1:
        pairs = [pair for pair in itertools.pairwise(parts) if pair in made]
        if not pairs:
            break
        pair = min(pairs, key=made.__getitem__)
        parts = merged(parts, pair, made[pair])
    return parts


def merged(parts: Sequence[T], pair: tuple[T, T], made: T) -> list[T]:
    """``parts`` with each occurrence of ``pair`` replaced, from left to right."""
    result: list[T] = []
    at = 0
    while at < len(parts):
        is_pair = (*parts[at : at + 2],) == pair
        result.append(made if is_pair else parts[at])
        at += 2 if is_pair else 1
    return result
