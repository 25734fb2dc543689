"""Which split patterns a kernel was written for; knows no pattern but by its name or regex."""

from __future__ import annotations

from collections.abc import Callable

from bpeline.tokenizer_core.kernels.scanning.cl100k import mark_cl100k
from bpeline.tokenizer_core.kernels.scanning.gpt2 import mark_gpt2
from bpeline.tokenizer_core.kernels.scanning.o200k import mark_o200k
from bpeline.tokenizer_core.kernels.scanning.superwords import mark_superwords
from bpeline.tokenizer_core.splitting.named_patterns import SUPERWORDS

# By name of the pattern, or by regex where it has none: a kernel, and what it is told. Of
# `mark_cl100k`: how many numbers make a pre-token; whether white space at the end of a span is one
# pre-token; whether combining marks are letters. Of `mark_o200k`: how many numbers; whether
# contractions belong to the word before.
MaskKernel = tuple[Callable[..., bool], tuple[int | bool, ...]]
MASK_KERNELS: dict[str, MaskKernel] = {
    "gpt2": (mark_gpt2, ()),
    "cl100k": (mark_cl100k, (3, True, False)),
    "llama3": (mark_cl100k, (3, False, False)),
    "qwen2": (mark_cl100k, (1, False, False)),
    "qwen3.5": (mark_cl100k, (1, False, True)),
    "o200k": (mark_o200k, (3, True)),
    "tekken": (mark_o200k, (1, False)),
    SUPERWORDS: (mark_superwords, ()),
}
