"""Who encodes: every library with one and the same vocabulary, each by its own best door.

A library is imported inside its function, so that one process measures one library.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.documents import GPT2, SEPARATOR, batches, documents
from benchmarks.stopwatch import Stopwatch

HF_FILE, TIKTOKEN_FILE = "tokenizer.json", "ranks.tiktoken"
_BATCH = 1_000  # documents


@dataclass(frozen=True, slots=True)
class Loaded:
    """A library that holds the vocabulary.

    Attributes:
        encode_file: (file, threads) → ids of all its documents, in the library's own form.
        arrays: that form as arrays of ids, in order; not part of what is measured.
        encode: ids of one text.
        decode: the text of ids.
    """

    encode_file: Callable[[Path, int], Any]
    arrays: Callable[[Any], Iterable[NDArray[Any]]]
    encode: Callable[[str], Sequence[int]]
    decode: Callable[[list[int]], Any]


@dataclass(frozen=True, slots=True)
class Encoder:
    """One way to encode.

    Attributes:
        name: as the tables show it.
        package: the distribution to install; None for ourselves.
        module: what is imported.
        load: (folder with `HF_FILE` and `TIKTOKEN_FILE`, stopwatch whose phase is loading).
        caveat: what a reader must know before comparing.
        slow: whether it is asked for a sample of a large file only.
    """

    name: str
    package: str | None
    module: str
    load: Callable[[Path, Stopwatch], Loaded]
    caveat: str = ""
    slow: bool = False

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None


def _bpeline(folder: Path, watch: Stopwatch) -> Loaded:
    tokenizer = _our_tokenizer(folder, watch)

    def encode_file(path: Path, threads: int) -> Any:
        return tokenizer.encode_files_to_numpy(path, separator=SEPARATOR, threads=threads)

    return Loaded(encode_file, lambda ids: iter([ids.ids]), tokenizer.encode, tokenizer.decode)


def _bpeline_shards(folder: Path, watch: Stopwatch) -> Loaded:
    tokenizer = _our_tokenizer(folder, watch)
    outputs = tempfile.TemporaryDirectory(prefix="benchmark-")  # removed when the process ends

    def encode_file(path: Path, threads: int) -> Any:
        out = tempfile.mkdtemp(dir=outputs.name)
        return tokenizer.encode_files(path, out, separator=SEPARATOR, threads=threads)

    def arrays(shards: Any) -> Iterator[NDArray[Any]]:
        return (shards.shard(number)[0] for number in range(len(shards.records)))

    return Loaded(encode_file, arrays, tokenizer.encode, tokenizer.decode)


def _bpeline_lists(folder: Path, watch: Stopwatch) -> Loaded:
    tokenizer = _our_tokenizer(folder, watch)
    return Loaded(
        lambda path, threads: tokenizer.encode_batch(documents(path), threads),
        _of_lists,
        tokenizer.encode,
        tokenizer.decode,
    )


def _our_tokenizer(folder: Path, watch: Stopwatch) -> Any:
    from bpeline.tokenizer_core import Tokenizer

    with tempfile.TemporaryDirectory() as directory:
        # Machine code is loaded from its cache before the clock starts, as libraries are imported.
        small = Tokenizer({byte: bytes([byte]) for byte in range(256)}, [])
        small.save(Path(directory, HF_FILE), format="hf")
        warm = Path(directory, "warm.txt")
        warm.write_text(f"warm{SEPARATOR}kernels é" * 500)
        small = Tokenizer.load(Path(directory, HF_FILE), format="hf")
        small.encode_files(warm, Path(directory, "out"), separator=SEPARATOR)
        small.decode(small.encode(warm.read_text()))
        small.decode(small.encode("short"))
    with watch.phase("loading"):
        return Tokenizer.load(folder / HF_FILE, format="hf")


def _gigatoken(folder: Path, watch: Stopwatch) -> Loaded:
    library: Any = import_module("gigatoken")
    awkward: Any = import_module("awkward")
    with watch.phase("loading"):
        tokenizer = library.Tokenizer(folder / HF_FILE)

    def encode_file(path: Path, _threads: int) -> Any:
        source = library.TextFileSource([path], separator=SEPARATOR)
        return tokenizer.encode_files(source, parallel=True)

    def arrays(ids: Any) -> Iterator[NDArray[Any]]:
        yield np.asarray(awkward.flatten(ids))

    return Loaded(encode_file, arrays, tokenizer.encode, tokenizer.decode)


def _gigatoken_lists(folder: Path, watch: Stopwatch) -> Loaded:
    library: Any = import_module("gigatoken")
    with watch.phase("loading"):
        tokenizer = library.Tokenizer(folder / HF_FILE)
    return Loaded(
        lambda path, _: tokenizer.encode_batch_list(list(documents(path)), parallel=True),
        _of_lists,
        lambda text: list(tokenizer.encode(text).tolist()),
        tokenizer.decode,
    )


def _fastokens(folder: Path, watch: Stopwatch) -> Loaded:
    library: Any = import_module("fastokens")
    with watch.phase("loading"):
        tokenizer = library.Tokenizer.from_file(str(folder / HF_FILE))

    def arrays(batches: Any) -> Iterator[NDArray[Any]]:
        return (np.frombuffer(ids, "<u4") for ids, _ in batches)

    return Loaded(
        lambda path, _: [tokenizer.encode_batch_flat(batch) for batch in batches(path, _BATCH)],
        arrays,
        lambda text: tokenizer.encode(text).ids,
        tokenizer.decode,
    )


def _tokie(folder: Path, watch: Stopwatch) -> Loaded:
    library: Any = import_module("tokie")
    with watch.phase("loading"):
        tokenizer = library.Tokenizer.from_json(str(folder / HF_FILE))

    def arrays(found: Any) -> Iterator[NDArray[Any]]:
        yield np.asarray(found[0])

    return Loaded(
        lambda path, _: tokenizer.encode_files([str(path)], SEPARATOR.encode()),
        arrays,
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        tokenizer.decode,
    )


def _huggingface(folder: Path, watch: Stopwatch) -> Loaded:
    from tokenizers import Tokenizer

    with watch.phase("loading"):
        tokenizer = Tokenizer.from_file(str(folder / HF_FILE))

    def encode_file(path: Path, _threads: int) -> list[list[int]]:
        return [
            encoding.ids
            for batch in batches(path, _BATCH)
            for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False)
        ]

    return Loaded(
        encode_file,
        _of_lists,
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        lambda ids: tokenizer.decode(ids, skip_special_tokens=False),
    )


def _tiktoken(folder: Path, watch: Stopwatch) -> Loaded:
    from tiktoken import Encoding
    from tiktoken.load import load_tiktoken_bpe

    with watch.phase("loading"):
        ranks = load_tiktoken_bpe(str(folder / TIKTOKEN_FILE))
        tokenizer = Encoding("benchmark", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={})

    def encode_file(path: Path, threads: int) -> list[list[int]]:
        return tokenizer.encode_ordinary_batch(list(documents(path)), num_threads=threads)

    return Loaded(encode_file, _of_lists, tokenizer.encode_ordinary, tokenizer.decode)


def _of_lists(lists: Iterable[list[int]]) -> Iterator[NDArray[Any]]:
    return (np.array(ids, np.uint32) for ids in lists)


_LISTS = "makes a Python list of each document's ids, from strings that it was given"

ENCODERS = {
    encoder.name: encoder
    for encoder in (
        Encoder(
            "bpeline",
            None,
            "bpeline",
            _bpeline,
            "leaves ids in memory",
        ),
        Encoder(
            "bpeline, shards",
            None,
            "bpeline",
            _bpeline_shards,
            "writes token shards: hashed, synced to disk, resumable",
        ),
        Encoder("bpeline, lists", None, "bpeline", _bpeline_lists, _LISTS, slow=True),
        Encoder(
            "gigatoken",
            "gigatoken",
            "gigatoken",
            _gigatoken,
            "leaves ids in memory, and gives those of a short text as an array; "
            "its cache of words grows with the text and lasts",
        ),
        Encoder("gigatoken, lists", "gigatoken", "gigatoken", _gigatoken_lists, _LISTS, slow=True),
        Encoder(
            "fastokens",
            "fastokens",
            "fastokens",
            _fastokens,
            "leaves ids in memory, from strings that it was given",
        ),
        Encoder("tokie", "tokie", "tokie", _tokie, "leaves ids in memory"),
        Encoder("tiktoken", "tiktoken", "tiktoken", _tiktoken, _LISTS, slow=True),
        Encoder("HuggingFace", "tokenizers", "tokenizers", _huggingface, _LISTS, slow=True),
    )
}
