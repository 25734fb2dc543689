"""Token shards for Megatron-LM: every byte as its own writer leaves it, read by its reader's rules.

Both sides are written down here from the published layout, one number at a time, and know nothing
of the writer under test.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption
from bpeline.tokenizer_core.shards import shard_formats
from bpeline.tokenizer_core.shards.shard_formats import MEGATRON
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.tokenizer import Tokenizer

END = "<|endoftext|>"
CODES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}


def builder(documents: Iterable[Sequence[int]], vocab_size: int | None) -> tuple[bytes, bytes]:
    """What a builder of indexed datasets writes: ``.bin`` and ``.idx``, a sequence a document."""
    code, letter = (8, "H") if vocab_size is not None and vocab_size < 65500 else (4, "i")
    tokens, lengths, borders = b"", [], [0]
    for document in documents:
        tokens += struct.pack(f"<{len(document)}{letter}", *document)
        lengths.append(len(document))
        borders.append(len(lengths))
    index = b"MMIDIDX\x00\x00" + struct.pack("<Q", 1) + struct.pack("<B", code)
    index += struct.pack("<Q", len(lengths)) + struct.pack("<Q", len(borders))
    index += b"".join(struct.pack("<i", length) for length in lengths)
    pointer = 0
    for length in lengths:
        index += struct.pack("<q", pointer)
        pointer += length * struct.calcsize(f"<{letter}")
    index += b"".join(struct.pack("<q", border) for border in borders)
    return tokens, index


def reader(prefix: Path) -> tuple[list[NDArray[Any]], list[int]]:
    """The sequences behind a path prefix, and where documents end, as the dataset gives them."""
    index = prefix.with_suffix(".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    (version,), (code,) = struct.unpack_from("<Q", index, 9), struct.unpack_from("<B", index, 17)
    assert version == 1
    sequences, documents = struct.unpack_from("<QQ", index, 18)
    lengths = np.frombuffer(index, "<i4", sequences, 34)
    pointers = np.frombuffer(index, "<i8", sequences, 34 + 4 * sequences)
    borders = np.frombuffer(index, "<i8", documents, 34 + 12 * sequences)
    assert len(lengths) == len(pointers) == borders[-1]
    tokens = prefix.with_suffix(".bin").read_bytes()
    found = [
        np.frombuffer(tokens, CODES[code], length, pointer)
        for length, pointer in zip(lengths.tolist(), pointers.tolist(), strict=True)
    ]
    return found, borders.tolist()


@pytest.fixture(scope="module")
def texts(fuzz_texts: list[str]) -> list[str]:
    return [*(text.replace(END, "") for text in fuzz_texts[:400]), "a long document " * 300]


def write(folder: Path, documents: Iterable[Sequence[int]], ids: int) -> tuple[bytes, bytes]:
    """What the format under test leaves of documents that come one by one."""
    paths = [folder / "x.bin", folder / "x.idx"]
    dtype = MEGATRON.dtype(ids)
    writer = MEGATRON.write(paths, dtype)
    written = 0
    for document in documents:
        for begin in range(0, len(document), 3):
            writer.add(np.array(document[begin : begin + 3], dtype), np.empty(0, np.int64))
        written += len(document)
        writer.add(np.empty(0, dtype), np.array([written]))
    writer.close()
    return paths[0].read_bytes(), paths[1].read_bytes()


def test_the_published_example_byte_by_byte(tmp_path: Path) -> None:
    documents = [[5, 6, 7, 0], [8, 0], [300, 10, 11, 12, 0]]
    tokens, index = write(tmp_path, documents, 301)
    assert tokens.hex() == "05000600070000000800" + "00002c010a000b000c000000"
    assert len(index) == 102
    assert index.hex() == (
        "4d4d49444944580000" + "0100000000000000" + "08" + "0300000000000000" + "0400000000000000"
        "04000000" "02000000" "05000000"
        "0000000000000000" "0800000000000000" "0c00000000000000"
        "0000000000000000" "0100000000000000" "0200000000000000" "0300000000000000"
    )  # fmt: skip
    assert (tokens, index) == builder(documents, 301)


@pytest.mark.parametrize(
    ("ids", "dtype"), [(257, "uint16"), (65_499, "uint16"), (65_500, "int32"), (200_000, "int32")]
)
def test_the_number_of_ids_decides_how_wide_they_are(ids: int, dtype: str, tmp_path: Path) -> None:
    documents = [[0, 1, ids - 1], [ids - 1], list(range(256))]
    made = write(tmp_path, documents, ids)
    assert made == builder(documents, ids)
    assert MEGATRON.dtype(ids) == dtype
    sequences, borders = reader(tmp_path / "x")
    assert [one.tolist() for one in sequences] == documents
    assert {one.dtype.name for one in sequences} == {dtype}
    assert borders == [0, 1, 2, 3]


@pytest.mark.parametrize("number", [0, 1, 6, 7, 8, 50])
def test_the_parts_of_an_index_are_derived_block_by_block(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_formats, "_BLOCK", 7)
    documents = [list(range(1 + one * 5 % 11)) for one in range(number)]
    assert write(tmp_path, documents, 300) == builder(documents, 300)
    ids, edges = MEGATRON.read([tmp_path / "x.bin", tmp_path / "x.idx"], np.dtype("<u2"))
    assert edges.tolist() == [0, *itertools.accumulate(map(len, documents))]
    assert ids.tolist() == list(itertools.chain(*documents))


@pytest.mark.parametrize("end_of_text", [None, END])
def test_files_become_what_the_builder_makes_of_their_documents(
    tokenizer: Tokenizer, texts: list[str], end_of_text: str | None, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(END.join(texts).encode())
    shards = tokenizer.encode_files(
        tmp_path / "a.txt", tmp_path / "out", separator=END, end_of_text=end_of_text,
        shard_bytes=2_000, format="megatron",
    )  # fmt: skip
    end = [] if end_of_text is None else [tokenizer.special_tokens[end_of_text]]
    expected = [[*tokenizer.encode(text), *end] for text in texts if text]
    assert [ids.tolist() for ids in shards] == expected
    assert len(shards.records) > 5
    rest = iter(expected)
    for record in shards.records:
        bin, index = (tmp_path / "out" / file.name for file in record.files[:2])
        documents = list(itertools.islice(rest, record.documents))
        assert (bin.read_bytes(), index.read_bytes()) == builder(documents, tokenizer.vocab_size)
        assert [one.tolist() for one in reader(tmp_path / "out" / record.name)[0]] == documents
    assert next(rest, None) is None
    again = TokenShards(tmp_path / "out")
    again.verify()
    assert again.format is MEGATRON
    assert again.manifest["dtype"] == "uint16"


def test_a_large_vocabulary_is_int32_all_the_way(tmp_path: Path) -> None:
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b" t", 65_499: END.encode()}
    tokenizer = Tokenizer(vocab, [(b" ", b"t")], [END])
    (tmp_path / "a.txt").write_text(f"to the{END}point")
    shards = tokenizer.encode_files(
        tmp_path / "a.txt", tmp_path / "out", separator=END, end_of_text=END, format="megatron"
    )
    expected = [[*tokenizer.encode(text), 65_499] for text in ("to the", "point")]
    assert [ids.tolist() for ids in shards] == expected
    assert shards.dtype == np.dtype("<i4")
    (record,) = shards.records
    bin, index = (tmp_path / "out" / file.name for file in record.files[:2])
    assert (bin.read_bytes(), index.read_bytes()) == builder(expected, 65_500)
    assert tokenizer.encode_files(
        tmp_path / "a.txt", tmp_path / "bin", separator=END
    ).dtype == np.dtype("<u2")


def test_what_the_format_cannot_say_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="2147483648"):
        MEGATRON.dtype((1 << 31) + 1)
    assert MEGATRON.dtype(1 << 31) == "int32"
    writer = MEGATRON.write([tmp_path / "x.bin", tmp_path / "x.idx"], "uint16")
    with pytest.raises(InvalidOption, match="2147483648"):
        writer.add(np.empty(0, np.uint16), np.array([5, (1 << 31) + 5]))
    writer.close()


@pytest.mark.parametrize("damage", ["magic", "code", "count", "documents", "short", "empty"])
def test_an_index_that_is_none_is_found(damage: str, tmp_path: Path) -> None:
    _, index = write(tmp_path, [[1, 2], [3]], 300)
    damaged = {
        "magic": b"N" + index[1:],
        "code": index[:17] + b"\x04" + index[18:],
        "count": index[:18] + b"\xff" * 8 + index[26:],
        "documents": index[:26] + b"\x02" + index[27:],
        "short": index[:-1],
        "empty": b"",
    }[damage]
    (tmp_path / "x.idx").write_bytes(damaged)
    with pytest.raises(CorruptFile, match=r"x\.idx"):
        MEGATRON.read([tmp_path / "x.bin", tmp_path / "x.idx"], np.dtype("<u2"))
