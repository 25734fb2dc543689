"""Cut files into chunks: byte ranges that no pre-token crosses.

A file has a fixed grid of ``chunk_bytes``. Chunk *k* begins at the first legal cut at or after
``k · chunk_bytes`` and ends at the first one at or after ``(k + 1) · chunk_bytes`` (see
`ReadOptions.cuts`). So a file that grows keeps all its chunks but the last.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus.documents import ChunkText, read_documents, text_within
from bpeline.tokenizer_core.corpus.reading import CHUNK_BYTES, ReadOptions
from bpeline.tokenizer_core.corpus.source_bytes import SourceBytes, open_source, read_plain
from bpeline.tokenizer_core.corpus.sources import Source, SourceFile, find_source_files
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.errors import CorpusError, InvalidOption
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.memory.pages import Memory, fresh
from bpeline.tokenizer_core.splitting import Cuts
from bpeline.tokenizer_core.text import Text, invalid_utf8_at
from bpeline.tokenizer_core.vocabulary import find_special_tokens

MAX_GROUPS = 64
_FIRST_LOOK = 1 << 12  # bytes; natural text has a legal cut every few words
_LONGEST_LOOK = 1 << 20  # bytes; larger reads would allocate new pages
_NOTHING = 0, -1
_NEAR = 1 << 16  # bytes within which a cheap cut is preferred to an earlier one
# The same bytes are different words as JSON lines and as text, so the digests differ.
_MARKS = {"jsonl": b"JSON lines\0", "counts": b"counts\0"}
_RECORDS = b"records\0"
_BYTE_ORDER_MARK = b"byte order mark\0"  # skipped at the start of a file, text elsewhere
# Bytes on disk; row groups of a Parquet file that begin in the same range are cut into chunks
# together. A row group usually has a few megabytes, and two to four times as much text.
PART_BYTES = 16 << 20
_PART_SHIFT = 32  # a chunk's ordinal: the part's number, then the chunk's in the part

_SMALL = 1 << 16  # bytes; files up to this size are read together
_BETWEEN = "\0"  # separator after each of them
_FIRST_BYTES = 1 << 14
_WIDER = 4


@dataclass(frozen=True, slots=True)
class ChunkGroup:
    """A unit of parallel work: the cells [begin, end) of one file's grid.

    Attributes:
        begin, end: bytes, multiples of the chunk size; None is the end of the file. A streamed
            file is one group, unless it has parts: then these are bytes on disk, multiples of
            `PART_BYTES`.
        uncut: where a long stretch without a cut begins and the next cut is, shared by the groups
            of a file. Without it, a file that is one line of JSON is searched once per group.
    """

    file: SourceFile
    begin: int = 0
    end: int | None = None
    uncut: dict[Cuts, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A byte range of one file, identified by its content.

    Attributes:
        ordinal: index of its cell in the file's grid; ascending, with gaps where a cell has no cut.
        begin, end: bytes of the decompressed file; in a file that has parts, counted from the
            first chunk of its group.
        digest: SHA-256 of format, bytes and ``across``; empty if not requested.
        spent: bytes on disk that were read for it.
        across: see `ChunkText.across`.
    """

    file: SourceFile
    ordinal: int
    begin: int
    end: int
    digest: str
    spent: int = 0
    across: tuple[int, int] = (0, 0)

    @property
    def size(self) -> int:
        return self.end - self.begin


def plan_chunk_groups(
    files: Sequence[SourceFile], chunk_bytes: int = CHUNK_BYTES, max_groups: int = MAX_GROUPS
) -> list[ChunkGroup]:
    """Split a corpus into groups of about equal size, in the order of its files.

    Every file begins a group, so there are at most ``max_groups`` more groups than files. Empty
    plain files have no group.
    """
    _require_positive("chunk_bytes", chunk_bytes)
    _require_positive("max_groups", max_groups)
    total = sum(file.size for file in files if file.has_parts or not file.is_streamed)
    cells = max(1, -(-total // (chunk_bytes * max_groups)))
    step = cells * chunk_bytes
    groups = []
    for file in files:
        if file.is_streamed and not (file.has_parts and file.size):
            groups.append(ChunkGroup(file))
            continue
        own = -(-step // PART_BYTES) * PART_BYTES if file.has_parts else step
        uncut: dict[Cuts, tuple[int, int]] = {}
        groups += [
            ChunkGroup(file, begin, begin + own if begin + own < file.size else None, uncut)
            for begin in range(0, file.size, own)
        ]
    return groups


def read_chunks(
    group: ChunkGroup,
    reading: ReadOptions,
    chunk_bytes: int = CHUNK_BYTES,
    *,
    with_digests: bool = True,
    quick: bool = False,
    memory: Memory = fresh,
) -> Iterator[tuple[Chunk, ChunkText]]:
    """`cut_chunks` with the documents of each chunk; raises as `read_documents`, too."""
    for chunk, raw in cut_chunks(
        group, reading, chunk_bytes, with_digests=with_digests, quick=quick, memory=memory
    ):
        yield chunk, documents_in(chunk, raw, reading)
        del raw  # free it before the next chunk is read


def documents_in(chunk: Chunk, raw: Text, reading: ReadOptions) -> ChunkText:
    """Return the documents in the bytes of a chunk; raises as `read_documents`."""
    return replace(read_documents(raw, chunk.file, chunk.begin, reading), across=chunk.across)


def cut_chunks(
    group: ChunkGroup,
    reading: ReadOptions,
    chunk_bytes: int = CHUNK_BYTES,
    *,
    with_digests: bool = True,
    quick: bool = False,
    memory: Memory = fresh,
) -> Iterator[tuple[Chunk, Text]]:
    """Yield the chunks of a group as bytes, one at a time.

    Memory holds one chunk and the bytes searched for its end. A compressed file is in memory
    whole only if it has no legal cut.

    Args:
        with_digests: whether to hash the chunks, which takes a tenth of the time.
        quick: whether any legal cut will do (`ReadOptions.cuts_soon_found`), where chunks need not
            stay the same when the corpus grows. The same for all groups of a file.
        memory: allocates the bytes of a chunk; may reuse those of the previous one.
    """
    _require_positive("chunk_bytes", chunk_bytes)
    file = group.file
    if quick:
        near, cuts = reading.cuts_soon_found(file.format)
    else:
        near = cuts = reading.cuts(file.format)
    reach = reading.reach(file.format)
    look_back = max(cuts.behind, near.behind, reach)

    across = partial(left_out_across, reading=reading, reach=reach)
    if not file.has_parts:
        source = open_source(file, look_back, reading.fields(file.format), memory=memory)
        yield from _cut(group, near, cuts, chunk_bytes, source, with_digests, across)
        return
    offset = 0
    for part in range(group.begin // PART_BYTES, -(-(group.end or file.size or 1) // PART_BYTES)):
        place = part * PART_BYTES, (part + 1) * PART_BYTES
        source = open_source(file, look_back, reading.fields(file.format), place)
        cut = _cut(ChunkGroup(file), near, cuts, chunk_bytes, source, with_digests, across)
        for number, (chunk, raw) in enumerate(cut):
            ordinal = (part << _PART_SHIFT) + number
            begin, end = offset, offset + chunk.size
            yield replace(chunk, ordinal=ordinal, begin=begin, end=end), raw
            offset = end


def part_of_chunk(file: SourceFile, ordinal: int) -> ChunkGroup:
    """Return the smallest group that holds a chunk of a file that has parts."""
    begin = (ordinal >> _PART_SHIFT) * PART_BYTES
    return ChunkGroup(file, begin, begin + PART_BYTES)


def _cut(
    group: ChunkGroup,
    near: Cuts,
    cuts: Cuts,
    chunk_bytes: int,
    source: SourceBytes,
    with_digests: bool,
    across: Callable[[SourceBytes, int], tuple[int, int]],
) -> Iterator[tuple[Chunk, Text]]:
    """Yield the chunks of a group, between the cuts of its begin and end; close it."""
    file = group.file
    within = min(_NEAR, chunk_bytes)

    # Groups neither overlap nor leave gaps because `cut_at` never decreases. Let n(p) and c(p) be
    # the first of `near` and of `cuts` at or after p. Neither decreases, and c(p) <= n(p), as
    # `near` is a subset of `cuts`. cut_at(p) is n(p) if n(p) <= p + within, else c(p). For p < q:
    # - both n or both c: neither decreases;
    # - c(p) and n(q): c(p) <= n(p) <= n(q);
    # - n(p) and c(q): n(q) > q + within > p + within >= n(p), so n(p) < q <= c(q).
    def cut_at(position: int) -> int:
        if near is not cuts:
            cut = first_cut(source, near, position, position + within)
            if cut >= 0:
                return cut
        begin, end = group.uncut.get(cuts, _NOTHING)
        if begin <= position <= end:
            return end
        cut = first_cut(source, cuts, position)
        if cut >= position + chunk_bytes:
            group.uncut[cuts] = position, cut  # any thread's value is valid
        return cut

    try:
        begin = cut_at(group.begin)
        _, head = across(source, begin)
        before = source.spent(begin)
        is_last = False
        while not is_last:
            ordinal = begin // chunk_bytes
            position = (ordinal + 1) * chunk_bytes
            if group.end is not None and position >= group.end:
                is_last, position = True, group.end
            end = cut_at(position)
            if end == begin:  # end of the file, or no chunk begins in the group
                return
            tail, next_head = across(source, end)
            raw = source.take(begin, end)
            digest = ""
            if with_digests:
                digest = digest_of_chunk(raw.data[: raw.size], file, begin)
                if head or tail:
                    digest = digest_of(["left out across its ends", digest, head, tail])
            spent = source.spent(end)
            yield Chunk(file, ordinal, begin, end, digest, spent - before, (head, tail)), raw
            del raw
            begin, before, head = end, spent, next_head
    finally:
        source.close()


def digest_of_chunk(content: NDArray[np.uint8], file: SourceFile, begin: int) -> str:
    """Hash the bytes of a chunk together with their format."""
    mark = _MARKS.get(file.format, _RECORDS if file.is_of_records else b"")
    if begin == 0 and file.format == "text" and content[:3].tobytes() == codecs.BOM_UTF8:
        mark = _BYTE_ORDER_MARK
    return digest_of_bytes(*[mark] * bool(mark), content)


def left_out_across(
    source: SourceBytes, position: int, reading: ReadOptions, reach: int
) -> tuple[int, int]:
    """Bytes before and after a legal cut that are left out with passages across it.

    ``position`` is not before the end of the last piece; for ``reach`` see `ReadOptions.reach`.
    """
    left_out = reading.left_out
    if not (reach and position and left_out) or source.reach(position + 1) == position:
        return 0, 0
    begin = max(0, position - reach)
    parts = source.peek(begin, position - begin), source.peek(position, reach)
    before, after = (text_within(part, reading) for part in parts)
    return left_out.across(before, after)


def first_cut(source: SourceBytes, cuts: Cuts, position: int, last: int = sys.maxsize) -> int:
    """Find the first legal cut at or after ``position``, or the end of the file.

    0 is a legal cut. Returns -1 if the cut is after ``last``.
    """
    end = source.reach(position if cuts.possible or position == 0 else sys.maxsize)
    if position == 0 or end < position or not cuts.possible:
        return end
    look = _FIRST_LOOK
    while True:
        begin = max(0, position - cuts.behind)
        size = position + look + cuts.ahead - begin
        content = source.peek(begin, size)
        last_judged = (
            begin + len(content) - cuts.ahead
        )  # the last position with enough text after it
        offset = cuts.first(content, position - begin, last_judged - begin + 1)
        if offset >= 0 or len(content) < size:
            cut = begin + (offset if offset >= 0 else len(content))
            return cut if cut <= last else -1
        position = last_judged + 1
        if position > last:
            return -1
        look = min(2 * look, _LONGEST_LOOK)


def _require_positive(name: str, value: int) -> None:
    if value < 1:
        raise InvalidOption(
            f"{name} is {value}", "expected a whole number of 1 or more", f"leave {name} out"
        )


@dataclass(frozen=True, slots=True, eq=False)
class SmallFiles:
    """Small text files in one buffer, so that threads do not contend for each file.

    Attributes:
        text: the files, each followed by a separator byte.
        edges: int64 ``[n, 2]``: the span of each file in ``text``.
        spent: bytes on disk.
    """

    files: tuple[SourceFile, ...]
    text: Text
    edges: NDArray[np.int64]
    spent: int

    @classmethod
    def read(
        cls, files: Sequence[SourceFile], reading: ReadOptions, memory: Memory = fresh
    ) -> SmallFiles:
        """Read the files; `documents` checks that they are UTF-8.

        Raises as `open_source` for the first file that cannot be read, but `InvalidUtf8` if a file
        before it is not UTF-8.
        """
        sizes = np.array([file.size for file in files], np.int64)
        ends = np.cumsum(sizes + 1) - 1
        edges = np.column_stack((ends - sizes, ends))
        size = int(ends[-1])
        data = memory(size + PADDING)
        data[ends] = ord(_BETWEEN)
        data[size:] = 0
        view = data.data
        for number, (begin, end) in enumerate(edges.tolist()):
            try:
                read_plain(files[number], view[begin:end])
            except CorpusError:
                before = Text.of(view[:begin])
                cls(tuple(files[:number]), before, edges[:number], 0).refuse_invalid_utf8(reading)
                raise
        return cls(tuple(files), Text(data, size), edges, int(sizes.sum()))

    def raw(self, number: int) -> Text:
        begin, end = self.edges[number].tolist()
        return Text.of(self.text.data[begin:end].data)

    def chunks(self) -> list[Chunk]:
        """Return one chunk per file, as `cut_chunks` would."""
        data = self.text.data
        return [
            Chunk(file, 0, 0, file.size, digest_of_chunk(data[begin:end], file, 0), file.size)
            for file, (begin, end) in zip(self.files, self.edges.tolist(), strict=True)
        ]

    def refuse_invalid_utf8(self, reading: ReadOptions) -> None:
        invalid = invalid_utf8_at(self.text)
        if invalid >= 0:
            number = int(np.searchsorted(self.edges[:, 0], invalid, side="right")) - 1
            read_documents(self.raw(number), self.files[number], 0, reading)  # raises

    def documents(self, reading: ReadOptions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find document spans and special tokens as `documents_between` does per file."""
        self.refuse_invalid_utf8(reading)
        text, begins = self.text, self.edges[:, 0]
        special_tokens = find_special_tokens(text, 0, text.size, reading.special_bytes)
        # Each document ends before the next one begins, and each file before the next.
        spans = np.column_stack(
            (
                np.sort(np.concatenate((_behind_mark(text, begins), special_tokens[:, 1]))),
                np.sort(np.concatenate((self.edges[:, 1], special_tokens[:, 0]))),
            )
        )
        return np.ascontiguousarray(spans[spans[:, 0] < spans[:, 1]]), special_tokens


def _behind_mark(text: Text, begins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the text of each file begins, after a byte order mark if any."""
    marked = np.ones(len(begins), np.bool_)
    for place, byte in enumerate(codecs.BOM_UTF8):
        marked &= text.data[begins + place] == byte
    return begins + len(codecs.BOM_UTF8) * marked


def read_alike_together(reading: ReadOptions) -> bool:
    """Whether `SmallFiles` gives the same documents as reading files one by one."""
    marks = _BETWEEN, "\ufeff"
    return (
        reading.invalid_utf8 == "strict"
        and reading.chunk_bytes >= _SMALL
        and not reading.text_form
        and not any(mark in token for token in reading.special_tokens for mark in marks)
    )


Work: TypeAlias = ChunkGroup | tuple[SourceFile, ...]  # small files are read together


def with_small_together(groups: Iterable[ChunkGroup], most: int, fewest: int = 2) -> Iterator[Work]:
    """Combine runs of small files into pieces of at most ``most`` bytes.

    Runs of less than ``fewest`` files stay groups. See `read_alike_together`.
    """
    for small, run in groupby(groups, _is_small):
        if not small:
            yield from run
            continue
        for files in filled_up_to(most, (group.file for group in run)):
            if len(files) >= fewest:
                yield tuple(files)
            else:
                yield from map(ChunkGroup, files)


def _is_small(group: ChunkGroup) -> bool:
    file, is_whole = group.file, group.begin == 0 and group.end is None
    is_plain = file.format == "text" and not (file.is_streamed or file.is_remote)
    return is_whole and is_plain and file.size <= _SMALL


def filled_up_to(most: int, files: Iterable[SourceFile]) -> Iterator[list[SourceFile]]:
    """Batch files into lists of at most ``most`` bytes, or of one file."""
    together, size = list[SourceFile](), 0
    for file in files:
        if together and size + file.size > most:
            yield together
            together, size = [], 0
        together.append(file)
        size += file.size
    if together:
        yield together


def read_again(
    path: str, ordinals: Iterable[int], reading: ReadOptions, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[Chunk, ChunkText]]:
    """Read chunks of a file by their ordinals, with the content that it has now.

    Reads only these cells of a plain file, the parts around them of a Parquet file, and other
    streamed files up to the last cell. A file that is gone or unreadable ends the iteration
    without an error: compare digests.
    """
    wanted = sorted(set(ordinals))
    if not wanted:
        return
    try:
        (file,) = find_source_files([Source(path)])
        begins = [ordinal * chunk_bytes for ordinal in wanted]
        groups = [ChunkGroup(file, begin, begin + chunk_bytes) for begin in begins]
        if file.has_parts:
            groups = [part_of_chunk(file, ordinal) for ordinal in wanted]
        elif file.is_streamed:
            groups = [ChunkGroup(file)]
        for group in dict.fromkeys(groups):
            for chunk, text in read_chunks(group, reading, chunk_bytes):
                if chunk.ordinal in wanted:
                    yield chunk, text
                if chunk.ordinal >= wanted[-1]:
                    break
    except (CorpusError, ValueError):  # ValueError: now a directory of several files
        return


def has_single_documents(file: SourceFile, reading: ReadOptions) -> bool:
    """Whether the ends of a document can be found from a position inside it.

    False for streamed files, which are read from their beginning, and where special tokens may
    overlap: all of the text before decides which of those count.
    """
    return not file.is_streamed and not _may_overlap(_separators(file, reading))


@dataclass(frozen=True, slots=True)
class SingleDocuments:
    """Random access to the documents of one chunk of an open file.

    ``file`` must satisfy `has_single_documents`. A document that crosses ``begin`` or ``end``, the
    borders of the chunk, counts as two.
    """

    source: SourceBytes
    file: SourceFile
    begin: int
    end: int
    reading: ReadOptions

    def around(self, position: int) -> tuple[int, int]:
        """Return the span of the document, or the JSON line, around a position."""
        separators = _separators(self.file, self.reading)
        return self._begin_before(position, separators), self._end_behind(position, separators)

    def read(self, begin: int, end: int) -> ChunkText:
        """Read the text of such a span; raises as `read_documents`."""
        text = read_documents(self.source.take(begin, end), self.file, begin, self.reading)
        reach = self.reading.reach(self.file.format)
        _, head = left_out_across(self.source, begin, self.reading, reach)
        tail, _ = left_out_across(self.source, end, self.reading, reach)
        return replace(text, across=(head, tail))

    def _begin_before(self, position: int, separators: Sequence[bytes]) -> int:
        look = _FIRST_BYTES
        while True:
            begin = max(self.begin, position - look)
            content = self.source.peek(begin, position - begin)
            ends = [
                at + len(separator)
                for separator in separators
                if (at := content.rfind(separator)) >= 0
            ]
            if ends or begin == self.begin:
                return begin + max(ends, default=0)
            look *= _WIDER

    def _end_behind(self, position: int, separators: Sequence[bytes]) -> int:
        look = _FIRST_BYTES
        while True:
            size = min(look, self.end - position)
            content = self.source.peek(position, size)
            begins = [at for separator in separators if (at := content.find(separator)) >= 0]
            if begins or position + size == self.end:
                return position + min(begins, default=size)
            look *= _WIDER


def _separators(file: SourceFile, reading: ReadOptions) -> tuple[bytes, ...]:
    return (b"\n",) if file.format == "jsonl" else reading.special_bytes


def _may_overlap(separators: Sequence[bytes]) -> bool:
    """Whether two separators, or two copies of one, can share bytes of a text."""
    for token in separators:
        for other in separators:
            if token is not other and token in other:
                return True
            if any(token.endswith(other[:size]) for size in range(1, len(other))):
                return True
    return False
