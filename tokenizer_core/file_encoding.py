"""Files in, token shards out: many threads, bounded memory, resumed where it stopped.

A shard is a run of whole files; documents never cross it. Knows chunks and shards, no tokenizer
but its encoder.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.batch_encoding import available_processors
from tokenizer_core.chunking import ChunkGroup, plan_chunk_groups, read_chunks
from tokenizer_core.corpus import SourceFile
from tokenizer_core.digests import digest_of
from tokenizer_core.documents import ChunkText
from tokenizer_core.durable_files import DURABLE
from tokenizer_core.encoder import Encoder
from tokenizer_core.errors import InvalidOption, MissingSource
from tokenizer_core.reading import Reading
from tokenizer_core.special_tokens import find_special_tokens
from tokenizer_core.text import Text
from tokenizer_core.token_shards import (
    ShardRecord,
    TokenShards,
    is_complete,
    read_manifest,
    read_record,
    write_manifest,
    write_record,
)

CHUNK_BYTES = 4 << 20
SHARD_BYTES = 64 << 20
_EVERY_CELL = 1 << 40  # groups of one chunk each
_VERSION = 1  # raised whenever the same files and settings give other shards than before


def encode_files(
    encoding: FileEncoding,
    files: Sequence[SourceFile],
    out: Path,
    threads: int | None,
    shard_bytes: int,
    on_shard: Callable[[ShardRecord], None] | None = None,
) -> TokenShards:
    """Encode files into a directory of token shards; see `Tokenizer.encode_files`."""
    for name, value in (("threads", threads), ("shard_bytes", shard_bytes)):
        if value is not None and value < 1:
            raise InvalidOption(f"{name} is {value}", "1 or more", f"leave {name} out")
    _refuse_other_content(out, encoding.digest)
    threads = threads or available_processors()
    warm = ChunkText.of(Text.of(b"compile first"))
    encoding.encode(warm)  # before threads do
    records = []
    with ThreadPoolExecutor(threads, thread_name_prefix="encode") as pool:
        for number, part in enumerate(plan_shards(files, shard_bytes)):
            records.append(encode_shard(encoding, part, number, out, pool, 2 * threads))
            if on_shard is not None:
                on_shard(records[-1])
    details = {
        "end_of_text": encoding.end_of_text if encoding.end_of_text >= 0 else None,
        "separator": next(iter(encoding.reading.special_tokens), None),
        "files": len(files),
    }
    write_manifest(out, encoding.digest, encoding.dtype, records, details)
    return TokenShards(out)


def _refuse_other_content(out: Path, digest: str) -> None:
    try:
        found = read_manifest(out)["tokenizer"]
    except MissingSource:
        return
    if found != digest:
        raise InvalidOption(
            f"{out} holds the tokens of another tokenizer, {found[:12]}",
            f"an empty directory, or one with tokens of this tokenizer, {digest[:12]}",
            "name another directory",
        )


@dataclass(frozen=True, slots=True, eq=False)
class EncodedChunk:
    """The ids of one chunk.

    Attributes:
        head: ids that go on with the document that the chunk before left open.
        closes_head: whether that document ends here.
        ids: what follows, end-of-text ids included.
        ends: int64: where documents end in ``ids``; what is behind the last one stays open.
        size: bytes of text.
    """

    head: NDArray[Any]
    closes_head: bool
    ids: NDArray[Any]
    ends: NDArray[np.int64]
    size: int


@dataclass(frozen=True, slots=True)
class FileEncoding:
    """How files become shards.

    Attributes:
        encoder: gives ids.
        digest: of the tokenizer.
        reading: pattern, separator (as its one special token) and UTF-8 policy.
        end_of_text: the id behind each document, or −1.
        dtype: ``uint16`` or ``uint32``.
        chunk_bytes: what one thread encodes at a time; ids do not depend on it.
    """

    encoder: Encoder
    digest: str
    reading: Reading
    end_of_text: int
    dtype: str
    chunk_bytes: int = CHUNK_BYTES

    def key(self, files: Sequence[SourceFile]) -> str:
        """Digest of everything a shard of these files depends on."""
        return digest_of(
            {
                "version": _VERSION,
                "tokenizer": self.digest,
                "reading": self.reading.digest,
                "end_of_text": self.end_of_text,
                "dtype": self.dtype,
                "files": [
                    [file.path, file.format, file.size, file.mtime_ns, file.inode] for file in files
                ],
            }
        )

    def encode(self, text: ChunkText) -> EncodedChunk:
        """The ids of a chunk's documents; empty documents are left out."""
        separators = self.reading.special_bytes
        whole = text.text
        found = find_special_tokens(whole, 0, whole.size, separators)
        edges = np.concatenate((np.zeros(1, np.int64), found[:, :2].ravel(), [whole.size]))
        spans = np.ascontiguousarray(edges.reshape(-1, 2))
        inner = spans[1:-1]
        spans = np.concatenate((spans[:1], inner[inner[:, 0] < inner[:, 1]], spans[1:][-1:]))
        behind = np.full(len(spans), self.end_of_text, np.int64)
        behind[[0, -1]] = -1
        ids, ends = self.encoder.encode(whole, spans, behind)
        ids = ids.astype(self.dtype)
        head = int(ends[0])
        return EncodedChunk(ids[:head], len(found) > 0, ids[head:], ends[1:-1] - head, whole.size)

    def encode_records(self, text: ChunkText) -> EncodedChunk:
        """The ids of the documents of JSON lines, each complete; empty ones are left out."""
        filled = text.documents[:, 0] < text.documents[:, 1]
        spans = np.ascontiguousarray(text.documents[filled])
        ids, ends = self.encoder.encode(
            text.text, spans, np.full(len(spans), self.end_of_text, np.int64)
        )
        size = int((spans[:, 1] - spans[:, 0]).sum())
        return EncodedChunk(ids[:0].astype(self.dtype), False, ids.astype(self.dtype), ends, size)


def plan_shards(files: Sequence[SourceFile], shard_bytes: int) -> list[list[SourceFile]]:
    """Runs of files, each closed once it has ``shard_bytes``; a larger file is one shard alone."""
    shards: list[list[SourceFile]] = []
    size = shard_bytes
    for file in files:
        if size >= shard_bytes:
            shards.append([])
            size = 0
        shards[-1].append(file)
        size += file.size
    return shards


def encode_shard(
    encoding: FileEncoding,
    files: Sequence[SourceFile],
    number: int,
    out: Path,
    pool: ThreadPoolExecutor,
    window: int,
) -> ShardRecord:
    """Write one shard, unless it is there already; its record comes last.

    Raises:
        UnreadableSource, InvalidUtf8, CorpusChanged: a file cannot be read; nothing is left of
            the shard.
        DiskFull: no space left.
    """
    key = encoding.key(files)
    name = f"shard-{number:05d}-{key[:12]}"
    itemsize = np.dtype(encoding.dtype).itemsize
    record = read_record(out, name)
    if record is not None and record.key == key and is_complete(out, record, itemsize):
        return record
    with DURABLE.writing_aside(out / f"{name}.bin") as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            writer = _ShardWriter(descriptor, encoding)
            for file in files:
                for chunk in _encoded(encoding, file, pool, window):
                    writer.add(chunk)
                writer.close_document()
        finally:
            os.close(descriptor)
    DURABLE.write(out / f"{name}.idx", np.array(writer.edges, "<u8").tobytes())
    tokens, documents = writer.edges[-1], len(writer.edges) - 1
    record = ShardRecord(name, key, tokens, documents, writer.size, writer.state.hexdigest())
    write_record(out, record)
    return record


class _ShardWriter:
    """Appends chunks to a shard's ids and notes where documents end."""

    def __init__(self, descriptor: int, encoding: FileEncoding) -> None:
        self.edges = [0]
        self.size = 0
        self.state = hashlib.sha256()
        self._descriptor = descriptor
        self._written = 0
        end = encoding.end_of_text
        self._end_of_text = np.array([end] if end >= 0 else [], encoding.dtype)

    def add(self, chunk: EncodedChunk) -> None:
        self.size += chunk.size
        self._write(chunk.head)
        if chunk.closes_head:
            self.close_document()
        begin = self._written
        self._write(chunk.ids)
        self.edges += (chunk.ends + begin).tolist()

    def close_document(self) -> None:
        if self._written > self.edges[-1]:
            self._write(self._end_of_text)
            self.edges.append(self._written)

    def _write(self, ids: NDArray[Any]) -> None:
        content = memoryview(ids.astype(ids.dtype.newbyteorder("<"), copy=False).tobytes())
        self.state.update(content)
        self._written += len(ids)
        while content:
            content = content[os.write(self._descriptor, content) :]


def _encoded(
    encoding: FileEncoding, file: SourceFile, pool: ThreadPoolExecutor, window: int
) -> Iterator[EncodedChunk]:
    """The chunks of a file in their order; at most ``window`` are under way."""
    running: deque[Future[list[EncodedChunk]]] = deque()
    try:
        for task in _tasks(encoding, file):
            running.append(pool.submit(task))
            if len(running) >= window:
                yield from running.popleft().result()
        while running:
            yield from running.popleft().result()
    finally:
        for future in running:
            future.cancel()


def _tasks(encoding: FileEncoding, file: SourceFile) -> Iterator[Callable[[], list[EncodedChunk]]]:
    """What threads do: read and encode a part of a plain file, or encode what was unpacked."""
    encode = encoding.encode_records if file.format == "jsonl" else encoding.encode

    def read_and_encode(group: ChunkGroup) -> list[EncodedChunk]:
        chunks = read_chunks(group, encoding.reading, encoding.chunk_bytes)
        return [encode(text) for _, text in chunks]

    def encode_one(text: ChunkText) -> list[EncodedChunk]:
        return [encode(text)]

    for group in plan_chunk_groups([file], encoding.chunk_bytes, _EVERY_CELL):
        if file.compression is None:
            yield partial(read_and_encode, group)
        else:
            for _, text in read_chunks(group, encoding.reading, encoding.chunk_bytes):
                yield partial(encode_one, text)
