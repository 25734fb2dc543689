"""The command ``bpeline``: its commands, and how every error becomes a message and an exit code.

Exit codes: 0 done, 1 the environment's fault, 2 the input's fault, 3 a rule refused a promotion
(of `bpeline train --rules`, everything else is done) or says drift (`bpeline drift`, if asked), or
an export gives other ids today (`export --check`), 4 it could not be judged, 130 interrupted, 143
terminated.
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
import traceback
import warnings
from codecs import lookup
from importlib import import_module
from io import BufferedWriter, FileIO, TextIOWrapper
from keyword import iskeyword
from pathlib import Path
from typing import Any, NoReturn

import click

from bpeline import script
from bpeline.flows.cli.commands import TYPED, say_error
from bpeline.flows.running import (
    ending,
    interruption_behind,
    keep_moving,
    signal_behind,
    stop_moving,
    terminable,
)
from bpeline.flows.wording import as_typed
from bpeline.tokenizer_core.errors import (
    BpelineError,
    DiskFull,
    InvalidOption,
    StorageError,
    likely,
)
from bpeline.tokenizer_core.redaction import (
    TextWithoutControls,
    TextWithoutSecrets,
    as_message,
    hide_in_logs,
)

TERMINATED = 128 + signal.SIGTERM
DISK_IS_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
PACKAGES = Path(__file__).parents[2]
SYSTEM_REFUSES = {errno.EIO, errno.EMFILE, errno.ENFILE, errno.EROFS}


# Title in `bpeline --help` → commands → the file of this room that holds them, imported when one is
# asked for.
GROUPS = {
    "Train and continue": {
        "init": "init", "train": "train", "resume": "train", "derive": "derive",
        "import": "imports", "sweep": "sweep",
    },
    "Look and compare": {
        "versions": "versions", "show": "versions", "compare": "compare",
        "report": "versions", "explain": "explain", "sql": "sql", "evaluate": "evaluate",
        "verify": "versions", "drift": "scheduled",
    },
    "Use": {
        "encode": "encode", "decode": "encode", "count": "count", "export": "export",
        "compress": "compress",
    },
    "Manage": {
        "promote": "aliases", "rollback": "aliases", "delete": "upkeep", "gc": "scheduled",
        "doctor": "upkeep",
    },
    "Serve": {"serve": "server", "deploy": "server"},
}  # fmt: skip
FILE_OF = {name: file for commands in GROUPS.values() for name, file in commands.items()}
# Commands of earlier versions → what to type instead.
FORMER = {
    "repair": "bpeline doctor --fix",
    "mixtures": "bpeline sweep news@champion --weights de=2 --temperatures 2,5",
    "size": "bpeline evaluate news@champion --sizes --model-shape llama-3.1-8b",
    "expand": "bpeline compress --expand book.txt.bpec",
    "dismiss": "bpeline doctor --dismiss 4f1c09ab77d2",
    "server": "bpeline serve",
    "history": "bpeline show news",
    "push": "bpeline export news@champion --output hf://acme/news-tokenizer",
    "recertify": "bpeline export --check",
    "ui": "bpeline serve --mlflow-only",
    "steps": "bpeline train toy.txt --algorithm char-bpe --show-steps",
    "extend": "bpeline derive extend news@champion --vocab-size 64000",
    "superwords": "bpeline derive superwords news@champion --vocab-size 64000",
    "prune": "bpeline derive prune news/3 --min-count 5 -o plan.json",
    "rename": "bpeline derive rename news/3 '<|reserved_0|>=<|tool|>'",
}


def all_commands() -> dict[str, click.Command]:
    """All commands by what is typed for them, ``derive extend`` for one of a group."""
    context = click.Context(cli)
    commands: dict[str, click.Command] = {}
    for name in FILE_OF:
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            commands |= {f"{name} {inner}": one for inner, one in command.commands.items()}
        elif command is not None:
            commands[name] = command
    return commands


class Commands(click.Group):
    """A group that turns our errors into three lines on stderr, without a traceback."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[TYPED] = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            said = f"{error.message.rstrip('.')} before a command; options follow it"
            raise click.UsageError(said, error.ctx) from error
        except OSError as error:  # of what --help and --version print
            self._refuse(ctx, error)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(FILE_OF)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in GROUPS.items():
            commands = {name: self.get_command(ctx, name) for name in names}
            width = formatter.width - 6 - max(map(len, FILE_OF))
            with formatter.section(title):
                formatter.write_dl(
                    [(n, one.get_short_help_str(width)) for n, one in commands.items() if one]
                )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in FILE_OF:
            return None
        file = import_module(f"bpeline.flows.cli.{FILE_OF[cmd_name]}")
        # "import" is a word of Python's.
        function = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(file, function)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if args[0] in FORMER:
                raise InvalidOption(
                    f"the command {args[0]} is part of another one",
                    "one of the commands of this version",
                    f"type `{FORMER[args[0]]}`",
                ) from error
            said = f"{error.message.rstrip('.')}{likely(args[0], FILE_OF)}"
            raise click.UsageError(said, error.ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        # From here to its end, what was begun has to be finished. A shell may ignore Ctrl-C.
        numbers = [signal.SIGTERM]
        if signal.getsignal(signal.SIGINT) in (script.leave_at_once, signal.default_int_handler):
            numbers.append(signal.SIGINT)
        with terminable(*numbers, until_exit=is_script()):
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BpelineError as error:
            say_error(error)
            ctx.exit(error.exit_code)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            asked = error.ctx or ctx
            wrong = InvalidOption(
                error.format_message().rstrip("."),
                asked.command.get_usage(asked).replace("Usage:", "accepted is"),
                f"type `{asked.command_path} --help` for the options and an example",
            )
            say_error(wrong)
            ctx.exit(wrong.exit_code)
        except KeyboardInterrupt as interruption:
            ctx.exit(say_interrupted(interruption))
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            if hidden := interruption_behind(error):  # at a prompt, or while a library is imported
                ctx.exit(say_interrupted(hidden))
            if isinstance(error, click.Abort):  # standard input ended at a prompt
                raise
            self._refuse(ctx, error)

    def _refuse(self, ctx: click.Context, error: Exception) -> NoReturn:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            raise error  # nobody reads what is printed: click ends without a word
        told = told_of(error)
        say_error(told)
        ctx.exit(told.exit_code)


def told_of(error: Exception) -> BpelineError:
    """What the system refuses, or nobody foresaw, as an error of ours."""
    if isinstance(error, MemoryError):
        return BpelineError(
            f"there is not enough memory: {error}".rstrip(": "),
            "what was finished before is kept",
            "see `bpeline train --help` for --threads, --table-memory and --min-word-count, or "
            "take a larger machine; then type the same command again",
        )
    if isinstance(error, ImportError):
        return BpelineError(
            f"a library that this needs cannot be loaded: {error}",
            "accepted are the packages of constraints.txt, and memory for their code",
            "type `bpeline doctor` to see what is installed, and `ulimit -v` for what is allowed",
        )
    if not isinstance(error, OSError):
        return _unforeseen(error)
    if error.errno in DISK_IS_FULL:
        return DiskFull(
            f"no space left on the disk: {error}",
            "what was finished before is kept",
            "free some space and type the same command again",
        )
    if error.errno in SYSTEM_REFUSES:
        return StorageError(
            f"the system refuses: {error}",
            "what was finished before is kept",
            "look at the disk and at `ulimit -n`, then type the same command again",
        )
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return StorageError(
            "the directory in which this was typed is not there any more",
            "a directory that exists",
            "type `cd` to one, and the same command again",
        )
    return StorageError(
        f"the system refuses: {error or type(error).__name__} ({_place_of(error)})",
        "files and directories that are there, and that this user may read and write",
        "look at what is named above; what was finished before is kept",
    )


def _unforeseen(error: Exception) -> BpelineError:
    """A mistake of ours, or an exception of a library that nobody has met yet."""
    said = " ".join(str(error).split())[:500]
    return BpelineError(
        f"this is not foreseen: {type(error).__name__}: {said}".rstrip(": "),
        f"it was raised in {_place_of(error)}",
        "report it with the command and these lines; what was finished before is kept",
    )


def _place_of(error: Exception) -> str:
    """The lines of ours that an exception came through, the last first."""
    lines = [
        (Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)
    ]
    ours = [PACKAGES / name for name in ("flows", "registry", "tokenizer_core")]
    frames = [
        f"{file.relative_to(PACKAGES)}:{line}"
        for file, line in lines
        if any(map(file.is_relative_to, ours)) and str(file) != __file__
    ]
    return ", ".join(frames[:-4:-1]) or "no file of bpeline"


def say_interrupted(interruption: BaseException) -> int:
    """Print what was kept, and what continues it; its exit code."""
    number = signal_behind(interruption)
    begin = "\n" * sys.stderr.isatty()  # a terminal shows ^C there
    click.echo(begin + ending(number), err=True)
    return 128 + number


def is_script() -> bool:
    """Whether this process does nothing else than one command."""
    return getattr(sys.modules["__main__"], "main", None) in (main, script.main)


def say_version(context: click.Context) -> None:
    """The installed version; a checkout that is not installed has none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        click.echo(f"bpeline {version('bpeline')}")
    except PackageNotFoundError:
        click.echo("bpeline, from a checkout that is not installed")
    context.exit()


@click.group(
    name="bpeline",
    cls=Commands,
    # Without color=True, click would drop colours that others wrote where no terminal is.
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "color": True,
    },
    epilog="Example: bpeline train corpus/*.txt --name news --vocab-size 32000",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=lambda context, _, wanted: say_version(context) if wanted else None,
    help="Show the version and exit.",
)
def cli() -> None:
    """Turn text corpora into registered, comparable, reproducible tokenizers."""


def main() -> None:
    """Entry point of the script ``bpeline``."""

    def as_note(message: Warning | str, *_: Any, **__: Any) -> None:
        click.echo(f"note: {as_typed(as_message(str(message)))}", err=True)

    warnings.showwarning = as_note
    # Of a type hint of MLflow's own. Said before there are threads: a filter that one adds is lost
    # where another one takes filters back, as the compiler of kernels does.
    warnings.filterwarnings("ignore", ".*Any type hint is inferred as AnyType", UserWarning)
    if sys.stderr is None:  # it was closed, and `script` opened its descriptor on /dev/null
        sys.stderr = TextWithoutSecrets(BufferedWriter(FileIO(2, "w")), "utf-8")
    sys.stdout = _wrapped(TextWithoutControls, sys.stdout)
    sys.stderr = _wrapped(TextWithoutSecrets, sys.stderr)
    hide_in_logs()
    keep_moving(sys.argv)
    if sys.stdout is None:
        wrong = InvalidOption(
            "standard output is closed, and what is asked for could not be said",
            "a file, a terminal, a pipe",
            "type the same command with `>/dev/null` behind it if nobody is to read it",
        )
        say_error(wrong)
        sys.exit(wrong.exit_code)
    try:
        cli(prog_name="bpeline")
    except SystemExit as leaving:
        if is_script():
            _leaving.append(leaving.code)
        if leaving.code in (script.INTERRUPTED, TERMINATED):
            # All is said. Libraries cut short complain at exit about objects they still hold.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
            if _leaving:  # here: the exception holds objects that take seconds to free
                atexit._run_exitfuncs()
        raise
    finally:
        stop_moving()


def _wrapped(kind: type[TextIOWrapper], stream: Any) -> Any:
    """A standard stream as one of ours, in which names of files need not be UTF-8."""
    if not isinstance(stream, TextIOWrapper) or isinstance(stream, kind):
        return stream
    _first.append(stream)
    # To a stream in ASCII click would write UTF-8 without us.
    encoding = "utf-8" if lookup(stream.encoding).name == "ascii" else stream.encoding
    buffered_lines = stream.line_buffering or kind is TextWithoutSecrets
    return kind(stream.buffer, encoding, "backslashreplace", line_buffering=buffered_lines)


_first: list[TextIOWrapper] = []  # forgotten, they would close what ours write to
_leaving: list[Any] = []  # the exit code, when this process is at its end


@atexit.register  # before others are, so it is the last one that runs
def _leave_at_once() -> None:
    """End the process here: taking a million objects of libraries apart takes up to a second."""
    if not _leaving or not isinstance(_leaving[0], int):
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except OSError:  # Python says so in its own way
        return
    os._exit(_leaving[0])
