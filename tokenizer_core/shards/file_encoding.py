"""Pieces of files become token ids, by many threads, in order; knows no shard."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus import (
    ChunkText,
    Reading,
    SmallFiles,
    SourceFile,
)
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.encoding import (
    DropoutEncoder,
    Encoder,
    Places,
    PreparedEncoder,
    TokenizerParts,
    require_dropout,
)
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.processors import thread_count
from bpeline.tokenizer_core.shards.shard_formats import smallest_dtype
from bpeline.tokenizer_core.shards.shard_plan import (
    AnyPiece,
    Piece,
    whole_files,
    with_small_together,
)
from bpeline.tokenizer_core.splitting import Cuts, behind_lines
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import SpecialPolicy, find_special_tokens

PIECE_BYTES = 2 << 20  # what is made for one is then used again for the next: LOG.md
_LEAST_PIECE = 1 << 17
_SHARE = 8  # pieces per thread, so that all end at about the same time
_AHEAD = 4  # pieces per thread under way or waiting to be written
NO_SEPARATOR = "none"  # typed for text files that are one document each
_PIECES = Piece, SmallFiles
_VERSION = 6  # raised whenever the same files and settings give other shards than before


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPiece:
    """The ids of one piece of a file.

    Attributes:
        head: uint32, or the dtype of `copied`: ids that go on with the document that the piece
            before left open.
        closes_head: whether that document ends here.
        ids: what follows, end-of-text ids included.
        ends: int64: where documents end in ``ids``; what is behind the last one stays open.
        size: bytes of documents, separators left out.
        head_span: where the head stands: bytes of the file's text.
        spans: int64 ``[n, 2]``: the same of each document that ends in ``ids``; of `SmallFiles`,
            where it stands in the text of all of them.
        tail_span: the same of what stays open; None where nothing does.
        row_ids: for each document that ends in ``ids`` what `ChunkText` says; or nothing at all.
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
        """With ids of its own, of a dtype that holds them."""
        return replace(self, head=self.head.astype(dtype), ids=self.ids.astype(dtype))


@dataclass(frozen=True, slots=True)
class EncodedReading(Reading):
    """Documents that are cut only where their ids do not depend on each other.

    Attributes:
        encoder: gives the ids.
        sentences: ``lines``: a part of a document ends with a line; ``punkt``: a document is
            encoded as a whole, for what follows may decide where a sentence ends.
    """

    encoder: Encoder | None = None
    sentences: str = "none"

    def quick_cuts(self, format: str) -> Cuts:
        if format != "text":
            return self.cuts(format)
        if self.sentences != "none":
            pairs = behind_lines() if self.sentences == "lines" else None
            return Cuts(pairs=pairs, special_tokens=self.special_bytes)
        cuts = Reading.quick_cuts(self, format)
        return cuts if self.encoder is None else self.encoder.cuts_of_files(cuts)


@dataclass(frozen=True, slots=True)
class FileEncoding:
    """How files become ids.

    Attributes:
        encoder: gives ids.
        digest: of the tokenizer.
        reading: pattern, separators (as its special tokens) and UTF-8 policy.
        end_of_text: the id behind each document, or −1.
        dtype: of the ids: ``uint16``, ``uint32`` or ``int32``.
        piece_bytes: what one thread encodes at a time, at most; ids do not depend on it.
        id_count: one more than the greatest id of the tokenizer: what a format chooses dtype by.
        id_field: the field of a row or JSON line that names its document, for the index; empty:
            none.
        special_tokens: of the tokenizer, with their ids, for who reads the ids.
        dropping: gives the ids instead, where merges are left out at random; which ones, the name
            of the file and the place in it decide.
    """

    encoder: Encoder
    digest: str
    reading: Reading
    end_of_text: int
    dtype: str
    piece_bytes: int = PIECE_BYTES
    id_count: int = 0
    id_field: str = "id"
    special_tokens: tuple[tuple[str, int], ...] = ()
    dropping: DropoutEncoder | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What ids depend on beside the tokenizer and the text, for manifests."""
        return {
            "end_of_text": self.end_of_text if self.end_of_text >= 0 else None,
            "separator": _as_told(self.reading.special_tokens),
            "invalid_utf8": self.reading.invalid_utf8,
            "text_field": self.reading.text_field,
            "id_field": self.id_field or None,
            **self._dropout,
        }

    @property
    def _dropout(self) -> dict[str, Any]:
        one = self.dropping
        return {} if one is None else {"dropout": one.dropout, "dropout_seed": one.seed}

    def piece_of(self, size: int, threads: int | None) -> int:
        """Bytes of a piece, so that files of ``size`` bytes keep all threads busy to the end."""
        share = size // (_SHARE * thread_count(threads))
        return min(self.piece_bytes, max(_LEAST_PIECE, share))

    def pieces(
        self, files: Iterable[SourceFile], piece_bytes: int
    ) -> Generator[AnyPiece, None, None]:
        """What whole files are encoded in, in their order."""
        cut = whole_files if self.dropping is not None else with_small_together
        yield from cut(files, self.reading, piece_bytes, self.id_field)

    def key(self, files: Sequence[SourceFile], *place: Any) -> str:
        """Digest of everything that ids of these files (or of a place in one) depend on."""
        return digest_of(
            {
                "version": _VERSION,
                "tokenizer": self.digest,
                "reading": self.reading.digest,
                "end_of_text": self.end_of_text,
                "dtype": self.dtype,
                "place": place,
                "id_field": self.id_field,
                **self._dropout,
                "files": [[file.path, file.source, file.format, *file.state] for file in files],
            }
        )

    def encode(self, piece: AnyPiece) -> EncodedPiece:
        """Read a piece and encode its documents; empty ones are left out."""
        with self.encoded(piece) as encoded:
            return encoded.copied(self.dtype)

    @contextmanager
    def encoded(self, piece: AnyPiece) -> Iterator[EncodedPiece]:
        """`encode`, for who has done with the ids when the block ends; they are uint32."""
        if isinstance(piece, SmallFiles):
            with self._together(piece) as one:
                yield one
            return
        text = piece.read(self.reading, self.id_field)
        number = _number_of(piece.file) if self.dropping is not None else 0
        encoded = self.plain if piece.file.format == "text" else self._records
        with encoded(text, piece.begin, number) as one:
            yield one

    @contextmanager
    def plain(self, text: ChunkText, begin: int = 0, file: int = 0) -> Iterator[EncodedPiece]:
        """The ids of text with separators, which may begin and end inside of documents.

        Args:
            text: what a piece says.
            begin: where the piece stands in the file.
            file: a number for the file, which random numbers depend on.
        """
        whole = text.text
        found = find_special_tokens(whole, 0, whole.size, self.reading.special_bytes)
        edges = np.concatenate((text.documents[:1, 0], found[:, :2].ravel(), [whole.size]))
        spans = edges.reshape(-1, 2)
        kept = spans[:, 0] < spans[:, 1]
        kept[[0, -1]] = True
        spans = np.ascontiguousarray(spans[kept])
        behind = np.full(len(spans), self.end_of_text, np.int64)
        behind[[0, -1]] = -1
        places = begin + _in_chunk(spans, text.anchors)
        with self._ids(self._of_text, whole, spans, behind, file, places[:, 0]) as (ids, ends):
            head = int(ends[0])
            rest, ends, filled = _filled(ids[head:], ends[1:-1] - head, self.end_of_text)
            first, last = _span(places[0]), _span(places[-1])
            closes = len(found) > 0
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
        """The ids of files, each complete."""
        text = small.text
        spans, _ = small.documents(self.reading)
        behind = np.full(len(spans), self.end_of_text, np.int64)
        with self._ids(self._of_text, text, spans, behind, 0, spans[:, 0]) as (ids, ends):
            ids, ends, filled = _filled(ids, ends, self.end_of_text)
            size, nowhere = _size(spans), (0, 0)
            yield EncodedPiece(ids[:0], False, ids, ends, size, nowhere, spans[filled])

    @property
    def _of_text(self) -> Encoder:
        """The encoder of documents of text files, in which no separator stands."""
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
        """Ids of spans of a file that begin at these places of it, and where those of each end."""
        if self.dropping is None:
            with encoder.lending(text, spans, behind) as lent:
                yield lent
        else:
            places = Places(np.full(len(begins), file, np.int64), begins)
            yield self.dropping.encode(text, spans, behind, places)

    @contextmanager
    def _records(self, text: ChunkText, begin: int, file: int) -> Iterator[EncodedPiece]:
        """The ids of the documents of rows or JSON lines, each complete."""
        filled = text.documents[:, 0] < text.documents[:, 1]
        spans = np.ascontiguousarray(text.documents[filled])
        behind = np.full(len(spans), self.end_of_text, np.int64)
        assert text.rows is not None
        # No document is longer than its row, so no two have a place in common.
        begins = begin + text.rows[filled, 0]
        with self._ids(self.encoder, text.text, spans, behind, file, begins) as (ids, ends):
            ids, ends, with_ids = _filled(ids, ends, self.end_of_text)
            kept = np.flatnonzero(filled)[with_ids]
            named = [text.row_ids[row] for row in kept.tolist()] if text.row_ids else ()
            nowhere = begin, begin
            size = _size(spans)
            places = begin + text.rows[kept]
            yield EncodedPiece(ids[:0], False, ids, ends, size, nowhere, places, row_ids=named)


def _as_told(separators: tuple[str, ...]) -> str | list[str] | None:
    """None, the one there is, or a list of several."""
    return list(separators) if len(separators) > 1 else next(iter(separators), None)


def _size(spans: NDArray[np.int64]) -> int:
    return int((spans[:, 1] - spans[:, 0]).sum())


def _span(edges: NDArray[np.int64]) -> tuple[int, int]:
    return int(edges[0]), int(edges[1])


def _in_chunk(spans: NDArray[np.int64], anchors: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where bytes of a text stand in its chunk."""
    if len(anchors) == 1:
        return spans  # as it stands
    moved = anchors[:, 1] - anchors[:, 0]
    return spans + moved[np.searchsorted(anchors[:, 0], spans, side="right") - 1]


def _filled(
    ids: NDArray[Any], ends: NDArray[np.int64], end_of_text: int
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.bool_]]:
    """Leave out documents without a token, such as white space where it is no word.

    Where pieces are cut would decide otherwise whether they count: see `OpenShard`.

    Returns:
        Ids, ends, and of each document that was given whether it is among them.
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
    """What random numbers depend on of a file: its name, wherever it lies."""
    name = os.path.basename(file.path).encode(errors="surrogateescape")
    return int(digest_of_bytes(name)[:15], 16)


def separators_of(
    tokenizer: TokenizerParts, asked: str | None, encoded: bool = False
) -> tuple[str, ...]:
    """What separates the documents of a text file.

    Args:
        asked: one separator; None: every special token of the tokenizer, as when it was trained;
            ``none``: nothing, each text file is one document.
        encoded: whether documents become ids as `Tokenizer.encode` makes them: with None, special
            tokens that it finds by default do not separate.
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
) -> FileEncoding:
    """How a tokenizer makes ids of files; for the options see `Tokenizer.encode_files`.

    Raises:
        InvalidSpecialToken: ``end_of_text`` is no special token of this tokenizer.
        InvalidOption: no such policy for invalid UTF-8; dropout that this tokenizer cannot have,
            or together with ``replace``, which moves the places that it depends on.
    """
    require_dropout(dropout)
    if dropout and invalid_utf8 != "strict":
        raise InvalidOption(
            f"dropout was asked for together with --invalid-utf8 {invalid_utf8}",
            "what is left out depends on places in the files, which this moves",
            f"leave --invalid-utf8 {invalid_utf8} out, or mend the files",
        )
    separators = [separator] if isinstance(separator, str) else separator or ()
    spec = tokenizer.spec
    settings = spec.pattern, tuple(separators), invalid_utf8, text_field
    reading = EncodedReading(
        *settings, encoder=tokenizer.encoder, sentences=spec.algorithm.sentence_kind
    )
    end = -1
    if end_of_text is not None:
        policy = SpecialPolicy.of(spec.special_tokens, {end_of_text}, "text")
        (end,) = policy.allowed.values()
    count = spec.largest_id + 1
    dtype = smallest_dtype(count)
    return FileEncoding(
        tokenizer.encoder,
        spec.digest,
        reading,
        end,
        dtype,
        id_count=count,
        id_field=id_field,
        special_tokens=tuple(spec.special_tokens.items()),
        dropping=DropoutEncoder(spec, dropout, seed) if dropout else None,
    )


def encode_in_order(
    encoding: FileEncoding, pieces: Iterable[Any], threads: int | None
) -> Generator[Any, None, None]:
    """Encode pieces, by several threads a few ahead of who asks; what is none passes through.

    One thread is the one that asks: to hand pieces over takes time, and a second processor.

    Yields:
        ``(piece, EncodedPiece)`` for each piece, anything else as it is, in their order.

    Raises:
        InvalidOption: less than one thread.
        UnreadableSource, InvalidUtf8, CorpusChanged: a file cannot be read.
    """
    threads = thread_count(threads)
    if threads == 1:
        for piece in pieces:
            yield (piece, encoding.encode(piece)) if isinstance(piece, _PIECES) else piece
        return
    with encoding.plain(ChunkText.of(Text.of(b"compile first"))):  # before threads do
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
