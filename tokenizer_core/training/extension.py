"""Extension of tokenizers: further merges that keep every id, and superwords.

Superwords are the second phase of Liu et al., "SuperBPE: Space Travel for Language Models" (arXiv
2503.13423), like its trainer: the merges of a word tokenizer are replayed over lines that are split
at digits and punctuation only, merges that do not occur there are dropped, and learning continues.
`tokenizer_core.reference.train_superwords` is the same in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.encoding import SuperwordEncoder
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.merging import (
    MERGES_PER_CHECKPOINT,
    Checkpoint,
    CheckpointPolicy,
    MergeEngine,
    OnProgress,
    SymbolWords,
    learn_with,
)
from bpeline.tokenizer_core.splitting import (
    DIGITS_FROM_RIGHT,
    LINES_AND_DIGITS,
    SUPERWORDS,
    SplitPattern,
    SplitStep,
)
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.tokenizer_spec import ByteBpe
from bpeline.tokenizer_core.training.bpe import merges_for, refuse_special_tokens_in_words
from bpeline.tokenizer_core.training.token_rules import NO_RULES, TokenRules
from bpeline.tokenizer_core.vocabulary import (
    MAX_TOKEN_BYTES,
    byte_order,
    refuse_clashes,
    shown,
    token_bytes,
    vocab_from_merges,
)

MOST_WORDS = 4  # of one token
Cuts = Literal["punctuation", "digits"]
_LINES = SplitStep(r"[^\n]*\n", "Isolated")
_BYTES = 256
_ORDER = "smallest-ids"
_ALGORITHM = "superbpe 1"  # increase when the same settings learn other merges


def merges_to_continue(base: Tokenizer, tie_break: str) -> NDArray[np.int32]:
    """Convert the merges of a tokenizer to training ids, int32 ``[n, 2]``.

    Raises `InvalidOption` for tokens that no merge makes: an extension could then change texts
    without new tokens.
    """
    specials, merges = base.special_tokens, base.merges
    results = {left + right for left, right in merges}
    as_trained = not base.ignore_merges and len(base.vocab) == 256 + len(specials) + len(results)
    if not isinstance(base.algorithm, ByteBpe) or not as_trained:
        raise InvalidOption(
            f"{base!r} cannot be extended",
            "expected byte-level BPE with bytes, results of merges and special tokens only",
            "train a new tokenizer",
        )
    numbers = {bytes([byte]): number for number, byte in enumerate(byte_order(tie_break))}
    pairs = np.empty((len(merges), 2), np.int32)
    for rank, (left, right) in enumerate(merges):
        pairs[rank] = numbers[left], numbers[right]
        numbers.setdefault(left + right, 256 + rank)
    return pairs


def extended(base: Tokenizer, pairs: Sequence[tuple[int, int]], tie_break: str) -> Tokenizer:
    """Append the merges learned after those of ``base``, with ids after its ids.

    Args:
        pairs: merges in training ids; those of ``base`` come first.
        tie_break: decides the numbering of the bytes.
    """
    old = merges_to_continue(base, tie_break)
    if not np.array_equal(np.array(pairs[: len(old)], np.int32).reshape(-1, 2), old):
        _refuse("the merges do not begin with those of the tokenizer that is extended")
    tokens = token_bytes(pairs, byte_order(tie_break))
    refuse_clashes(list(base.special_tokens), tokens)
    merges = base.merges + [(tokens[left], tokens[right]) for left, right in pairs[len(old) :]]
    old_tokens = set(tokens[: 256 + len(old)])
    new = [token for token in dict.fromkeys(tokens) if token not in old_tokens]
    vocab = dict(base.vocab) | dict(enumerate(new, base.spec.largest_id + 1))
    return Tokenizer(vocab, merges, base.special_tokens, base.pattern)


@dataclass(frozen=True, slots=True)
class ExtensionCertificate:
    """Result of the check of an extension.

    With new tokens expanded to old ones, all texts have the same ids. If words are looked up whole,
    or characters became tokens, only the same text.
    """

    base: str  # digest of the old tokenizer
    tokenizer: str  # digest of the new one
    ids_kept: int  # ids of the old tokenizer; each stands for the same bytes in the new one
    first_new_id: int
    new_ids: int
    texts: int  # encoded with both
    texts_unchanged: int  # texts without new tokens, whose ids are the same

    def __str__(self) -> str:
        return (
            f"all {self.ids_kept:,} ids of {self.base[:12]} are unchanged; "
            f"{self.new_ids:,} new ones begin at {self.first_new_id:,}"
        )


def certify_extension(
    base: Tokenizer, tokenizer: Tokenizer, texts: Iterable[str]
) -> ExtensionCertificate:
    """Check on ``texts`` that ``tokenizer`` extends ``base``.

    Raises:
        InvalidTokenizer: an id, a merge or the encoding of a text changed.
    """
    old, new = base.vocab, tokenizer.vocab
    for id_, token in old.items():
        if new.get(id_) != token:
            _refuse(f"the id {id_} changed from {shown(token)} to {shown(new.get(id_))}")
    if tokenizer.merges[: len(base.merges)] != base.merges:
        _refuse("its merges do not begin with those of the tokenizer that is extended")
    old_specials = {name: id_ for name, id_ in tokenizer.special_tokens.items() if id_ in old}
    old_settings = (old_specials, tokenizer.pattern.digest, tokenizer.ignore_merges)
    if old_settings != (base.special_tokens, base.pattern.digest, base.ignore_merges):
        _refuse("its special tokens or its split pattern differ")
    ids = {token: id_ for id_, token in new.items()}
    parts = {ids[left + right]: (ids[left], ids[right]) for left, right in tokenizer.merges}
    compared, old_ids = list(texts), set(old)
    unchanged = 0
    pairs = zip(base.encode_batch(compared), tokenizer.encode_batch(compared), strict=True)
    for text, (before, after) in zip(compared, pairs, strict=True):
        unchanged += before == after
        if before == after or list(_written_out(after, parts, old_ids)) == before:
            continue
        # If words are looked up whole, or characters became tokens, other old tokens may stand
        # for the same text.
        replays = isinstance(base.algorithm, ByteBpe) and not base.ignore_merges
        same_text = tokenizer.decode_bytes(after) == base.decode_bytes(before)
        if replays or old_ids.issuperset(after) or not same_text:
            _refuse(f"{shown(text)} is encoded differently, with new tokens expanded to old ones")
    added = sorted(new.keys() - old.keys())
    first = added[0] if added else max(new) + 1
    return ExtensionCertificate(
        base.digest, tokenizer.digest, len(old), first, len(added), len(compared), unchanged
    )


def _written_out(
    ids: Iterable[int], parts: dict[int, tuple[int, int]], known: set[int]
) -> Iterator[int]:
    stack = list(ids)[::-1]
    while stack:
        id_ = stack.pop()
        if id_ in known or id_ not in parts:
            yield id_
        else:
            stack += reversed(parts[id_])


def _refuse(happened: str) -> NoReturn:
    raise InvalidTokenizer(
        happened,
        "expected the same ids, merges and encodings of texts without new tokens",
        "this is a defect of bpeline: report it; nothing was published",
    )


def superword_lines(cuts: Cuts = "punctuation") -> SplitPattern:
    """Return the split pattern for learning superwords.

    Args:
        cuts: ``punctuation``: as SuperBPE's program, by `SUPERWORDS`; ``digits``: as its published
            models, and as llama.cpp supports: only at numbers, with digits grouped by three from
            the right.
    """
    if checks.choice("cuts", cuts, Cuts) == "punctuation":
        return SplitPattern.of_steps([_LINES, SplitStep(SUPERWORDS, "Isolated")])
    return SplitPattern(LINES_AND_DIGITS)


def may_be_superword(token: bytes) -> bool:
    """Whether the published rules allow a token: few words, no colon before a space."""
    words = sum(map(bool, token.split(b" ")))
    return b": " not in token and words <= MOST_WORDS and len(token) <= MAX_TOKEN_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class InheritedMerges:
    """The merges of a word tokenizer that occur in some lines."""

    pairs: NDArray[np.int32]  # [n, 2], in training ids; row k makes token 256 + k
    dropped: int  # number of merges that do not occur
    words: SymbolWords  # the lines as rows of these tokens


def inherited(base: Tokenizer, lines: WordCounts, transition_size: int) -> InheritedMerges:
    """Replay the first merges of a tokenizer over lines.

    If exactly one merge makes each token, replaying equals encoding: a merge occurred if a token of
    the encoded lines is built from it. ``transition_size`` ids of ``base`` are kept, including
    special tokens and bytes.
    """
    given = merges_to_continue(base, _ORDER)[: _merges_inherited(base, transition_size)]
    if len(set(token_bytes(map(tuple, given.tolist()), byte_order(_ORDER)))) < _BYTES + len(given):
        raise InvalidOption(
            f"{base!r} has a token that two merges make",
            "expected one merge per token, as in a newly trained tokenizer",
            "train the words here, without required tokens",
        )
    ids, offsets = _encoded(lines, given)
    used = np.zeros(_BYTES + len(given), np.bool_)
    used[:_BYTES] = True
    used[ids] = True
    for merge in range(len(given) - 1, -1, -1):
        if used[_BYTES + merge]:
            used[given[merge]] = True
    number = (np.cumsum(used) - 1).astype(np.int32)
    pairs = number[given[used[_BYTES:]]]
    tokens = token_bytes(map(tuple, pairs.tolist()), byte_order(_ORDER))
    words = SymbolWords(
        number[ids],
        offsets,
        lines.counts,
        lines.first_positions,
        np.arange(len(tokens), dtype=np.int32),
        tuple(tokens),
    )
    return InheritedMerges(pairs, len(given) - len(pairs), words)


def _merges_inherited(base: Tokenizer, transition_size: int) -> int:
    least = _BYTES + len(base.special_tokens)
    if not least <= transition_size <= least + len(base.merges):
        raise InvalidOption(
            f"the transition to superwords is at {transition_size:,} ids",
            f"expected {least:,} ids (the word tokenizer without merges) to "
            f"{least + len(base.merges):,} (with all of them)",
            "choose a size between, such as 90 % of the vocabulary",
        )
    return transition_size - least


def _encoded(
    lines: WordCounts, given: NDArray[np.int32]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Encode the lines in training ids: uint32 ids; int64 ``[n + 1]`` line offsets."""
    byte_ids = np.empty(_BYTES, np.int64)
    byte_ids[list(byte_order(_ORDER))] = np.arange(_BYTES)
    left, right = np.ascontiguousarray(given.T.astype(np.int64))
    results = np.arange(_BYTES, _BYTES + len(given))
    whole = SplitPattern(r"[\s\S]+")  # unused: every line is one word
    encoder = SuperwordEncoder(byte_ids, left, right, results, whole)
    edges = np.asarray(lines.offsets, np.int64)
    spans = np.ascontiguousarray(np.stack((edges[:-1], edges[1:]), axis=1))
    text = Text.of(lines.word_bytes.tobytes())
    unmarked = np.zeros(text.size // 64 + 2, np.uint64)
    no_ids = np.full(len(spans), -1, np.int64)
    ids, ends = encoder.encode_marked(text, unmarked, spans, no_ids)
    return ids, np.concatenate((np.zeros(1, np.int64), ends))


def train_superbpe(
    base: Tokenizer,
    lines: WordCounts,
    vocab_size: int,
    *,
    transition_size: int,
    min_count: int = 2,
    rules: TokenRules = NO_RULES,
    resume_from: Path | str | Checkpoint | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: int = MERGES_PER_CHECKPOINT,
    on_progress: OnProgress | None = None,
) -> Tokenizer:
    """Train a tokenizer whose tokens can span several words (SuperBPE).

    Ids: the special tokens of ``base`` in their order, the 256 bytes, the merges of ``base`` that
    occur, superwords.

    Args:
        base: byte-level BPE trained with a split pattern that keeps words apart. It can be larger
            than ``transition_size``: one ``base`` serves every transition.
        lines: words counted with `superword_lines` in the training text of ``base``, with its
            special tokens.
        vocab_size: special tokens, bytes and merges together.
        transition_size: number of ids that come from ``base``; up to 90 % of the vocabulary in the
            published models.
        min_count: rarer pairs are not merged. The published trainer goes down to 1.
        rules: further rules for tokens; ``base`` must keep them too.
        resume_from, checkpoint, checkpoint_every, on_progress: see `CheckpointPolicy`. The base
            tokens of these checkpoints are the tokens of `inherited`.

    Raises:
        InvalidOption: sizes out of order, other lines, a tokenizer that cannot be continued or has
            forbidden tokens.
        InvalidSpecialToken: a special token of ``base`` occurs in the lines or became a token.
        CorpusError, CorruptFile, DiskFull: as `learn_merges`.

    Example:
        >>> words = count_texts(texts, "gpt2")  # doctest: +SKIP
        >>> lines = count_texts(texts, superword_lines())  # doctest: +SKIP
        >>> train_superbpe(  # doctest: +SKIP
        ...     train_bpe(words, 28_800), lines, 32_000, transition_size=28_800
        ... )
    """
    checks.instance("base", base, Tokenizer)
    checks.instance("lines", lines, WordCounts)
    checks.instance("rules", rules, TokenRules)
    vocab_size = checks.whole_number("vocab_size", vocab_size)
    transition_size = checks.whole_number("transition_size", transition_size)
    min_count = checks.whole_number("min_count", min_count, 1)
    course = CheckpointPolicy(resume_from, checkpoint, checkpoint_every, on_progress)
    specials = tuple(sorted(base.special_tokens, key=base.special_tokens.__getitem__))
    room = merges_for(vocab_size, specials)
    pattern = _pattern_for(lines)
    refuse_special_tokens_in_words(specials, lines)
    start = inherited(base, lines, transition_size)
    rules.require_of_merges(start.pairs, _ORDER, "the inherited merges")
    if vocab_size < transition_size:
        raise InvalidOption(
            f"vocab_size is {vocab_size:,} and transition_size {transition_size:,}",
            "expected a vocab_size for words and superwords together",
            f"choose vocab_size={transition_size * 10 // 9}, or a smaller transition_size",
        )
    engine = partial(
        MergeEngine,
        start.words,
        tie_break=_ORDER,
        min_count=min_count,
        allows=_allowed_by(rules),
    )
    settings = {
        "algorithm": _ALGORITHM,
        "inherited": digest_of_bytes(start.pairs.astype("<i4").tobytes()),
        "min_count": min_count,
        "rules": rules.digest,
    }
    learned = learn_with(engine, room - len(start.pairs), lines, digest_of(settings), course)
    both = zip(start.pairs.T, (learned.left, learned.right), strict=True)
    left, right = (np.concatenate(parts) for parts in both)
    numbered = vocab_from_merges(left, right, byte_order(_ORDER), specials)
    return Tokenizer(numbered.vocab, numbered.merges, numbered.special_tokens, pattern=pattern)


def _allowed_by(rules: TokenRules) -> Callable[[bytes], bool]:
    allows = rules.judge()
    if allows is None:
        return may_be_superword
    return lambda token: may_be_superword(token) and allows(token)


def _pattern_for(lines: WordCounts) -> str:
    """The split pattern of a tokenizer learned from these lines, without line ends."""
    if lines.pattern == superword_lines():
        return SUPERWORDS
    if lines.pattern == superword_lines("digits"):
        return DIGITS_FROM_RIGHT
    raise InvalidOption(
        f"the lines were split by the pattern {lines.pattern.title!r}",
        "expected lines split by `superword_lines()`, at punctuation or at digits",
        "count the same text again with `superword_lines()` as pattern",
    )
