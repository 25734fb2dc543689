"""Warming up: it leaves no kernel out, nothing is compiled after it, and a broken one is told."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from fresh_python import output_of

from bpeline.tokenizer_core import warm_up
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.kernels.compiling.compilation import IS_PLAIN
from bpeline.tokenizer_core.warm_up import (
    compile_all,
    compile_module,
    compiling_ahead,
    modules_of_kernels,
)

kept = pytest.mark.skipif(IS_PLAIN, reason="with public functions of Numba nothing is kept")

DO_EVERYTHING = """
import numpy as np
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from numba.core.dispatcher import Dispatcher
import bpeline.tokenizer_core as core
from bpeline.tokenizer_core import algorithms
from bpeline.tokenizer_core.algorithms import unigram
from bpeline.tokenizer_core.corpus import (
    DecontaminationSet,
    ReadOptions,
    find_source_files,
    sources_of,
)
from bpeline.tokenizer_core.counting import SmallChunks, WordCounts, count_words
from bpeline.tokenizer_core.counting.word_tables import WordParts
from bpeline.tokenizer_core.counting.word_tables import WordTable
from bpeline.tokenizer_core.derived import DropoutEncoding
from bpeline.tokenizer_core.encoding import SHORT_TEXT, WordCache, derive_merges
from bpeline.tokenizer_core.pipeline import TextPreparation
from bpeline.tokenizer_core.evaluation import MadeTokens
from bpeline.tokenizer_core.kernels.compiling.compilation import is_entry
from bpeline.tokenizer_core.kernels.scanning import classes
from bpeline.tokenizer_core.kernels.tables import word_queue
from bpeline.tokenizer_core.kernels.encoding.decode_ids import SUMS, measure_spans
from bpeline.tokenizer_core.merging import merge_engine
from bpeline.tokenizer_core.splitting import SUPERWORDS, SplitPattern
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import train_bpe, train_parity_bpe
from bpeline.tokenizer_core.pipeline import AddedToken
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec
from bpeline.tokenizer_core.vocabulary import TokenTable, find_merges
from bpeline.tokenizer_core.vocabulary.special_tokens import SpecialTokenMatcher
from bpeline.tokenizer_core.corpus.reading import hold_out
from bpeline.tokenizer_core.kernels.counting.word_rows import DIGIT_BITS, sort_by_digit

open("corpus.txt", "w").write("a word, another <|end|> and more\\n" * 3000)
for pattern in ("gpt2", "cl100k", "o200k", "starcoder"):
    count_words("corpus.txt", pattern, ["<|end|>"], 2, chunk_bytes=10_000)
open("many.txt", "w").write(" ".join(map(str, range(5000))))
count_words("many.txt")  # more words than become rows at once
table = WordTable()
table.add(count_words("corpus.txt"))
table.rows(SplitPattern.named("gpt2"))
WordParts(10, 2).make_room(0, 1000, 0)
WordTable()._grow_entries(1 << 20)
open("corpus.jsonl", "w").write('{"text": "a word"}\\n' * 9)
count_words("corpus.jsonl")
small = SmallChunks(ReadOptions(SplitPattern.named("gpt2")))
read = small.read(find_source_files(sources_of("many.txt")))
small.count(read, read.chunks(), [0])
text = Text.of(b"a word, another " * 9)
SplitPattern.named("gpt2").cut_pairs.first(text.bytes(), 0, text.size)
hold_out(text, np.array([[0, text.size]], np.int64), 1, SplitPattern.named("gpt2").cut_pairs)
places = np.empty(1 << DIGIT_BITS, np.int64)
sort_by_digit(np.arange(9), np.empty(9, np.int64), 0, 0, places)
left_out = ReadOptions(
    SplitPattern.named("gpt2"), left_out=DecontaminationSet.of([text.bytes(9, 99)])
)
left_out.share_out(text, np.array([[0, text.size]], np.int64))
TextPreparation([AddedToken(0, "word")]).prepare(text)
SpecialTokenMatcher([b"word" * 9000]).find(Text.of(b"word" * 20_000), 4, 79_000)

counts = WordCounts.from_mapping({b"low": 5, b"lower": 2, b"newest": 6, b"aaaa": 3})
for tie_break in ("smallest-ids", "greatest-bytes", "first-seen"):
    train_bpe(counts, 262, tie_break=tie_break).digest
merge_engine._DENSE, merge_engine._FEW_OCCURRENCES, merge_engine._BYTES_PER_SYMBOL = 256, 0, 0
letters = {bytes([first, second] * 3): 40 - second % 9 for first in range(9) for second in range(9)}
train_bpe(WordCounts.from_mapping(letters), 290).digest  # frequent pairs first, then the others
train_bpe(counts, 264, required_tokens=["lowest"])
train_bpe(counts, 264, forbid=["lo"])
train_parity_bpe({"a": counts, "b": counts}, 264)

vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b"ab", 257: b" ab"}
tokenizer = Tokenizer(vocab, [(b"a", b"b")], ignore_merges=True)
text = "ab abab lower " * (1 + SHORT_TEXT // 14)
for pattern in ("gpt2", "cl100k", "o200k", "starcoder"):
    Tokenizer(vocab, [(b"a", b"b")], pattern=pattern).encode("ab")
Tokenizer(vocab, [(b"a", b"b")], pattern=SUPERWORDS).encode(text)
ids = tokenizer.encode(text)
tokenizer.encode_batch(["ab", text])
tokenizer.encode_with_offsets("ab")
DropoutEncoding(tokenizer, 0.1).encode("ab")
tokenizer.decode(ids)
tokenizer.decode(np.array(ids, np.uint32))
tokenizer.explain("abab")
tokenizer.merge_gains(WordCounts.from_mapping({b"abab": 2}))
derive_merges(np.arange(256), {256: b"ab"})
WordCache.empty(256, 512).enlarged(512, 512)
find_merges(vocab, b"ab", np.ones(2, np.int64))
TokenTable.sound(b"a", np.ones(1, np.int64), np.array([3])).joins(np.array([3]), np.array([3]), 9)
measure_spans(np.zeros(64, np.uint8), np.zeros((1, 2), np.int64), np.zeros(SUMS, np.int64))

letters = "".join(map(chr, range(0x4E00, 0x4F00))).encode()
words = {b"low": 5, b"lower": 2, b"newest": 6, b"aaaa": 3, letters: 1}
counts = WordCounts.from_mapping(words, SplitPattern.named("whitespace"))
text = "lower " * 40 + "low" * 40
for joined in (False, True):
    merged = algorithms.train_char_bpe(counts, 10, joined=joined, tie_break="greatest-bytes")
    merged.encode(text)
algorithms.SubwordText(merged).apply(text)
algorithms.SubwordText(merged).apply(text, dropout=0.5, seed=1)
for score in ("ratio", "gain", "likelihood"):
    algorithms.train_wordpiece(counts, 300, score=score).encode(text)
algorithms.train_frequency_bpe(counts, 10, sentences="lines").encode(text)
tokens = {0: b"</u>", 1: b"low", 2: b"er</w>"}
Tokenizer(tokens, [], pattern="whitespace", algorithm=algorithms.GreedyLongest()).encode(text)
words = WordCounts.from_mapping({b"abab": 2})
made = MadeTokens.of(tokenizer, words)
made.smallest(words.counts)
made.rows_making(np.array([97]))
characters = {0: b"<unk>", 1: "▁".encode(), 2: b"a", 3: "▁a".encode()}
for unknown in ("<unk>", None):
    value = algorithms.SentencePieceBpe(unknown=unknown)
    merged = TokenizerSpec.checked(characters, [("▁".encode(), b"a")], algorithm=value)
    import_module(algorithms.SentencePieceBpe.__module__).coders(merged)[0].encode_whole(Text.of("▁☃▁a".encode()))
value = unigram.Unigram(unigram._kept(characters, dict.fromkeys(characters, -1.0)), -11.0, "<unk>")
unigram.coders(TokenizerSpec.checked(characters, [], algorithm=value))[0].encode_words([b"a"])
algorithms.expand(algorithms.compress(b"ABABCABCD" * 2))

kernels = {}
for module in walk_packages(core.__path__, "bpeline.tokenizer_core."):
    for value in vars(import_module(module.name)).values():
        if isinstance(value, Dispatcher):
            kernels[value.py_func] = value
entries = {function for function, one in kernels.items() if is_entry(one)}
# Of two ways to fill the queue, or to classify characters, a processor has use for one.
ways = {word_queue.queue_one_by_one, word_queue.queue_by_simd} - {word_queue.queue_words}
ways |= {classes.classes_by_range, classes.classes_by_page}
reached, pending = set(), [*entries, *(one.py_func for one in ways)]
while pending:
    function = pending.pop()
    reached.add(function)
    names = function.__code__.co_names
    found = [function.__globals__.get(name) for name in names]
    found += [vars(one).get(name) for one in found if isinstance(one, ModuleType) for name in names]
    pending += {one.py_func for one in found if isinstance(one, Dispatcher)} - reached
# What is loaded holds what it calls: an inner kernel has a signature where something was compiled.
print(sorted(one.__name__ for one in set(kernels) - reached))
print(sorted(one.__name__ for one in entries if not kernels[one].signatures))
print(sorted(one.__name__ for one in set(kernels) - entries if kernels[one].signatures))
print(max(len(kernels[one].signatures) for one in entries))
"""


@kept
@pytest.mark.night
def test_nothing_is_left_to_compile_and_no_kernel_left_out(tmp_path: Path) -> None:
    assert sum(seconds for _, seconds in compile_all()) > 0
    said = output_of(DO_EVERYTHING, cwd=tmp_path, seconds=3_000).splitlines()
    unreachable, never_called, compiled, most = said
    assert (unreachable, never_called, compiled, most) == ("[]", "[]", "[]", "1")


def test_every_module_with_entry_kernels_is_compiled_and_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = "import sys\nfor line in sys.stdin: print(int('.encode_' in line), flush=True)"
    monkeypatch.setattr(warm_up, "_PROGRAM", program)
    took = dict(compile_all())
    assert sorted(took) == ["kernels.encoding.encode_text", "kernels.encoding.encode_word"]
    assert all(seconds >= 0 for seconds in took.values())


def test_a_module_that_cannot_be_compiled_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import sys\nfor line in sys.stdin:\n"
        "    assert 'scanning.characters' not in line; print(1, flush=True)"
    )
    monkeypatch.setattr(warm_up, "_PROGRAM", program)
    with pytest.raises(BpelineError, match=r"scanning\.characters[^\0]*Assertion"):
        list(compile_all())


@pytest.mark.usefixtures("without_python")
def test_without_a_python_kernels_are_compiled_in_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modules = ["kernels.memory.addresses", "kernels.scanning.characters"]
    named = [f"bpeline.tokenizer_core.{module}" for module in modules]
    monkeypatch.setattr(warm_up, "modules_of_kernels", lambda: named)
    assert list(dict(compile_all())) == modules[1:]

    def failing(name: str) -> int:
        raise RuntimeError(f"{name[-4:]} is of another LLVM")

    monkeypatch.setattr(warm_up, "compile_module", failing)
    with pytest.raises(BpelineError, match=r"RuntimeError: .* another LLVM"):
        list(compile_all())


def test_where_there_is_room_for_one_process_it_compiles_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin, begun = subprocess.Popen, list[object]()

    def once(*arguments: Any, **named: Any) -> Any:
        if begun:
            raise BlockingIOError("no more processes")
        begun.append(None)
        return begin(*arguments, **named)

    program = "import sys\nfor line in sys.stdin: print(1, flush=True)"
    monkeypatch.setattr(warm_up, "_PROGRAM", program)
    monkeypatch.setattr(subprocess, "Popen", once)
    assert len(dict(compile_all())) == len(modules_of_kernels())


def test_modules_in_the_current_directory_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "typing.py").write_text("raise ImportError('of another program')")
    monkeypatch.chdir(tmp_path)
    compiler = warm_up._Compiler.started()
    assert compiler is not None
    try:
        assert compiler.compile("bpeline.tokenizer_core.kernels.memory.addresses") == 0
    finally:
        compiler.end()


def test_longest_modules_exist_and_go_first() -> None:
    names = modules_of_kernels()
    longest = len(warm_up._LONGEST)
    assert set(names[:longest]) == set(warm_up._LONGEST)
    assert len(names) == len(set(names)) > 30


def test_modules_without_entry_kernels_have_nothing_to_compile() -> None:
    assert compile_module("bpeline.tokenizer_core.kernels.memory.addresses") == 0


# Ahead of a training


USED = """
import sys
from importlib import import_module
from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernels
from bpeline.tokenizer_core.warm_up import modules_of_kernels
{work}
for module in modules_of_kernels():
    for one in entry_kernels(import_module(module)):
        if one.signatures:
            print(module, one.py_func.__name__)
"""
AHEAD = "from bpeline.tokenizer_core.warm_up import compile_after_counting as c; c()"
COUNT = """
from bpeline.tokenizer_core.counting import compile_counting
from bpeline.tokenizer_core.splitting import SplitPattern
compile_counting(SplitPattern.parse("gpt2"))
"""
TRAIN = """
import json, random
from bpeline.flows.cli.main import main
source = random.Random(3)  # many different words, in documents that are long enough for passages
with open("corpus.jsonl", "w") as corpus:
    for _ in range(3000):
        words = (f"{source.randrange(10**6):x}" * source.choice([1, 4]) for _ in range(60))
        corpus.write(json.dumps({"text": " ".join(words)}) + "\\n")
sys.argv = ["bpeline", "train", "corpus.jsonl", "--name", "n", "--vocab-size", "270"]
try:
    main()
except SystemExit as ended:
    assert not ended.code
"""


def kernels_of(work: str, directory: Path) -> set[str]:
    """The kernels that a process compiles, or loads."""
    lines = output_of(USED.format(work=work), cwd=directory).splitlines()
    return {line for line in lines if ".kernels." in line}


@kept
@pytest.mark.night
def test_it_is_what_a_training_compiles_after_counting(tmp_path: Path) -> None:
    kernels_of(AHEAD, tmp_path)  # so that the training finds all kept, and takes part in nothing
    ahead = kernels_of(AHEAD, tmp_path)
    counted = kernels_of(COUNT, tmp_path)
    trained = kernels_of(TRAIN, tmp_path)
    assert ahead & counted == set()
    assert ahead - trained == set()
    of_json_lines = {one for one in trained if one.endswith(" scan_json_lines")}
    assert trained - ahead - counted == of_json_lines


def let_compile_by(program: str, monkeypatch: pytest.MonkeyPatch, *, needed: bool = True) -> None:
    monkeypatch.setattr(warm_up, "_AHEAD", program)
    monkeypatch.setattr(warm_up, "_is_needed", lambda: needed)
    monkeypatch.setattr(warm_up, "available_processors", lambda: 2)


def test_it_ends_with_the_training_and_with_the_process_that_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = tmp_path / "began"
    waits = (
        "import os, time\n"
        f"open({str(began)!r} + '.part', 'w').write(str(os.getpid()))\n"
        f"os.rename({str(began)!r} + '.part', {str(began)!r}); time.sleep(60)"
    )
    let_compile_by(waits, monkeypatch)
    with pytest.raises(BpelineError), compiling_ahead():  # noqa: PT012
        process = _begun(began)
        raise BpelineError("the training fails", "", "")
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)

    began.unlink()
    parent = os.fork()
    if not parent:
        with compiling_ahead():
            _begun(began)
            os._exit(0)  # as if it were killed
    os.waitpid(parent, 0)
    process = int(began.read_text())
    while Path(f"/proc/{process}/stat").exists() and _runs(process):
        time.sleep(0.01)


@pytest.mark.usefixtures("without_python")
def test_where_no_process_begins_nothing_is_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    let_compile_by("", monkeypatch)
    with compiling_ahead() as finish_compiling:
        finish_compiling()


def _begun(file: Path) -> int:
    while not file.exists():
        time.sleep(0.01)
    return int(file.read_text())


def _runs(process: int) -> bool:
    """Whether a process is neither gone nor a zombie that nobody asks for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_nothing_is_started_where_code_is_kept_or_no_core_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warm_up, "another_python", lambda _: pytest.fail("started"))
    let_compile_by("", monkeypatch, needed=False)
    with compiling_ahead():
        pass
    let_compile_by("", monkeypatch, needed=True)
    monkeypatch.setattr(warm_up, "available_processors", lambda: 1)
    with compiling_ahead():
        pass


TAKE_PART = """
import sys
from bpeline.tokenizer_core import warm_up
from bpeline.tokenizer_core.kernels.compiling.compilation import are_kept
from bpeline.tokenizer_core.kernels.counting.word_table import lock_table, unlock_table

warm_up._AHEAD = "import time; time.sleep(60)"  # never comes to the first
warm_up.available_processors = lambda: 2
warm_up.kernels_after_counting = lambda: (lock_table, unlock_table)
with warm_up.compiling_ahead() as take_part:
    print(are_kept(lock_table), are_kept(unlock_table), end=" ")
    take_part()
    print(are_kept(lock_table, unlock_table))
"""


@kept
def test_who_has_counted_takes_part(tmp_path: Path) -> None:
    said = output_of(TAKE_PART, BPELINE_KERNEL_CACHE=str(tmp_path))
    assert said.split() == ["False", "False", "True"]
