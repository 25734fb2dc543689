"""Errors on standard error, and the answers that standard output refuses.

A command that has changed something prints what it did. Where standard output cannot be written,
as on a full disk or into a pipe that is closed, standard error gets that text instead.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Any

import click

from bpeline.flows.wording import as_typed
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.redaction import Unescaped, escaped

# These commands, and all others with one of these parameters, only answer.
ANSWERS = frozenset({
    "compare", "count", "decode", "explain", "history", "show", "sql", "steps", "verify",
    "versions",
})  # fmt: skip
LOOKS_WITH = ("only_list", "plan", "show_steps")
# Commands that change something only with this parameter. All others change something.
CHANGES_WITH = {
    "delete": "remove", "doctor": "fix", "encode": "output", "gc": "remove", "repair": "write",
}  # fmt: skip


class Command(click.Command):
    """A command whose answer is on standard error where standard output refuses it."""

    def invoke(self, ctx: click.Context) -> Any:
        if not changes(ctx):
            return super().invoke(ctx)
        output: Any = _Output(sys.stdout)
        with redirect_stdout(output):
            result = super().invoke(ctx)
            output.flush()
        if output.is_refused:
            ctx.exit(1)
        return result


def changes(ctx: click.Context) -> bool:
    """Whether a command, as it was typed, does more than answer."""
    name = str(ctx.command.name)
    if name in ANSWERS or any(ctx.params.get(one) for one in LOOKS_WITH):
        return False
    return name not in CHANGES_WITH or bool(ctx.params[CHANGES_WITH[name]])


class _Output:
    """Standard output until it refuses a text, then standard error."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._text = ""
        self.is_refused = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str, /) -> int:
        self._text += escaped(text)
        return len(text)

    def flush(self) -> None:
        text, self._text = self._text, ""
        try:
            Unescaped(self._stream).write(text)
            self._stream.flush()
        except OSError as error:
            self._stream, self.is_refused = sys.stderr, True
            happened = f"standard output cannot be written: {error.strerror or error}"
            done = "what the command has done stays done; its output follows here"
            say_error(BpelineError(happened, done))
            Unescaped(self._stream).write(text)


def say_coloured(text: str, colour: str, bold: bool = False, err: bool = False) -> None:
    """Begin a line with a word of ours, in colour on a terminal."""
    stream: Any = Unescaped(sys.stderr if err else sys.stdout)
    click.secho(text, stream, nl=False, color=stream.isatty(), fg=colour, bold=bold or None)


def say_error(error: BpelineError) -> None:
    """What happened, what is accepted, what to type next."""
    say_coloured("error: ", "red", bold=True, err=True)
    click.echo(as_typed(error.happened), err=True)
    for part in (error.accepted, error.next_step):
        if part:
            click.echo(f"       {as_typed(part)}", err=True)
