"""Files are cut into pieces, and pieces become token ids, by many threads, in order."""

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
    Reading,
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

PIECE_BYTES = 2 << 20  # what is made for one is then used again for the next: LOG.md
_LEAST_PIECE = 1 << 17
_SHARE = 8  # pieces per thread, so that all end at about the same time
_AHEAD = 4  # pieces per thread under way or waiting to be written
NO_SEPARATOR = "none"  # typed for text files that are one document each
_VERSION = 6  # raised whenever the same files and settings give other shards than before


@dataclass(frozen=True, slots=True)
class Piece:
    """What one thread encodes at a time.

    Attributes:
        file: where it stands.
        begin, end: bytes of the file's text; both are legal cuts.
        spent: bytes on disk that it stands for.
        unpacked: its bytes, when the file is compressed and they are known already.
        row_ids: what names its documents, see `SourceBytes.row_ids`.
        ends_file: whether the file's last document ends with it.
    """

    file: SourceFile
    begin: int
    end: int
    spent: int
    unpacked: Text | None = None
    ends_file: bool = False
    row_ids: Sequence[bytes] = ()

    def read(self, reading: Reading, id_field: str) -> ChunkText:
        """Its documents; arguments and errors as `read_documents`."""
        raw = self.unpacked
        if raw is None:
            with closing(open_source(self.file, 0)) as source:
                raw = source.take(self.begin, self.end)
        return read_documents(raw, self.file, self.begin, reading, id_field, self.row_ids)


AnyPiece: TypeAlias = Piece | SmallFiles


def whole_files(
    files: Iterable[SourceFile], reading: Reading, piece_bytes: int, id_field: str
) -> Generator[Piece, None, None]:
    """The pieces of files, the last of which ends each; an empty file has one as well."""
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
        reading: Reading,
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
        """Where the shard that begins here ends at the earliest."""
        return (self.position // shard_bytes + 1) * shard_bytes

    def pieces(self, target: int | None) -> Iterator[Piece]:
        """Pieces from here up to the first document end at or after ``target``, or of the file."""
        end = None
        while self.position != end:
            step = (self.position // self._piece_bytes + 1) * self._piece_bytes
            cut = first_cut(self._source, self._cuts, step)
            if end is None and target is not None and cut >= target:
                # Piece by piece: a compressed file without a separator would be in memory whole.
                found = first_cut(self._source, self._document_cuts, target, cut)
                end, target = (None, cut + 1) if found < 0 else (found, target)
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
        """Go on at ``end``; bytes on disk that were passed."""
        while self.position < end and self._file.is_streamed:
            step = min(self._source.reach(self.position + self._piece_bytes), end)
            if step == self.position:  # the file ends before
                break
            self._ids_of(self._source.take(self.position, step))
            self.position = step
        spent, self.position = self._spent, end
        self._spent = self._source.spent(end)
        return self._spent - spent

    def _ids_of(self, taken: Text | None) -> Sequence[bytes]:
        """What names the documents that were taken."""
        if taken is None or not self._id_field or not self._file.is_of_records:
            return ()
        rows = np.count_nonzero(taken.data[: taken.size] == RECORD_END[0])
        return self._source.row_ids(int(rows))

    def close(self) -> None:
        self._source.close()


def document_cuts(reading: Reading, file: SourceFile) -> Cuts:
    """Where documents of a file end, and nowhere else."""
    if file.format != "text":
        return reading.cuts(file.format)
    return Cuts(special_tokens=reading.special_bytes)


_PIECES = Piece, SmallFiles


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
        return cuts if self.encoder is None else self.encoder.independent_cuts(cuts)


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
        special_tokens: of the tokenizer, with their ids, for readers of the ids.
        found: special tokens found in documents, where they are not those of the tokenizer's
            encoder.
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
    found: tuple[str, ...] | None = None
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
            **self._unusual,
        }

    @property
    def _unusual(self) -> dict[str, Any]:
        """Settings that older manifests do not have."""
        one = self.dropping
        dropout = {} if one is None else {"dropout": one.dropout, "dropout_seed": one.seed}
        return dropout if self.found is None else {**dropout, "allowed_special": [*self.found]}

    def piece_of(self, size: int, threads: int | None) -> int:
        """Bytes of a piece, so that files of ``size`` bytes keep all threads busy to the end."""
        share = size // (_SHARE * thread_count(threads))
        return min(self.piece_bytes, max(_LEAST_PIECE, share))

    def pieces(
        self, files: Iterable[SourceFile], piece_bytes: int
    ) -> Generator[AnyPiece, None, None]:
        """What whole files are encoded in, in their order.

        `SmallFiles` stand for several files in a row of one piece each. They are read here, by the
        caller: one at a time.
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
                **self._unusual,
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
    allowed_special: str | Collection[str] | None = None,
) -> FileEncoding:
    """How a tokenizer makes ids of files; for the options see `Tokenizer.encode_files`."""
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
            "dropout was asked for together with allowed_special",
            "with dropout special tokens are text",
            "leave allowed_special out",
        )
    if dropout and invalid_utf8 != "strict":
        raise InvalidOption(
            f"dropout was asked for together with --invalid-utf8 {invalid_utf8}",
            "what is left out depends on places in the files, which this moves",
            f"leave --invalid-utf8 {invalid_utf8} out, or mend the files",
        )
    separators = [separator] if isinstance(separator, str) else separator
    separators = checks.texts("separator", separators)
    spec = tokenizer.spec
    settings = spec.pattern, tuple(separators), invalid_utf8, text_field
    wanted = spec.allowed_special if allowed_special is None else allowed_special
    special = SpecialPolicy.of(spec.special_tokens, wanted, "text").allowed
    encoder = encoder_finding(spec, tokenizer.encoder, special)
    usual = dict(spec.special_tokens) if spec.finds_special else {}
    reading = EncodedReading(*settings, encoder=encoder, sentences=spec.algorithm.sentence_kind)
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
    """Encode pieces, by several threads a few ahead of who asks; what is none passes through.

    One thread is the one that asks: to hand pieces over takes time, and a second processor.

    Yields:
        ``(piece, EncodedPiece)`` for each piece, anything else as it is, in their order.
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
