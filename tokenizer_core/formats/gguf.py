"""GGUF files with llama.cpp's tokenizer metadata; written without tensors.

llama.cpp names its split patterns (``tokenizer.ggml.pre``) and rewrites some of them for the
regex engine of C++. A tokenizer is saved and loaded only if both split text alike.
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
# Name of our split pattern, or its regex → name in llama.cpp.
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
    "deepseek-v3": "tildes, which it does not treat as symbols,",
}
_VERSION = 3
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9


def save(tokenizer: TokenizerParts, path: Path, roles: Mapping[str, str] | None = None) -> None:
    """Write the file, for llama.cpp and its converters.

    Args:
        roles: declared roles of special tokens, see `declared_roles`.
    """
    DURABLE.write(path, file_of(metadata(tokenizer, roles)))


def differences(tokenizer: TokenizerParts) -> list[str]:
    """Texts that llama.cpp is known to read differently; usually none."""
    return _told(tokenizer.spec.pattern)


def _told(pattern: SplitPattern) -> list[str]:
    if pattern.name in _SPELLED_OUT:
        return ["an apostrophe before ſ (U+017F), which llama.cpp does not read as an s"]
    return []


def load(path: Path) -> TokenizerSpec:
    """Read the tokenizer of a GGUF file; its model is ignored.

    Ids equal those of llama.cpp: with ``parse_special=false`` if no special tokens are allowed,
    with ``parse_special=true`` if all are.
    """
    vocabulary = read_vocabulary(path)
    refuse_overlapping([vocabulary.tokens[id_] for id_ in vocabulary.found], path)
    plugin = of_gguf_model(vocabulary.model)
    if plugin is not None:
        spec: TokenizerSpec = plugin.reader.from_gguf(vocabulary, path)
        return spec
    if vocabulary.model != "gpt2":
        refuse(
            path,
            f"holds a tokenizer of the type {vocabulary.model[:40]!r}",
            "expected the type gpt2 (byte-level BPE) or llama (SentencePiece's BPE)",
            ITS_OWN_PROGRAM,
        )
    return _byte_bpe(vocabulary, path)


def _byte_bpe(read: GgufVocabulary, path: Path) -> TokenizerSpec:
    if read.pre not in PATTERNS_OF_PRE:
        what = f"the split pattern {read.pre[:40]!r}" if read.pre else "no split pattern"
        refuse(
            path,
            f"names {what} (tokenizer.ggml.pre)",
            f"expected one that llama.cpp splits as bpeline does: {', '.join(PATTERNS_OF_PRE)}",
            ITS_OWN_PROGRAM,
        )
    ignore_merges = read.pre in TAKING_WHOLE
    added_ids = {read.tokens[id_]: id_ for id_ in read.found}
    named = {
        token: id_
        for id_, token in enumerate(read.tokens)
        if not (read.kinds[id_] == UNUSED and token == f"[PAD{id_}]")  # fills a gap in the ids
    }
    pattern = SplitPattern.parse(PATTERNS_OF_PRE[read.pre])
    if ignore_merges:
        _refuse_words(list(added_ids), pattern, path)
    vocab = read_vocab(named, added_ids, path)
    merges = read_merges(_sides(read.merges, path), vocab, path)
    return TokenizerSpec.checked(
        vocab,
        merges,
        read.specials,
        pattern,
        ignore_merges=ignore_merges,
        remarks=[f"differs from llama.cpp: {difference}" for difference in _told(pattern)],
        pipeline=read.pipeline(),
    )


def _sides(merges: list[str], path: Path) -> list[str]:
    sides = [side for merge in merges for side in merge.split(" ")]
    if len(sides) != 2 * len(merges) or "" in sides:
        rank = next(i for i, m in enumerate(merges) if len(m.split()) != 2 or m.count(" ") != 1)
        refuse(path, f"has no pair of tokens at merge {rank}: {shown(merges[rank])}")
    return sides


def _refuse_words(found: list[str], pattern: SplitPattern, path: Path) -> None:
    """Refuse special tokens that look like a word: llama.cpp finds the word, too."""
    for token, content in zip(found, map(tokens_of_printable, zip(found)), strict=True):
        text = None if content is None else content[0].decode(errors="replace")
        if text and pre_tokens(text, pattern) == [text]:
            refuse(
                path,
                f"has the special token {shown(token)}, which looks like a word",
                "expected special tokens that the split pattern splits",
                ITS_OWN_PROGRAM,
            )


def metadata(tokenizer: TokenizerParts, roles: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Keys and values of the file: strings, integers, booleans and lists of these."""
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
        "tokenizer.ggml.model": "gpt2",  # llama.cpp's name for byte-level BPE
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
    if (pre := PATTERNS.get(name or regex)) is not None:
        return pre
    reason = "llama.cpp lacks the split pattern"
    if name in _REWRITTEN:
        reason = f"llama.cpp splits {_REWRITTEN[name]} differently from the split pattern"
    if regex == SUPERWORDS:
        raise InvalidOption(
            "llama.cpp splits superwords only at numbers; these are also split at punctuation",
            "expected superwords learned with --cuts digits",
            "learn them again with `bpeline derive superwords REF --vocab-size 32000 --cuts "
            "digits`, or use a runtime that reads tokenizer.json (--format hf)",
        )
    raise InvalidOption(
        f"{reason} {shown(pattern_left_out(tokenizer))}",
        f"expected one of {_NAMED}, or superwords split at digits",
        "train with one of these, or use a runtime that reads tokenizer.json (--format hf)",
    )


def _check_whole_words(tokenizer: TokenizerParts, pre: str) -> None:
    ignore_merges = pre in TAKING_WHOLE
    if ignore_merges == tokenizer.spec.ignore_merges:
        return
    specials = {token.encode() for token in tokenizer.spec.special_tokens}
    ordinary = {token: id_ for id_, token in tokenizer.spec.vocab.items() if token not in specials}
    merging = tokenizer.encoder
    if tokenizer.spec.ignore_merges:
        merging = byte_pair_encoder(replace(tokenizer.spec, ignore_merges=False))
    for token, id_ in tokens_not_made_by_merges(merging, ordinary).items():
        verb = "uses" if ignore_merges else "ignores"
        raise InvalidTokenizer(
            f"no merges produce the token {shown(token)} (id {id_})",
            f"with tokenizer.ggml.pre = {pre}, llama.cpp {verb} such tokens",
            "save it as 'hf' or 'bpeline'",
        )


def file_of(entries: Mapping[str, Any]) -> bytes:
    """The content of a GGUF file that holds only these metadata entries."""
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
    if all(type(element) is int for element in value) and value:
        numbers: Iterable[int] = value
        return struct.pack(f"<IIQ{len(value)}i", _ARRAY, _INT32, len(value), *numbers)
    if value and all(type(element) is float for element in value):
        return struct.pack(f"<IIQ{len(value)}f", _ARRAY, _FLOAT32, len(value), *value)
    return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_text, value))


def _text(value: str) -> bytes:
    content = value.encode()
    return struct.pack("<Q", len(content)) + content
