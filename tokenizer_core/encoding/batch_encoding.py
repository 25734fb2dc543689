"""Many texts encoded in few kernel calls, by several threads; the order of the texts is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding.encoder import Encoder
from bpeline.tokenizer_core.encoding.id_lists import divided
from bpeline.tokenizer_core.encoding.merge_encoding import spans_of_lengths
from bpeline.tokenizer_core.errors import WrongKind
from bpeline.tokenizer_core.processors import thread_count
from bpeline.tokenizer_core.text import Text, utf8_of
from bpeline.tokenizer_core.vocabulary import SpecialPolicy, spans_between

_BATCH_BYTES = 1 << 20  # text that a thread takes at a time


def encode_batch(
    encoder: Encoder, texts: Iterable[str], policy: SpecialPolicy, threads: int | None = None
) -> list[list[int]]:
    """Token ids of each text; see `Tokenizer.encode_batch`."""
    threads = thread_count(threads)
    refuse_one_text(texts)
    batches = list(in_batches(_contents(texts, policy), _BATCH_BYTES))

    def encode(batch: list[bytes]) -> list[list[int]]:
        ids, edges = encode_contents(encoder, batch, policy)
        return divided(ids, edges)

    workers = min(threads, len(batches))
    if workers <= 1:
        return [ids for batch in batches for ids in encode(batch)]
    with ThreadPoolExecutor(workers) as pool:
        return [ids for part in pool.map(encode, batches) for ids in part]


def encode_contents(
    encoder: Encoder, contents: list[bytes], policy: SpecialPolicy
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Encode contents in one call: each is a span of one text, so the kernel is entered once.

    Args:
        contents: valid UTF-8, each a text of its own.

    Returns:
        ids, uint32; and edges, int64 ``[n + 1]``: content i has the ids ``edges[i]:edges[i + 1]``.
    """
    text = Text.of(b"".join(contents))
    spans = spans_of_lengths(contents)
    behind = np.full(len(spans), -1, np.int64)
    last_span = np.arange(len(spans))
    if policy.allowed and contents:
        cut = [spans_between(text, begin, end, policy) for begin, end in spans.tolist()]
        last_span = np.cumsum([len(part) for part, _ in cut]) - 1
        spans = np.concatenate([part for part, _ in cut])
        behind = np.concatenate([ids for _, ids in cut])
    ids, ends = encoder.encode(text, spans, behind)
    return ids, np.append(0, ends[last_span])


def refuse_one_text(texts: Iterable[str]) -> None:
    """Refuse one text where many are taken: each of its characters would be one.

    Raises:
        WrongKind: a string, bytes, a mapping, which gives its keys, or what gives nothing.
    """
    if type(texts) is list:
        return
    if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        raise WrongKind(
            f"one value of type {type(texts).__name__} is given where many texts are encoded",
            "accepted: an iterable of strings",
            "write encode(text) for one text, or [text]",
        )


def _contents(texts: Iterable[str], policy: SpecialPolicy) -> Iterator[bytes]:
    for text in texts:
        content = utf8_of(text)
        policy.refuse_forbidden(text)
        yield content


def in_batches(contents: Iterable[bytes], least: int) -> Iterator[list[bytes]]:
    """Contents in their order, in lists of at least so many bytes; the last may be shorter."""
    batch: list[bytes] = []
    size = 0
    for content in contents:
        batch.append(content)
        size += len(content)
        if size >= least:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
