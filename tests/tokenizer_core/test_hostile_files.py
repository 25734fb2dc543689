"""Broken and hostile files: only our own errors, soon, and within bounded memory."""

from __future__ import annotations

import base64
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fresh_python import output_of

from bpeline.tokenizer_core import bounded_files
from bpeline.tokenizer_core.errors import InvalidSpecialToken, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer

ROOT = Path(__file__).parents[2]
BYTES = {byte: bytes([byte]) for byte in range(256)}
MERGES = [(b"a", b"b"), (b"ab", b"c"), (b" ", b"t"), (b" t", b"h")]


@pytest.fixture(scope="module")
def small() -> Tokenizer:
    vocab = BYTES | {256 + rank: left + right for rank, (left, right) in enumerate(MERGES)}
    return Tokenizer(vocab | {300: b"<|fin|>"}, MERGES, ["<|fin|>"], r"\p{L}+|\s+|.")


@pytest.fixture(autouse=True, scope="module")
def _compiled(small: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kernels, before anything is measured."""
    path = tmp_path_factory.mktemp("small") / "tokenizer.json"
    small.save(path, "hf")
    Tokenizer.load(path).encode("abc the")


BOMBS: dict[str, Callable[[], bytes]] = {
    "lists": lambda: b"[" + b"[]," * (20 << 20) + b"0]",
    "objects": lambda: b"[" + b'{"":0},' * (9 << 20) + b"0]",
    "numbers": lambda: b"[" + b"0," * (31 << 20) + b"0]",
    "depth": lambda: b"[" * (60 << 20),
    "digits": lambda: b'{"a": ' + b"9" * (60 << 20) + b"}",
    "keys": lambda: b"{" + b",".join(b'"%d":1' % n for n in range(5_200_000)) + b"}",
}
LOADS = """
import resource, sys
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    Tokenizer.load(sys.argv[1], sys.argv[2])
except InvalidTokenizer as error:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, error.happened)
"""


@pytest.mark.night
@pytest.mark.parametrize("kind", BOMBS)
def test_bombs_of_structure_are_refused_in_bounded_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(BOMBS[kind]())
    assert path.stat().st_size <= bounded_files.MAX_FILE_BYTES
    megabytes, message = output_of(LOADS, path, "hf", seconds=60).split(" ", 1)
    assert "tokenizer.json" in message
    assert int(megabytes) < 1_000


def hf_document(small: Tokenizer, tmp_path: Path, change: Callable[[Any], object]) -> Path:
    path = tmp_path / "tokenizer.json"
    small.save(path, "hf")
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


@pytest.mark.night
@pytest.mark.parametrize(
    "tokens",
    [["x" * 60_000, "y" * 60_000], [f"<{n}>" for n in range(200_000)]],
    ids=["long", "many"],
)
def test_many_or_long_added_tokens_are_read_soon(
    small: Tokenizer, tmp_path: Path, tokens: list[str]
) -> None:
    flags = dict.fromkeys(("lstrip", "rstrip", "single_word"), False)
    first = small.vocab_size

    def document(tokens: list[str]) -> Path:
        added = [
            {"id": first + n, "content": token, "special": True, "normalized": bool(n % 2), **flags}
            for n, token in enumerate(tokens)
        ]
        return hf_document(small, tmp_path, lambda d: d.update(added_tokens=added))

    Tokenizer.load(document(["<a>", "<b>"])).encode("a<b><a>")  # the first one may compile kernels
    path = document(tokens)
    begin = time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loaded = Tokenizer.load(path)
    assert loaded.algorithm.name == "byte-bpe"
    assert loaded.encode(f"a{tokens[1]}{tokens[0]}")[-2:] == [first + 1, first]
    assert time.process_time() - begin < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 << 10


def test_merges_that_double_in_length_stop_at_the_longest_token(
    small: Tokenizer, tmp_path: Path
) -> None:
    def change(document: Any) -> None:
        model = document["model"]
        for power in range(1, 18):
            half = "a" * 2 ** (power - 1)
            model["vocab"].setdefault(half * 2, 1_000 + power)
            model["merges"].append([half, half])

    with pytest.raises(InvalidTokenizer, match="131072 bytes"):
        Tokenizer.load(hf_document(small, tmp_path, change))


def test_ranks_that_double_in_length_are_read_soon(tmp_path: Path) -> None:
    tokens = [bytes([byte]) for byte in range(256)] + [b"a" * 2**n for n in range(1, 17)]
    tokens += [b"b" * (2**n + 1) for n in range(1, 3)]
    lines = [b"%s %d\n" % (base64.b64encode(token), n) for n, token in enumerate(tokens)]
    path = tmp_path / "x.tiktoken"
    path.write_bytes(b"".join(lines[:258]))
    Tokenizer.load(path, pattern="gpt2")  # the first one may compile kernels
    path.write_bytes(b"".join(lines[:-2]))
    begin = time.process_time()
    assert Tokenizer.load(path, pattern="gpt2").vocab_size == 272
    assert time.process_time() - begin < 10
    path.write_bytes(b"".join(lines))
    assert Tokenizer.load(path, pattern="gpt2").encode("bbb") == [272], "which no merge makes"


def surrogate_added(document: Any) -> None:
    token = {"id": 900, "content": "\ud800", "special": True}
    document["added_tokens"].append(token)


@pytest.mark.parametrize(
    "change",
    [
        surrogate_added,
        lambda d: d["model"]["vocab"].update({"\ud800": 900}),
        lambda d: d["model"].update(merges=["a b", "\ud800 a"]),
        lambda d: d["model"].update(merges=[["a", "\ud800"]]),
    ],
)
def test_lone_surrogates_are_refused(
    small: Tokenizer, tmp_path: Path, change: Callable[[Any], object]
) -> None:
    with pytest.raises((InvalidTokenizer, InvalidSpecialToken)):
        Tokenizer.load(hf_document(small, tmp_path, change))
