"""Each companion algorithm is a module and an entry; without both, the rest works as before."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from fresh_python import output_of

from bpeline.tokenizer_core.kernels.compiling.machine_code import cache_directory
from bpeline.tokenizer_core.plugins import PLUGINS

ROOT = Path(__file__).parents[2]
# The words "low lower lowest" tokenized by whoever is left; every module of the core imported.
PROGRAM = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import bpeline.tokenizer_core as core
from pathlib import Path
assert Path(core.__file__).is_relative_to(sys.argv[1])
from bpeline.tokenizer_core.plugins import PLUGINS
# Machine code is kept by the sources of all kernels: those that are left are what they were.
from bpeline.tokenizer_core.kernels.compiling import machine_code
machine_code.source_digest = lambda: sys.argv[2]
for module in pkgutil.walk_packages(core.__path__, "bpeline.tokenizer_core."):
    # Continues imported tokenizers, those of this algorithm among them.
    if not module.name.endswith(".continuation") or "sentencepiece-bpe" in PLUGINS:
        importlib.import_module(module.name)
from bpeline.tokenizer_core import Tokenizer, WordCounts, algorithms, train_bpe
words = {b"low": 5, b"lower": 2, b"newest": 6}
made = [train_bpe(WordCounts.from_mapping(words), 260)]
counts = WordCounts.from_mapping(words, core.SplitPattern.named("whitespace"))
if "char-bpe" in PLUGINS:
    made.append(algorithms.train_char_bpe(counts, 4))
if "wordpiece" in PLUGINS:
    made.append(algorithms.train_wordpiece(counts, 20))
if "frequency-bpe" in PLUGINS:
    made.append(algorithms.train_frequency_bpe(counts, 4, sentences="none"))
if "greedy-longest" in PLUGINS:
    vocab = {0: b"</u>", 1: b"low", 2: b"er</w>"}
    made.append(Tokenizer(vocab, [], pattern="whitespace", algorithm=algorithms.GreedyLongest()))
for number, tokenizer in enumerate(made):
    place = Path(sys.argv[1], f"saved-{number}")
    tokenizer.save(place)
    assert Tokenizer.load(place).encode("low lower") == tokenizer.encode("low lower")
    print(tokenizer.algorithm.name, tokenizer.digest)
"""


def outcome(copy: Path) -> dict[str, str]:
    machine_code = cache_directory()
    assert machine_code is not None
    unfinished = shutil.ignore_patterns("*.tmp")
    shutil.copytree(machine_code, copy / "kernels" / machine_code.name, ignore=unfinished)
    said = output_of(PROGRAM, copy, machine_code.name, BPELINE_KERNEL_CACHE=str(copy / "kernels"))
    return dict(line.split() for line in said.splitlines())


def copied(to: Path) -> Path:
    """The installed name and the core, as a package of its own."""
    shutil.copytree(ROOT / "bpeline", to / "bpeline")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tokenizer_core", to / "bpeline/tokenizer_core", ignore=ignored)
    return to


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return outcome(copied(tmp_path_factory.mktemp("whole")))


TOGETHER = ("sentencepiece-bpe", "unigram")  # they share SentencePiece's files


@pytest.mark.night
@pytest.mark.parametrize("name", [name for name in PLUGINS if name != "unigram"])
def test_what_is_left_without_one_works_as_before(
    name: str, tmp_path: Path, whole: dict[str, str]
) -> None:
    core = copied(tmp_path) / "bpeline/tokenizer_core"
    listed = core / "plugins.py"
    source = listed.read_text(encoding="utf-8")
    for one in TOGETHER if name in TOGETHER else (name,):
        for path in (core / "algorithms").glob(f"{PLUGINS[one].module}*.py"):
            path.unlink()
        entry = rf'    "{one}": AlgorithmPlugin\((?:\n.*?\n    )?.*?\),\n'
        without = re.sub(entry, "", source, flags=re.S)
        assert without.count("\n") < source.count("\n")
        source = without
    listed.write_text(source, encoding="utf-8")
    left = outcome(tmp_path)
    assert left == {other: digest for other, digest in whole.items() if other != name}
