"""Wrap a GGUF tokenizer in the smallest model that llama.cpp loads.

llama.cpp loads models only, so the tokenizer's metadata is followed by the shape and zero weights
of a one-layer model of width one. They do not affect tokenization.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

from bpeline.tokenizer_core.bounded_files import open_file, read_file
from bpeline.tokenizer_core.formats import gguf, read_metadata
from bpeline.tokenizer_core.vocabulary import to_printable

_UINT32, _FLOAT32 = 4, 6  # GGUF value types
_F32 = 0  # GGUF tensor type
_ALIGNED = 32
_HEAD = struct.Struct("<4sIQQ")  # magic, version, tensors, entries
_SHAPE = {
    "context_length": 1,
    "embedding_length": 1,
    "feed_forward_length": 1,
    "block_count": 1,
    "attention.head_count": 1,
}
_LAYER = {
    "attn_norm.weight": (1,), "attn_norm.bias": (1,), "attn_qkv.weight": (1, 3),
    "attn_qkv.bias": (3,), "attn_output.weight": (1, 1), "attn_output.bias": (1,),
    "ffn_norm.weight": (1,), "ffn_norm.bias": (1,), "ffn_up.weight": (1, 1), "ffn_up.bias": (1,),
    "ffn_down.weight": (1, 1), "ffn_down.bias": (1,),
}  # fmt: skip


def smallest_model(path: Path) -> bytes:
    """Return the tokenizer of a GGUF file as a model of width one."""
    entries = read_metadata(path, ("tokenizer.", "general."))
    tokens = len(entries.get("tokenizer.ggml.tokens", ()))
    with open_file(path) as file:
        _, _, tensors, number = _HEAD.unpack(file.read(_HEAD.size))
    if tensors == 0 and number == len(entries) and entries["general.architecture"] == "gpt2":
        return _with_weights(read_file(path), tokens)
    # The file has a real model: keep only its tokenizer's entries.
    tokenizer_entries = {
        key: value for key, value in entries.items() if key.startswith("tokenizer.")
    }
    return _with_weights(
        gguf.file_of({"general.architecture": "gpt2", **tokenizer_entries}), tokens
    )


def letter_model(path: Path) -> bytes | None:
    """Return a model whose ids show which characters llama.cpp treats as letters.

    It has the split pattern of a GGUF file and one merge: ``a`` and the byte F0, the first byte of
    every 4-byte character. The merge applies if both are in one pre-token. None unless the
    tokenizer is byte-level BPE.
    """
    entries = read_metadata(path, ("tokenizer.ggml.model", "tokenizer.ggml.pre"))
    if entries.get("tokenizer.ggml.model") != "gpt2":
        return None
    tokens = [to_printable(bytes([byte])) for byte in range(256)]
    first = to_printable(b"\xf0")
    metadata = {
        "general.architecture": "gpt2",
        **entries,
        "tokenizer.ggml.tokens": [*tokens, f"a{first}"],
        "tokenizer.ggml.token_type": [1] * 257,
        "tokenizer.ggml.merges": [f"a {first}"],
    }
    return _with_weights(gguf.file_of(metadata), len(tokens) + 1)


def _with_weights(content: bytes, tokens: int) -> bytes:
    magic, version, _, entries = _HEAD.unpack_from(content)
    tensors: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (1, tokens),
        "position_embd.weight": (1, 1),
        "output_norm.weight": (1,),
        "output_norm.bias": (1,),
        **{f"blk.0.{name}": shape for name, shape in _LAYER.items()},
    }
    parts = [
        _HEAD.pack(magic, version, len(tensors), entries + len(_SHAPE) + 1),
        content[_HEAD.size :],
    ]
    for key, value in _SHAPE.items():
        parts += _text(f"gpt2.{key}"), struct.pack("<II", _UINT32, value)
    parts += _text("gpt2.attention.layer_norm_epsilon"), struct.pack("<If", _FLOAT32, 1e-5)
    offset = 0
    for name, shape in tensors.items():
        place = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, _F32, offset)
        parts += _text(name), place
        offset += _aligned(4 * math.prod(shape))
    size = sum(map(len, parts))
    return b"".join([*parts, bytes(_aligned(size) - size + offset)])


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()
