"""What people see while a flow runs."""

from __future__ import annotations

import io
import threading
from dataclasses import replace

import pytest

from bpeline.flows.running.progress import (
    Bars,
    Lines,
    Progress,
    Several,
    current,
    describe_bytes,
    describe_merging,
    for_stream,
    listening,
    step_line,
)
from bpeline.tokenizer_core.merging.checkpoint import TrainingProgress
from bpeline.tokenizer_core.redaction import TextWithoutSecrets

AT = TrainingProgress(
    merges_done=1_200,
    merges_total=31_744,
    best_pair=(b" th", "é".encode() * 20),
    best_count=54_321,
    seconds=1.0,
    eta_seconds=25.4,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_short_run(progress: Progress) -> None:
    progress.step_started("count words", 100, "bytes")
    progress.step_advanced("count words", 60)
    progress.step_advanced("count words", 40)
    progress.step_finished("count words", 1.234, "3 chunks [not markup]")
    progress.note("something to know")
    progress.step_started("learn merges", 31_744, "merges")
    progress.merging(AT)
    progress.step_finished("learn merges", 0.5, "31,744 merges")
    progress.closed()


def test_a_log_gets_one_plain_line_for_each_step() -> None:
    stream = io.StringIO()
    a_short_run(for_stream(stream))
    assert stream.getvalue().splitlines() == [
        step_line("count words", 1.234, "3 chunks [not markup]"),
        "note: something to know",
        step_line("learn merges", 0.5, "31,744 merges"),
    ]


def test_bars_send_their_colours_and_show_those_of_others() -> None:
    stream = TextWithoutSecrets(io.BytesIO(), "utf-8")
    stream.isatty = lambda: True  # type: ignore[method-assign]
    listener = for_stream(stream)
    listener.step_started("publish")
    listener.note("of \x1b[31m")
    listener.step_finished("publish", 0.1, "by \x1b]0;x\a")
    stream.flush()
    said = stream.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert r"note: of \u001b[31m" in said
    assert r"by \u001b]0;x\u0007" in said
    assert "\x1b[2K" in said
    assert "\x1b[31m" not in said
    assert "\x1b]" not in said


def test_a_terminal_gets_the_same_lines_and_bars() -> None:
    stream = Terminal()
    listener = for_stream(stream)
    assert isinstance(listener, Bars)
    a_short_run(listener)
    shown = stream.getvalue()
    assert step_line("count words", 1.234, "3 chunks [not markup]") in shown
    assert "note: something to know" in shown
    assert '" th"' in shown, "the pair is shown as text"
    assert "54,321" in shown


@pytest.mark.parametrize(
    ("pair", "shown"),
    [
        (AT.best_pair, '" th" + "éééééééééééééééé…'),
        (("习".encode(), b"\xe5\xad"), '"习" + b"\\xe5\\xad"'),
        ((b"\x1b[31m", b'"'), '"\\x1b[31m" + "\\""'),
    ],
)
def test_merges_are_described_for_people(pair: tuple[bytes, bytes], shown: str) -> None:
    described = describe_merging(replace(AT, best_pair=pair))
    assert described == f"1,200 of 31,744 merges, {shown} × 54,321, 25 s left"


def test_how_far_reading_is_moves_with_the_clock() -> None:
    assert describe_bytes(0, 100e6, 3.0) == "0.0 of 100.0 MB"
    assert describe_bytes(25e6, 100e6, 0.5) == "25.0 of 100.0 MB, 50.0 MB/s, 1.5 s left"
    assert describe_bytes(25e6, 100e6, 0.6) == "25.0 of 100.0 MB, 41.7 MB/s, 1.8 s left"
    assert describe_bytes(25e3, 100e3, 0.0) == "25 of 100 kB"
    assert describe_bytes(101e6, 100e6, 2.0) == "101.0 of 100.0 MB, 50.5 MB/s, 0.0 s left"


def test_lines_of_several_threads_do_not_mix() -> None:
    stream = io.StringIO()
    listener = Lines(stream)
    threads = [
        threading.Thread(target=lambda n=n: [listener.note(str(n) * 50) for _ in range(100)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 400
    assert {len(set(line.removeprefix("note: "))) for line in lines} == {1}


def test_everybody_who_listens_hears_everything() -> None:
    first, second = io.StringIO(), io.StringIO()
    a_short_run(Several([Lines(first), Lines(second)]))
    assert first.getvalue() == second.getvalue() != ""


def test_listening_ends_with_its_block() -> None:
    listener = Lines(io.StringIO())
    with listening(listener):
        assert current() is listener
    assert type(current()) is Progress
