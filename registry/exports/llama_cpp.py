"""Exports read by llama.cpp itself: an exported GGUF file gets weights, and a process runs it.

llama.cpp loads models, not vocabs alone, so behind the metadata as exported come a model's shape
and weights, all of them zero: one layer of width one. What it makes of texts depends on neither.
"""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bpeline.registry.exports import llama_cpp_program
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import LibraryFailed

PATIENCE = 600.0  # seconds; thousands of texts take one
_UINT32, _FLOAT32 = 4, 6  # types of GGUF values
_F32 = 0  # a type of tensors
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


def ask_llama_cpp(path: Path, tokens: int, texts: Sequence[str]) -> dict[str, Any]:
    """What llama.cpp makes of an exported file and of texts; see `llama_cpp_program`.

    Args:
        path: a GGUF file of metadata alone.
        tokens: how many its vocab has.
        texts: without lone surrogates.

    Raises:
        LibraryFailed: it ended without an answer, or took longer than `PATIENCE`.
    """
    with tempfile.TemporaryDirectory(prefix="bpeline-") as aside:
        model = Path(aside) / "model.gguf"
        DURABLE.write(model, with_weights(path.read_bytes(), tokens))
        request = json.dumps({"model": str(model), "texts": list(texts)})
        # -P: nothing in this directory takes the place of a library.
        command = [sys.executable, "-P", str(llama_cpp_program.__file__)]
        try:
            ended = subprocess.run(
                command, input=request, capture_output=True, text=True, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            raise _not_read(f"llama.cpp did not answer within {PATIENCE:.0f} seconds") from None
    try:
        answer: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        last = (ended.stderr.strip().splitlines() or ["nothing"])[-1]
        raise _not_read(f"llama.cpp ended with {ended.returncode}, saying {last[:300]!r}") from None
    return answer


def _not_read(why: str) -> LibraryFailed:
    return LibraryFailed(f"cyllama did not read it: {why}", "a file that llama.cpp reads")


def with_weights(content: bytes, tokens: int) -> bytes:
    """A GGUF file of metadata as the smallest model of its architecture, GPT-2."""
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
