"""Encode batches, long texts and streams of text in few kernel calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.encoding.encoder import Encoder
from bpeline.tokenizer_core.encoding.merge_encoding import spans_of_lengths
from bpeline.tokenizer_core.errors import InvalidOption, WrongKind
from bpeline.tokenizer_core.kernels.memory.python_objects import divided
from bpeline.tokenizer_core.machine import thread_count
from bpeline.tokenizer_core.splitting import Cuts, SplitPattern
from bpeline.tokenizer_core.text import Text, refuse_invalid_utf8, utf8_of
from bpeline.tokenizer_core.vocabulary import SpecialPolicy, spans_between

_BATCH_BYTES = 1 << 20  # of text per task of a thread


def encode_batch(
    encoder: Encoder, texts: Iterable[str], policy: SpecialPolicy, threads: int | None = None
) -> list[list[int]]:
    """Encode many texts; see `Tokenizer.encode_batch`."""
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
    """Encode texts in one kernel call, as spans of one joined text.

    Returns ids, uint32; and edges, int64 ``[n + 1]``: text i has ``ids[edges[i]:edges[i + 1]]``.
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
    """Raise WrongKind for a single text or a mapping."""
    if type(texts) is list:
        return
    if isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        raise WrongKind(
            f"one value of type {type(texts).__name__} was given where many texts are encoded",
            "expected: an iterable of strings",
            "write encode(text) for one text, or [text]",
        )


def _contents(texts: Iterable[str], policy: SpecialPolicy) -> Iterator[bytes]:
    for text in texts:
        content = utf8_of(text)
        policy.refuse_forbidden(text)
        yield content


def in_batches(contents: Iterable[bytes], least: int) -> Iterator[list[bytes]]:
    """Yield lists of contents of at least ``least`` bytes, except the last."""
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


@dataclass(frozen=True, slots=True, eq=False)
class EncodingWithOffsets:
    """Token ids of a text with their places, as half-open ranges.

    Attributes:
        byte_offsets: int64 ``[n, 2]``: UTF-8 bytes of the text; contiguous for byte-level BPE.
        char_offsets: int64 ``[n, 2]``: code points, so that ``text[begin:end]`` shows the token. A
            token with part of a character has the range of all characters that it touches.
    """

    ids: list[int]
    byte_offsets: NDArray[np.int64]
    char_offsets: NDArray[np.int64]


def encoding_with_offsets(
    text: str, ids: NDArray[np.uint32], byte_offsets: NDArray[np.int64]
) -> EncodingWithOffsets:
    """Compute character offsets from byte offsets; marks have empty ranges."""
    leads = (np.frombuffer(utf8_of(text), np.uint8) & 0xC0) != 0x80
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(leads, dtype=np.int64)))
    char_offsets = np.empty_like(byte_offsets)
    filled = byte_offsets[:, 0] < byte_offsets[:, 1]
    # The character that contains the byte.
    char_offsets[:, 0] = before[byte_offsets[:, 0] + filled] - filled
    char_offsets[:, 1] = before[byte_offsets[:, 1]]
    if len(text) != before[-1]:
        char_offsets = _positions_with_pairs(text)[char_offsets]
    return EncodingWithOffsets(ids.tolist(), byte_offsets, char_offsets)


def beginning_of(text: str, characters: int) -> str:
    """Return the prefix of ``text`` with this many encoded characters."""
    if text.isascii():
        return text[:characters]
    return text[: int(_positions_with_pairs(text)[characters])]


def _positions_with_pairs(text: str) -> NDArray[np.int64]:
    """Return the begin of each encoded character; a surrogate pair is one."""
    points = np.frombuffer(str.encode(text, "utf-32-le", "surrogatepass"), np.uint32)
    high, low = points >> 10 == 0xD800 >> 10, points >> 10 == 0xDC00 >> 10
    second_of_pair = np.concatenate((np.zeros(1, np.bool_), high[:-1] & low[1:]))
    return np.append(np.flatnonzero(~second_of_pair), len(points))


_LONGEST = 1 << 31  # maximum ids of a row
Side = Literal["left", "right"]


def pad(
    batch: Sequence[Sequence[int] | NDArray[Any]],
    max_length: int | None = None,
    pad_id: int = 0,
    pad_to: int | None = None,
    pad_side: Side = "right",
    cut_side: Side = "right",
) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Truncate and pad sequences of ids to one length.

    Args:
        max_length: truncate longer sequences; None keeps all ids.
        pad_to: minimum length of rows; default: that of the longest sequence.
        pad_side: side of the padding: ``right``, or ``left`` for generation.
        cut_side: side on which ids are dropped.

    Returns:
        ids, uint32 ``[n, length]``; and a mask, bool ``[n, length]``: False for padding.
    """
    if max_length is not None:
        max_length = checks.whole_number("max_length", max_length, 0)
    if pad_to is not None:
        pad_to = checks.whole_number("pad_to", pad_to, 0)
        if pad_to > _LONGEST:
            raise InvalidOption(
                f"pad_to is {pad_to}", f"expected: 0 to {_LONGEST}", "leave pad_to out"
            )
    if max_length is not None and pad_to is not None and pad_to > max_length:
        raise InvalidOption(
            f"max_length is {max_length} and pad_to is {pad_to}",
            "expected lengths from 0, and pad_to not above max_length",
            "leave pad_to out to pad to the longest sequence",
        )
    if not 0 <= checks.whole_number("pad_id", pad_id, 0, "write pad_id=0") < 1 << 32:
        raise InvalidOption(f"pad_id is {pad_id}", "expected an id", "write pad_id=0")
    for side in (pad_side, cut_side):
        if not isinstance(side, str) or side not in ("left", "right"):
            raise InvalidOption(
                f"a side is {side!r}", "expected: 'left' or 'right'", "leave it out"
            )
    rows = [_cut(ids, max_length, cut_side) for ids in batch]
    length = max(map(len, rows), default=0)
    length = length if pad_to is None else max(length, pad_to)
    ids = np.full((len(rows), length), pad_id, np.uint32)
    mask = np.zeros((len(rows), length), np.bool_)
    for row, sequence in enumerate(rows):
        begin = length - len(sequence) if pad_side == "left" else 0
        ids[row, begin : begin + len(sequence)] = sequence
        mask[row, begin : begin + len(sequence)] = True
    return ids, mask


def _cut(
    ids: Sequence[int] | NDArray[Any], max_length: int | None, side: Side
) -> Sequence[int] | NDArray[Any]:
    if max_length is None or len(ids) <= max_length:
        return ids
    return ids[len(ids) - max_length :] if side == "left" else ids[:max_length]


PART = 1 << 20  # bytes


def encode_long(
    encoder: Encoder,
    content: bytes,
    pattern: SplitPattern | None,
    threads: int | None = 1,
    check_utf8: bool = False,
) -> NDArray[np.uint32]:
    """Encode a long text in parts: uint32.

    Args:
        pattern: the encoder's pattern; with None, or without known `cut_pairs`, the text is one
            part.
        check_utf8: check the text first; raises `InvalidUtf8`.
    """

    def encode_part(edges: tuple[int, int]) -> NDArray[np.uint32]:
        begin, end = edges
        text = Text.of(whole[begin:end])
        if check_utf8:
            refuse_invalid_utf8(text, begin)
        return encoder.encode_whole(text)

    threads = thread_count(threads)
    whole = memoryview(content)
    edges = list(pairwise(_edges(content, pattern)))
    if len(edges) == 1:
        return encode_part(edges[0]).copy()  # a slice would keep a much larger array alive
    workers = min(threads, len(edges))
    if workers == 1:
        return _joined(map(encode_part, edges), len(content))
    with ThreadPoolExecutor(workers) as pool:
        return _joined(pool.map(encode_part, edges), len(content))


def _joined(parts: Iterable[NDArray[np.uint32]], most: int) -> NDArray[np.uint32]:
    ids = np.empty(most, np.uint32)
    written = 0
    for part in parts:
        ids[written : written + len(part)] = part
        written += len(part)
    ids.resize(written, refcheck=False)  # frees the rest in place
    return ids


def _edges(content: bytes, pattern: SplitPattern | None) -> Iterator[int]:
    begin, size = 0, len(content)
    yield begin
    # Only for long texts: computing the pairs may be slow.
    pairs = pattern.cut_pairs if pattern is not None and size >= 2 * PART else None
    while pairs is not None and size - begin >= 2 * PART:
        begin = pairs.first(content, begin + PART, size)
        if begin < 0:
            break
        yield begin
    yield size


_ENOUGH = 1 << 16  # characters to buffer before looking for a cut
_NEAR = 1 << 12  # bytes before the end that are searched first


def cut_stream(pieces: Iterable[str], policy: SpecialPolicy, cuts: Cuts) -> Iterator[bytes]:
    """Join ``pieces`` and yield UTF-8 parts that end at legal cuts.

    Memory is bounded by the distance between cuts. Without a cut, the text is buffered, and
    searched again each time its size has doubled. Raises `WrongKind` or `InvalidSpecialToken`, for
    special tokens that ``policy`` forbids, also across pieces.
    """
    gathered: list[str] = []
    size, enough = 0, _ENOUGH
    for piece in pieces:
        if not isinstance(piece, str):
            _refuse_piece(piece)
        gathered.append(piece)
        size += len(piece)
        if size < enough:
            continue
        text = "".join(gathered)
        policy.refuse_forbidden(text)
        end = len(text) - ("\ud800" <= text[-1] <= "\udbff")  # the low surrogate may follow
        content = utf8_of(text[:end])
        if cut := _late_cut(content, cuts):
            yield content[:cut]
        gathered = [content[cut:].decode() + text[end:]]
        size = len(gathered[0])
        enough = max(_ENOUGH, 2 * size)
    text = "".join(gathered)
    policy.refuse_forbidden(text)
    if text:
        yield utf8_of(text)


def _late_cut(content: bytes, cuts: Cuts) -> int:
    """Return a cut near the end that later text cannot invalidate, or 0."""
    begin, end = cuts.behind, len(content) - cuts.ahead
    for first in (end - _NEAR, begin):
        cut = cuts.first(content, max(first, begin), end)
        if cut >= 0:
            return cut
    return 0


def _refuse_piece(piece: object) -> NoReturn:
    raise WrongKind(
        f"a piece of text must be a str, not of type {type(piece).__name__}",
        "expected: an iterable of strings",
        'write encode_iterable(["a ", "text"])',
    )


_SEARCHED = 1 << 12  # maximum bytes without a cut in which every end is tried

Ends = Callable[[bytes], NDArray[np.int64]]


def longest_prefix(
    content: bytes, max_tokens: int, ends_of: Ends, longest_token: int, cuts: Cuts
) -> str:
    """Return the longest prefix of at most ``max_tokens`` tokens, in whole characters.

    A longer prefix can have fewer tokens than a shorter one, so token ends are not enough. But at
    legal cuts both sides are independent: the prefix ends in the last stretch between two cuts
    that starts with tokens left to spend, where every end is tried from the last. The
    result has been encoded and counted.

    Args:
        ends_of: returns the end of each token of a text in bytes: int64 ``[n]``.
        longest_token: bytes of the longest token of the vocab.
    """
    max_tokens = checks.whole_number("max_tokens", max_tokens, 0, "write max_tokens=512")
    if max_tokens == 0:
        return ""
    # An upper bound: max_tokens tokens of maximum length.
    content = content[: _character_end(content, max_tokens * longest_token)]
    ends = ends_of(content)
    if len(ends) <= max_tokens:
        return content.decode()
    spent = 0 if max_tokens == 1 else int(ends[max_tokens - 2])
    begin = _last_cut_at_token(content, ends[: max_tokens - 1], cuts)
    end = _first_cut(content, spent + 1, len(content), cuts)
    end = len(content) if end < 0 else end
    if end - begin > _SEARCHED:
        end = min(end, int(ends[max_tokens - 1]))
    left = max_tokens - int(np.searchsorted(ends, begin, side="right"))
    # Cuts are correct for all known patterns; otherwise nothing may fit after ``begin``.
    for size in _character_ends(content, 0, end):
        if size <= begin or len(ends_of(content[begin:size])) <= left:
            prefix = content[:size]
            if len(ends_of(prefix)) <= max_tokens:
                return prefix.decode()
    return ""


def _last_cut_at_token(content: bytes, ends: NDArray[np.int64], cuts: Cuts) -> int:
    if cuts.pairs is None:
        return 0
    return next((e for e in reversed(ends.tolist()) if _first_cut(content, e, e + 1, cuts) == e), 0)


def _first_cut(content: bytes, begin: int, end: int, cuts: Cuts) -> int:
    """Return the first cut that remains one if the text ends soon after, or -1."""
    while cuts.pairs is not None and begin < end:
        begin = cuts.pairs.first(content, begin, end)
        if begin < 0 or cuts.first(content, begin, begin + 1) == begin:
            return begin
        begin += 1
    return -1


def _character_end(content: bytes, position: int) -> int:
    if position >= len(content):
        return len(content)
    while content[position] & 0xC0 == 0x80:
        position -= 1
    return position


def _character_ends(content: bytes, begin: int, end: int) -> Iterator[int]:
    while (end := _character_end(content, end)) > begin:
        yield end
        end -= 1
