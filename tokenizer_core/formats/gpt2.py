"""The format of GPT-2 and CS336: a directory with vocab.json and merges.txt."""

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
    """Write ``path``/vocab.json and ``path``/merges.txt. The split pattern is not in them.

    Raises:
        InvalidTokenizer: a special token that reads like an ordinary one.
        InvalidOption: the tokenizer follows another algorithm than byte-level BPE.
        InvalidPattern: a split pattern that no other program can be told: see `left_out`.
        DiskFull: no space left.
    """
    refuse_other_algorithms(tokenizer, "byte-level BPE", ByteBpe)
    left_out(tokenizer)
    vocab, merges = vocab_json(tokenizer), merges_txt(tokenizer)
    DURABLE.write(path / "vocab.json", vocab)
    DURABLE.write(path / "merges.txt", merges)


def left_out(tokenizer: TokenizerParts) -> dict[str, Any]:
    """The split pattern, as Oniguruma (``tokenizers``) reads it, and the special tokens.

    Programs that ask for none take the pattern to be ``gpt2``.

    Raises:
        InvalidPattern: see `SplitPattern.regex_for_export`.
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

    The files name no split pattern. It is known of GPT-2's class in a tokenizer_config.json beside
    them and of published vocabularies (`formats.ranks`), else it is asked for.

    Args:
        path: the directory.
        pattern: the split pattern.
        special_tokens: names in vocab.json that are special tokens. By default those that no merge
            makes and that are no single byte: GPT-2's ``<|endoftext|>``.

    Raises:
        MissingSource: a file is missing.
        InvalidTokenizer: they make no sense, or see `refuse_tokens_beside`.
        InvalidOption: the pattern is not known and not given.
    """
    vocab_path, merges_path = path / "vocab.json", path / "merges.txt"
    named = json_of(read_bounded(vocab_path), vocab_path)
    text = merges_text(read_bounded(merges_path), merges_path)
    require_names(named, vocab_path)
    is_guessed = special_tokens is None
    if special_tokens is None:
        unmade = named.keys() - text.replace(" ", "").split("\n")
        special_tokens = [name for name in named if len(name) > 1 and name in unmade]
    unknown = [token for token in special_tokens if token not in named]
    if unknown:
        refuse(vocab_path, f"does not hold the special token {unknown[0]!r}")
    vocab = read_vocab(named, set(special_tokens), vocab_path)
    merges = read_merges_txt(text, vocab, merges_path)
    specials = {token: named[token] for token in special_tokens}
    taken = set(specials.values())
    published = published_as({id_: token for id_, token in vocab.items() if id_ not in taken})
    if pattern is None:
        pattern = published.pattern if published else _pattern_of_class(path)
    pipeline = pipeline_of(published)
    spec = TokenizerSpec.checked(vocab, merges, specials, pattern, pipeline=pipeline)
    if is_guessed:
        refuse_tokens_beside(path, spec)
    return spec


def _pattern_of_class(path: Path) -> str:
    """The pattern of the class that a tokenizer_config.json names; asked for without one."""
    beside = path / "tokenizer_config.json"
    config = json_of(read_bounded(beside), beside) if beside.exists() else None
    if not isinstance(config, dict) or config.get("tokenizer_class") not in _GPT2_CLASSES:
        refuse_unnamed_pattern(path)
    if config.get("add_prefix_space", False) is not False:
        refuse(beside, "sets add_prefix_space, which puts a space before each text",
               "texts encoded as they are")  # fmt: skip
    return "gpt2"
