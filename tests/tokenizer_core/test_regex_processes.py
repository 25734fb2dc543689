"""Patterns that no kernel runs: exact, within limits, in parallel, and gone with their parent."""

from __future__ import annotations

import functools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpeline.tokenizer_core import reference, worker_processes
from bpeline.tokenizer_core.counting.count_corpus import count_words
from bpeline.tokenizer_core.errors import (
    InvalidPattern,
    PatternExceedsLimit,
    WorkerLost,
)
from bpeline.tokenizer_core.splitting import pretokenization, regex_processes
from bpeline.tokenizer_core.splitting.pretokenization import mark_pre_tokens, pre_tokens
from bpeline.tokenizer_core.splitting.regex_processes import Limits, mark_by_regex
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.worker_processes import Worker

ROOT = Path(__file__).parents[2]
WITHOUT_KERNEL = [
    r"\b\w+\b|\s+|.",
    r"(?<=a)b+|\w",
    r"(\w)\1|\s+",
    r"\X",
    r"(?<!\d)\d{2}|[^\d\s]+",
    r"(?:a|\b)|x+",
]
BYTES = {byte: bytes([byte]) for byte in range(256)}
SOON = Limits(seconds=0.3)


def ids() -> set[int]:
    return {worker.process.pid for worker in regex_processes._workers.all}


@pytest.fixture(autouse=True)
def _fresh_processes() -> Iterator[None]:
    regex_processes._workers.end_all()
    yield
    regex_processes._workers.end_all()


def marks_of(text: str, regex: str, limits: Limits) -> None:
    whole = Text.of(text.encode())
    starts = np.zeros(whole.size // 64 + 2, np.uint64)
    mark_by_regex(whole, np.array([[0, whole.size]]), regex, starts, limits)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


# The same as the package in this process


@pytest.mark.parametrize("regex", WITHOUT_KERNEL)
def test_pre_tokens_are_those_of_the_package(regex: str, fuzz_texts: list[str]) -> None:
    pattern = SplitPattern(regex)
    assert not pattern.has_kernel
    for text in fuzz_texts[:400]:
        assert pre_tokens(text, pattern) == reference.split(text, regex), f"REPRO: {text!r}"


@pytest.mark.night
@pytest.mark.parametrize("regex", WITHOUT_KERNEL[:4])
def test_spans_of_a_long_text_are_independent(regex: str, mixed_text: str) -> None:
    # Long enough for many batches of matches, with characters of one to four bytes.
    random_ = random.Random(3)
    cuts = sorted(random_.sample(range(len(mixed_text)), 6))
    parts = [mixed_text[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
    ends = np.cumsum([len(part.encode()) for part in parts])
    spans = np.stack([np.append(0, ends[:-1]), ends], axis=1)[[0, 2, 3, 6]]
    starts = mark_pre_tokens(Text.of(mixed_text.encode()), spans, SplitPattern(regex))
    expected = np.zeros(len(mixed_text.encode()), np.bool_)
    for part, (begin, _) in zip([parts[i] for i in (0, 2, 3, 6)], spans, strict=True):
        pieces = [len(piece.encode()) for piece in reference.split(part, regex)]
        expected[begin + np.cumsum([0, *pieces[:-1]])] = True
    found = np.unpackbits(starts.view(np.uint8), bitorder="little")[: expected.size]
    assert (found == expected).all()


def test_empty_texts_and_spans_start_no_process() -> None:
    pattern = SplitPattern(WITHOUT_KERNEL[0])
    assert pre_tokens("", pattern) == []
    assert not mark_pre_tokens(Text.of(b"abc"), np.array([[1, 1]]), pattern).any()
    assert ids() == set()


@pytest.mark.parametrize("span", [[-1, 2], [2, 1], [0, 4]])
def test_spans_outside_of_the_text_are_refused(span: list[int]) -> None:
    with pytest.raises(IndexError):
        mark_pre_tokens(Text.of(b"abc"), np.array([span]), SplitPattern(WITHOUT_KERNEL[0]))


def test_encoding_goes_through_the_same_processes(fuzz_texts: list[str]) -> None:
    regex = WITHOUT_KERNEL[0]
    tokenizer = Tokenizer(
        BYTES | {256: b"th", 257: b"the"}, [(b"t", b"h"), (b"th", b"e")], (), regex
    )
    texts = [text for text in fuzz_texts[:300] if text]
    for text, encoded in zip(texts, tokenizer.encode_batch(texts, 1), strict=True):
        assert encoded == tokenizer.encode(text)
        assert tokenizer.decode(encoded) == text
    assert len(ids()) == 1


# Limits


@pytest.mark.night
@pytest.mark.parametrize(
    "regex",
    [
        r"(?:x+x+)+y\b",
        r"(?:x|xx)+$(?<!b)",
        r"(?:(?:x+)+)+(?<=y)",
        r"(x+)+\1y",
    ],
)
def test_a_pattern_that_backtracks_for_ever_is_ended(regex: str) -> None:
    before = time.monotonic()
    with pytest.raises(PatternExceedsLimit) as refused:
        marks_of("x" * 3_000 + "!", regex, SOON)
    assert time.monotonic() - before < 30
    assert isinstance(refused.value, InvalidPattern)
    assert regex[:10].replace("\\", "\\\\") in refused.value.happened
    assert "processor time" in refused.value.happened
    assert "0.3 s" in refused.value.accepted
    assert "(a+)+" in refused.value.next_step
    assert ids() == set()


@pytest.mark.night
def test_encode_refuses_a_runaway_pattern_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = functools.partial(mark_by_regex, limits=SOON)
    monkeypatch.setattr(pretokenization, "mark_by_regex", quick)
    tokenizer = Tokenizer(BYTES, [], (), r"(?:x+x+)+y\b")
    with pytest.raises(PatternExceedsLimit):
        tokenizer.encode("x" * 3_000)
    assert tokenizer.encode("ab") == [97, 98]


@pytest.mark.night
def test_time_is_given_for_what_is_done_and_not_for_the_whole_call() -> None:
    # Much more processor time than a call has, but always progress.
    text = "".join(random.Random(1).choices("ab cé\n", k=2_000_000))
    limits = Limits(seconds=0.05, seconds_per_mb=0, seconds_per_mb_done=1_000)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    marks_of(text, r"\b\w+\b|\s+", limits)
    regex_processes._workers.end_all()
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before > 0.2


@pytest.mark.night
@pytest.mark.parametrize("regex", [r"(?P<q>(?&q)a|b)", r"(?R)?a"])
def test_a_pattern_that_fills_the_memory_is_ended(regex: str) -> None:
    with pytest.raises(PatternExceedsLimit, match="memory") as refused:
        marks_of("a" * 1_000, regex, Limits(memory=64 << 20))
    assert "64 MiB" in refused.value.accepted
    assert pre_tokens("ab cd", SplitPattern(WITHOUT_KERNEL[0])) == ["ab", " ", "cd"]


# Processes


@pytest.mark.night
def test_threads_have_a_process_each_and_share_them_afterwards() -> None:
    pattern = SplitPattern(WITHOUT_KERNEL[0])
    text = "some words " * 50_000
    barrier = threading.Barrier(3)

    def cut(_: int) -> int:
        barrier.wait()
        return len(pre_tokens(text, pattern))

    with ThreadPoolExecutor(3) as threads:
        assert set(threads.map(cut, range(3))) == {200_000}
    started = ids()
    assert len(started) == 3
    assert len(pre_tokens(text, pattern)) == 200_000
    assert ids() == started


@pytest.mark.night
def test_counting_works_on_several_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, ask = threading.Barrier(2), Worker.ask

    def ask_together(worker: Worker, *asked: Any) -> None:
        together.wait(120)  # two are at work at any time, whoever is quicker
        ask(worker, *asked)

    monkeypatch.setattr(Worker, "ask", ask_together)
    regex = WITHOUT_KERNEL[0]
    text = "some words, und Wörter\n" * 100_000
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(text)
    counts = count_words(tmp_path, regex, workers=2)
    expected = Counter(piece.encode() for piece in reference.split(text, regex))
    assert counts.to_mapping() == {word: 4 * count for word, count in expected.items()}
    assert len(ids()) == 2
    ticks = [int(Path(f"/proc/{pid}/stat").read_text().split()[13]) for pid in ids()]
    assert min(ticks) > max(ticks) / 4, "both did their part"


def test_a_process_that_is_killed_is_replaced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = SplitPattern(WITHOUT_KERNEL[0])
    assert pre_tokens("a b", pattern) == ["a", " ", "b"]
    (killed,) = ids()
    os.kill(killed, signal.SIGKILL)
    assert pre_tokens("a b", pattern) == ["a", " ", "b"]
    (replacement,) = ids()
    assert replacement != killed
    os.kill(replacement, signal.SIGKILL)
    monkeypatch.setattr(regex_processes._workers, "program", "raise SystemExit(3)")
    with pytest.raises(WorkerLost, match="exit status 3") as lost:
        pre_tokens("a b", pattern)
    assert lost.value.next_step
    assert ids() == set()


def test_a_python_that_cannot_be_started_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "required_python", lambda *_: "/no/such/python")
    with pytest.raises(WorkerLost, match="/no/such/python"):
        pre_tokens("a b", SplitPattern(WITHOUT_KERNEL[0]))


def test_without_a_python_a_pattern_without_a_kernel_is_refused(
    monkeypatch: pytest.MonkeyPatch, without_python: Path
) -> None:
    with pytest.raises(WorkerLost, match=str(without_python)) as refused:
        pre_tokens("a b", SplitPattern(WITHOUT_KERNEL[0]))
    assert "'gpt2'" in refused.value.next_step
    assert pre_tokens("a b", SplitPattern.named("gpt2")) == ["a", " b"]


def test_an_interrupted_call_leaves_no_answer_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = SplitPattern(WITHOUT_KERNEL[0])
    assert pre_tokens("a b", pattern) == ["a", " ", "b"]
    before = ids()

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "receive", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            pre_tokens("c d", pattern)
    assert not before & ids()
    assert pre_tokens("c d", pattern) == ["c", " ", "d"]


def _interrupted(*_: object) -> bytes:
    raise KeyboardInterrupt


def test_a_fork_has_processes_of_its_own() -> None:
    pattern = SplitPattern(WITHOUT_KERNEL[0])
    assert pre_tokens("a b", pattern) == ["a", " ", "b"]
    parents = ids()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        result = b"failed"
        try:
            before = ids()
            pieces = pre_tokens("c d", pattern)
            if before == set() and pieces == ["c", " ", "d"] and not ids() & parents:
                result = b"own"
            regex_processes._workers.end_all()
        finally:
            os.write(writer, result)
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 10) == b"own"
    os.close(reader)
    assert pre_tokens("e f", pattern) == ["e", " ", "f"]
    assert ids() == parents


PARENT = r"""
import sys, threading
from bpeline.tokenizer_core.splitting import regex_processes
from bpeline.tokenizer_core.splitting.pretokenization import pre_tokens
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

pre_tokens("a b", SplitPattern(r"\b\w+"))
if sys.argv[1] == "busy":
    text = "some words " * 3_000_000
    threading.Thread(target=pre_tokens, args=(text, SplitPattern(r"\b\w+")), daemon=True).start()
print(*(worker.process.pid for worker in regex_processes._workers.all), flush=True)
sys.stdin.read()
"""


@pytest.mark.night
@pytest.mark.parametrize("state", ["idle", "busy"])
@pytest.mark.parametrize("end", ["kill", "exit"])
def test_they_end_with_their_parent(state: str, end: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, state],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        (worker,) = map(int, parent.stdout.readline().split())
        assert is_running(worker)
        if state == "busy":
            time.sleep(1)
        if end == "kill":
            parent.kill()
        parent.communicate()
        assert parent.returncode == (-signal.SIGKILL if end == "kill" else 0)
    assert wait_until(lambda: not is_running(worker))


@pytest.mark.night
def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "print('once')\n"
        "from bpeline.tokenizer_core.splitting.pretokenization import pre_tokens\n"
        r"print(pre_tokens('a b', r'\b\w+'))"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("once\n['a', ' ', 'b']\n", "")


def test_a_process_that_was_abandoned_when_it_had_answered_is_replaced() -> None:
    """Its answer had come, and it was not yet idle again, when matching was abandoned."""
    pattern = SplitPattern(WITHOUT_KERNEL[0])
    assert pre_tokens("a b", pattern) == ["a", " ", "b"]
    (worker,) = regex_processes._workers.all
    worker.abandoned = True
    worker.process.kill()
    assert pre_tokens("c d", pattern) == ["c", " ", "d"]
    assert worker.process.pid not in ids()


def test_an_interruption_ends_what_is_being_matched_and_nothing_else() -> None:
    limits = Limits(seconds=60)
    content = Text.of(b"a" * 40 + b"!")
    spans = np.array([[0, content.size]], np.int64)
    starts = np.zeros(content.size // 64 + 2, np.uint64)
    with ThreadPoolExecutor(1) as threads:
        matching = threads.submit(
            mark_by_regex, content, spans, r"(?:a|aa|aaa)+\b#", starts, limits
        )
        while not matching.done():
            regex_processes.abandon_matching()
            time.sleep(0.1)
        with pytest.raises(WorkerLost, match="interruption"):
            matching.result()
    assert not ids()
    mark_by_regex(content, spans, r"\ba+", starts)
    assert starts.any()
    regex_processes.abandon_matching()  # of idle ones, none
    assert len(ids()) == 1


@pytest.mark.night
def test_a_file_with_a_regex_that_explodes_loads_and_fails_on_a_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(regex_processes, "LIMITS", Limits(seconds=0.5, seconds_per_mb=0))
    monkeypatch.setattr(mark_by_regex, "__defaults__", (regex_processes.LIMITS,))
    vocab = {byte: bytes([byte]) for byte in range(256)}
    path = tmp_path / "tokenizer.json"
    Tokenizer(vocab, [], pattern=r"x+|y").save(path, "hf")
    exploding = r"(?:(?:\w|\s)+)+(?=#z)|\w"
    document = json.loads(path.read_text())
    step = document["pre_tokenizer"]["pretokenizers"][0]
    step["pattern"]["Regex"] = SplitPattern(exploding).regex_for_export
    Tokenizer.load(path)  # the first one of all may compile kernels
    path.write_text(json.dumps(document))
    before = time.process_time()
    tokenizer = Tokenizer.load(path)
    assert time.process_time() - before < 2
    assert tokenizer.encode("a") == [97]
    with pytest.raises(PatternExceedsLimit, match=r"processor time"):
        tokenizer.encode("ab " * 2000)


def test_a_file_with_a_regex_that_explodes_when_compiled_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    Tokenizer({byte: bytes([byte]) for byte in range(256)}, [], pattern=r"x+|y").save(path, "hf")
    whole = path.read_text()
    for hostile in ("(?:" * 40 + "a+b?" + ")+" * 40, "(?:a{1000}){1000}"):
        path.write_text(whole.replace("x+|y", hostile))
        before = time.process_time()
        with pytest.raises(PatternExceedsLimit):
            Tokenizer.load(path)
        assert time.process_time() - before < 2
