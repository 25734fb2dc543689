"""Vocabularies whose ids are ranks: their merges, and a list of published ones.

Published vocabularies are recognised by the SHA-256 of the whole rank file; a common prefix is not
enough. Llama 3 begins with all ranks of cl100k_base and has another split pattern.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from bpeline.tokenizer_core.bounded_files import refuse
from bpeline.tokenizer_core.encoding import derive_merges
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.pipeline import Normalizer, Pipeline
from bpeline.tokenizer_core.splitting import NAMED_PATTERNS
from bpeline.tokenizer_core.vocabulary import MergeList


@dataclass(frozen=True, slots=True)
class Published:
    """A published vocabulary with its split pattern, special tokens and normalizer.

    Attributes:
        special_tokens: token → id. Only those that all releases with this rank file share.
        normalizer: its type in tokenizer.json, such as "NFC"; "" for none.
    """

    name: str
    pattern: str
    special_tokens: Mapping[str, int]
    normalizer: str = ""


_END = "<|endoftext|>"
_FIM = {"<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260}
_LLAMA3 = {
    "<|begin_of_text|>": 128000, "<|end_of_text|>": 128001,
    "<|reserved_special_token_0|>": 128002, "<|reserved_special_token_1|>": 128003,
    "<|start_header_id|>": 128006, "<|end_header_id|>": 128007, "<|eot_id|>": 128009,
}  # fmt: skip
# By SHA-256 of the rank file: tiktoken_ext/openai_public.py; meta-llama/llama3; QwenLM/Qwen.
_PUBLISHED = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": Published(
        "r50k_base", "gpt2", {_END: 50256}
    ),
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": Published(
        "p50k_base", "gpt2", {_END: 50256}
    ),
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": Published(
        "cl100k_base", "cl100k", {_END: 100257, **_FIM, "<|endofprompt|>": 100276}
    ),
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": Published(
        "o200k_base", "o200k", {_END: 199999, "<|endofprompt|>": 200018}
    ),
    "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55": Published(
        "llama3", "llama3", _LLAMA3
    ),
    "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186": Published(
        "qwen", "qwen2", {_END: 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}, "NFC"
    ),
}


def published_as(ranks: Mapping[int, bytes]) -> Published | None:
    """The published vocabulary with exactly these tokens and ranks, if any."""
    digest = hashlib.sha256()
    for rank in sorted(ranks):
        digest.update(b"%s %d\n" % (base64.b64encode(ranks[rank]), rank))
    return _PUBLISHED.get(digest.hexdigest())


def refuse_unnamed_pattern(path: Path) -> NoReturn:
    names = ", ".join(published.name for published in _PUBLISHED.values())
    raise InvalidOption(
        f"{path} has no split pattern, and its vocabulary is not one of the known ones ({names})",
        f"expected a split pattern: {', '.join(NAMED_PATTERNS)}, or a regex",
        "pass the one it was trained with: in Python Tokenizer.load(PATH, pattern='cl100k'), in a "
        f"command {path},pattern=cl100k",
    )


def pipeline_of(published: Published | None) -> Pipeline | None:
    """The pipeline of a published vocabulary: its normalizer; None without one."""
    if published is None or not published.normalizer:
        return None
    return Pipeline(normalizer=Normalizer.of_description({"type": published.normalizer}))


def merges_of_ranks(vocab: Mapping[int, bytes], path: Path) -> tuple[MergeList, bool]:
    """Derive merges from ranks; the second value is True if some tokens have none.

    tiktoken joins the pair whose concatenation is the token with the lowest rank. The bytes of a
    token are merged alike everywhere, as long as no merge crosses their ends. So at most one pair
    ever makes a token: the two symbols that are left when it is encoded with the shorter tokens.
    That pair is its merge. A token of which more symbols are left has none. Llama 3 has hundreds of
    these, which tiktoken finds only as whole pre-tokens, like ``ignore_merges``.
    """
    single = {token[0]: id_ for id_, token in vocab.items() if len(token) == 1}
    if len(single) != 256:
        refuse(path, f"holds {len(single)} of the 256 single bytes", "expected all of them")
    longer = {id_: token for id_, token in vocab.items() if len(token) > 1}
    if len(set(longer.values())) != len(longer):
        refuse(path, "holds a token twice", "expected one rank for each token")
    byte_ids = np.array([single[byte] for byte in range(256)], np.int64)
    merges = derive_merges(byte_ids, longer)
    return MergeList(vocab, *merges), len(merges[2]) < len(longer)
