"""GPT-2's format, also used by CS336: a directory with vocab.json and merges.txt."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.bounded_files import json_of, read_bounded, refuse
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.formats.json_tokens import (
    merges_text,
    merges_txt,
    read_merges_txt,
    read_vocab,
    refuse_other_algorithms,
    refuse_tokens_beside,
    require_names,
    vocab_json,
)
from bpeline.tokenizer_core.formats.ranks import (
    pipeline_of,
    published_as,
    refuse_unnamed_pattern,
)
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.tokenizer_spec import ByteBpe, TokenizerSpec

_GPT2_CLASSES = ("GPT2Tokenizer", "GPT2TokenizerFast")


def save(tokenizer: TokenizerParts, path: Path) -> None:
    """Write ``path``/vocab.json and ``path``/merges.txt, without the split pattern."""
    refuse_other_algorithms(tokenizer, "byte-level BPE", ByteBpe)
    left_out(tokenizer)
    vocab, merges = vocab_json(tokenizer), merges_txt(tokenizer)
    DURABLE.write(path / "vocab.json", vocab)
    DURABLE.write(path / "merges.txt", merges)


def left_out(tokenizer: TokenizerParts) -> dict[str, Any]:
    """The split pattern, as ``tokenizers`` (Oniguruma) reads it, and special tokens.

    Programs without an option for the pattern use ``gpt2``.
    """
    return {
        "pattern": tokenizer.spec.pattern.regex_for_export,
        "special_tokens": list(tokenizer.spec.special_tokens),
    }


def load(
    path: Path,
    *,
    pattern: SplitPattern | str | None = None,
    special_tokens: Collection[str] | None = None,
) -> TokenizerSpec:
    """Read a directory with vocab.json and merges.txt.

    Args:
        pattern: default: ``gpt2`` if tokenizer_config.json names GPT-2's class, or the pattern of a
            published vocabulary (`formats.ranks`); required otherwise.
        special_tokens: names in vocab.json. Default: the tokens of several characters that no merge
            produces, such as GPT-2's ``<|endoftext|>``.

    Raises:
        InvalidTokenizer: malformed, or refused by `refuse_tokens_beside`.
        InvalidOption: ``pattern`` is required.
    """
    vocab_path, merges_path = path / "vocab.json", path / "merges.txt"
    named = json_of(read_bounded(vocab_path), vocab_path)
    text = merges_text(read_bounded(merges_path), merges_path)
    require_names(named, vocab_path)
    is_guessed = special_tokens is None
    if special_tokens is None:
        unmerged = named.keys() - text.replace(" ", "").split("\n")
        special_tokens = [name for name in named if len(name) > 1 and name in unmerged]
    unknown = [token for token in special_tokens if token not in named]
    if unknown:
        refuse(vocab_path, f"lacks the special token {unknown[0]!r}")
    vocab = read_vocab(named, set(special_tokens), vocab_path)
    merges = read_merges_txt(text, vocab, merges_path)
    specials = {token: named[token] for token in special_tokens}
    special_ids = set(specials.values())
    published = published_as({id_: token for id_, token in vocab.items() if id_ not in special_ids})
    if pattern is None:
        pattern = published.pattern if published else _pattern_of_class(path)
    pipeline = pipeline_of(published)
    spec = TokenizerSpec.checked(vocab, merges, specials, pattern, pipeline=pipeline)
    if is_guessed:
        refuse_tokens_beside(path, spec)
    return spec


def _pattern_of_class(path: Path) -> str:
    """The pattern of the class in tokenizer_config.json; raises an error if unknown."""
    config_path = path / "tokenizer_config.json"
    config = json_of(read_bounded(config_path), config_path) if config_path.exists() else None
    if not isinstance(config, dict) or config.get("tokenizer_class") not in _GPT2_CLASSES:
        refuse_unnamed_pattern(path)
    if config.get("add_prefix_space", False) is not False:
        refuse(config_path, "sets add_prefix_space, which puts a space before each text",
               "expected add_prefix_space: false")  # fmt: skip
    return "gpt2"
