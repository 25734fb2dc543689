"""Pieces are handed over in order, by one thread at a time, whoever encoded them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.corpus.sources import find_source_files, sources_of
from bpeline.tokenizer_core.errors import InvalidUtf8
from bpeline.tokenizer_core.shards import ids_in_memory
from bpeline.tokenizer_core.shards.file_encoding import (
    EncodedPiece,
    FileEncoding,
    Piece,
    file_encoding_of,
    whole_files,
)
from bpeline.tokenizer_core.shards.ids_in_memory import encode_in_turn

PIECES = 60
LINE = b"lower and the lowest "  # a piece ends about there
TEXT = b"".join(LINE.replace(b"and", b"n%02d" % number) for number in range(PIECES))


@pytest.fixture(scope="module")
def encoding(trained: Callable[..., Tokenizer]) -> FileEncoding:
    return file_encoding_of(trained("gpt2"))


def pieces_of(path: Path, encoding: FileEncoding) -> Generator[Piece, None, None]:
    return whole_files(
        find_source_files(sources_of(path)), encoding.reading, len(LINE), encoding.id_field
    )


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_pieces_come_in_order_one_at_a_time(
    encoding: FileEncoding, tmp_path: Path, threads: int
) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT)
    pieces = list(pieces_of(tmp_path / "a.txt", encoding))
    assert len(pieces) == PIECES
    busy = threading.Lock()
    given: list[tuple[Piece, list[int]]] = []
    said: list[tuple[int, int]] = []

    def take(piece: Piece, encoded: EncodedPiece) -> None:
        assert busy.acquire(blocking=False)
        time.sleep(0.001 * (len(given) % 3 == 0))  # so that others have to leave theirs
        given.append((piece, encoded.head.tolist()))
        busy.release()

    def say(spent: int) -> None:
        said.append((threading.get_ident(), spent))

    encode_in_turn(encoding, (piece for piece in pieces), threads, take, say)
    assert [piece for piece, _ in given] == pieces
    assert [ids for _, ids in given] == [encoding.encode(one).head.tolist() for one in pieces]
    assert {thread for thread, _ in said} == {threading.get_ident()}
    assert sum(spent for _, spent in said) == len(LINE) * PIECES


def test_of_several_errors_the_first_is_raised(encoding: FileEncoding, tmp_path: Path) -> None:
    content = bytearray(TEXT)
    for bad in (20, 21, 22, 40):
        content[bad * len(LINE) + 3] = 0xFF
    (tmp_path / "a.txt").write_bytes(content)
    first = 20 * len(LINE) + 3
    pieces = list(pieces_of(tmp_path / "a.txt", encoding))
    given: list[Piece] = []
    some = (piece for piece in pieces)
    with pytest.raises(InvalidUtf8, match=str(first)):
        encode_in_turn(encoding, some, 4, lambda piece, _: given.append(piece))
    assert given == [piece for piece in pieces if piece.end <= first]


def raises(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("by", ["take", "on_progress", "pieces"])
def test_whatever_is_raised_ends_it_and_its_threads(
    encoding: FileEncoding, tmp_path: Path, by: str
) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT)
    asked: list[Piece] = []

    def pieces() -> Generator[Piece, None, None]:
        for piece in pieces_of(tmp_path / "a.txt", encoding):
            if by == "pieces" and len(asked) == 10:
                raises()
            asked.append(piece)
            yield piece

    def ignore(*_: Any) -> None:
        pass

    take, say = (raises if by == name else ignore for name in ("take", "on_progress"))
    before = {*threading.enumerate()}  # some of which may end meanwhile
    with pytest.raises(KeyboardInterrupt):
        encode_in_turn(encoding, pieces(), 3, take, say)
    assert {*threading.enumerate()} <= before
    # Others may have done all of it before the thread that asks has a word.
    assert by == "on_progress" or len(asked) < PIECES


def test_an_interrupt_while_a_thread_begins_lets_the_pieces_be_closed(
    encoding: FileEncoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python does not wait for such a thread: it was not yet among those of its pool."""
    reading = threading.Event()

    class Pool(ThreadPoolExecutor):
        def submit(self, function: Any, *_: Any, **__: Any) -> Any:
            threading.Thread(target=function).start()
            assert reading.wait(60)
            raises()

    def pieces() -> Generator[Piece, None, None]:
        reading.set()
        time.sleep(0.2)
        yield from ()

    monkeypatch.setattr(ids_in_memory, "ThreadPoolExecutor", Pool)
    some = pieces()
    with pytest.raises(KeyboardInterrupt):
        encode_in_turn(encoding, some, 2, lambda *_: None)
    assert some.gi_frame is None, "they are closed"


def test_who_is_interrupted_while_it_waits_leaves_closing_to_who_takes_a_piece(
    trained: Callable[..., Tokenizer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closed by another thread than the one that is in them they raise a ValueError."""
    reading, go_on, closed = (threading.Event() for _ in range(3))

    class Impatient:
        """A lock whose every wait is interrupted."""

        def __init__(self) -> None:
            self._lock = threading.Lock()

        def __enter__(self) -> None:
            if not self._lock.acquire(blocking=False):
                raises()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    class Work(ids_in_memory._Work):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self._choosing = Impatient()  # type: ignore[assignment]

    class Pool(ThreadPoolExecutor):
        def submit(self, *given: Any, **named: Any) -> Any:
            begun = super().submit(*given, **named)
            assert reading.wait(60)
            return begun

        def shutdown(self, *_: Any, **__: Any) -> None:
            super().shutdown(wait=False)

    def pieces(self: FileEncoding, files: Any, _: int) -> Generator[Piece, None, None]:
        try:
            reading.set()
            assert go_on.wait(60)
            yield Piece(files[0], 0, files[0].size, files[0].size, ends_file=True)
        finally:
            closed.set()

    monkeypatch.setattr(ids_in_memory, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(ids_in_memory, "_Work", Work)
    monkeypatch.setattr(FileEncoding, "pieces", pieces)
    (tmp_path / "a.txt").write_bytes(TEXT)
    try:
        with pytest.raises(KeyboardInterrupt):
            trained("gpt2").encode_files_to_numpy(tmp_path, threads=2)
    finally:
        go_on.set()
    assert closed.wait(60)


def test_who_waits_for_a_turn_takes_few_pieces(encoding: FileEncoding, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT)
    asked: list[Piece] = []
    most: list[int] = []

    def pieces() -> Generator[Piece, None, None]:
        for piece in pieces_of(tmp_path / "a.txt", encoding):
            asked.append(piece)
            yield piece

    def take(piece: Piece, _: EncodedPiece) -> None:
        if piece.begin == 0:
            for _ in range(6_000):  # until the other thread has begun
                if len(asked) > 2:
                    break
                time.sleep(0.01)
            time.sleep(0.2)  # it could take all of them meanwhile
            most.append(len(asked))

    encode_in_turn(encoding, pieces(), 2, take)
    assert len(asked) == PIECES
    assert 2 < most[0] <= 10
