"""Errors on standard error, and the answers that standard output refuses.

A command that has changed something prints what it did. Where standard output cannot be written,
as on a full disk or into a pipe that is closed, standard error gets that text instead.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import click

from bpeline.tokenizer_core.errors import BpelineError

# These commands only answer; a refusal of the answer ends them.
ANSWERS = frozenset({
    "compare", "count", "decode", "explain", "history", "show", "size", "sql", "steps", "verify",
    "versions",
})  # fmt: skip
# A command with one of these parameters only answers, too.
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
        with _said_in_any_case():
            return super().invoke(ctx)


def changes(ctx: click.Context) -> bool:
    """Whether a command, as it was typed, does more than answer."""
    name = str(ctx.command.name)
    if name in ANSWERS or any(ctx.params.get(one) for one in LOOKS_WITH):
        return False
    return bool(ctx.params[CHANGES_WITH[name]]) if name in CHANGES_WITH else True


@contextmanager
def _said_in_any_case() -> Iterator[None]:
    output: Any = _Output(sys.stdout)
    with redirect_stdout(output):
        yield
    if output.is_refused:
        raise click.exceptions.Exit(1)


class _Output:
    """Standard output; from the first refusal on, its text goes to standard error."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._unflushed = ""
        self.is_refused = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str, /) -> int:
        if self.is_refused:
            click.echo(text, nl=False, err=True)
        else:
            self._unflushed += text
            with self._refusals():
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        if not self.is_refused:
            with self._refusals():
                self._stream.flush()
                self._unflushed = ""

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.is_refused = True
            say_error(
                BpelineError(
                    f"standard output cannot be written: {error.strerror or error}",
                    "what the command has done stays done; its output follows here",
                )
            )
            click.echo(self._unflushed, nl=False, err=True)


def say_error(error: BpelineError) -> None:
    """What happened, what is accepted, what to type next."""
    from bpeline.flows.wording import as_typed

    click.secho("error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(as_typed(error.happened), err=True)
    for part in (error.accepted, error.next_step):
        if part:
            click.echo(f"       {as_typed(part)}", err=True)
