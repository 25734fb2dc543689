"""Special tokens that stand for nothing yet, so that a model has rows for them, and their names.

A slot gets its name later, and no id changes. Knows nothing of how tokens were learned.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import count, islice

from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.digests import canonical_json
from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary import (
    MAX_ID,
    AddedToken,
    TokenizerSpec,
    validate_special_tokens,
)

_SLOT = re.compile(r"<\|reserved_(?:0|[1-9][0-9]*)\|>")


@checked
def with_reserved_slots(tokenizer: Tokenizer, reserve: int = 0, round_to: int = 1) -> Tokenizer:
    """The tokenizer with special tokens ``<|reserved_0|>``, ``<|reserved_1|>``, … behind its ids.

    Their ids follow the highest one. Names that are taken are passed over.

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
    for name, value, least in (("reserve", reserve, 0), ("round_to", round_to, 1)):
        if not least <= value <= MAX_ID:
            raise InvalidOption(
                f"{name} is {value!r}",
                f"accepted: whole numbers from {least} to {MAX_ID}",
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
    """Whether a special token is one that stands for nothing yet."""
    return _SLOT.fullmatch(name) is not None


@checked
def rename_special_tokens(tokenizer: Tokenizer, names: Mapping[str, str]) -> Tokenizer:
    """The tokenizer with other names for special tokens; ids stay, and so do all other tokens.

    A text that holds none of the old and new names is encoded as before.

    Args:
        tokenizer: of any algorithm that is encoded here.
        names: old → new.

    Raises:
        InvalidSpecialToken: an old name that is none, a new one that is a token already, is empty
            or is given twice; or one that the tokenizer itself relies on, as its unknown token or
            around texts.
        InvalidOption: nothing to rename, or a tokenizer that its own library runs.
    """
    spec = tokenizer.spec
    if not names:
        raise InvalidOption(
            "no special token was named",
            "an old name and a new one",
            "type `bpeline rename news/3 '<|reserved_0|>=<|tool|>'`",
        )
    for old in names:
        if old not in spec.special_tokens:
            raise InvalidSpecialToken(
                f"{old!r} is no special token of this tokenizer",
                _known(spec),
                "type one of these in front of the =",
            )
    relied_on = _relied_on(spec)
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
    """The same with these special tokens, each under its id; ids may be new, names others."""
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
        pipeline = replace(
            pipeline,
            added_tokens=(
                *(
                    replace(token, content=names.get(token.id, token.content))
                    for token in pipeline.added_tokens
                ),
                *(
                    AddedToken(id_, name, special=True)
                    for id_, name in names.items()
                    if id_ not in known
                ),
            ),
        )
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


def _relied_on(spec: TokenizerSpec) -> str:
    """JSON in which the names stand that the algorithm and the template around texts use."""
    described = {} if spec.pipeline is None else spec.pipeline.described()
    return canonical_json([spec.algorithm.described(), described.get("template")]).decode()


def _known(spec: TokenizerSpec) -> str:
    """What special tokens there are, in few words."""
    names = list(spec.special_tokens)
    slots = sum(map(is_slot, names))
    shown = ", ".join(map(repr, [name for name in names if not is_slot(name)][:8]))
    said = [shown] if shown else []
    if slots:
        first = next(filter(is_slot, names))
        said.append(f"{slots:,} slots, the first {first!r}")
    return "special tokens here: " + ("; ".join(said) or "none at all")
