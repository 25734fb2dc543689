"""What is made of a trained tokenizer: slots, smaller sizes, pruned vocabs, other encodings.

Encodings are those with dropout, and those with fewer tokens.
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
    """How often each token stands in counted words: int64 ``[largest id + 1]``."""
    checks.instance("tokenizer", tokenizer, Tokenizer)
    checks.instance("words", words, WordCounts)
    counts = np.zeros(tokenizer.spec.largest_id + 1, np.int64)
    ids, ends = tokenizer.encoder.encode_words(words.words())
    np.add.at(counts, ids, np.repeat(words.counts, np.diff(ends, prepend=0)))
    return counts


def with_reserved_slots(tokenizer: Tokenizer, reserve: int = 0, round_to: int = 1) -> Tokenizer:
    """The tokenizer with special tokens ``<|reserved_0|>``, ``<|reserved_1|>``, … after its ids.

    A model has rows for them, and they get their names later, without a change of ids. Names that
    are taken are passed over.

    Args:
        tokenizer: one that may have special tokens.
        reserve: how many slots at least.
        round_to: more follow until the number of ids, up to the highest, is a multiple of this.

    Raises:
        InvalidOption: a number out of range, or a tokenizer that its own library runs.

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
            f"accepted: whole numbers up to {MAX_ID}",
            "the defaults are reserve=0 and round_to=1: no slots",
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
    """The slots that have no other name yet: token → id, in the order of ids."""
    in_order = sorted(tokenizer.special_tokens.items(), key=lambda item: item[1])
    return {name: id_ for name, id_ in in_order if is_slot(name)}


def is_slot(name: str) -> bool:
    """Whether a special token is a reserved slot."""
    return _SLOT.fullmatch(name) is not None


def rename_special_tokens(tokenizer: Tokenizer, names: Mapping[str, str]) -> Tokenizer:
    """The tokenizer with other names for special tokens; ids stay, and so do all other tokens.

    A text that holds none of the old and new names is encoded as before.

    Args:
        tokenizer: of any algorithm that is encoded here.
        names: old → new.

    Raises:
        InvalidSpecialToken: an old name that is none, a new one that is a token already, is empty
            or is given twice; or one that the tokenizer itself uses, as its unknown token or around
            texts.
        InvalidOption: nothing to rename, or a tokenizer that its own library runs.
    """
    checks.instance("tokenizer", tokenizer, Tokenizer)
    names = checks.mapping("names", names, checks.text, "strings")
    spec = tokenizer.spec
    if not names:
        raise InvalidOption(
            "no special token was named",
            "an old name and a new one",
            "type `bpeline derive rename news/3 '<|reserved_0|>=<|tool|>'`",
        )
    for old in names:
        if old not in spec.special_tokens:
            raise InvalidSpecialToken(
                f"{old!r} is no special token of this tokenizer",
                _known(spec),
                "type one of these in front of the =",
            )
    described = {} if spec.pipeline is None else spec.pipeline.described()
    relied_on = canonical_json([spec.algorithm.described(), described.get("template")]).decode()
    for old in names:
        if canonical_json(old).decode() in relied_on:
            raise InvalidSpecialToken(
                f"the special token {old!r} is one that the tokenizer itself relies on",
                "slots, and special tokens that texts hold",
                "leave its name; a model that was trained with it knows it by this id anyway",
            )
    tokens = set(spec.vocab.values())
    for new in validate_special_tokens(tuple(names.values())):
        if new.encode() in tokens or len(new.encode()) == 1:
            raise InvalidSpecialToken(
                f"{new!r} is a token already",
                "a name that no token has, of two bytes or more",
                "choose another one",
            )
    return _with_special_tokens(
        spec, {names.get(name, name): id_ for name, id_ in spec.special_tokens.items()}
    )


def _with_special_tokens(spec: TokenizerSpec, special_tokens: Mapping[str, int]) -> Tokenizer:
    """The same with these special tokens, some of them new or under other names."""
    if library := getattr(spec.algorithm, "library", ""):
        raise InvalidOption(
            f"the tokenizer is run by {library}, which knows its own special tokens",
            "tokenizers that are encoded here",
            "add the tokens in the file that was imported, and import it again",
        )
    names = {id_: name for name, id_ in special_tokens.items()}
    vocab = {**spec.vocab, **{id_: name.encode() for id_, name in names.items()}}
    pipeline = spec.pipeline
    if pipeline is not None:
        known = {token.id for token in pipeline.added_tokens}
        added = [
            replace(token, content=names.get(token.id, token.content))
            for token in pipeline.added_tokens
        ]
        added += [
            AddedToken(id_, name, special=True) for id_, name in names.items() if id_ not in known
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
    said = [shown] if shown else []
    if slots:
        first = next(filter(is_slot, names))
        said.append(f"{slots:,} slots, the first {first!r}")
    return "special tokens here: " + ("; ".join(said) or "none at all")


def of_size(tokenizer: Tokenizer, vocab_size: int) -> Tokenizer:
    """The tokenizer that training with a smaller vocabulary would have made, with the same ids.

    It keeps special tokens, bytes (or characters) and the first merges, ``vocab_size`` tokens
    together, each under its id: what it encodes, the larger one decodes. Where special tokens have
    the first ids, as `bpeline train` numbers them, the ids are 0 … ``vocab_size`` − 1; else ids
    have a gap, and a model's table of embeddings needs rows up to the highest id. Reserved slots go
    first.

    Args:
        tokenizer: byte-level or character BPE.
        vocab_size: tokens that are left; all of them is the tokenizer itself.

    Raises:
        InvalidOption: larger than the tokenizer or smaller than what no merge makes; the algorithm
            has no merges in order; or the tokenizer was imported, and lists merges in any order.
    """
    checks.instance("tokenizer", tokenizer, Tokenizer)
    vocab_size = checks.whole_number("vocab_size", vocab_size)
    if not tokenizer.algorithm.has_merges:
        raise InvalidOption(
            f"{tokenizer.algorithm.name} has no merges in order, so no smaller size is part of it",
            "byte-level BPE and character BPE are served in smaller sizes",
            "leave the size out, or train the smaller size",
        )
    if tokenizer.spec.pipeline is not None:
        raise InvalidOption(
            "the tokenizer was imported, so its merges need not stand in the order of training",
            "tokenizers trained here are served in smaller sizes",
            "leave the size out, or train the smaller size",
        )
    made = [left + right for left, right in tokenizer.merges]
    slots = slots_of(tokenizer)
    distinct = dict.fromkeys([*made, *(name.encode() for name in slots)])
    least = tokenizer.vocab_size - len(distinct)
    if not least <= vocab_size <= tokenizer.vocab_size:
        raise InvalidOption(
            f"a size of {vocab_size:,} was asked for",
            f"accepted: {least:,} (no merges) to {tokenizer.vocab_size:,} (all of them)",
            f"choose a size in this range, or `bpeline derive extend` to get beyond "
            f"{tokenizer.vocab_size:,}",
        )
    if vocab_size == tokenizer.vocab_size:
        return tokenizer
    dropped = set(list(distinct)[vocab_size - least :])
    kept = takewhile(lambda merge: merge[0] + merge[1] not in dropped, tokenizer.merges)
    return Tokenizer(
        {id_: token for id_, token in tokenizer.vocab.items() if token not in dropped},
        list(kept),
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
    """A token that goes: its id, its bytes, how often it was counted, and why."""

    id: int
    token: bytes
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """Which tokens of a tokenizer go, and what becomes of ids and texts.

    A token goes only with every merge it takes part in, so a text that held none of them is encoded
    as before, under the new ids.
    """

    tokenizer: Tokenizer  # what is left, its ids 0, 1, 2, … in the order of the old ones
    dropped: tuple[DroppedToken, ...]  # by id
    kept_as_parts: int  # tokens that were to go, but tokens that stay are made of them
    old_ids: NDArray[np.int64]  # of each new id: embeddings ``e`` become ``e[old_ids]``
    tokens_before: int  # this and the next: of all counted words
    tokens_after: int

    @property
    def new_ids(self) -> dict[int, int]:
        """Old id → new id, of the tokens that stay."""
        return {old: new for new, old in enumerate(self.old_ids.tolist())}


@dataclass(frozen=True, slots=True)
class SampleCheck:
    """What a sample says of a plan: how many texts keep their tokens, and what the others hold."""

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
    """Find the tokens that can go.

    Special tokens and bytes stay. So does whatever a token that stays is made of.

    Args:
        tokenizer: byte-level BPE.
        counts: the words of a corpus, on which tokens are counted.
        min_count: tokens go that occur less often, even with what longer tokens that go leave to
            them; 0 lets none go for that.
        drop_unreachable: whether tokens go that no text leads to (and no counted word).

    Raises:
        InvalidOption: another algorithm, or a tokenizer that does more around it (it was imported).
    """
    checks.instance("tokenizer", tokenizer, Tokenizer)
    checks.instance("counts", counts, WordCounts)
    if tokenizer.spec.pipeline is not None and tokenizer.spec.pipeline.lost_without:
        raise InvalidOption(
            "the tokenizer cannot be pruned: it was imported, and has "
            f"{tokenizer.spec.pipeline.lost_without}",
            "byte-level BPE that is trained here, or does nothing else to texts",
            "train or extend a tokenizer of its own: `bpeline train`",
        )
    min_count = checks.whole_number("min_count", min_count, 0)
    drop_unreachable = checks.flag("drop_unreachable", drop_unreachable)
    encoder = tokenizer.byte_pairs  # refuses other algorithms
    occurrences = token_counts(tokenizer, counts)
    special_ids = set(tokenizer.special_tokens.values())
    ids = {token: id_ for id_, token in tokenizer.vocab.items() if id_ not in special_ids}
    unreachable: set[bytes] = set()
    if drop_unreachable:
        found = unreachable_tokens(encoder, ids)
        unreachable = {token for token, id_ in found.items() if not occurrences[id_]}
    going, kept_as_parts = _going(tokenizer, ids, occurrences, min_count, unreachable)
    dropped = (
        DroppedToken(ids[token], token, int(occurrences[ids[token]]), reason)
        for token, reason in going.items()
    )
    kept = [id_ for id_, token in sorted(tokenizer.vocab.items()) if token not in going]
    left = Tokenizer(
        dict(enumerate(map(tokenizer.vocab.__getitem__, kept))),
        [(left, right) for left, right in tokenizer.merges if left + right not in going],
        list(tokenizer.special_tokens),
        tokenizer.pattern,
        ignore_merges=tokenizer.ignore_merges,
    )
    after = int(token_counts(left, counts).sum())
    return PrunePlan(
        left,
        tuple(sorted(dropped, key=lambda one: one.id)),
        kept_as_parts,
        np.array(kept, np.int64),
        int(occurrences.sum()),
        after,
    )


def check_on(tokenizer: Tokenizer, plan: PrunePlan, texts: Iterable[str]) -> SampleCheck:
    """Encode a sample with both and hold the plan to what it promises.

    Raises:
        InvalidTokenizer: a text does not come back, or changes although it held no token that goes.
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
            _refuse(f"{shown(text)} does not come back from its new ids")
        if all(id_ in new_ids for id_ in before):
            if [new_ids[id_] for id_ in before] != after:
                _refuse(f"{shown(text)} holds no token that goes and is encoded otherwise")
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
    """Token → why it goes; and how many only stay because others are made of them.

    The last merges are looked at first: a token that goes leaves its occurrences to its parts,
    which then may be frequent enough.
    """
    merges = tokenizer.merges
    made = Counter(left + right for left, right in merges)
    counted = occurrences.copy()

    def reason(token: bytes) -> str | None:
        if token in unreachable:
            return UNREACHABLE
        return RARE if counted[ids[token]] < min_count else None

    # Tokens that no merge makes, taken whole or never.
    whole = (token for token in ids if len(token) > 1 and token not in made)
    going = {token: why for token in whole if (why := reason(token))}
    parts: set[bytes] = set()
    wanted: set[bytes] = set()
    for left, right in reversed(merges):
        token = left + right
        why = reason(token)
        if why is None or token in parts or made[token] > 1:
            parts |= {left, right}
            wanted |= {token} if why else set()
            continue
        going[token] = why
        for part in (left, right):
            counted[ids[part]] += counted[ids[token]]
    return going, len(wanted)


def require_something(min_count: int, drop_unreachable: bool) -> None:
    """Refuse to plan nothing.

    Raises:
        InvalidOption: neither kind of token is to go.
    """
    if min_count < 0 or not (min_count or drop_unreachable):
        raise InvalidOption(
            "nothing was said of which tokens can go",
            "accepted: tokens that no text leads to, tokens counted less often than a number",
            "add --drop-unreachable, --min-count 5, or both",
        )


def _refuse(happened: str) -> None:
    raise InvalidTokenizer(
        happened,
        "pruning changes only texts that hold tokens that go",
        "this is a defect of bpeline: report it; nothing was written",
    )


class DropoutEncoding:
    """Encodes with merges left out at random, in the same way for the same seed and sample.

    A model that has seen a word in several encodings learns what its tokens are made of. At each
    step every place in a word where a merge is possible is left out with the probability
    ``dropout``, independently of what was left out before. Of the others the one of lowest rank is
    merged, the leftmost of several; where all are left out, the word is done.

    Any number of threads may encode at once.

    Args:
        tokenizer: of byte-level BPE.
        dropout: from 0, which encodes as the tokenizer does, to 1, which merges nothing; the paper
            uses 0.1.
        seed: decides what is left out, 0 to 2⁶⁴ − 1.

    Raises:
        InvalidOption: a probability or seed that is none, or a tokenizer of another algorithm,
            with a normalizer of its own, or without ids for some bytes.
    """

    def __init__(self, tokenizer: Tokenizer, dropout: float, seed: int = 0) -> None:
        checks.instance("tokenizer", tokenizer, Tokenizer)
        self._encoder = DropoutEncoder(tokenizer.spec, dropout, seed)
        self.tokenizer, self.dropout, self.seed = tokenizer, dropout, seed

    def encode(self, text: str, sample: int = 0) -> list[int]:
        """Token ids of a text; special tokens in it are text.

        They depend on tokenizer, dropout, seed, sample and text, and on nothing else: not on what
        was encoded before, nor on the process.

        Args:
            text: any string.
            sample: another number gives another encoding, such as the epoch; 0 to 2⁶⁴ − 1.

        Raises:
            TypeError: ``text`` is not a string.
            InvalidOption: ``sample`` is out of range.
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
    """Encodes with tokens that occurred often enough; others are undone into their two parts.

    What ``subword-nmt`` does with a vocabulary and a threshold: of a tokenizer of several
    languages, a text of one of them then holds no token that is rare in it.

    Args:
        tokenizer: one with merges.
        counts: of each id, such as `token_counts` gives.
        threshold: tokens that occurred less often are undone. Of several merges that make one
            token, the first is undone.

    Raises:
        InvalidOption: the tokenizer has no merges, or counts of other ids.
    """

    def __init__(self, tokenizer: Tokenizer, counts: NDArray[np.int64], threshold: int) -> None:
        checks.instance("tokenizer", tokenizer, Tokenizer)
        checks.instance("counts", counts, np.ndarray)
        threshold = checks.whole_number("threshold", threshold)
        if not tokenizer.merges:
            raise InvalidOption(
                f"this tokenizer follows {tokenizer.algorithm.name} and has no merges to undo",
                "tokens of byte-bpe and char-bpe can be undone",
                "encode without a vocabulary",
            )
        size = tokenizer.spec.largest_id + 1
        if len(counts) != size:
            raise InvalidOption(
                f"{len(counts)} tokens are counted, and ids go up to {size - 1}",
                "the counts of this tokenizer's own tokens",
                "count with token_counts(tokenizer, words)",
            )
        self.tokenizer = tokenizer
        parts = _parts(tokenizer)
        instead = {id_: [id_] for id_ in tokenizer.vocab}
        # Parts are shorter than what they make, so theirs is known first.
        for made in sorted(parts, key=lambda id_: len(tokenizer.vocab[id_])):
            if counts[made] < threshold:
                left, right = parts[made]
                instead[made] = instead[left] + instead[right]
        self._sizes = np.ones(size, np.int64)
        for id_, ids in instead.items():
            self._sizes[id_] = len(ids)
        listed = [id_ for known in range(size) for id_ in instead.get(known, [known])]
        self._ids = np.array(listed, np.uint32)
        self._begins = np.cumsum(self._sizes) - self._sizes

    def restrict(self, ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Ids with those that are too rare undone."""
        sizes = self._sizes[ids]
        ends = np.cumsum(sizes)
        within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - sizes, sizes)
        restricted: NDArray[np.uint32] = self._ids[np.repeat(self._begins[ids], sizes) + within]
        return restricted

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; special tokens in it are text."""
        ids: list[int] = self.restrict(self.tokenizer.encode_to_numpy(text)).tolist()
        return ids


def _parts(tokenizer: Tokenizer) -> dict[int, tuple[int, int]]:
    """Token → the two that are merged for it, by the first merge."""
    ids: dict[bytes, int] = {
        token: id_ for id_, token in tokenizer.vocab.items() if not tokenizer.is_special(id_)
    }
    return {
        ids[left + right]: (ids[left], ids[right]) for left, right in reversed(tokenizer.merges)
    }
