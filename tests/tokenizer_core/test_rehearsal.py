"""A rehearsal compiles what a training needs and nothing else, and never outlives its training."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bpeline.tokenizer_core import rehearsal
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.rehearsal import rehearsing

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
REHEARSE = "from bpeline.tokenizer_core.rehearsal import rehearse; rehearse(*sys.argv[1:])"
TRAIN = """
from bpeline import count_words, evaluate, train_bpe
open("corpus.txt", "w").write("a word, another and more " * 3000)
counts = count_words("corpus.txt", sys.argv[1])
evaluate(train_bpe(counts, 270, tie_break=sys.argv[2]), ["low lower"])
"""


def kernels_of(work: str, directory: Path, *arguments: str) -> set[str]:
    for _ in range(2):  # the first may compile, with what is called
        ended = subprocess.run(
            [sys.executable, "-c", USED.format(work=work), *arguments],
            capture_output=True,
            text=True,
            check=True,
            cwd=directory,
        )
    return set(ended.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["gpt2", r"\w+|\W+"])
def test_it_compiles_nothing_that_a_training_does_not(pattern: str, tmp_path: Path) -> None:
    rehearsed = kernels_of(REHEARSE, tmp_path, pattern, "smallest-ids")
    trained = kernels_of(TRAIN, tmp_path, pattern, "smallest-ids")
    assert rehearsed <= trained
    after_counting = {one for one in trained if ".merging." in one or ".encoding." in one}
    assert {one.split()[1] for one in after_counting - rehearsed} <= {"prefix_tie"}
    assert {"learn", "encode_spans", "add_gains"} <= {one.split()[1] for one in rehearsed}


def rehearse_by(program: str, monkeypatch: pytest.MonkeyPatch, *, ready: bool = False) -> None:
    monkeypatch.setattr(rehearsal, "_PROGRAM", program)
    monkeypatch.setattr(rehearsal, "_is_ready", lambda: ready)
    monkeypatch.setattr(rehearsal, "available_processors", lambda: 2)


def test_it_ends_with_the_training_and_with_the_process_that_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = tmp_path / "began"
    waits = (
        "import os, sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from bpeline.tokenizer_core.rehearsal import end_with; end_with(sys.stdin)\n"
        f"open({str(began)!r} + '.part', 'w').write(str(os.getpid()))\n"
        f"os.rename({str(began)!r} + '.part', {str(began)!r}); time.sleep(60)"
    )
    rehearse_by(waits, monkeypatch)
    with pytest.raises(BpelineError), rehearsing("gpt2", "smallest-ids"):  # noqa: PT012
        process = _begun(began)
        raise BpelineError("the training fails", "", "")
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)

    began.unlink()
    parent = os.fork()
    if not parent:
        with rehearsing("gpt2", "smallest-ids"):
            _begun(began)
            os._exit(0)  # as if it were killed
    os.waitpid(parent, 0)
    process = int(began.read_text())
    while Path(f"/proc/{process}/stat").exists() and _runs(process):
        time.sleep(0.01)


def test_modules_in_the_current_directory_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = tmp_path / "began"
    (tmp_path / "typing.py").write_text("raise ImportError('of another program')")
    monkeypatch.chdir(tmp_path)
    tells = (
        "import os\ntry: import typing; found = 1\nexcept ImportError: found = 0\n"
        f"open('part', 'w').write(str(found)); os.rename('part', {str(began)!r})"
    )
    rehearse_by(tells, monkeypatch)
    with rehearsing("gpt2", "smallest-ids"):
        assert _begun(began) == 1


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


def test_nothing_is_rehearsed_where_code_is_kept_or_no_core_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rehearsal.subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    rehearse_by("", monkeypatch, ready=True)
    with rehearsing("gpt2", "smallest-ids"):
        pass
    rehearse_by("", monkeypatch, ready=False)
    monkeypatch.setattr(rehearsal, "available_processors", lambda: 1)
    with rehearsing("gpt2", "smallest-ids"):
        pass
