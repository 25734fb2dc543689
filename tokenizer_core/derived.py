"""Tokenizers and encodings derived from a trained one.

Reserved slots, renamed special tokens, smaller sizes, pruned vocabs, BPE-dropout, and encodings
that avoid rare tokens.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count, islice, takewhile

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.digests import canonical_json
from bpeline.tokenizer_core.encoding import (
    DropoutEncoder,
    Places,
    require_natural,
    unreachable_tokens,
)
from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken, InvalidTokenizer
from bpeline.tokenizer_core.pipeline import AddedToken
from bpeline.tokenizer_core.text import Text, utf8_of
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec
from bpeline.tokenizer_core.vocabulary import MAX_ID, shown, validate_special_tokens

UNREACHABLE, RARE = "unreachable", "rare"
_SLOT = re.compile(r"<\|reserved_(?:0|[1-9][0-9]*)\|>")
_NOTHING_AFTER = np.full(1, -1, np.int64)
_FIRST = Places(np.zeros(1, np.int64), np.zeros(1, np.int64))


def token_counts(tokenizer: Tokenizer, words: WordCounts) -> NDArray[np.int64]:
    """Count the occurrences of each token in word counts: int64 ``[largest id + 1]``."""
    checks.instance("tokenizer", tokenizer, Tokenizer)
    checks.instance("words", words, WordCounts)
    counts = np.zeros(tokenizer.spec.largest_id + 1, np.int64)
    ids, ends = tokenizer.encoder.encode_words(words.words())
    np.add.at(counts, ids, np.repeat(words.counts, np.diff(ends, prepend=0)))
    return counts


def with_reserved_slots(tokenizer: Tokenizer, reserve: int = 0, round_to: int = 1) -> Tokenizer:
    """Add special tokens ``<|reserved_0|>``, ``<|reserved_1|>``, … after the ids.

    They reserve rows in a model's embedding, and `rename_special_tokens` can name them later
    without changing ids. Existing names are skipped.

    Args:
        reserve: minimum number of slots.
        round_to: add slots until the number of ids is a multiple of this.

    Examples:
        >>> vocab = {i: bytes([i]) for i in range(256)}
        >>> padded = with_reserved_slots(Tokenizer(vocab, []), reserve=2, round_to=64)
        >>> padded.vocab_size, len(slots_of(padded)), padded.special_tokens["<|reserved_0|>"]
        (320, 64, 256)
    """
    checks.instance("tokenizer", tokenizer, Tokenizer)
    reserve = checks.whole_number("reserve", reserve, 0)
    round_to = checks.whole_number("round_to", round_to, 1)
    if max(reserve, round_to) > MAX_ID:
        raise InvalidOption(
            f"reserve is {reserve} and round_to is {round_to}",
            f"expected: whole numbers up to {MAX_ID}",
            "leave both out for no slots",
        )
    spec = tokenizer.spec
    first = spec.largest_id + 1
    slots = -(-(first + reserve) // round_to) * round_to - first
    if not slots:
        return tokenizer
    taken = set(spec.vocab.values())
    free = (name for n in count() if (name := f"<|reserved_{n}|>").encode() not in taken)
    added = dict(zip(islice(free, slots), range(first, first + slots), strict=True))
    return _with_special_tokens(spec, {**spec.special_tokens, **added})


def slots_of(tokenizer: Tokenizer) -> dict[str, int]:
    """Return reserved slots that have not been renamed: token → id, by id."""
    in_order = sorted(tokenizer.special_tokens.items(), key=lambda item: item[1])
    return {name: id_ for name, id_ in in_order if is_slot(name)}


def is_slot(name: str) -> bool:
    return _SLOT.fullmatch(name) is not None


def rename_special_tokens(tokenizer: Tokenizer, names: Mapping[str, str]) -> Tokenizer:
    """Rename special tokens; all ids and all other tokens stay.

    Texts without any of the old and new names are encoded as before.

    Args:
        names: old → new.

    Raises:
        InvalidSpecialToken: an old name does not exist or is used by the tokenizer itself (unknown
            token, template); or a new name is empty, a duplicate, or an existing token.
    """
    checks.instance("tokenizer", tokenizer, Tokenizer)
    names = checks.mapping("names", names, checks.text, "strings")
    spec = tokenizer.spec
    if not names:
        raise InvalidOption(
            "no special token was named",
            "expected an old and a new name",
            "type `bpeline derive rename news/3 '<|reserved_0|>=<|tool|>'`",
        )
    for old in names:
        if old not in spec.special_tokens:
            raise InvalidSpecialToken(
                f"{old!r} is not a special token of this tokenizer",
                _known(spec),
                "type one of these before the =",
            )
    described = {} if spec.pipeline is None else spec.pipeline.described()
    relied_on = canonical_json([spec.algorithm.described(), described.get("template")]).decode()
    for old in names:
        if canonical_json(old).decode() in relied_on:
            raise InvalidSpecialToken(
                f"the tokenizer itself uses the special token {old!r}",
                "expected a reserved slot, or a special token that only texts contain",
                "keep its name; a model trained with it knows only its id",
            )
    tokens = set(spec.vocab.values())
    for new in validate_special_tokens(tuple(names.values())):
        if new.encode() in tokens or len(new.encode()) == 1:
            raise InvalidSpecialToken(
                f"{new!r} is already a token",
                "expected a name of at least two bytes that no token has",
                "choose another one",
            )
    return _with_special_tokens(
        spec, {names.get(name, name): id_ for name, id_ in spec.special_tokens.items()}
    )


def _with_special_tokens(spec: TokenizerSpec, special_tokens: Mapping[str, int]) -> Tokenizer:
    if library := getattr(spec.algorithm, "library", ""):
        raise InvalidOption(
            f"the tokenizer runs in {library}, which has its own special tokens",
            "expected a tokenizer that bpeline encodes itself",
            "add the tokens to the imported file, and import it again",
        )
    names = {id_: name for name, id_ in special_tokens.items()}
    vocab = {**spec.vocab, **{id_: name.encode() for id_, name in names.items()}}
    pipeline = spec.pipeline
    if pipeline is not None:
        added_ids = {token.id for token in pipeline.added_tokens}
        added = [
            replace(token, content=names.get(token.id, token.content))
            for token in pipeline.added_tokens
        ]
        added += [
            AddedToken(id_, name, special=True)
            for id_, name in names.items()
            if id_ not in added_ids
        ]
        pipeline = replace(pipeline, added_tokens=tuple(added))
    return Tokenizer.of_spec(
        TokenizerSpec.checked(
            vocab,
            spec.merges,
            special_tokens,
            spec.pattern,
            algorithm=spec.algorithm,
            ignore_merges=spec.ignore_merges,
            pipeline=pipeline,
        )
    )


def _known(spec: TokenizerSpec) -> str:
    names = list(spec.special_tokens)
    slots = sum(map(is_slot, names))
    shown = ", ".join(map(repr, [name for name in names if not is_slot(name)][:8]))
    parts = [shown] if shown else []
    if slots:
        first = next(filter(is_slot, names))
        parts.append(f"{slots:,} slots, the first {first!r}")
    return "special tokens here: " + ("; ".join(parts) or "none at all")


def of_size(tokenizer: Tokenizer, vocab_size: int) -> Tokenizer:
    """Return the tokenizer that training with a smaller size would have produced.

    It keeps special tokens, bytes (or characters) and the first merges, all with their ids, so the
    larger tokenizer decodes its ids. If special tokens have the first ids, as in `bpeline train`,
    the ids are 0 … ``vocab_size`` − 1. Otherwise ids have a gap, and embeddings need rows up to
    the highest id. Reserved slots are dropped first.

    Raises:
        InvalidOption: the size is out of range, or merges are missing or not in training order.
    """
    checks.instance("tokenizer", tokenizer, Tokenizer)
    vocab_size = checks.whole_number("vocab_size", vocab_size)
    if not tokenizer.algorithm.has_merges:
        raise InvalidOption(
            f"{tokenizer.algorithm.name} has no ordered merges, so it has no smaller sizes",
            "expected byte-level BPE or character BPE",
            "leave the size out, or train the smaller size",
        )
    if tokenizer.spec.pipeline is not None:
        raise InvalidOption(
            "the tokenizer was imported, so its merges may not be in training order",
            "expected a tokenizer trained by bpeline",
            "leave the size out, or train the smaller size",
        )
    merged = [left + right for left, right in tokenizer.merges]
    slots = slots_of(tokenizer)
    distinct = dict.fromkeys([*merged, *(name.encode() for name in slots)])
    least = tokenizer.vocab_size - len(distinct)
    if not least <= vocab_size <= tokenizer.vocab_size:
        raise InvalidOption(
            f"the size {vocab_size:,} is out of range",
            f"expected: {least:,} (no merges) to {tokenizer.vocab_size:,} (all of them)",
            f"choose a size in this range, or use `bpeline derive extend` to get beyond "
            f"{tokenizer.vocab_size:,}",
        )
    if vocab_size == tokenizer.vocab_size:
        return tokenizer
    dropped = set(list(distinct)[vocab_size - least :])
    remaining = takewhile(lambda merge: merge[0] + merge[1] not in dropped, tokenizer.merges)
    return Tokenizer(
        {id_: token for id_, token in tokenizer.vocab.items() if token not in dropped},
        list(remaining),
        {
            name: id_
            for name, id_ in tokenizer.special_tokens.items()
            if name.encode() not in dropped
        },
        tokenizer.pattern,
        algorithm=tokenizer.algorithm,
        ignore_merges=tokenizer.ignore_merges,
    )


@dataclass(frozen=True, slots=True)
class DroppedToken:
    """A token to remove, with the number of its occurrences and the reason."""

    id: int
    token: bytes
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """Which tokens are removed, and the effect on ids and texts.

    A token is removed only with every merge it takes part in, so texts without removed tokens are
    encoded as before, with new ids.
    """

    tokenizer: Tokenizer  # the result; ids 0, 1, 2, … in the order of the old ids
    dropped: tuple[DroppedToken, ...]  # by id
    kept_as_parts: int  # candidates that stay because kept tokens are built from them
    old_ids: NDArray[np.int64]  # by new id: embeddings ``e`` become ``e[old_ids]``
    tokens_before: int  # in all counted words
    tokens_after: int

    @property
    def new_ids(self) -> dict[int, int]:
        """Old id → new id of the tokens that stay."""
        return {old: new for new, old in enumerate(self.old_ids.tolist())}


@dataclass(frozen=True, slots=True)
class SampleCheck:
    """Effect of a plan on sample texts."""

    texts: int
    changed: int
    tokens_before: int
    tokens_after: int
    first_changed: str


def plan_pruning(
    tokenizer: Tokenizer,
    counts: WordCounts,
    *,
    min_count: int = 0,
    drop_unreachable: bool = False,
) -> PrunePlan:
    """Find tokens of a byte-level BPE to remove.

    Special tokens, bytes, and parts of kept tokens stay.

    Args:
        counts: words of a corpus, in which tokens are counted.
        min_count: remove tokens that occur less often, counting also the occurrences that removed
            longer tokens pass on to them; 0 removes none.
        drop_unreachable: remove tokens that no text and no counted word produces.

    Raises:
        InvalidOption: another algorithm, or an imported pipeline that pruning would lose.
    """
    checks.instance("tokenizer", tokenizer, Tokenizer)
    checks.instance("counts", counts, WordCounts)
    if tokenizer.spec.pipeline is not None and tokenizer.spec.pipeline.lost_without:
        raise InvalidOption(
            "the tokenizer cannot be pruned: it was imported, and has "
            f"{tokenizer.spec.pipeline.lost_without}",
            "expected byte-level BPE without further processing of texts",
            "train or extend a tokenizer: `bpeline train`",
        )
    min_count = checks.whole_number("min_count", min_count, 0)
    drop_unreachable = checks.flag("drop_unreachable", drop_unreachable)
    encoder = tokenizer.byte_pairs  # raises for other algorithms
    occurrences = token_counts(tokenizer, counts)
    special_ids = set(tokenizer.special_tokens.values())
    ids = {token: id_ for id_, token in tokenizer.vocab.items() if id_ not in special_ids}
    unreachable: set[bytes] = set()
    if drop_unreachable:
        candidates = unreachable_tokens(encoder, ids)
        unreachable = {token for token, id_ in candidates.items() if not occurrences[id_]}
    going, kept_as_parts = _going(tokenizer, ids, occurrences, min_count, unreachable)
    dropped = (
        DroppedToken(ids[token], token, int(occurrences[ids[token]]), reason)
        for token, reason in going.items()
    )
    kept_ids = [id_ for id_, token in sorted(tokenizer.vocab.items()) if token not in going]
    left = Tokenizer(
        dict(enumerate(map(tokenizer.vocab.__getitem__, kept_ids))),
        [(left, right) for left, right in tokenizer.merges if left + right not in going],
        list(tokenizer.special_tokens),
        tokenizer.pattern,
        ignore_merges=tokenizer.ignore_merges,
    )
    after = int(token_counts(left, counts).sum())
    return PrunePlan(
        left,
        tuple(sorted(dropped, key=lambda drop: drop.id)),
        kept_as_parts,
        np.array(kept_ids, np.int64),
        int(occurrences.sum()),
        after,
    )


def check_on(tokenizer: Tokenizer, plan: PrunePlan, texts: Iterable[str]) -> SampleCheck:
    """Compare encodings of sample texts before and after pruning.

    Raises:
        InvalidTokenizer: a text is not restored, or changes although it has no removed token.
    """
    compared = list(texts)
    new_ids = plan.new_ids
    pairs = zip(
        tokenizer.encode_batch(compared), plan.tokenizer.encode_batch(compared), strict=True
    )
    changed, before_all, after_all, first = 0, 0, 0, ""
    for text, (before, after) in zip(compared, pairs, strict=True):
        before_all, after_all = before_all + len(before), after_all + len(after)
        if plan.tokenizer.decode_bytes(after) != tokenizer.decode_bytes(before):
            _refuse(f"{shown(text)} is not restored from its new ids")
        if all(id_ in new_ids for id_ in before):
            if [new_ids[id_] for id_ in before] != after:
                _refuse(f"{shown(text)} contains no removed token but is encoded differently")
        else:
            changed += 1
            first = first or text
    return SampleCheck(len(compared), changed, before_all, after_all, first[:200])


def _going(
    tokenizer: Tokenizer,
    ids: Mapping[bytes, int],
    occurrences: NDArray[np.int64],
    min_count: int,
    unreachable: Collection[bytes],
) -> tuple[dict[bytes, str], int]:
    """Return removed tokens with reasons, and how many candidates stay as parts."""
    merges = tokenizer.merges
    merge_counts = Counter(left + right for left, right in merges)
    counted = occurrences.copy()

    def reason(token: bytes) -> str | None:
        if token in unreachable:
            return UNREACHABLE
        return RARE if counted[ids[token]] < min_count else None

    # Tokens that no merge makes are never parts of others.
    whole = (token for token in ids if len(token) > 1 and token not in merge_counts)
    going = {token: why for token in whole if (why := reason(token))}
    parts: set[bytes] = set()
    kept_candidates: set[bytes] = set()
    # From the last merge: a removed token passes its occurrences on to its parts.
    for left, right in reversed(merges):
        token = left + right
        why = reason(token)
        if why is None or token in parts or merge_counts[token] > 1:
            parts |= {left, right}
            kept_candidates |= {token} if why else set()
            continue
        going[token] = why
        for part in (left, right):
            counted[ids[part]] += counted[ids[token]]
    return going, len(kept_candidates)


def require_something(min_count: int, drop_unreachable: bool) -> None:
    """Raise `InvalidOption` unless a kind of token to remove was chosen."""
    if min_count < 0 or not (min_count or drop_unreachable):
        raise InvalidOption(
            "no tokens were chosen for removal",
            "expected unreachable tokens, tokens below a minimum count, or both",
            "add --drop-unreachable, --min-count 5, or both",
        )


def _refuse(happened: str) -> None:
    raise InvalidTokenizer(
        happened,
        "pruning must not change texts without removed tokens",
        "this is a bug in bpeline: report it; nothing was written",
    )


class DropoutEncoding:
    """Encode with BPE-dropout: skip merges at random, reproducibly.

    At each step, every possible merge in a word is skipped with probability ``dropout``,
    independently of earlier steps; of the others, the one of lowest rank, leftmost first, is
    applied. A word is finished when all are skipped. See `reference.dropout_outcomes`. Thread-safe.

    Args:
        tokenizer: byte-level BPE without normalizer and with ids for all bytes.
        dropout: 0 (the tokenizer's own encoding) to 1 (no merges); the paper uses 0.1.
        seed: 0 to 2⁶⁴ − 1.
    """

    def __init__(self, tokenizer: Tokenizer, dropout: float, seed: int = 0) -> None:
        checks.instance("tokenizer", tokenizer, Tokenizer)
        self._encoder = DropoutEncoder(tokenizer.spec, dropout, seed)
        self.tokenizer, self.dropout, self.seed = tokenizer, dropout, seed

    def encode(self, text: str, sample: int = 0) -> list[int]:
        """Encode a text; special tokens are ordinary text.

        The ids depend only on tokenizer, dropout, seed, sample and text.

        Args:
            sample: selects one of the encodings, such as the epoch; 0 to 2⁶⁴ − 1.
        """
        require_natural("sample", sample)
        if self.dropout == 0:
            return self.tokenizer.encode_ordinary(text)
        whole = Text.of(utf8_of(text))
        span = np.array([[0, whole.size]], np.int64)
        encoded = self._encoder.encode(whole, span, _NOTHING_AFTER, _FIRST, sample)
        ids: list[int] = encoded[0].tolist()
        return ids


class RestrictedEncoding:
    """Encode without rare tokens: each is split into its two parts, repeatedly.

    Like ``subword-nmt`` with a vocabulary and a threshold: with a tokenizer of several languages, a
    text of one of them contains no token that is rare in that language.

    Args:
        tokenizer: one with merges.
        counts: of each id, such as from `token_counts`.
        threshold: tokens with fewer occurrences are split, by the first merge that makes them.
    """

    def __init__(self, tokenizer: Tokenizer, counts: NDArray[np.int64], threshold: int) -> None:
        checks.instance("tokenizer", tokenizer, Tokenizer)
        checks.instance("counts", counts, np.ndarray)
        threshold = checks.whole_number("threshold", threshold)
        if not tokenizer.merges:
            raise InvalidOption(
                f"{tokenizer.algorithm.name} has no merges to undo",
                "expected byte-bpe or char-bpe",
                "encode without a vocabulary",
            )
        size = tokenizer.spec.largest_id + 1
        if len(counts) != size:
            raise InvalidOption(
                f"counts has {len(counts)} entries, but ids go up to {size - 1}",
                "expected the counts of this tokenizer's tokens",
                "count with token_counts(tokenizer, words)",
            )
        self.tokenizer = tokenizer
        parts = _parts(tokenizer)
        instead = {id_: [id_] for id_ in tokenizer.vocab}
        # Parts are shorter than their token, so theirs is known first.
        for token in sorted(parts, key=lambda id_: len(tokenizer.vocab[id_])):
            if counts[token] < threshold:
                left, right = parts[token]
                instead[token] = instead[left] + instead[right]
        self._sizes = np.ones(size, np.int64)
        for id_, ids in instead.items():
            self._sizes[id_] = len(ids)
        listed = [id_ for known in range(size) for id_ in instead.get(known, [known])]
        self._ids = np.array(listed, np.uint32)
        self._begins = np.cumsum(self._sizes) - self._sizes

    def restrict(self, ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Replace ids of rare tokens by those of their parts."""
        sizes = self._sizes[ids]
        ends = np.cumsum(sizes)
        within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - sizes, sizes)
        restricted: NDArray[np.uint32] = self._ids[np.repeat(self._begins[ids], sizes) + within]
        return restricted

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.restrict(self.tokenizer.encode_to_numpy(text)).tolist()
        return ids


def _parts(tokenizer: Tokenizer) -> dict[int, tuple[int, int]]:
    """Return the two parts of each token, by its first merge."""
    ids: dict[bytes, int] = {
        token: id_ for id_, token in tokenizer.vocab.items() if not tokenizer.is_special(id_)
    }
    return {
        ids[left + right]: (ids[left], ids[right]) for left, right in reversed(tokenizer.merges)
    }
