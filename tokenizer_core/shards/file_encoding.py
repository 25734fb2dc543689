"""Cut files into pieces, and encode the pieces in threads, in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.corpus import (
    RECORD_END,
    ChunkGroup,
    ChunkText,
    ReadOptions,
    SmallFiles,
    SourceFile,
    first_cut,
    open_source,
    read_alike_together,
    read_documents,
    with_small_together,
)
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.encoding import (
    DropoutEncoder,
    Encoder,
    Places,
    PreparedEncoder,
    TokenizerParts,
    encoder_finding,
    require_dropout,
)
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.machine import thread_count
from bpeline.tokenizer_core.shards.shard_formats import smallest_dtype
from bpeline.tokenizer_core.splitting import Cuts, behind_lines
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import SpecialPolicy, find_special_tokens

PIECE_BYTES = 2 << 20  # small enough to reuse allocated memory for the next piece: LOG.md
_LEAST_PIECE = 1 << 17
_SHARE = 8  # pieces per thread, so that all end at about the same time
_AHEAD = 4  # pieces per thread in progress or waiting to be written
NO_SEPARATOR = "none"  # value of the option for text files that are one document each
_VERSION = 6  # increased when the same files and settings give different shards


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a file that one thread encodes at a time, between two legal cuts.

    Attributes:
        spent: bytes on disk that it stands for.
        unpacked: its bytes, if the file is streamed.
        row_ids: see `SourceBytes.row_ids`.
        ends_file: whether the file's last document ends with it.
    """

    file: SourceFile
    begin: int
    end: int
    spent: int
    unpacked: Text | None = None
    ends_file: bool = False
    row_ids: Sequence[bytes] = ()

    def read(self, reading: ReadOptions, id_field: str) -> ChunkText:
        """Return its documents; arguments and errors as `read_documents`."""
        raw = self.unpacked
        if raw is None:
            with closing(open_source(self.file, 0)) as source:
                raw = source.take(self.begin, self.end)
        return read_documents(raw, self.file, self.begin, reading, id_field, self.row_ids)


AnyPiece: TypeAlias = Piece | SmallFiles


def whole_files(
    files: Iterable[SourceFile], reading: ReadOptions, piece_bytes: int, id_field: str
) -> Generator[Piece, None, None]:
    """Yield the pieces of files, at least one for each; the last ends the file."""
    for file in files:
        if not file.is_streamed and file.size <= piece_bytes:
            yield Piece(file, 0, file.size, file.size, ends_file=True)
            continue
        with closing(FileCutter(file, reading, piece_bytes, id_field)) as cutter:
            yield from cutter.pieces(None)


class FileCutter:
    """Cuts one file from its beginning to its end."""

    def __init__(
        self,
        file: SourceFile,
        reading: ReadOptions,
        piece_bytes: int,
        id_field: str = "",
    ) -> None:
        self._file, self._id_field = file, id_field
        self._cuts = reading.quick_cuts(file.format)
        self._document_cuts = document_cuts(reading, file)
        self._piece_bytes = piece_bytes
        self._source = open_source(file, self._cuts.behind, reading.text_field, id_field=id_field)
        self._spent = 0
        self.position = 0

    @property
    def is_at_end(self) -> bool:
        return self._source.reach(self.position + 1) == self.position

    def next_target(self, shard_bytes: int) -> int:
        """Return where the shard that begins here ends at the earliest."""
        return (self.position // shard_bytes + 1) * shard_bytes

    def pieces(self, target: int | None) -> Iterator[Piece]:
        """Yield pieces up to the first document end from ``target`` on, or all."""
        end = None
        while self.position != end:
            step = (self.position // self._piece_bytes + 1) * self._piece_bytes
            cut = first_cut(self._source, self._cuts, step)
            if end is None and target is not None and cut >= target:
                # Piece by piece, or a compressed file without separators is in memory whole.
                document_end = first_cut(self._source, self._document_cuts, target, cut)
                end, target = (None, cut + 1) if document_end < 0 else (document_end, target)
            cut = cut if end is None else min(cut, end)
            begin, spent, self.position = self.position, self._spent, cut
            plain = not self._file.is_streamed
            unpacked = None if plain else self._source.take(begin, cut)
            row_ids = self._ids_of(unpacked)
            self._spent = self._source.spent(cut)
            last = self.is_at_end
            yield Piece(self._file, begin, cut, self._spent - spent, unpacked, last, row_ids)
            if last:
                return

    def skip(self, end: int) -> int:
        """Go on at ``end``; return the bytes on disk that were skipped."""
        while self.position < end and self._file.is_streamed:
            step = min(self._source.reach(self.position + self._piece_bytes), end)
            if step == self.position:  # the file ends earlier
                break
            self._ids_of(self._source.take(self.position, step))
            self.position = step
        spent, self.position = self._spent, end
        self._spent = self._source.spent(end)
        return self._spent - spent

    def _ids_of(self, taken: Text | None) -> Sequence[bytes]:
        if taken is None or not self._id_field or not self._file.is_of_records:
            return ()
        rows = np.count_nonzero(taken.data[: taken.size] == RECORD_END[0])
        return self._source.row_ids(int(rows))

    def close(self) -> None:
        self._source.close()


def document_cuts(reading: ReadOptions, file: SourceFile) -> Cuts:
    """Return the cuts at which documents of a file end."""
    if file.format != "text":
        return reading.cuts(file.format)
    return Cuts(special_tokens=reading.special_bytes)


_PIECES = Piece, SmallFiles


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPiece:
    """The ids of one piece of a file.

    Attributes:
        head: uint32, or the dtype of `copied`: ids of the document that the previous piece left
            open.
        closes_head: whether that document ends here.
        ids: the following ids, with end-of-text ids.
        ends: int64: where documents end in ``ids``; ids after the last end stay open.
        size: bytes of documents, without separators.
        head_span: the span of the head in the file's text.
        spans: int64 ``[n, 2]``: the span of each document that ends in ``ids``; for `SmallFiles`,
            in the text of all of them.
        tail_span: the span of the document that stays open, or None.
        row_ids: ids of the documents that end in ``ids``, see `ChunkText`; or empty.
    """

    head: NDArray[Any]
    closes_head: bool
    ids: NDArray[Any]
    ends: NDArray[np.int64]
    size: int
    head_span: tuple[int, int]
    spans: NDArray[np.int64]
    tail_span: tuple[int, int] | None = None
    row_ids: Sequence[bytes] = ()

    def copied(self, dtype: str) -> EncodedPiece:
        """Return a copy of the ids in a dtype that holds them."""
        return replace(self, head=self.head.astype(dtype), ids=self.ids.astype(dtype))


@dataclass(frozen=True, slots=True)
class EncodedReadOptions(ReadOptions):
    """Read options that cut documents only where ids do not depend on each other.

    With ``sentences`` = ``lines``, parts of a document end with a line. With ``punkt``, a document
    is encoded as a whole: later text may decide where a sentence ends.
    """

    encoder: Encoder | None = None
    sentences: str = "none"

    def quick_cuts(self, format: str) -> Cuts:
        if format != "text":
            return self.cuts(format)
        if self.sentences != "none":
            pairs = behind_lines() if self.sentences == "lines" else None
            return Cuts(pairs=pairs, special_tokens=self.special_bytes)
        cuts = ReadOptions.quick_cuts(self, format)
        return cuts if self.encoder is None else self.encoder.independent_cuts(cuts)


@dataclass(frozen=True, slots=True)
class FileEncoding:
    """How files become ids.

    Attributes:
        digest: of the tokenizer.
        reading: pattern, separators (as its special tokens) and UTF-8 policy.
        end_of_text: the id after each document, or −1.
        dtype: of the ids: ``uint16``, ``uint32`` or ``int32``.
        piece_bytes: maximum size of a piece; ids do not depend on it.
        id_count: largest id of the tokenizer + 1, by which a format chooses the dtype.
        id_field: the field of a row or JSON line with the document's id; empty for none.
        found: special tokens to find in documents, if not those of the tokenizer's encoder.
        dropping: encodes with dropout; the file name and the place decide which merges to drop.
    """

    encoder: Encoder
    digest: str
    reading: ReadOptions
    end_of_text: int
    dtype: str
    piece_bytes: int = PIECE_BYTES
    id_count: int = 0
    id_field: str = "id"
    special_tokens: tuple[tuple[str, int], ...] = ()
    found: tuple[str, ...] | None = None
    dropping: DropoutEncoder | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What ids depend on besides the tokenizer and the text, for manifests."""
        return {
            "end_of_text": self.end_of_text if self.end_of_text >= 0 else None,
            "separator": _as_told(self.reading.special_tokens),
            "invalid_utf8": self.reading.invalid_utf8,
            "text_field": self.reading.text_field,
            "id_field": self.id_field or None,
            **self._unusual,
        }

    @property
    def _unusual(self) -> dict[str, Any]:
        """Settings that older manifests do not have, unless they are defaults."""
        encoder = self.dropping
        dropout = (
            {} if encoder is None else {"dropout": encoder.dropout, "dropout_seed": encoder.seed}
        )
        return dropout if self.found is None else {**dropout, "allowed_special": [*self.found]}

    def piece_of(self, size: int, threads: int | None) -> int:
        """Return the size of a piece that keeps all threads busy to the end."""
        share = size // (_SHARE * thread_count(threads))
        return min(self.piece_bytes, max(_LEAST_PIECE, share))

    def pieces(
        self, files: Iterable[SourceFile], piece_bytes: int
    ) -> Generator[AnyPiece, None, None]:
        """Yield the pieces of whole files, in their order.

        Runs of small files are `SmallFiles`, read here in the calling thread, one at a time.
        """
        reading = self.reading
        if self.dropping is not None or not read_alike_together(reading):
            yield from whole_files(files, reading, piece_bytes, self.id_field)
            return
        for work in with_small_together(map(ChunkGroup, files), piece_bytes, fewest=1):
            if isinstance(work, ChunkGroup):
                yield from whole_files([work.file], reading, piece_bytes, self.id_field)
            else:
                yield SmallFiles.read(work, reading)

    def key(self, files: Sequence[SourceFile], *place: Any) -> str:
        """Digest of all that the ids of these files, or of a place in one, depend on."""
        return digest_of(
            {
                "version": _VERSION,
                "tokenizer": self.digest,
                "reading": self.reading.digest,
                "end_of_text": self.end_of_text,
                "dtype": self.dtype,
                "place": place,
                "id_field": self.id_field,
                **self._unusual,
                "files": [[file.path, file.source, file.format, *file.state] for file in files],
            }
        )

    def encode(self, piece: AnyPiece) -> EncodedPiece:
        """Read a piece and encode its documents, without empty ones."""
        with self.encoded(piece) as encoded:
            return encoded.copied(self.dtype)

    @contextmanager
    def encoded(self, piece: AnyPiece) -> Iterator[EncodedPiece]:
        """Like `encode`, but the uint32 ids are valid only inside the ``with`` block."""
        if isinstance(piece, SmallFiles):
            with self._together(piece) as piece_ids:
                yield piece_ids
            return
        text = piece.read(self.reading, self.id_field)
        number = _number_of(piece.file) if self.dropping is not None else 0
        encoded = self.plain if piece.file.format == "text" else self._records
        with encoded(text, piece.begin, number) as piece_ids:
            yield piece_ids

    @contextmanager
    def plain(self, text: ChunkText, begin: int = 0, file: int = 0) -> Iterator[EncodedPiece]:
        """Encode text with separators, which may begin and end inside documents.

        ``begin`` is where the piece is in the file; random numbers depend on the number ``file``.
        """
        whole = text.text
        separators = find_special_tokens(whole, 0, whole.size, self.reading.special_bytes)
        edges = np.concatenate((text.documents[:1, 0], separators[:, :2].ravel(), [whole.size]))
        spans = edges.reshape(-1, 2)
        is_kept = spans[:, 0] < spans[:, 1]
        is_kept[[0, -1]] = True
        spans = np.ascontiguousarray(spans[is_kept])
        appended = np.full(len(spans), self.end_of_text, np.int64)
        appended[[0, -1]] = -1
        places = begin + _in_chunk(spans, text.anchors)
        with self._ids(self._of_text, whole, spans, appended, file, places[:, 0]) as (ids, ends):
            head = int(ends[0])
            rest, ends, filled = _filled(ids[head:], ends[1:-1] - head, self.end_of_text)
            first, last = _span(places[0]), _span(places[-1])
            closes = len(separators) > 0
            yield EncodedPiece(
                ids[:head],
                closes,
                rest,
                ends,
                _size(spans),
                first,
                places[1:-1][filled],
                last if closes else None,
            )

    @contextmanager
    def _together(self, small: SmallFiles) -> Iterator[EncodedPiece]:
        """Encode files that are each complete."""
        text = small.text
        spans, _ = small.documents(self.reading)
        appended = np.full(len(spans), self.end_of_text, np.int64)
        with self._ids(self._of_text, text, spans, appended, 0, spans[:, 0]) as (ids, ends):
            ids, ends, filled = _filled(ids, ends, self.end_of_text)
            size, nowhere = _size(spans), (0, 0)
            yield EncodedPiece(ids[:0], False, ids, ends, size, nowhere, spans[filled])

    @property
    def _of_text(self) -> Encoder:
        """The encoder of documents of text files, which have no separator in them."""
        encoder = self.encoder
        if isinstance(encoder, PreparedEncoder):
            return encoder.without(self.reading.special_bytes)
        return encoder

    @contextmanager
    def _ids(
        self,
        encoder: Encoder,
        text: Text,
        spans: NDArray[np.int64],
        behind: NDArray[np.int64],
        file: int,
        begins: NDArray[np.int64],
    ) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
        """Encode spans that begin at these places of a file; return ids and their ends."""
        if self.dropping is None:
            with encoder.lending(text, spans, behind) as lent:
                yield lent
        else:
            places = Places(np.full(len(begins), file, np.int64), begins)
            yield self.dropping.encode(text, spans, behind, places)

    @contextmanager
    def _records(self, text: ChunkText, begin: int, file: int) -> Iterator[EncodedPiece]:
        """Encode the documents of rows or JSON lines, which are each complete."""
        filled = text.documents[:, 0] < text.documents[:, 1]
        spans = np.ascontiguousarray(text.documents[filled])
        appended = np.full(len(spans), self.end_of_text, np.int64)
        assert text.rows is not None
        # No document is longer than its row, so no two have a place in common.
        begins = begin + text.rows[filled, 0]
        with self._ids(self.encoder, text.text, spans, appended, file, begins) as (ids, ends):
            ids, ends, with_ids = _filled(ids, ends, self.end_of_text)
            rows = np.flatnonzero(filled)[with_ids]
            row_ids = [text.row_ids[row] for row in rows.tolist()] if text.row_ids else ()
            nowhere = begin, begin
            size = _size(spans)
            places = begin + text.rows[rows]
            yield EncodedPiece(ids[:0], False, ids, ends, size, nowhere, places, row_ids=row_ids)


def _as_told(separators: tuple[str, ...]) -> str | list[str] | None:
    return list(separators) if len(separators) > 1 else next(iter(separators), None)


def _size(spans: NDArray[np.int64]) -> int:
    return int((spans[:, 1] - spans[:, 0]).sum())


def _span(edges: NDArray[np.int64]) -> tuple[int, int]:
    return int(edges[0]), int(edges[1])


def _in_chunk(spans: NDArray[np.int64], anchors: NDArray[np.int64]) -> NDArray[np.int64]:
    """Convert positions in a text to positions in its chunk."""
    if len(anchors) == 1:
        return spans  # same positions
    moved = anchors[:, 1] - anchors[:, 0]
    return spans + moved[np.searchsorted(anchors[:, 0], spans, side="right") - 1]


def _filled(
    ids: NDArray[Any], ends: NDArray[np.int64], end_of_text: int
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.bool_]]:
    """Drop documents without a token, such as white space where it is no word.

    Otherwise cuts between pieces would decide whether they count. Also returns which were kept.
    """
    marked = int(end_of_text >= 0)
    lengths = ends.copy()
    lengths[1:] -= ends[:-1]
    filled = lengths != marked
    if filled.all():
        return ids, ends, filled
    ids = np.delete(ids, ends[~filled] - 1) if marked else ids
    return ids, np.cumsum(lengths[filled]), filled


def _number_of(file: SourceFile) -> int:
    """Return a number for a file by its name, which random numbers depend on."""
    name = os.path.basename(file.path).encode(errors="surrogateescape")
    return int(digest_of_bytes(name)[:15], 16)


def separators_of(
    tokenizer: TokenizerParts, asked: str | None, encoded: bool = False
) -> tuple[str, ...]:
    """Return the separators of documents in text files.

    Args:
        asked: a separator; ``none`` for no separator; None for all special tokens, as in training.
        encoded: whether documents are encoded as by `Tokenizer.encode`. If that finds special
            tokens by default, None means no separator.
    """
    if asked is None:
        finds = encoded and tokenizer.spec.allowed_special == "all"
        return () if finds else tuple(tokenizer.spec.special_tokens)
    return () if asked == NO_SEPARATOR else (asked,)


def file_encoding_of(
    tokenizer: TokenizerParts,
    separator: str | Sequence[str] | None = None,
    end_of_text: str | None = None,
    invalid_utf8: Literal["strict", "replace", "ignore"] = "strict",
    text_field: str = "text",
    id_field: str = "id",
    dropout: float = 0.0,
    seed: int = 0,
    allowed_special: str | Collection[str] | None = None,
) -> FileEncoding:
    """Return how a tokenizer encodes files; options as `Tokenizer.encode_files`."""
    checks.choice("invalid_utf8", invalid_utf8, ("strict", "replace", "ignore"))
    checks.text("text_field", text_field)
    checks.text("id_field", id_field)
    if allowed_special is not None and not isinstance(allowed_special, str):
        checks.texts("allowed_special", allowed_special, ordered=False)
    if end_of_text is not None:
        checks.text("end_of_text", end_of_text)
    seed = checks.whole_number("seed", seed)
    require_dropout(dropout)
    if dropout and allowed_special is not None:
        raise InvalidOption(
            "dropout cannot be combined with allowed_special",
            "expected one of them: with dropout, special tokens are text",
            "leave out allowed_special",
        )
    if dropout and invalid_utf8 != "strict":
        raise InvalidOption(
            f"dropout cannot be combined with --invalid-utf8 {invalid_utf8}",
            "expected strict: dropout depends on positions in the files, which this changes",
            f"leave out --invalid-utf8 {invalid_utf8}, or fix the files",
        )
    separators = [separator] if isinstance(separator, str) else separator
    separators = checks.texts("separator", separators)
    spec = tokenizer.spec
    settings = spec.pattern, tuple(separators), invalid_utf8, text_field
    wanted = spec.allowed_special if allowed_special is None else allowed_special
    special = SpecialPolicy.of(spec.special_tokens, wanted, "text").allowed
    encoder = encoder_finding(spec, tokenizer.encoder, special)
    usual = dict(spec.special_tokens) if spec.finds_special else {}
    reading = EncodedReadOptions(*settings, encoder=encoder, sentences=spec.algorithm.sentence_kind)
    end = -1
    if end_of_text is not None:
        policy = SpecialPolicy.of(spec.special_tokens, {end_of_text}, "text")
        (end,) = policy.allowed.values()
    count = spec.largest_id + 1
    dtype = smallest_dtype(count)
    return FileEncoding(
        encoder,
        spec.digest,
        reading,
        end,
        dtype,
        id_count=count,
        id_field=id_field,
        special_tokens=tuple(spec.special_tokens.items()),
        found=None if special == usual else tuple(sorted(special)),
        dropping=DropoutEncoder(spec, dropout, seed) if dropout else None,
    )


def encode_in_order(
    encoding: FileEncoding, pieces: Iterable[Any], threads: int | None
) -> Generator[Any, None, None]:
    """Encode pieces in threads, a few ahead, and yield them in order.

    With one thread, the calling thread encodes. Yields ``(piece, EncodedPiece)`` for each piece,
    and anything else as it is.
    """
    threads = thread_count(threads)
    if threads == 1:
        for piece in pieces:
            yield (piece, encoding.encode(piece)) if isinstance(piece, _PIECES) else piece
        return
    with encoding.plain(ChunkText.of(Text.of(b"compile first"))):  # before threads start
        pass
    waiting: deque[tuple[Any, Future[EncodedPiece] | None]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="encode") as pool:
        try:
            for piece in pieces:
                is_piece = isinstance(piece, _PIECES)
                future = pool.submit(encoding.encode, piece) if is_piece else None
                waiting.append((piece, future))
                if len(waiting) > _AHEAD * threads:
                    yield _done(*waiting.popleft())
            while waiting:
                yield _done(*waiting.popleft())
        finally:
            for _, future in waiting:
                if future is not None:
                    future.cancel()


def _done(piece: Any, future: Future[EncodedPiece] | None) -> Any:
    return piece if future is None else (piece, future.result())
