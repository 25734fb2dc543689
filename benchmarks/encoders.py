"""Encoding and loading: all libraries with the same vocabulary.

Each library is imported inside its function, so that a process measures only one. Libraries that
make Python lists get a sample of a large file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpora import GPT2, SEPARATOR, batches, documents
from benchmarks.measurement import OURS, Case, Contestant, Measurement, Verdict
from benchmarks.process import Stopwatch, memory

HF_FILE, TIKTOKEN_FILE = "tokenizer.json", "ranks.tiktoken"
BLOCK = 1 << 16  # ids per digest
_BATCH = 1_000  # documents
_AGAIN_WITHIN = 30.0  # seconds; no second pass after a longer first one
_TEXTS = 200
_PASSES = 7
_PIECE = 10_000  # characters
_DECODED = 4 << 20  # bytes of text


@dataclass(frozen=True, slots=True)
class Loaded:
    """A library with its vocabulary.

    ``encode_file`` maps (file, threads) to ids in the library's own form, which ``arrays`` converts
    to arrays, untimed.
    """

    encode_file: Callable[[Path, int], Any]
    arrays: Callable[[Any], Iterable[NDArray[Any]]]
    encode: Callable[[str], Sequence[int]]
    decode: Callable[[list[int]], Any]


Load = Callable[[Path, Stopwatch], Loaded]


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
        # Load kernels untimed, like the imports of other libraries.
        small = Tokenizer({byte: bytes([byte]) for byte in range(256)}, [])
        small.save(Path(directory, HF_FILE), format="hf")
        with Path(directory, HF_FILE).open("ab") as file:
            file.write(b" " * (1 << 18))  # large files use other kernels
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


def _huggingface_1(folder: Path, watch: Stopwatch) -> Loaded:
    library: Any = import_module("tokenizers")
    with watch.phase("loading"):
        tokenizer = library.Tokenizer.from_file(str(folder / HF_FILE))

    def encode_file(path: Path, _threads: int) -> list[Any]:
        return [
            tokenizer.encode_batch(batch, add_special_tokens=False)
            for batch in batches(path, _BATCH)
        ]

    def arrays(found: list[Any]) -> Iterator[NDArray[Any]]:
        return (encoding.ids_array for encodings in found for encoding in encodings)

    return Loaded(
        encode_file,
        arrays,
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


def _of_file(loaded: Loaded, path: Path, threads: int) -> tuple[dict[str, Any], dict[str, Any]]:
    passes = []
    for _ in range(2):
        watch = Stopwatch()
        with watch.phase():
            ids = loaded.encode_file(path, threads)
        passes.append(watch)
        if len(passes) == 1:
            peak = memory("VmHWM")
            blocks, count = block_digests(loaded.arrays(ids))
        del ids
        if watch.seconds > _AGAIN_WITHIN:
            break
    return {
        "seconds": passes[0].seconds,
        "cpu_seconds": passes[0].cpu_seconds,
        "again_seconds": passes[-1].seconds,
        "again_cpu_seconds": passes[-1].cpu_seconds,
        "peak_megabytes": peak,
    }, {"ids": count, "blocks": blocks}


def _of_texts(loaded: Loaded, path: Path) -> dict[str, Any]:
    """Microseconds for texts of 60 and 1,000 characters, and decoding speed."""
    with path.open(encoding="utf-8", errors="replace") as file:
        text = file.read(_DECODED)
    # In pieces: one library panics on a long text.
    pieces = [text[begin : begin + _PIECE] for begin in range(0, len(text), _PIECE)]
    ids = [int(id_) for piece in pieces for id_ in loaded.encode(piece)]
    decoding = _typical(lambda _: loaded.decode(ids), [text])
    return {
        "short_microseconds": 1e6 * _typical(loaded.encode, _pieces(text, 60)),
        "kilobyte_microseconds": 1e6 * _typical(loaded.encode, _pieces(text, 1_000)),
        "decode_megabytes_per_second": len(text.encode()) / 1e6 / decoding,
    }


def _pieces(text: str, length: int) -> list[str]:
    step = max(length, len(text) // _TEXTS)
    return [text[begin : begin + length] for begin in range(0, len(text), step)][:_TEXTS]


def _typical(encode: Callable[[str], Any], texts: Sequence[str]) -> float:
    passes = []
    for _ in range(_PASSES):
        begin = time.perf_counter()
        for text in texts:
            encode(text)
        passes.append((time.perf_counter() - begin) / len(texts))
    return statistics.median(passes[1:])


def block_digests(arrays: Iterable[NDArray[Any]]) -> tuple[list[str], int]:
    """A digest of every `BLOCK` ids, and the number of ids."""
    digests: list[str] = []
    count = 0
    held: list[NDArray[Any]] = []
    size = 0
    for array in arrays:
        held.append(np.asarray(array))
        size += len(array)
        count += len(array)
        if size < BLOCK:
            continue
        rest = np.concatenate(held).astype("<u4")
        whole = len(rest) // BLOCK * BLOCK
        digests += [_digest(rest[begin : begin + BLOCK]) for begin in range(0, whole, BLOCK)]
        held, size = [rest[whole:]], len(rest) - whole
    if size:
        digests.append(_digest(np.concatenate(held).astype("<u4")))
    return digests, count


def _digest(ids: NDArray[Any]) -> str:
    return hashlib.sha256(ids.tobytes()).hexdigest()[:16]


def _loaded(load: Load, case: Case, watch: Stopwatch) -> Loaded:
    before = memory("VmRSS")
    loaded = load(Path(case.prepared["folder"]), watch)
    watch.more |= {
        "load_seconds": watch.seconds,
        "load_megabytes": memory("VmRSS") - before,
    }
    return loaded


@contextmanager
def _vocabulary(case: Case) -> Iterator[Mapping[str, Any]]:
    from bpeline.tokenizer_core import Tokenizer, count_words, train_bpe

    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        folder = Path(directory)
        if case.vocabulary is None:
            counts = count_words([os.fspath(case.path)], special_tokens=[SEPARATOR])
            learned = train_bpe(counts, case.vocab_size, special_tokens=[SEPARATOR])
            learned.save(folder / HF_FILE, "hf")
        else:
            shutil.copyfile(case.vocabulary, folder / HF_FILE)
        tokenizer = Tokenizer.load(folder / HF_FILE, "hf")
        tokenizer.save(folder / TIKTOKEN_FILE, "tiktoken")
        yield {"folder": directory, "facts": {"vocab_size": tokenizer.vocab_size}}


def verdict(
    contestant: Contestant, theirs: Mapping[str, Any], found: Mapping[str, Any], _case: Case
) -> Verdict:
    """Tell in which block ids first differ."""
    ours = found[OURS]
    if theirs == ours:
        return Verdict(True, "ours" if contestant.name == OURS else f"all {ours['ids']:,} equal")
    pairs = list(zip(theirs["blocks"], ours["blocks"], strict=False))
    equal_blocks = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    return Verdict(False, f"differ within {BLOCK:,} ids from id {equal_blocks * BLOCK:,} on")


def _encoder(
    name: str,
    package: str | None,
    load: Load,
    caveat: str,
    slow: bool = False,
    folder_variable: str = "",
) -> Contestant:
    def run(case: Case, watch: Stopwatch) -> Any:
        loaded = _loaded(load, case, watch)
        figures, digests = _of_file(loaded, case.path, case.threads)
        watch.more |= figures | _of_texts(loaded, case.path)
        return digests

    return Contestant(
        name,
        run,
        package,
        package or "bpeline",
        caveat=caveat,
        slow=slow,
        folder_variable=folder_variable,
    )


def _loader(name: str, package: str | None, load: Load, folder_variable: str = "") -> Contestant:
    def run(case: Case, watch: Stopwatch) -> None:
        _loaded(load, case, watch)

    return Contestant(name, run, package, package or "bpeline", folder_variable=folder_variable)


_TOKENIZERS_1 = "BENCHMARK_TOKENIZERS_1"
_LISTS = "encodes strings in memory; makes a Python list of ids for each document"
ENCODERS = (
    _encoder("bpeline", None, _bpeline, "leaves ids in memory"),
    _encoder(
        "bpeline, shards",
        None,
        _bpeline_shards,
        "writes token shards: hashed, synced to disk, resumable",
    ),
    _encoder("bpeline, lists", None, _bpeline_lists, _LISTS, slow=True),
    _encoder(
        "gigatoken",
        "gigatoken",
        _gigatoken,
        "leaves ids in memory, and returns an array for a short text; "
        "its cache of words grows with the text",
    ),
    _encoder("gigatoken, lists", "gigatoken", _gigatoken_lists, _LISTS, slow=True),
    _encoder(
        "fastokens",
        "fastokens",
        _fastokens,
        "encodes strings in memory; leaves ids in memory",
    ),
    _encoder("tokie", "tokie", _tokie, "leaves ids in memory"),
    _encoder("tiktoken", "tiktoken", _tiktoken, _LISTS, slow=True),
    _encoder("HuggingFace", "tokenizers", _huggingface, _LISTS, slow=True),
    _encoder(
        "HuggingFace 1.0",
        "tokenizers",
        _huggingface_1,
        "a release candidate in the folder BENCHMARK_TOKENIZERS_1; encodes strings in memory; "
        "leaves an object for each document in memory",
        folder_variable=_TOKENIZERS_1,
    ),
)
ENCODING = Measurement(
    "encoding",
    "encode a file and short texts, and decode",
    ENCODERS,
    _vocabulary,
    verdict,
    threads=(1, 2),
    sample_bytes=20_000_000,
)
LOADING = Measurement(
    "loading",
    "seconds and memory to load a vocabulary",
    (
        _loader("bpeline", None, _bpeline),
        _loader("bpeline, shards", None, _bpeline_shards),
        _loader("gigatoken", "gigatoken", _gigatoken),
        _loader("fastokens", "fastokens", _fastokens),
        _loader("tokie", "tokie", _tokie),
        _loader("tiktoken", "tiktoken", _tiktoken),
        _loader("HuggingFace", "tokenizers", _huggingface),
        _loader("HuggingFace 1.0", "tokenizers", _huggingface_1, _TOKENIZERS_1),
    ),
    _vocabulary,
    vocab_sizes=(100_000,),
    threads=(1,),
)
