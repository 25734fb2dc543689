"""The forks of `forked_readers` answer as the program does that they are forks of."""

from __future__ import annotations

import os
import select
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from forked_readers import forked_readers

from bpeline.registry.certify import asking
from bpeline.registry.certify.asking import ask
from bpeline.registry.certify.native_readers import native_reading
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import LibraryFailed
from bpeline.tokenizer_core.training.bpe import train_bpe

TEXTS = ["the then", "", "\x00 naïve 👍", "<|end|> the <|end|>"]


def test_forks_answer_as_the_program_does(tmp_path: Path) -> None:
    counts = WordCounts.from_mapping({b" the": 5, b" then": 3})
    tokenizer = train_bpe(counts, 262, special_tokens=["<|end|>"])
    for format in ("hf", "tiktoken"):
        tokenizer.save(tmp_path / format, format)
    (tmp_path / "damaged").write_text("{}")

    def answers() -> list[Any]:
        found: list[Any] = []
        for format in ("hf", "tiktoken"):
            reading = native_reading(tokenizer, format, tmp_path / format, TEXTS)
            found.append((reading.library, reading.version, list(reading.comparisons)))
        with pytest.raises(LibraryFailed) as caught:
            ask("tokenizers", tmp_path / "damaged", TEXTS, {})
        return [*found, str(caught.value)]

    assert asking.subprocess is subprocess, "or forks are compared with forks"
    alone = answers()
    with forked_readers():
        assert asking.subprocess is not subprocess
        assert answers() == alone
        ours = asking.subprocess
        with forked_readers():
            assert asking.subprocess is not ours
        assert asking.subprocess is ours
    assert asking.subprocess is subprocess


def test_a_fork_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "nobody_writes"
    os.mkfifo(pipe)
    with forked_readers():
        with pytest.raises(LibraryFailed):  # once the process that forks has imported all
            ask("tiktoken", tmp_path, [], {})
        monkeypatch.setattr(asking, "PATIENCE", 1.0)
        with pytest.raises(LibraryFailed, match="1 seconds"):
            ask("tiktoken", pipe, [], {})
        with suppress(OSError):  # it is ended already, and nobody reads
            writing = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            waiting = select.poll()
            waiting.register(writing, select.POLLERR)
            ended = waiting.poll(10_000)
            os.close(writing)
            assert ended, "it reads on"


def test_packages_of_a_folder_are_asked_by_the_program_itself(tmp_path: Path) -> None:
    (tmp_path / "tokenizers.py").write_text("raise ImportError('of this folder')\n")
    with forked_readers(), pytest.raises(LibraryFailed, match="of this folder"):
        ask("tokenizers", tmp_path, TEXTS, {}, folder=tmp_path)
