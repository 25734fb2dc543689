"""What is compiled ahead of a training is what it needs, by a process that does not outlive it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bpeline.tokenizer_core import warm_up
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.kernels.compiling.compilation import IS_PLAIN
from bpeline.tokenizer_core.warm_up import compiling_ahead

kept = pytest.mark.skipif(IS_PLAIN, reason="with public functions of Numba nothing is kept")

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
    ended = subprocess.run(
        [sys.executable, "-c", USED.format(work=work)],
        capture_output=True,
        text=True,
        check=True,
        cwd=directory,
    )
    return {line for line in ended.stdout.splitlines() if ".kernels." in line}


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
    ended = subprocess.run(
        [sys.executable, "-c", TAKE_PART],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"BPELINE_KERNEL_CACHE": str(tmp_path)},
    )
    assert ended.stdout.split() == ["False", "False", "True"]
