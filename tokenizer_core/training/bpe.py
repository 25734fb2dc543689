"""Byte-level BPE training: texts or word counts in, merges or a tokenizer out.

The algorithm of Sennrich et al. 2016 over bytes: the most frequent pair becomes one token,
repeatedly. `tokenizer_core.reference.train` is the same in plain Python.
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
    CheckpointPolicy,
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
_ALGORITHM = "byte-bpe 1"  # increase when the same settings learn other merges
# A token of n bytes takes up to n − 1 merges, each of which scans all of its parts.
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
    """Digest of the settings that decide which merges are learned."""
    settings = {
        "algorithm": _ALGORITHM,
        "tie_break": tie_break,
        "min_count": min_count,
        "min_word_count": min_word_count,
        "max_token_bytes": longest_token(max_token_bytes),
        "given": None if given is None else digest_of_bytes(given.astype("<i4").tobytes()),
    }
    if rules:  # keeps the digest of checkpoints from before rules existed
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

    Fewer merges are always the first ones of more. So a checkpoint of any length serves every
    number of merges, and a resumed training equals an uninterrupted one.

    Args:
        counts: the words; their order matters only to ``first-seen`` (by first position).
        merges: the largest number of merges, including ``given`` ones.
        tie_break: the order of equally frequent pairs, see `tokenizer_core.reference.train`.
        min_count: rarer pairs are not merged; at least 1.
        min_word_count: words that are rarer in the whole corpus are left out; 1 keeps all.
        max_token_bytes: pairs that make longer tokens are not merged. None means 65,536, the limit
            of any tokenizer.
        given: int32 [n, 2], merges to apply first, even if they do not occur in ``counts``: those
            of a tokenizer to extend, or `required_merges`.
        rules: pairs that would make a forbidden token are skipped.
        resume_from, checkpoint, checkpoint_every, on_progress: see `CheckpointPolicy`.

    Raises:
        InvalidOption: a parameter out of range, or ``given`` merges that make a forbidden token.
        EmptyCorpus: no word occurs ``min_word_count`` times.
        CorpusError, CorruptFile, DiskFull: as `learn_with`, also InvalidOption.
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
    course = CheckpointPolicy(resume_from, checkpoint, checkpoint_every, on_progress)
    learned = learn_with(engine, merges, counts, settings, course, given=given, pruned=pruned)
    if ruled:
        rules.prove(token_bytes(learned.pairs(), byte_order(tie_break)))
    return learned


def _validate_given(given: NDArray[np.int32] | None, merges: int) -> None:
    if given is None:
        return
    new_ids = np.arange(_BYTES, _BYTES + len(given))[:, None]
    in_order = given.ndim == 2 and given.shape[1] == 2
    in_order = in_order and bool(np.all((given >= 0) & (given < new_ids)))
    if not in_order or len(np.unique(given, axis=0)) != len(given):
        raise InvalidOption(
            "the given merges are not a list of distinct pairs of existing tokens",
            "expected an int32 array [n, 2]; row k, which makes token 256 + k, has two lower ids",
            "use left and right of a LearnedMerges or a Checkpoint",
        )
    if len(given) > merges:
        raise InvalidOption(
            f"{len(given)} merges are given, but merges is {merges}",
            f"expected merges of at least {len(given)}",
            "for a smaller vocabulary keep the first merges: it needs no training",
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
    The vocabulary is smaller than ``vocab_size`` if the corpus has too few pairs.

    Args:
        counts: word counts; the tokenizer uses their split pattern.
        vocab_size: special tokens, bytes and merges together.
        special_tokens: should be those that the words were counted with.
        tie_break, min_count, min_word_count, max_token_bytes, resume_from, on_progress, checkpoint:
            see `learn_merges`.
        required_tokens: texts that become tokens whatever their counts; each must be one
            pre-token. Their merges come first, in the given order (`required_merges`).
        forbid: regexes, or names such as ``digits`` and ``email`` (`FORBIDDEN_LOOKS`): no learned
            token may match. Does not apply to special tokens.
        forbidden_tokens: tokens that are not made, as bytes or text.
        characters: ``whole``: no token mixes a part of a character with anything else;
            ``left-to-right``: characters are assembled from their left.

    Raises:
        InvalidOption: a ``vocab_size`` too small for the bytes, the special tokens and the required
            tokens; a token that cannot be required; rules that forbid a byte; or as `learn_merges`.
        InvalidPattern: the counts' split pattern drops text, as ``whitespace`` does.
        InvalidSpecialToken: empty, duplicate, a single byte, a required token or part of one, or
            present in the words. Raised before training starts.
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
    no_ids = np.empty(0, np.int32)
    vocab_from_merges(no_ids, no_ids, range(_BYTES), (), special_ids)  # checks special_ids early
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
    numbered = vocab_from_merges(learned.left, learned.right, order, specials, special_ids)
    return Tokenizer(
        numbered.vocab, numbered.merges, numbered.special_tokens, pattern=counts.pattern
    )


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
        special_tokens: separate documents, are never counted, and get the first ids.
        on_counting: called with the progress of counting.
        options: further options of `train_bpe`: ``min_count``, ``tie_break``, ``on_progress``, …

    Raises:
        BpelineError: as `count_texts` and `train_bpe`.

    Example:
        >>> train_from_iterator(["low lower lowest"] * 9, 260).encode("lower")
        [257, 68, 81]
    """
    special_tokens = validate_special_tokens(checks.texts("special_tokens", special_tokens))
    merges_for(vocab_size, special_tokens)  # checks the size before counting
    _check_options(options)
    counts = count_texts(
        texts, pattern, special_tokens, workers, text_field=text_field, on_progress=on_counting
    )
    return train_bpe(counts, vocab_size, special_tokens=special_tokens, **options)


def _check_options(options: Mapping[str, Any]) -> None:
    """Check the options of `train_bpe` before the words are counted."""
    checks.options_of(train_bpe, options)
    for name in ("min_count", "min_word_count", "max_token_bytes"):
        if options.get(name) is not None:
            checks.whole_number(name, options[name], 1)
    validate_tie_break(options.get("tie_break", "smallest-ids"))
    rules = ("forbid", ()), ("forbidden_tokens", ()), ("characters", "any")
    TokenRules.checked(*(options.get(name, usual) for name, usual in rules))
    resume_from, checkpoint = options.get("resume_from"), options.get("checkpoint")
    CheckpointPolicy(resume_from, checkpoint, on_progress=options.get("on_progress"))


def refuse_special_tokens_in_words(special_tokens: Sequence[str], counts: WordCounts) -> None:
    """Raise `InvalidSpecialToken` if training could learn a special token as a merge.

    Words counted with the same special tokens never contain one.
    """
    for token, word in zip(special_tokens, counts.words_with(special_tokens), strict=True):
        if word is not None:
            shown = word[:40].decode("utf-8", "replace")
            raise InvalidSpecialToken(
                f"the special token {token!r} occurs in the words, for example in {shown!r}, so "
                "it could become an ordinary token",
                "expected words counted with the same special tokens",
                f"count the words with special_tokens=[{token!r}], or choose another",
            )


def merges_for(vocab_size: int, special_tokens: tuple[str, ...] | list[str] = ()) -> int:
    """Return the number of merges that fill a vocabulary; raise if it is too small."""
    least = _BYTES + len(special_tokens)
    vocab_size = checks.whole_number("vocab_size", vocab_size)
    if vocab_size < least:
        raise InvalidOption(
            f"a vocabulary of {vocab_size} has no room for 256 bytes and "
            f"{len(special_tokens)} special tokens",
            f"expected a vocab_size of at least {least}",
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
    """Return the merges of the required tokens; None if no token is required."""
    validate_tie_break(tie_break)
    required_tokens = checks.texts("required_tokens", required_tokens)
    if not required_tokens:
        refuse_clashes(special_tokens, map(bytes, zip(range(_BYTES), strict=True)))
        return None
    given = required_merges(required_tokens, pattern, tie_break, max_token_bytes)
    if len(given) > merges:
        raise InvalidOption(
            f"the required tokens take {len(given)} merges, and the vocabulary has room for "
            f"{merges}",
            f"expected a vocab_size of at least {_BYTES + len(special_tokens) + len(given)}",
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
    """Build merges that make each of ``tokens`` one token, whatever is learned later.

    For each token: encode it with the merges so far, then merge its first two parts until one part
    is left. Earlier merges have lower ranks and apply first, so every token is reached. (Merging
    its *bytes* from left to right fails: after ``bc``, the merges ``a b`` and ``ab c`` never make
    ``abc``.) A token must be one pre-token, because no merge crosses the edges of pre-tokens.

    Returns:
        int32 [m, 2], as for `learn_merges`.
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
                "expected each token once",
                f"give {token!r} once",
            )
        seen.add(token)
    ids = {byte: id_ for id_, byte in enumerate(byte_order(tie_break))}
    merge_ids: dict[Pair, int] = {}
    for token in tokens:
        parts = _encoded([ids[byte] for byte in token.encode()], merge_ids)
        while len(parts) > 1:
            pair = parts[0], parts[1]
            merge_ids[pair] = _BYTES + len(merge_ids)
            parts = merged(parts, pair, merge_ids[pair])
    return np.array(list(merge_ids), np.int32).reshape(-1, 2)


def _refuse_impossible(token: str, pattern: SplitPattern, longest: int) -> None:
    if not token:
        raise InvalidOption(
            f"{token!r} cannot be a required token",
            "expected a string of at least one character",
            "remove it from the list",
        )
    size = len(token.encode())
    if size > longest:
        raise InvalidOption(
            f"the required token {token[:40]!r}… has {size} bytes",
            f"expected at most {longest} bytes, and at most max_token_bytes",
            "make it a special token, or raise max_token_bytes",
        )
    pieces = pre_tokens(token, pattern)
    if pieces != [token]:
        name = pattern.name or pattern.regex
        shown = ", ".join(map(repr, pieces[:4])) + (", …" if len(pieces) > 4 else "")
        raise InvalidOption(
            f"the required token {token!r} is cut by the split pattern {name!r}: {shown}",
            "expected one pre-token, such as ' word' with its leading space",
            f"require its pieces, or make it a special token: special_tokens=[{token!r}]",
        )


def _encoded(parts: list[int], made: dict[Pair, int]) -> list[int]:
    """Apply the merges made so far, the earliest first."""
    while len(parts) > 1:
        pairs = [pair for pair in itertools.pairwise(parts) if pair in made]
        if not pairs:
            break
        pair = min(pairs, key=made.__getitem__)
        parts = merged(parts, pair, made[pair])
    return parts


def merged(parts: Sequence[T], pair: tuple[T, T], made: T) -> list[T]:
    """Replace each occurrence of ``pair``, from left to right."""
    result: list[T] = []
    at = 0
    while at < len(parts):
        is_pair = (*parts[at : at + 2],) == pair
        result.append(made if is_pair else parts[at])
        at += 2 if is_pair else 1
    return result
