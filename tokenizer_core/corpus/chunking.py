"""Files become chunks: byte ranges that no pre-token crosses; small files are read together.

A file has a fixed grid of ``chunk_bytes``. Chunk *k* begins at the first legal cut at or after
``k · chunk_bytes`` and ends at the first one at or after ``(k + 1) · chunk_bytes`` (see `cuts`).
So a part of a file has the same chunks wherever reading begins, and a file that grows keeps all its
chunks but the last. Chunks, or single documents of them, can be read again.
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
from bpeline.tokenizer_core.corpus.reading import CHUNK_BYTES, Reading
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
_LONGEST_LOOK = 1 << 20  # larger ones would take fresh memory each time
_NOTHING = 0, -1
_NEAR = 1 << 16  # bytes in which a cut that is soon found is taken, though another may come before
# The same bytes are other words as JSON lines than as text, so their chunks have other digests.
_MARKS = {"jsonl": b"JSON lines\0", "counts": b"counts\0"}
_RECORDS = b"records\0"
_BYTE_ORDER_MARK = b"byte order mark\0"  # no word at the begin of a file, and one elsewhere
# Row groups of a Parquet file that begin in one such cell of its bytes on disk make chunks
# together: they are a few megabytes each as a rule, and the text is two to four times as long.
PART_BYTES = 16 << 20
_PART_SHIFT = 32  # a chunk's ordinal: the number of its part, then its own in that

_SMALL = 1 << 16  # bytes of files that are read together, if neither text nor reading forbids it
_BETWEEN = "\0"  # stands behind each of them
_FIRST_BYTES = 1 << 14
_WIDER = 4


@dataclass(frozen=True, slots=True)
class ChunkGroup:
    """A unit of parallel work: the cells [begin, end) of one file's grid.

    Attributes:
        file: whose chunks.
        begin: bytes; a multiple of the chunk size.
        end: bytes; a multiple of the chunk size, or None for the end of the file. Files that are
            streamed are one group each, but for those that have parts: of these, a group holds
            what begins in this range of the bytes on disk, which are multiples of `PART_BYTES`.
        uncut: what the groups of one file, as they are planned together, tell each other: a long
            stretch in which no cut is legal, from where on and where the next one is. A file of one
            line of JSON, or of one word, would be read as often as it has groups.
    """

    file: SourceFile
    begin: int = 0
    end: int | None = None
    uncut: dict[Cuts, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of one file, named by its content.

    Attributes:
        file: where it stands.
        ordinal: the number of its cell in the file's grid; ascending, with gaps where a cell
            holds no cut.
        begin, end: bytes of the file after decompression; of a file that has parts, from the first
            chunk of its group on.
        digest: SHA-256 of these bytes (behind a mark of their own for JSON lines); empty when
            it was not asked for. Where something is left out ``across`` its ends, of that, too.
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
    """Share a corpus out in groups of about equal size, in the order of its files.

    Every file begins a group, so there are at most ``max_groups`` groups more than files. Empty
    plain files have none. Sizes and numbers below 1 are refused.
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
    reading: Reading,
    chunk_bytes: int = CHUNK_BYTES,
    *,
    with_digests: bool = True,
    quick: bool = False,
    memory: Memory = fresh,
) -> Iterator[tuple[Chunk, ChunkText]]:
    """Like `cut_chunks`, each chunk with its documents; errors as `read_documents` also."""
    for chunk, raw in cut_chunks(
        group, reading, chunk_bytes, with_digests=with_digests, quick=quick, memory=memory
    ):
        yield chunk, documents_in(chunk, raw, reading)
        del raw  # before the next chunk is read


def documents_in(chunk: Chunk, raw: Text, reading: Reading) -> ChunkText:
    """The documents in the bytes of a chunk; errors as `read_documents`."""
    return replace(read_documents(raw, chunk.file, chunk.begin, reading), across=chunk.across)


def cut_chunks(
    group: ChunkGroup,
    reading: Reading,
    chunk_bytes: int = CHUNK_BYTES,
    *,
    with_digests: bool = True,
    quick: bool = False,
    memory: Memory = fresh,
) -> Iterator[tuple[Chunk, Text]]:
    """Read the chunks of a group, one at a time, as bytes.

    A chunk whose digest is known need not be read by `read_documents`. Holds one chunk and what
    must be looked at to find its end, never a whole compressed file, unless the file has no legal
    cut (then it is one chunk).

    Args:
        group, reading, chunk_bytes: as they were planned.
        with_digests: whether to name chunks by their content, which takes a tenth of the time.
        quick: whether any legal cut will do (`Reading.cuts_soon_found`), where chunks need not
            stay what they are when the corpus grows. All groups of a file are cut alike.
        memory: gives bytes for a chunk, which may be those of the one before.

    Raises:
        UnreadableSource: broken compression, a file that cannot be opened.
        CorpusChanged: the file is not in the state in which it was found.
    """
    _require_positive("chunk_bytes", chunk_bytes)
    file = group.file
    if quick:
        near, cuts = reading.cuts_soon_found(file.format)
    else:
        near = cuts = reading.cuts(file.format)
    reach = reading.reach(file.format)
    behind = max(cuts.behind, near.behind, reach)

    across = partial(left_out_across, reading=reading, reach=reach)
    if not file.has_parts:
        source = open_source(file, behind, reading.fields(file.format), memory=memory)
        yield from _cut(group, near, cuts, chunk_bytes, source, with_digests, across)
        return
    passed = 0
    for part in range(group.begin // PART_BYTES, -(-(group.end or file.size or 1) // PART_BYTES)):
        place = part * PART_BYTES, (part + 1) * PART_BYTES
        source = open_source(file, behind, reading.fields(file.format), place)
        cut = _cut(ChunkGroup(file), near, cuts, chunk_bytes, source, with_digests, across)
        for number, (chunk, raw) in enumerate(cut):
            ordinal = (part << _PART_SHIFT) + number
            begin, end = passed, passed + chunk.size
            yield replace(chunk, ordinal=ordinal, begin=begin, end=end), raw
            passed = end


def part_of_chunk(file: SourceFile, ordinal: int) -> ChunkGroup:
    """The group that holds a chunk of a file that has parts, as small as it can be."""
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
    """The chunks of a group by the grid of positions; closes the source.

    A group is what lies between the cuts of its begin and of its end, so groups that are cut by
    different threads neither overlap nor leave anything out.

    Args:
        near: some of ``cuts``, which are found sooner; or the same object.
        across: gives what `left_out_across` does.
    """
    file = group.file
    within = min(_NEAR, chunk_bytes)

    # Groups fit together because the cut of a larger position is never a smaller one. Say n(p) and
    # c(p) for the first of `near` and of `cuts` at or after p, wherever looking began. Both grow
    # with p, and c(p) <= n(p), as `cuts` hold `near`. The cut of p is n(p) where that is at most
    # p + within, else c(p). Let p < q:
    # - both have n, or both c, which grow;
    # - p has c and q has n: c(p) <= n(p) <= n(q);
    # - p has n and q has c: n(q) > q + within > p + within >= n(p), so n(p) is not the first at or
    #   after q, so it is before q, and q <= c(q).
    def cut_at(position: int) -> int:
        if near is not cuts:
            found = first_cut(source, near, position, position + within)
            if found >= 0:
                return found
        begin, end = group.uncut.get(cuts, _NOTHING)
        if begin <= position <= end:
            return end
        found = first_cut(source, cuts, position)
        if found >= position + chunk_bytes:
            group.uncut[cuts] = position, found  # whichever thread writes it last: it is true
        return found

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
            if end == begin:  # of the file, or of a group in which no chunk begins
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
    """The name of a chunk: of its bytes, and of what these are."""
    mark = _MARKS.get(file.format, _RECORDS if file.is_of_records else b"")
    if begin == 0 and file.format == "text" and content[:3].tobytes() == codecs.BOM_UTF8:
        mark = _BYTE_ORDER_MARK
    return digest_of_bytes(*[mark] * bool(mark), content)


def left_out_across(
    source: SourceBytes, position: int, reading: Reading, reach: int
) -> tuple[int, int]:
    """How much text is left out with passages that lie across a position.

    Args:
        position: of a legal cut, no further than ``reach`` behind the last piece taken.
        reach: see `Reading.reach`.

    Returns:
        Bytes of the text before the position and behind it.
    """
    left_out = reading.left_out
    if not (reach and position and left_out) or source.reach(position + 1) == position:
        return 0, 0
    begin = max(0, position - reach)
    parts = source.peek(begin, position - begin), source.peek(position, reach)
    before, behind = (text_within(part, reading) for part in parts)
    return left_out.across(before, behind)


def first_cut(source: SourceBytes, cuts: Cuts, position: int, last: int = sys.maxsize) -> int:
    """The first legal cut at or after ``position``: 0 for 0, the end of the file if none.

    Nothing is looked for after ``last``: -1 where it is after that.
    """
    end = source.reach(position if cuts.possible or position == 0 else sys.maxsize)
    if position == 0 or end < position or not cuts.possible:
        return end
    look = _FIRST_LOOK
    while True:
        begin = max(0, position - cuts.behind)
        size = position + look + cuts.ahead - begin
        content = source.peek(begin, size)
        judged = begin + len(content) - cuts.ahead  # the last position that can be judged
        found = cuts.first(content, position - begin, judged - begin + 1)
        if found >= 0 or len(content) < size:
            cut = begin + (found if found >= 0 else len(content))
            return cut if cut <= last else -1
        position = judged + 1
        if position > last:
            return -1
        look = min(2 * look, _LONGEST_LOOK)


def _require_positive(name: str, value: int) -> None:
    if value < 1:
        raise InvalidOption(
            f"{name} is {value}", f"{name} is a whole number from 1 upwards", f"leave {name} out"
        )


@dataclass(frozen=True, slots=True, eq=False)
class SmallFiles:
    """Whole files of plain text in one: threads would wait for each other at each of them.

    Attributes:
        files: which.
        text: of all of them, with a byte that belongs to none behind each.
        edges: int64 ``[n, 2]``: where each lies in the text.
        spent: bytes on disk.
    """

    files: tuple[SourceFile, ...]
    text: Text
    edges: NDArray[np.int64]
    spent: int

    @classmethod
    def read(
        cls, files: Sequence[SourceFile], reading: Reading, memory: Memory = fresh
    ) -> SmallFiles:
        """Read the files.

        Args:
            reading: how they are read; that they are UTF-8 is seen by `documents`.
            memory: gives bytes for all of them.

        Raises:
            CorpusChanged, UnreadableSource: as `open_source`, of the first file that cannot be
                read.
            InvalidUtf8: of a file before that one.
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
        """What one of the files holds."""
        begin, end = self.edges[number].tolist()
        return Text.of(self.text.data[begin:end].data)

    def chunks(self) -> list[Chunk]:
        """What the files are, as `cut_chunks` gives it of each: one chunk."""
        data = self.text.data
        return [
            Chunk(file, 0, 0, file.size, digest_of_chunk(data[begin:end], file, 0), file.size)
            for file, (begin, end) in zip(self.files, self.edges.tolist(), strict=True)
        ]

    def refuse_invalid_utf8(self, reading: Reading) -> None:
        """Raise `InvalidUtf8` of the first file that is not UTF-8."""
        invalid = invalid_utf8_at(self.text)
        if invalid >= 0:
            number = int(np.searchsorted(self.edges[:, 0], invalid, side="right")) - 1
            read_documents(self.raw(number), self.files[number], 0, reading)  # raises

    def documents(self, reading: Reading) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Documents and special tokens of all files, as `documents_between` finds them in each.

        Returns:
            int64 ``[n, 2]``: spans that are not empty, ascending; ``[m, …]``: the same of special
            tokens.
        """
        self.refuse_invalid_utf8(reading)
        text, begins = self.text, self.edges[:, 0]
        found = find_special_tokens(text, 0, text.size, reading.special_bytes)
        # Each document ends before the next one begins, and each file before the next.
        spans = np.column_stack(
            (
                np.sort(np.concatenate((_behind_mark(text, begins), found[:, 1]))),
                np.sort(np.concatenate((self.edges[:, 1], found[:, 0]))),
            )
        )
        return np.ascontiguousarray(spans[spans[:, 0] < spans[:, 1]]), found


def _behind_mark(text: Text, begins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the text of files begins: there, or behind a byte order mark."""
    marked = np.ones(len(begins), np.bool_)
    for place, byte in enumerate(codecs.BOM_UTF8):
        marked &= text.data[begins + place] == byte
    return begins + len(codecs.BOM_UTF8) * marked


def read_alike_together(reading: Reading) -> bool:
    """Whether reading files one by one is the same as reading `SmallFiles`."""
    marks = _BETWEEN, "\ufeff"
    return (
        reading.invalid_utf8 == "strict"
        and reading.chunk_bytes >= _SMALL
        and not reading.text_form
        and not any(mark in one for one in reading.special_tokens for mark in marks)
    )


Work: TypeAlias = ChunkGroup | tuple[SourceFile, ...]  # small files are read together


def with_small_together(groups: Iterable[ChunkGroup], most: int, fewest: int = 2) -> Iterator[Work]:
    """The same work, where several small files in a row are one piece.

    Args:
        groups: of files that are read alike together, see `read_alike_together`.
        most: bytes of these files.
        fewest: of these files.
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
    """Whether it is all of a small file, which `SmallFiles` may hold."""
    file, is_whole = group.file, group.begin == 0 and group.end is None
    is_plain = file.format == "text" and not (file.is_streamed or file.is_remote)
    return is_whole and is_plain and file.size <= _SMALL


def filled_up_to(most: int, files: Iterable[SourceFile]) -> Iterator[list[SourceFile]]:
    """Files in lists of at most so many bytes, or of one file."""
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
    path: str, ordinals: Iterable[int], reading: Reading, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[Chunk, ChunkText]]:
    """The chunks that a file now has in some cells of its grid, whatever it held before.

    Of a plain file nothing else is read, of a Parquet file the row groups around them; one that is
    streamed is read up to the last of them. What is gone or cannot be read any more ends the
    reading: compare digests.

    Args:
        path: absolute, as `find_source_files` found it.
        ordinals: numbers of cells.
        reading, chunk_bytes: as the file was read.
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
    except (CorpusError, ValueError):  # ValueError: a directory now, of several files
        return


def has_single_documents(file: SourceFile, reading: Reading) -> bool:
    """Whether the borders of a document can be seen from within it.

    Not in compressed files, which are read from their beginning, nor where special tokens may
    overlap: all of the text before decides then which of them count.
    """
    return not file.is_streamed and not _may_overlap(_separators(file, reading))


@dataclass(frozen=True, slots=True)
class SingleDocuments:
    """The documents of one chunk.

    Attributes:
        source: the open file, one that `has_single_documents`.
        file: the same.
        begin, end: of the chunk: a document that a border of it cuts is two.
        reading: how the file was read.
    """

    source: SourceBytes
    file: SourceFile
    begin: int
    end: int
    reading: Reading

    def around(self, position: int) -> tuple[int, int]:
        """Where the document, or the line of JSON, begins and ends that a byte of text lies in."""
        separators = _separators(self.file, self.reading)
        return self._begin_before(position, separators), self._end_behind(position, separators)

    def read(self, begin: int, end: int) -> ChunkText:
        """The text between two such borders; errors as `read_documents`."""
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
            ends = [at + len(one) for one in separators if (at := content.rfind(one)) >= 0]
            if ends or begin == self.begin:
                return begin + max(ends, default=0)
            look *= _WIDER

    def _end_behind(self, position: int, separators: Sequence[bytes]) -> int:
        look = _FIRST_BYTES
        while True:
            size = min(look, self.end - position)
            content = self.source.peek(position, size)
            begins = [at for one in separators if (at := content.find(one)) >= 0]
            if begins or position + size == self.end:
                return position + min(begins, default=size)
            look *= _WIDER


def _separators(file: SourceFile, reading: Reading) -> tuple[bytes, ...]:
    return (b"\n",) if file.format == "jsonl" else reading.special_bytes


def _may_overlap(separators: Sequence[bytes]) -> bool:
    """Whether two of them, or one and itself, can share bytes of a text."""
    for one in separators:
        for other in separators:
            if one is not other and one in other:
                return True
            if any(one.endswith(other[:size]) for size in range(1, len(other))):
                return True
    return False
