"""Reader of GGUF files: metadata entries and the tokenizer among them."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from bpeline.tokenizer_core.bounded_files import open_file, refuse, unreadable_refused
from bpeline.tokenizer_core.pipeline import AddedToken, Pipeline, PostProcessor
from bpeline.tokenizer_core.splitting import DIGITS_FROM_RIGHT

MAX_METADATA_BYTES = 256 << 20
MAX_ENTRIES = 1 << 16
MAX_KEY_BYTES = 1 << 10
MAX_STRING_BYTES = 1 << 24  # of one value; chat templates have some thousands
MAX_ELEMENTS = 1 << 22  # of one array

_BLOCK = 1 << 20  # bytes per read
_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
# GGUF type number → struct format.
_NUMBERS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip


def read_metadata(path: Path, wanted: tuple[str, ...]) -> dict[str, Any]:
    """Metadata entries whose keys start with ``wanted``: numbers, strings and lists.

    Raises:
        InvalidTokenizer: not a GGUF file of version 2 or 3, or beyond the limits.
    """
    with unreadable_refused(path), open_file(path) as file:
        return _Metadata(file.fileno(), path).entries(wanted)


class _Metadata:
    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path
        self._left = MAX_METADATA_BYTES
        self._block = b""
        self._at = 0  # position in the block

    def entries(self, wanted: tuple[str, ...]) -> dict[str, Any]:
        if self._taken(4) != _MAGIC:
            refuse(self._path, "is not a GGUF file", "expected a file that begins with GGUF")
        version = self._number("I")
        if version not in _VERSIONS:
            refuse(
                self._path,
                f"is a GGUF file of version {version}",
                f"expected version {' or '.join(map(str, _VERSIONS))}, little-endian",
                "convert the model again with current tools of llama.cpp",
            )
        self._number("Q")  # tensors
        count = self._number("Q")
        if count > MAX_ENTRIES:
            self._refuse(f"{count} entries")
        entries: dict[str, Any] = {}
        for _ in range(count):
            key = self._string(MAX_KEY_BYTES).decode("utf-8", "replace")
            kind = self._number("I")
            is_wanted = key.startswith(wanted)
            if is_wanted and key in entries:
                self._refuse(f"the key {key[:80]!r} twice")
            value = self._value(kind, is_wanted)
            if is_wanted:
                entries[key] = value
        return entries

    def _value(self, kind: int, kept: bool) -> Any:
        if kind == _STRING:
            return self._text(self._string(MAX_STRING_BYTES))
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind != _ARRAY:
            self._refuse(f"a value of the type {kind}")
        kind, count = self._number("I"), self._number("Q")
        if count > MAX_ELEMENTS:
            self._refuse(f"an array of {count} elements")
        if kind == _STRING:
            strings = (self._string(MAX_STRING_BYTES) for _ in range(count))
            if kept:
                return list(map(self._text, strings))
            for _ in strings:
                pass
            return None
        if kind not in _NUMBERS:
            self._refuse(f"an array of the type {kind}")
        form = f"<{count}{_NUMBERS[kind]}"
        content = self._taken(struct.calcsize(form))
        return list(struct.unpack(form, content)) if kept else None

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._taken(struct.calcsize(f"<{form}")))[0]

    def _string(self, limit: int) -> bytes:
        size = self._number("Q")
        if size > limit:
            self._refuse(f"text of {size} bytes")
        return self._taken(size)

    def _text(self, content: bytes) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError:
            self._refuse("text that is not UTF-8")

    def _taken(self, size: int) -> bytes:
        self._left -= size
        if self._left < 0:
            self._refuse(f"more than {MAX_METADATA_BYTES} bytes")
        while len(self._block) - self._at < size:
            more = os.read(self._descriptor, max(_BLOCK, size))
            if not more:
                refuse(self._path, "ends within its metadata", "expected a complete GGUF file")
            self._block = self._block[self._at :] + more
            self._at = 0
        self._at += size
        return self._block[self._at - size : self._at]

    def _refuse(self, what: str) -> NoReturn:
        refuse(
            self._path,
            f"has metadata with {what}",
            "expected metadata written by llama.cpp's tools",
        )


NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_KINDS = (NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE)
FOUND = (UNKNOWN, CONTROL, USER_DEFINED)  # types that are matched in raw text

# llama.cpp treats tokens with these texts as control tokens, whatever their type.
_ENDING = frozenset(
    (
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
        "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
        "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
        "<｜end▁of▁sentence｜>", "[e~[",
    )
)  # fmt: skip
# llama.cpp makes the first of these a control token if the file names none for its role.
_PERHAPS_CONTROL = frozenset(
    (
        "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
        "<|code_prefix|>", "<|prefix|>", "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",
        "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>", "<|fim_middle|>",
        "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
        "<|middle|>", "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>",
        "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
    )
)  # fmt: skip
_USER_DEFINED = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
# Where all tokens of a set are present, llama.cpp makes some others ordinary again.
_TOGETHER = (
    {"<|return|>", "<|call|>", "<|end|>"},
    {"<|call|>", "<|flush|>", "<|end|>"},
    {"<|return|>", "<|calls|>", "<|end|>"},
    {"<|calls|>", "<|flush|>", "<|end|>"},
    {"<|tool_response>", "</s>"},
)
# In these models, special tokens also match the white space next to them.
_STRIPPING_MODELS = ("phi-3", "phi3", "modern-bert")
_STRIPPING_PRES = ("jina-v2-de", "jina-v2-es", "jina-v2-code")
_STRIPPING_ARCHITECTURES = ("nomic-bert-moe", "jina-bert-v3")

ITS_OWN_PROGRAM = "use llama.cpp for this model, or load the tokenizer.json it was made from"
_WANTED = ("tokenizer.ggml.", "general.name", "general.architecture")
_DEFAULTS = {"llama": {"bos": 1, "eos": 2}, "gpt2": {"bos": 11, "eos": 11}}


@dataclass(frozen=True)
class GgufVocabulary:
    """The tokenizer of a GGUF file.

    Attributes:
        pre: name of the split pattern, or "".
        tokens: by id, all different.
        kinds: type of each token, such as `NORMAL`, as llama.cpp corrects it.
        merges: each with a space between its two parts.
        around: ids before and after a text, where ``add_special_tokens`` is set.
        space_prefix: ``add_space_prefix`` of the file.
    """

    model: str
    pre: str
    tokens: list[str]
    kinds: list[int]
    scores: list[float]
    merges: list[str]
    around: tuple[list[int], list[int]]
    space_prefix: bool | None

    @property
    def found(self) -> list[int]:
        """Ids of the tokens that are matched in raw text."""
        return [id_ for id_, kind in enumerate(self.kinds) if kind in FOUND]

    @property
    def specials(self) -> dict[str, int]:
        """Those of `found` that are special: token → id."""
        return {self.tokens[i]: i for i in self.found if self.kinds[i] != USER_DEFINED}

    def pipeline(self, **parts: Any) -> Pipeline | None:
        """The pipeline with more ``parts``; None if it would only match special tokens."""
        added = tuple(
            AddedToken(id_, self.tokens[id_], special=self.kinds[id_] != USER_DEFINED)
            for id_ in self.found
        )
        before, behind = self.around
        if before or behind:
            parts["template"] = PostProcessor.of_description(self._template(before, behind))
        if not parts and all(token.special for token in added):
            return None
        return Pipeline(added_tokens=added, **parts)

    def _template(self, before: list[int], behind: list[int]) -> dict[str, Any]:
        def around(name: str, type_id: int) -> list[dict[str, Any]]:
            pieces = [
                *({"SpecialToken": {"id": self.tokens[i], "type_id": type_id}} for i in before),
                {"Sequence": {"id": name, "type_id": type_id}},
                *({"SpecialToken": {"id": self.tokens[i], "type_id": type_id}} for i in behind),
            ]
            return list(pieces)

        special_tokens = {
            self.tokens[i]: {"id": self.tokens[i], "ids": [i], "tokens": [self.tokens[i]]}
            for i in (*before, *behind)
        }
        return {
            "type": "TemplateProcessing",
            "single": around("A", 0),
            "pair": around("A", 0) + around("B", 1),
            "special_tokens": special_tokens,
        }


def read_vocabulary(path: Path) -> GgufVocabulary:
    """Read the tokenizer of a file.

    Raises:
        InvalidTokenizer: malformed, or tokens that llama.cpp changes in ways not supported here.
    """
    metadata = read_metadata(path, _WANTED)
    entries = {key.removeprefix("tokenizer.ggml."): value for key, value in metadata.items()}
    model, pre = _text(entries, "model", path), _text(entries, "pre", path)
    tokens = entries.get("tokens")
    if not model or not isinstance(tokens, list) or not tokens or not isinstance(tokens[0], str):
        refuse(path, "holds no tokenizer", "expected tokenizer.ggml.model and its tokens")
    tokens = [token or f"[EMPTY_{id_}]" for id_, token in enumerate(tokens)]
    if len(set(tokens)) < len(tokens):
        refuse(path, "holds the same token twice", "expected different tokens, as in llama.cpp")
    kinds = _numbers(entries, "token_type", len(tokens), int, NORMAL, path)
    if unknown_types := set(kinds) - set(_KINDS):
        refuse(
            path,
            f"has tokens of the type {min(unknown_types)}",
            f"expected types from {NORMAL} to {BYTE}",
        )
    scores = [float(score) for score in _numbers(entries, "scores", len(tokens), float, 0.0, path)]
    if not all(map(math.isfinite, scores)):
        refuse(path, "has scores that are not finite", "expected finite scores")
    merges = entries.get("merges", [])
    if not isinstance(merges, list) or not all(isinstance(merge, str) for merge in merges):
        refuse(path, "has merges that are not strings", "expected two tokens and a space between")
    _refuse_stripping(pre, metadata, path)
    prefix = entries.get("add_space_prefix")
    if not isinstance(prefix, bool | None):
        refuse(path, "has an add_space_prefix that is not a boolean")
    return GgufVocabulary(
        model,
        pre,
        tokens,
        _as_taken(tokens, kinds, path),
        scores,
        merges,
        _around(model, pre, entries, len(tokens), path),
        prefix,
    )


def refuse_overlapping(texts: list[str], path: Path) -> None:
    """Refuse tokens that may overlap: llama.cpp finds the longest, not the leftmost."""
    beginnings: dict[str, str] = {}
    for text in sorted(texts, key=_is_run):  # runs last: overlapping runs are found alike
        for size in range(1, len(text)):
            beginnings.setdefault(text[:size], text)
    for text in texts:
        for size in range(1, len(text)):
            other = beginnings.get(text[-size:])
            if other is not None and not (_is_run(text) and _is_run(other)):
                refuse(
                    path,
                    f"has the special tokens {text[:40]!r} and {other[:40]!r}, which may overlap",
                    "expected no token that ends as another begins",
                    ITS_OWN_PROGRAM,
                )


def _is_run(text: str) -> bool:
    return len(set(text)) == 1


def _text(entries: Mapping[str, Any], key: str, path: Path) -> str:
    value = entries.get(key, "")
    if not isinstance(value, str):
        refuse(path, f"has a tokenizer.ggml.{key} that is not a string")
    return value


def _numbers(
    entries: Mapping[str, Any], key: str, count: int, kind: type, default: Any, path: Path
) -> list[Any]:
    listed = entries.get(key)
    if listed is None:
        return [default] * count
    accepted = (int, float) if kind is float else (int,)
    if not isinstance(listed, list) or len(listed) < count or type(listed[0]) not in accepted:
        refuse(path, f"has no {key} for each token", f"expected {count} numbers")
    return listed[:count]


def _as_taken(tokens: list[str], kinds: list[int], path: Path) -> list[int]:
    """Types of the tokens after llama.cpp's corrections by text."""
    texts_of_tokens = set(tokens)
    if any(texts <= texts_of_tokens for texts in _TOGETHER):
        refuse(
            path,
            "has a set of tokens for which llama.cpp changes the type of <|end|> or </s>",
            "expected a model without that set",
            ITS_OWN_PROGRAM,
        )
    corrected = []
    for text, kind in zip(tokens, kinds, strict=True):
        if text in _USER_DEFINED:
            kind = USER_DEFINED
        elif text in _ENDING:
            kind = UNKNOWN if kind == UNKNOWN else CONTROL
        elif text in _PERHAPS_CONTROL and kind not in (CONTROL, UNKNOWN):
            refuse(
                path,
                f"has {text!r} as an ordinary token, which llama.cpp may read as a control token",
                "expected it as a control token (type 3)",
                ITS_OWN_PROGRAM,
            )
        corrected.append(kind)
    return corrected


def _refuse_stripping(pre: str, metadata: Mapping[str, Any], path: Path) -> None:
    name = str(metadata.get("general.name", "")).lower()
    architecture = str(metadata.get("general.architecture", ""))
    if (
        any(part in name for part in _STRIPPING_MODELS)
        or any(part in pre for part in _STRIPPING_PRES)
        or any(part in architecture for part in _STRIPPING_ARCHITECTURES)
    ):
        refuse(
            path,
            f"is of the model {name[:40] or architecture[:40]!r}: in llama.cpp its special tokens "
            "also match the white space next to them",
            "expected special tokens that match only their own text",
            ITS_OWN_PROGRAM,
        )


def _around(
    model: str, pre: str, entries: Mapping[str, Any], count: int, path: Path
) -> tuple[list[int], list[int]]:
    adds = {"bos": model == "llama", "eos": False}
    if pre in TAKING_WHOLE and model == "gpt2":
        adds["bos"] = True
    ids: list[list[int]] = []
    for role in ("bos", "eos"):
        is_added = entries.get(f"add_{role}_token", adds[role])
        default = _DEFAULTS.get(model, {}).get(role, -1)
        id_ = entries.get(f"{role}_token_id", default)
        if not isinstance(id_, int) or not isinstance(is_added, bool):
            refuse(path, f"has an invalid {role}_token_id or add_{role}_token")
        if not 0 <= id_ < count:
            id_ = default
        if is_added and not 0 <= id_ < count:
            refuse(path, f"sets add_{role}_token without a {role} token")
        ids.append([id_] if is_added else [])
    return ids[0], ids[1]


# ``tokenizer.ggml.pre`` → our split pattern: its name, or its regex.
PATTERNS_OF_PRE = {
    "superbpe": DIGITS_FROM_RIGHT,
    **dict.fromkeys(
        ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
         "jina-v5-nano", "dbrx", "smaug-bpe", "glm4", "chatglm-bpe"),
        "llama3",
    ),
    **dict.fromkeys(
        ("gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "a.x-4.0", "mellum", "modern-bert",
         "jina-v1-en", "roberta-bpe", "mpt", "olmo", "jais", "exaone4", "trillion",
         "granite-docling"),
        "gpt2",
    ),
    **dict.fromkeys(
        ("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b",
         "mellum2"),
        "starcoder",
    ),
    **dict.fromkeys(
        ("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan",
         "solar-open", "grok-2"),
        "qwen2",
    ),
    "qwen35": "qwen3.5",
}  # fmt: skip
# llama.cpp ignores merges for words in the vocab with these.
TAKING_WHOLE = (
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
    "jina-v5-nano",
)  # fmt: skip
