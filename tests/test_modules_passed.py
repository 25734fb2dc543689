"""How many modules above the kernels the three usual calls pass, counted from a trace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# In a process of its own: what is compiled or made once is made in it.
PROGRAM = """
import sys, threading
from pathlib import Path
from bpeline import Tokenizer, WordCounts, count_words, train_bpe
from bpeline.tokenizer_core.kernels.compiling.compilation import compile_declared, entry_kernels
from bpeline.tokenizer_core.kernels.encoding import short_texts

def passed(call):
    modules = set()
    def note(frame, event, argument):
        if event == "call":
            modules.add(frame.f_globals.get("__name__", ""))
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        result = call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    core = "bpeline.tokenizer_core."
    names = (name.removeprefix(core) for name in modules if name.startswith(core))
    below = "kernels.", "cache_directory"
    return result, sorted(name for name in names if not name.startswith(below))

compile_declared(*entry_kernels(short_texts))  # short texts go other ways until this is done
path = Path(sys.argv[1])
counts, counting = passed(lambda: count_words([path]))
tokenizer, training = passed(lambda: train_bpe(counts, 300, special_tokens=["<|end|>"]))
_, short = passed(lambda: tokenizer.encode("hello world <|end|>"))
for _ in range(20):  # the first are encoded while kernels are loaded
    tokenizer.encode("hello")
_, again = passed(lambda: tokenizer.encode("hello world <|end|>"))
tokenizer = Tokenizer.of_spec(tokenizer.spec)
_, special = passed(lambda: tokenizer.encode("hello <|end|>", allowed_special="all"))
tokenizer = Tokenizer.of_spec(tokenizer.spec)
tokenizer.save(path.with_name("tokenizer.json"), "hf")
Tokenizer.load(path.with_name("tokenizer.json"))  # imports what it needs
_, loading = passed(lambda: Tokenizer.load(path.with_name("tokenizer.json")))
_, long = passed(lambda: tokenizer.encode("hello world " * 10_000, allowed_special="all"))
for name, modules in zip(
    (
        "count_words", "train_bpe", "encode", "encode, again", "encode, special tokens",
        "encode, long text", "load",
    ),
    (counting, training, short, again, special, long, loading),
):
    print(name, *modules, sep=";")
"""
MOST = {
    # Two of them check what is given, two are for the kinds of files that are read, or are not; one
    # reads small files together, one makes the rows of tables.
    "count_words": 25,
    # Two of them are the vocab's table and its text.
    "train_bpe": 16,
    # First calls: one of them chooses the encoder by the pattern, one makes the ints of lists.
    "encode": 8,
    "encode, again": 3,  # one of them takes the UTF-8 of a string
    "encode, special tokens": 9,
    "encode, long text": 9,
    # A tokenizer.json: eight of them are the parts of the file, three the vocab as a table, seven
    # make the encoder.
    "load": 27,
}


@pytest.mark.night
def test_the_usual_calls_pass_few_modules(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello world the end of the world\n" * 5000)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "a.txt")],
        capture_output=True,
        text=True,
        check=True,
    )
    passed = {name: modules for name, *modules in (s.split(";") for s in ended.stdout.splitlines())}
    assert passed.keys() == MOST.keys()
    many = {name: modules for name, modules in passed.items() if len(modules) > MOST[name]}
    assert not many, many
