"""Vocabularies whose ids are ranks: the merges that follow from them, and which are published.

A published vocabulary is told by the SHA-256 of its rank file, the whole of it. To begin like one
proves nothing: Llama 3 begins with all ranks of cl100k_base, and cuts text otherwise.
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
    """What the publishers of a vocabulary use with it.

    Attributes:
        name: of the vocabulary.
        pattern: the name of its split pattern.
        special_tokens: token → id; where releases of one rank file name some ids differently,
            those that all of them name alike.
        normalizer: what they do to texts before they cut them.
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
    """The published vocabulary that has exactly these tokens with these ranks; None for others."""
    digest = hashlib.sha256()
    for rank in sorted(ranks):
        digest.update(b"%s %d\n" % (base64.b64encode(ranks[rank]), rank))
    return _PUBLISHED.get(digest.hexdigest())


def refuse_unnamed_pattern(path: Path) -> NoReturn:
    """Ask for the split pattern of a file that neither names one nor is recognised."""
    known = ", ".join(one.name for one in _PUBLISHED.values())
    raise InvalidOption(
        f"{path} does not say how text is cut into pre-tokens, and its vocabulary is none of the "
        f"published ones that are known ({known})",
        f"a split pattern: {', '.join(NAMED_PATTERNS)}, or a regex",
        f"name the one it was made with: Tokenizer.load(PATH, pattern='cl100k'), and wherever a "
        f"command takes a tokenizer: {path},pattern=cl100k",
    )


def pipeline_of(published: Published | None) -> Pipeline | None:
    """What the publishers of a vocabulary do to texts before they are cut; None for nothing."""
    if published is None or not published.normalizer:
        return None
    return Pipeline(normalizer=Normalizer.of_description({"type": published.normalizer}))


def merges_of_ranks(vocab: Mapping[int, bytes], path: Path) -> tuple[MergeList, bool]:
    """The merges that make the tokens, in order of rank, and whether some tokens have none.

    tiktoken joins the pair whose bytes together are the token of lowest rank. What becomes of the
    bytes of a token does not depend on what stands around them, as long as nothing joins them
    across their ends. So of all pairs with a token's bytes at most one ever stands side by side:
    the last two symbols when the token is encoded with the shorter ones. That pair is its merge,
    and a token of which more symbols are left has none. Usually the parts of a merge have lower
    ranks. In Llama 3 some have higher ones, and hundreds of tokens have no merge: tiktoken finds
    these where they are whole pre-tokens, as ``ignore_merges`` does.

    Raises:
        InvalidTokenizer: a byte is missing, or a token comes twice.
    """
    single = {token[0]: id_ for id_, token in vocab.items() if len(token) == 1}
    if len(single) != 256:
        refuse(path, f"holds {len(single)} of the 256 single bytes", "it must hold all of them")
    longer = {id_: token for id_, token in vocab.items() if len(token) > 1}
    if len(set(longer.values())) != len(longer):
        refuse(path, "holds a token twice", "each token has one rank")
    byte_ids = np.array([single[byte] for byte in range(256)], np.int64)
    merges = derive_merges(byte_ids, longer)
    return MergeList(vocab, *merges), len(merges[2]) < len(longer)
