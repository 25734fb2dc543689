"""HuggingFace's tokenizer.json: byte-level BPE and WordPiece written and read, the rest refused.

Mind the difference in use: ``tokenizers`` recognizes special tokens in every text unless
``tokenizer.encode_special_tokens = True``; here they are ordinary text unless allowed.
"""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizer_core.algorithms import ByteBpe, WordPiece
from tokenizer_core.durable_files import DURABLE
from tokenizer_core.formats.bounded_files import json_of, read_bounded, refuse
from tokenizer_core.formats.plain_tokens import refuse_other_algorithms
from tokenizer_core.formats.printable import (
    named_vocab,
    printable_tokens,
    read_merges,
    read_vocab,
    split_merges_txt,
)
from tokenizer_core.formats.wordpiece import from_huggingface, parts_for_huggingface
from tokenizer_core.split_patterns import NAMED_PATTERNS, SplitPattern
from tokenizer_core.tokenizer import Tokenizer

_SUPPORTED = "byte-level BPE with a ByteLevel or Split(Regex) pre-tokenizer is supported"
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
# What each added token must say for us to treat it as HuggingFace does.
_ADDED_TOKEN = {
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
}


def save(tokenizer: Tokenizer, path: Path) -> None:
    """Write tokenizer.json for ``tokenizers.Tokenizer.from_file`` (0.20 or newer).

    Raises:
        InvalidTokenizer: a special token that reads like an ordinary one, or a split pattern that
            cannot be said there.
        InvalidOption: an algorithm that the format does not hold.
        DiskFull: no space left.
    """
    specials = sorted(tokenizer.special_tokens.items(), key=lambda item: item[1])
    algorithm = tokenizer.algorithm
    if isinstance(algorithm, WordPiece):
        parts = parts_for_huggingface(tokenizer, algorithm)
    else:
        refuse_other_algorithms(tokenizer, "byte-level BPE and WordPiece", ByteBpe)
        parts = _parts_of_byte_bpe(tokenizer)
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": id_, "content": token, **_ADDED_TOKEN} for token, id_ in specials],
        "normalizer": None,
        "pre_tokenizer": parts["pre_tokenizer"],
        "post_processor": None,
        "decoder": parts["decoder"],
        "model": parts["model"],
    }
    DURABLE.write(path, (json.dumps(document, ensure_ascii=False) + "\n").encode())


def _parts_of_byte_bpe(tokenizer: Tokenizer) -> dict[str, Any]:
    merges = tokenizer.merges
    first = printable_tokens(left for left, _ in merges)
    second = printable_tokens(right for _, right in merges)
    return {
        "pre_tokenizer": _pre_tokenizer(tokenizer.pattern),
        "decoder": {**_BYTE_LEVEL, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": tokenizer.ignore_merges,
            "vocab": named_vocab(tokenizer),
            "merges": list(zip(first, second, strict=True)),
        },
    }


def load(path: Path, *, without_template: bool = False) -> Tokenizer:
    """Read a tokenizer.json of byte-level BPE (also with ``ignore_merges``) or of WordPiece.

    Args:
        path: the file.
        without_template: leave out a post-processor that puts special tokens around each text
            (TemplateProcessing): the ids are then those that HuggingFace gives with
            ``add_special_tokens=False``. Otherwise such a file is refused.

    Raises:
        MissingSource: no such file.
        InvalidTokenizer: malformed, or a part that would change ids and is not supported.
    """
    document = json_of(read_bounded(path), path)
    if not isinstance(document, dict):
        refuse(path, "is not a tokenizer.json", "an object with a model")
    for part in document:
        if part not in _READERS and document[part] is not None:
            refuse(path, f"has the part {part!r}", _SUPPORTED)
    for part in ("normalizer", "truncation", "padding"):
        if document.get(part) is not None:
            refuse(path, f"has the {part} {_type_of(document[part])}", f"no {part}; {_SUPPORTED}")
    _check_post_processor(document.get("post_processor"), without_template, path)
    if _type_of(document.get("model")) == "WordPiece":
        added = _read_added_tokens(document.get("added_tokens") or [], path)
        return from_huggingface(document, added, path)
    decoder = document.get("decoder")
    if decoder is not None and _type_of(decoder) != "ByteLevel":
        refuse(path, f"has the decoder {_type_of(decoder)}", _SUPPORTED)
    pattern = _read_pattern(document.get("pre_tokenizer"), path)
    model = _read_model(document.get("model"), path)
    specials = _read_added_tokens(document.get("added_tokens") or [], path)
    named = model["vocab"]
    if not isinstance(named, dict):
        refuse(path, "holds no vocab", "the vocab is an object of token → id")
    for token, id_ in specials.items():
        if named.setdefault(token, id_) != id_:
            refuse(path, f"gives {token!r} two ids", "one id in vocab and added_tokens")
    vocab, bytes_of = read_vocab(named, specials, path)
    merges = read_merges(_merge_names(model["merges"], path), bytes_of, path)
    ignore_merges = model.get("ignore_merges", False)
    return Tokenizer(vocab, merges, specials, pattern, ignore_merges=bool(ignore_merges))


_READERS = {
    "version",
    "truncation",
    "padding",
    "added_tokens",
    "normalizer",
    "pre_tokenizer",
    "post_processor",
    "decoder",
    "model",
}


def _pre_tokenizer(pattern: SplitPattern) -> dict[str, Any]:
    if pattern.name == "gpt2":
        return {**_BYTE_LEVEL, "use_regex": True}
    return {
        "type": "Sequence",
        "pretokenizers": [
            {
                "type": "Split",
                "pattern": {"Regex": pattern.regex_for_export},
                "behavior": "Isolated",
                "invert": False,
            },
            {**_BYTE_LEVEL, "use_regex": False},
        ],
    }


def _read_pattern(part: Any, path: Path) -> SplitPattern:
    steps = part
    if _type_of(part) == "Sequence":
        steps = part.get("pretokenizers")
    elif _type_of(part) == "ByteLevel":
        steps = [part]
    if not isinstance(steps, list) or not steps or _type_of(steps[-1]) != "ByteLevel":
        refuse(path, f"has the pre_tokenizer {_type_of(part)}", _SUPPORTED)
    level = _only(steps[-1], {"add_prefix_space", "trim_offsets", "use_regex"}, path)
    if level.get("add_prefix_space", True) is not False:
        refuse(path, "has a ByteLevel pre_tokenizer with add_prefix_space", "false is supported")
    by_gpt2 = level.get("use_regex", True) is True
    if by_gpt2 and len(steps) == 1:
        return SplitPattern.named("gpt2")
    if by_gpt2 or len(steps) != 2 or _type_of(steps[0]) != "Split":
        types = ", ".join(_type_of(step) for step in steps)
        refuse(path, f"has a pre_tokenizer of the steps {types}", _SUPPORTED)
    split = _only(steps[0], {"pattern", "behavior", "invert"}, path)
    regex = split.get("pattern")
    if not isinstance(regex, dict) or list(regex) != ["Regex"]:
        refuse(path, "splits at a fixed string", "a Split pre_tokenizer with a Regex")
    if split.get("behavior") != "Isolated" or split.get("invert") is not False:
        refuse(path, "has a Split of another behavior than Isolated, or inverted", _SUPPORTED)
    return _pattern_of_export(regex["Regex"], path)


def _pattern_of_export(regex: Any, path: Path) -> SplitPattern:
    if not isinstance(regex, str):
        refuse(path, "has a Split without a regex", _SUPPORTED)
    for name in NAMED_PATTERNS:
        if SplitPattern.named(name).regex_for_export == regex:
            return SplitPattern.named(name)
    pattern = SplitPattern(regex)
    if pattern.name is None and pattern.regex_for_export != regex:
        refuse(
            path,
            "has a regex with '{m,n}+', which Oniguruma reads as a repetition and others do not",
            "a regex that every engine reads alike",
        )
    return pattern


def _check_post_processor(part: Any, without_template: bool, path: Path) -> None:
    steps = part.get("processors") if _type_of(part) == "Sequence" else [part]
    for step in steps if isinstance(steps, list) else [steps]:
        kind = _type_of(step)
        if step is None or kind == "ByteLevel":  # which moves offsets and changes no ids
            continue
        if kind != "TemplateProcessing":
            refuse(path, f"has the post_processor {kind}", _SUPPORTED)
        if not without_template:
            refuse(
                path,
                "has the post_processor TemplateProcessing, which puts special tokens around texts",
                "texts encoded as they are",
                "leave it out: Tokenizer.load(PATH, without_template=True)",
            )


def _read_model(part: Any, path: Path) -> dict[str, Any]:
    if _type_of(part) != "BPE":
        refuse(
            path, f"has the model {_type_of(part)}", "the models BPE and WordPiece are supported"
        )
    flags = {
        "dropout": (None, 0, 0.0),
        "unk_token": (None,),
        "continuing_subword_prefix": (None, ""),
        "end_of_word_suffix": (None, ""),
        "byte_fallback": (None, False),
        "fuse_unk": (None, False, True),  # nothing is unknown when every byte is a token
        "ignore_merges": (None, False, True),
    }
    model = _only(part, {*flags, "vocab", "merges"}, path)
    for flag, neutral in flags.items():
        if model.get(flag) not in neutral:
            refuse(path, f"sets {flag} of the model to {model[flag]!r}", f"accepted: {neutral[0]}")
    if "vocab" not in model or "merges" not in model:
        refuse(path, "has a model without vocab or merges", _SUPPORTED)
    return model


def _read_added_tokens(part: Any, path: Path) -> dict[str, int]:
    specials: dict[str, int] = {}
    for token in part if isinstance(part, list) else [part]:
        if not isinstance(token, dict) or not isinstance(token.get("content"), str):
            refuse(path, "has an added token without content")
        content, id_ = token["content"], token.get("id")
        if type(id_) is not int or content in specials:
            refuse(path, f"has the added token {content!r} twice or without an id")
        for flag, needed in _ADDED_TOKEN.items():
            # Without a normalizer, normalized or not is the same.
            if flag != "normalized" and token.get(flag, False) is not needed:
                refuse(
                    path,
                    f"has the added token {content!r} with {flag}={token.get(flag)}",
                    "special tokens that are matched as they are",
                )
        specials[content] = id_
    return specials


def _merge_names(merges: Any, path: Path) -> list[str]:
    """Left, right, left, right, … of merges as pairs, or as ``"a b"`` in older files."""
    kinds = set(map(type, merges)) if isinstance(merges, list) else {None}
    if kinds == {str}:
        return split_merges_txt("\n".join(merges).encode(), path)
    if kinds - {list} or set(map(len, merges)) - {2}:
        refuse(path, "has merges that are no pairs")
    return list(chain.from_iterable(merges))


def _type_of(part: Any) -> str:
    return str(part.get("type", "without type"))[:40] if isinstance(part, dict) else "none"


def _only(part: dict[str, Any], known: set[str], path: Path) -> dict[str, Any]:
    """``part`` itself, once every key in it is known."""
    unknown = sorted(part.keys() - known - {"type"})
    if unknown:
        refuse(path, f"sets {unknown[0]!r} of {_type_of(part)}, which is not understood")
    return part
