"""Broken and hostile files: only our own errors, soon, and within bounded memory."""

from __future__ import annotations

import base64
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mutations import as_json, mutated

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
    loaded = subprocess.run(
        [sys.executable, "-c", LOADS, str(path), "hf"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    megabytes, message = loaded.stdout.split(" ", 1)
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


def test_merges_whose_parts_come_later_are_read(small: Tokenizer, tmp_path: Path) -> None:
    def turned(document: Any) -> None:
        document["model"]["merges"] = [["ab", "c"], ["a", "b"]]

    loaded = Tokenizer.load(hf_document(small, tmp_path, turned))
    assert loaded.encode("abcab") == [loaded.token_to_id("abc"), loaded.token_to_id("ab")]


WATCHED = """
import pathlib, sys
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.tokenizer import Tokenizer
for good in sys.argv[3:]:  # kernels are compiled, libraries and formats imported
    Tokenizer.load(good).encode("abc the")
seen = []
signs = ("exec", "compile", "import", "subprocess", "socket", "os.system", "ctypes", "pickle")
sys.addaudithook(lambda event, arguments: seen.append((event, str(arguments)[:200])))
for path in sorted(pathlib.Path(sys.argv[2]).iterdir()):
    try:
        Tokenizer.load(path, "bpeline" if path.is_dir() else "hf").encode("abc the")
    except BpelineError:
        pass
seen = seen[:]
for event, arguments in seen:
    if event.startswith(signs) or event == "open" and sys.argv[2] not in arguments:
        print(event, arguments)
"""


@pytest.mark.night
def test_nothing_but_the_named_files_is_touched(small: Tokenizer, tmp_path: Path) -> None:
    """What Python's audit hook sees while hostile files are loaded: no code, no other file."""
    good, hostile = tmp_path / "good", tmp_path / "hostile"
    small.save(good, "bpeline")
    hostile.mkdir()
    path = hf_document(small, tmp_path, lambda d: None)
    documents = {"manifest": json.loads((good / "manifest.json").read_text()),
                 "hf": json.loads(path.read_text())}  # fmt: skip
    for seed in range(100):
        changed = mutated(documents["manifest"], random.Random(seed))
        directory = hostile / f"directory-{seed}"
        small.save(directory, "gpt2")
        (directory / "manifest.json").write_bytes(as_json(changed))
        (directory / "MLmodel").write_text("loader_module: evil\n")
        (directory / "evil.py").write_text("raise SystemExit('executed')\n")
        changed = mutated(documents["hf"], random.Random(seed))
        (hostile / f"{seed}.json").write_bytes(as_json(changed))
    over_characters = tmp_path / "over-characters.json"  # as some of them turn out to be
    over_characters.write_text(json.dumps({**documents["hf"], "pre_tokenizer": None}))
    usual = map(str, (good, path, over_characters))
    watched = subprocess.run(
        [sys.executable, "-c", WATCHED, str(good), str(hostile), *usual],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert watched.stdout == ""
