"""A registered version becomes the words of one with superwords: what training has to be told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bpeline.flows.extend import across_spaces, on_paths, size_to_choose, version_to_continue
from bpeline.flows.requests import OF_PARITY
from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.training import Cuts, merges_to_continue


@checked
def run_parameters(
    reference: str,
    vocab_size: int | str | None = None,
    paths: Sequence[str | Path] = (),
    name: str | None = None,
    reserve: int = 0,
    round_to: int = 1,
    *,
    largest_size: int | None = None,
    model_shape: str | None = None,
) -> dict[str, Any]:
    """The parameters of `train_tokenizer` that learn superwords over runs of a version's words.

    Corpus, split pattern, special tokens, thresholds and evaluation are as they were for the
    version, whose words are learned again from the passages they stand in.

    Args:
        reference: a registered version of byte-level BPE, trained here.
        vocab_size: superwords included; that of the version when None; ``auto`` for the one at
            which text costs a model least.
        paths, name, reserve, round_to, largest_size, model_shape: as for `superword_parameters`.

    Raises:
        InvalidOption: a version whose words are learned in another way.
        UnknownVersion: there is no such version.
    """
    version, base, config = version_to_continue(reference)
    size = base.vocab_size if vocab_size is None else vocab_size
    chosen, size = size_to_choose(size, largest_size, model_shape)
    against = {
        "was not trained here": not config,
        f"follows {base.algorithm.name}": bool(config) and config["algorithm"] != "byte-bpe",
        "has required or forbidden tokens": any(
            config.get(key) for key in ("required_tokens", "forbid", "forbidden_tokens")
        )
        or config.get("characters", "any") != "any",
        "extends another": bool(config.get("extends")),
        "limits the length of tokens": bool(config.get("max_token_bytes")),
    }
    wrong = [what for what, holds in against.items() if holds]
    if wrong:
        raise InvalidOption(
            f"{version} {' and '.join(wrong)}",
            "superwords over runs begin with words that `bpeline train` learned from counts alone",
            "type `bpeline train FILES --name NAME --algorithm superword-bpe`",
        )
    return {
        **{key: value for key, value in on_paths(config, paths).items() if key not in OF_PARITY},
        "name": name or version.name or config["name"],
        "algorithm": "superword-bpe",
        "vocab_size": size,
        **chosen,
        "reserve": reserve,
        "round_to": round_to,
    }


@checked
def superword_parameters(
    reference: str,
    vocab_size: int | str,
    transition_size: int | None = None,
    paths: Sequence[str | Path] = (),
    name: str | None = None,
    reserve: int = 0,
    round_to: int = 1,
    *,
    largest_size: int | None = None,
    model_shape: str | None = None,
    cuts: Cuts = "punctuation",
) -> dict[str, Any]:
    """The parameters of `train_tokenizer` that go on across spaces behind a version's words.

    Special tokens, thresholds, token rules and evaluation are as they were for the version; the
    same text is counted anew, in lines. Its rules are not asked again.

    Args:
        reference: a registered version of byte-level BPE, trained here.
        vocab_size: of the new one, superwords included; ``auto`` for the one at which text costs a
            model least, with so many words.
        transition_size: how many of the ids the version gives; all of them when None.
        paths: the corpus; that of the version when empty.
        name: the name to register under; that of the version when None.
        reserve, round_to: slots behind the new ids.
        largest_size, model_shape: with ``auto``, up to which size, and which model.
        cuts: where superwords end, see `superword_lines`.

    Raises:
        InvalidOption: sizes out of order, or a version that superwords cannot begin with.
        UnknownVersion: there is no such version.
    """
    version, base, config = version_to_continue(reference)
    chosen, vocab_size = size_to_choose(vocab_size, largest_size, model_shape)
    if not config:
        raise InvalidOption(
            f"{version} was not trained here",
            "superwords begin with a tokenizer of words that `bpeline train` made",
            "type `bpeline versions` to see which versions there are",
        )
    merges_to_continue(base, config["tie_break"])  # refuses what cannot be continued
    least, words = 256 + len(base.special_tokens), transition_size or base.vocab_size
    if not least <= words <= base.vocab_size or vocab_size <= words:
        raise InvalidOption(
            f"{vocab_size:,} ids were asked for, {words:,} of them from {version}",
            f"{version} gives {least:,} to {base.vocab_size:,} ids, and superwords are more",
            f"type `--vocab-size {base.vocab_size:,} --transition-size "
            f"{max(least, base.vocab_size * 9 // 10)}`".replace(",", ""),
        )
    return {
        **{key: value for key, value in on_paths(config, paths).items() if key not in OF_PARITY},
        "name": name or version.name or config["name"],
        "vocab_size": vocab_size,
        **chosen,
        **across_spaces(base, words, cuts),
        "reserve": reserve,
        "round_to": round_to,
    }
