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
