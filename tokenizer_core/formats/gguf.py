"""GGUF: a tokenizer's metadata as llama.cpp reads it; written in a file without tensors.

llama.cpp knows split patterns by name (``tokenizer.ggml.pre``) and spells some of them otherwise
than they were published, for the regex engine of C++. What it cuts as we do is written; what it
cuts otherwise is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.bounded_files import refuse
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import (
    TokenizerParts,
    byte_pair_encoder,
    tokens_not_made_by_merges,
)
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.formats.gguf_file import (
    CONTROL,
    ITS_OWN_PROGRAM,
    NORMAL,
    PATTERNS_OF_PRE,
    TAKING_WHOLE,
    UNUSED,
    GgufVocabulary,
    read_vocabulary,
    refuse_overlapping,
)
from bpeline.tokenizer_core.formats.json_tokens import (
    named_vocab,
    nothing_left_out,
    pattern_left_out,
    printable_merges,
    read_merges,
    read_vocab,
    refuse_other_algorithms,
    tokens_of_printable,
)
from bpeline.tokenizer_core.formats.known import roles_of
from bpeline.tokenizer_core.plugins import of_gguf_model
from bpeline.tokenizer_core.splitting import (
    DIGITS_FROM_RIGHT,
    SUPERWORDS,
    SplitPattern,
    pre_tokens,
)
from bpeline.tokenizer_core.tokenizer_spec import ByteBpe, TokenizerSpec
from bpeline.tokenizer_core.vocabulary import shown

left_out = nothing_left_out
# The split pattern here, its regex where it has no name → its name there.
PATTERNS = {
    "gpt2": "gpt-2",
    "starcoder": "starcoder",
    "llama3": "llama-bpe",
    "qwen2": "qwen2",
    "qwen3.5": "qwen35",
    DIGITS_FROM_RIGHT: "superbpe",
}
_NAMED = ", ".join(name for name in PATTERNS if name != DIGITS_FROM_RIGHT)
_SPELLED_OUT = ("llama3", "qwen2", "qwen3.5")
_WORDS = "words with characters beyond ASCII"
_REWRITTEN = {
    **dict.fromkeys(("o200k", "tekken", "kimi"), _WORDS),
    "deepseek-v3": "tildes, which it does not take for symbols,",
}
_VERSION = 3
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9


def save(tokenizer: TokenizerParts, path: Path, roles: Mapping[str, str] | None = None) -> None:
    """Write the file; ``gguf`` and llama.cpp's own tools read it, and converters copy from it.

    Args:
        roles: what special tokens are declared to be for, see `declared_roles`.

    Raises:
        InvalidOption: an algorithm or a split pattern that llama.cpp does not have.
        InvalidTokenizer: llama.cpp would give other ids, or a special token reads like another.
        DiskFull: no space left.
    """
    DURABLE.write(path, file_of(metadata(tokenizer, roles)))


def differences(tokenizer: TokenizerParts) -> list[str]:
    """What llama.cpp is known to read otherwise; usually nothing."""
    return _told(tokenizer.spec.pattern)


def _told(pattern: SplitPattern) -> list[str]:
    if pattern.name in _SPELLED_OUT:
        return ["an apostrophe before ſ (U+017F), which llama.cpp does not take for an s"]
    return []


def load(path: Path) -> TokenizerSpec:
    """Read the tokenizer of a GGUF file, whatever model it holds besides.

    Ids are those of llama.cpp without special tokens in the text (``parse_special`` false) where
    none are allowed, and with them where all are.

    Raises:
        MissingSource: no such file.
        InvalidTokenizer: malformed, or a tokenizer or a split pattern that we do not know exactly.
    """
    read = read_vocabulary(path)
    refuse_overlapping([read.tokens[id_] for id_ in read.found], path)
    plugin = of_gguf_model(read.model)
    if plugin is not None:
        made: TokenizerSpec = plugin.reader.from_gguf(read, path)
        return made
    if read.model != "gpt2":
        refuse(
            path,
            f"holds a tokenizer of the type {read.model[:40]!r}",
            "the types gpt2 (byte-level BPE) and llama (SentencePiece's BPE)",
            ITS_OWN_PROGRAM,
        )
    return _byte_bpe(read, path)


def _byte_bpe(read: GgufVocabulary, path: Path) -> TokenizerSpec:
    if read.pre not in PATTERNS_OF_PRE:
        what = f"the split pattern {read.pre[:40]!r}" if read.pre else "no split pattern"
        refuse(
            path,
            f"names {what} (tokenizer.ggml.pre)",
            f"those that llama.cpp cuts as we do: {', '.join(PATTERNS_OF_PRE)}",
            ITS_OWN_PROGRAM,
        )
    whole = read.pre in TAKING_WHOLE
    found = {read.tokens[id_]: id_ for id_ in read.found}
    named = {
        token: id_
        for id_, token in enumerate(read.tokens)
        if not (read.kinds[id_] == UNUSED and token == f"[PAD{id_}]")  # fills a gap of the ids
    }
    pattern = SplitPattern.parse(PATTERNS_OF_PRE[read.pre])
    if whole:
        _refuse_words(list(found), pattern, path)
    vocab = read_vocab(named, found, path)
    merges = read_merges(_sides(read.merges, path), vocab, path)
    return TokenizerSpec.checked(
        vocab,
        merges,
        read.specials,
        pattern,
        ignore_merges=whole,
        remarks=[f"not as llama.cpp: {one}" for one in _told(pattern)],
        pipeline=read.pipeline(),
    )


def _sides(merges: list[str], path: Path) -> list[str]:
    """Left, right, left, right, … (llama.cpp looks for the space from the second byte on)."""
    sides = [side for merge in merges for side in merge.split(" ")]
    if len(sides) != 2 * len(merges) or "" in sides:
        rank = next(i for i, m in enumerate(merges) if len(m.split()) != 2 or m.count(" ") != 1)
        refuse(path, f"has no pair of tokens at merge {rank}: {shown(merges[rank])}")
    return sides


def _refuse_words(found: list[str], pattern: SplitPattern, path: Path) -> None:
    """Refuse special tokens that are words in printable characters: llama.cpp takes these, too."""
    for token, content in zip(found, map(tokens_of_printable, zip(found)), strict=True):
        word = None if content is None else content[0].decode(errors="replace")
        if word and pre_tokens(word, pattern) == [word]:
            refuse(
                path,
                f"has the special token {shown(token)}, which reads like a word",
                "special tokens that the split pattern cuts",
                ITS_OWN_PROGRAM,
            )


def metadata(tokenizer: TokenizerParts, roles: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The keys of the file and their values: text, whole numbers, truth values, lists of these.

    Raises:
        InvalidOption, InvalidTokenizer: as `save`.
    """
    refuse_other_algorithms(tokenizer, "byte-level BPE", ByteBpe)
    pre = _name_of_pattern(tokenizer)
    _check_whole_words(tokenizer, pre)
    named = named_vocab(tokenizer)
    specials = tokenizer.spec.special_tokens
    names = {id_: name for name, id_ in named.items()}
    size = max(names) + 1
    special_ids = set(specials.values())
    tokens = roles_of(specials, roles)
    return {
        "general.architecture": "gpt2",
        "general.type": "model",
        "tokenizer.ggml.model": "gpt2",  # which means byte-level BPE
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": [names.get(id_, f"[PAD{id_}]") for id_ in range(size)],
        "tokenizer.ggml.token_type": [
            CONTROL if id_ in special_ids else NORMAL if id_ in names else UNUSED
            for id_ in range(size)
        ],
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in printable_merges(tokenizer)],
        **{
            f"tokenizer.ggml.{key}_token_id": specials[tokens[role]]
            for role, key in _ROLES.items()
            if role in tokens
        },
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
    }


END = "tokenizer.ggml.eos_token_id"
_ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding", "sep": "seperator"}


def _name_of_pattern(tokenizer: TokenizerParts) -> str:
    name, regex = tokenizer.spec.pattern.name, tokenizer.spec.pattern.regex
    if (known := PATTERNS.get(name or regex)) is not None:
        return known
    reason = "llama.cpp has no name for the split pattern"
    if name in _REWRITTEN:
        reason = f"llama.cpp cuts {_REWRITTEN[name]} otherwise than the pattern"
    if regex == SUPERWORDS:
        raise InvalidOption(
            "llama.cpp cuts superwords at numbers alone, and these are cut at punctuation too",
            "superwords that were learned with --cuts digits are the same there",
            "learn them again with `bpeline derive superwords REF --vocab-size 32000 --cuts "
            "digits`, or use a runtime that reads tokenizer.json (--format hf)",
        )
    raise InvalidOption(
        f"{reason} {shown(pattern_left_out(tokenizer))}",
        f"in GGUF a tokenizer has one of the patterns {_NAMED}, or superwords cut at digits",
        "train with one of these, or use a runtime that reads tokenizer.json (--format hf)",
    )


def _check_whole_words(tokenizer: TokenizerParts, pre: str) -> None:
    whole = pre in TAKING_WHOLE
    if whole == tokenizer.spec.ignore_merges:
        return
    specials = {token.encode() for token in tokenizer.spec.special_tokens}
    ordinary = {token: id_ for id_, token in tokenizer.spec.vocab.items() if token not in specials}
    merging = tokenizer.encoder
    if tokenizer.spec.ignore_merges:
        merging = byte_pair_encoder(replace(tokenizer.spec, ignore_merges=False))
    for token, id_ in tokens_not_made_by_merges(merging, ordinary).items():
        taken = "takes" if whole else "does not take"
        raise InvalidTokenizer(
            f"the merges do not make the token {shown(token)} (id {id_})",
            f"with tokenizer.ggml.pre = {pre}, llama.cpp {taken} such tokens whole",
            "save it as 'hf' or 'bpeline'",
        )


def file_of(entries: Mapping[str, Any]) -> bytes:
    """A file of metadata alone: text, whole numbers, truth values, lists of these or of floats."""
    parts = [struct.pack("<4sIQQ", b"GGUF", _VERSION, 0, len(entries))]
    for key, value in entries.items():
        parts += _text(key), _typed(value)
    return b"".join(parts)


def _typed(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", _UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", _FLOAT32, value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if all(type(one) is int for one in value) and value:
        numbers: Iterable[int] = value
        return struct.pack(f"<IIQ{len(value)}i", _ARRAY, _INT32, len(value), *numbers)
    if value and all(type(one) is float for one in value):
        return struct.pack(f"<IIQ{len(value)}f", _ARRAY, _FLOAT32, len(value), *value)
    return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_text, value))


def _text(value: str) -> bytes:
    content = value.encode()
    return struct.pack("<Q", len(content)) + content
