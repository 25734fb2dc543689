"""The command ``bpeline``: its commands, error messages and exit codes.

Exit codes: 0 success, 1 an error of the environment, 2 an error in the input, 3 a rule refused a
promotion or found drift (`bpeline drift --fail-on-drift`) or an export gives other ids
(`bpeline export --check`), 4 a rule or export could not be checked, 130 interrupted, 143
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


# Title in `bpeline --help` → command → its module here, which is imported on demand.
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
# Former commands → what to type instead.
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
    """All commands by full name, such as ``derive extend``."""
    context = click.Context(cli)
    commands: dict[str, click.Command] = {}
    for name in FILE_OF:
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            commands |= {
                f"{name} {inner}": subcommand for inner, subcommand in command.commands.items()
            }
        elif command is not None:
            commands[name] = command
    return commands


class Commands(click.Group):
    """A group that prints errors as three lines on stderr, without a traceback."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[TYPED] = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            message = f"{error.message.rstrip('.')} before a command; type options after it"
            raise click.UsageError(message, error.ctx) from error
        except OSError as error:  # while printing --help or --version
            self._refuse(ctx, error)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(FILE_OF)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in GROUPS.items():
            commands = {name: self.get_command(ctx, name) for name in names}
            width = formatter.width - 6 - max(map(len, FILE_OF))
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (n, command.get_short_help_str(width))
                        for n, command in commands.items()
                        if command
                    ]
                )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in FILE_OF:
            return None
        file = import_module(f"bpeline.flows.cli.{FILE_OF[cmd_name]}")
        # "import" is a keyword of Python.
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
                    f"the command {args[0]} was moved",
                    "expected a command of this version",
                    f"type `{FORMER[args[0]]}`",
                ) from error
            message = f"{error.message.rstrip('.')}{likely(args[0], FILE_OF)}"
            raise click.UsageError(message, error.ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        # From here on, cleanup must run on signals. A shell may have set Ctrl-C to be ignored.
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
            context = error.ctx or ctx
            invalid = InvalidOption(
                error.format_message().rstrip("."),
                context.command.get_usage(context).replace("Usage:", "expected"),
                f"type `{context.command_path} --help` for the options and an example",
            )
            say_error(invalid)
            ctx.exit(invalid.exit_code)
        except KeyboardInterrupt as interruption:
            ctx.exit(say_interrupted(interruption))
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            if hidden := interruption_behind(error):  # at a prompt or during an import
                ctx.exit(say_interrupted(hidden))
            if isinstance(error, click.Abort):  # end of standard input at a prompt
                raise
            self._refuse(ctx, error)

    def _refuse(self, ctx: click.Context, error: Exception) -> NoReturn:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            raise error  # the reader of the pipe is gone: click exits silently
        failure = told_of(error)
        say_error(failure)
        ctx.exit(failure.exit_code)


def told_of(error: Exception) -> BpelineError:
    """Convert an error of the system or an unexpected exception to a `BpelineError`."""
    if isinstance(error, MemoryError):
        return BpelineError(
            f"out of memory: {error}".rstrip(": "),
            "finished work is kept",
            "see `bpeline train --help-all` for --threads, --table-memory and --min-word-count, or "
            "use a larger machine; then run the same command again",
        )
    if isinstance(error, ImportError):
        return BpelineError(
            f"a library cannot be loaded: {error}",
            "expected the packages of constraints.txt, and memory for their code",
            "type `bpeline doctor` to see versions, and `ulimit -v` to see the memory limit",
        )
    if not isinstance(error, OSError):
        return _unforeseen(error)
    if error.errno in DISK_IS_FULL:
        return DiskFull(
            f"no space left on the disk: {error}",
            "finished work is kept",
            "free some space and run the same command again",
        )
    if error.errno in SYSTEM_REFUSES:
        return StorageError(
            f"system error: {error}",
            "finished work is kept",
            "check the disk and `ulimit -n`, then run the same command again",
        )
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return StorageError(
            "the current directory does not exist any more",
            "expected a directory that exists",
            "change to one with `cd`, and run the same command again",
        )
    return StorageError(
        f"system error: {error or type(error).__name__} ({_place_of(error)})",
        "expected files and directories that exist and that this user can read and write",
        "check the path above; finished work is kept",
    )


def _unforeseen(error: Exception) -> BpelineError:
    message = " ".join(str(error).split())[:500]
    return BpelineError(
        f"unexpected error: {type(error).__name__}: {message}".rstrip(": "),
        f"it was raised in {_place_of(error)}",
        "report it with the command and these lines; finished work is kept",
    )


def _place_of(error: Exception) -> str:
    """The last lines of bpeline in the traceback of an exception."""
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
    """Print what is kept and how to continue; return the exit code."""
    number = signal_behind(interruption)
    begin = "\n" * sys.stderr.isatty()  # after the terminal's ^C
    click.echo(begin + ending(number), err=True)
    return 128 + number


def is_script() -> bool:
    """Whether this process runs one command and nothing else."""
    return getattr(sys.modules["__main__"], "main", None) in (main, script.main)


def say_version(context: click.Context) -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        click.echo(f"bpeline {version('bpeline')}")
    except PackageNotFoundError:
        click.echo("bpeline, from a checkout that is not installed")
    context.exit()


@click.group(
    name="bpeline",
    cls=Commands,
    # Without color=True, click strips colours from text of others when there is no terminal.
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
    # A warning about MLflow's own type hint. Set before threads start: Numba saves and restores
    # filters, which would drop one that another thread adds.
    warnings.filterwarnings("ignore", ".*Any type hint is inferred as AnyType", UserWarning)
    if sys.stderr is None:  # closed; `script` opened the descriptor on /dev/null
        sys.stderr = TextWithoutSecrets(BufferedWriter(FileIO(2, "w")), "utf-8")
    sys.stdout = _wrapped(TextWithoutControls, sys.stdout)
    sys.stderr = _wrapped(TextWithoutSecrets, sys.stderr)
    hide_in_logs()
    keep_moving(sys.argv)
    if sys.stdout is None:
        invalid = InvalidOption(
            "standard output is closed",
            "expected a file, a terminal or a pipe",
            "run the same command with `>/dev/null` to discard the output",
        )
        say_error(invalid)
        sys.exit(invalid.exit_code)
    try:
        cli(prog_name="bpeline")
    except SystemExit as leaving:
        if is_script():
            _leaving.append(leaving.code)
        if leaving.code in (script.INTERRUPTED, TERMINATED):
            # Interrupted libraries print complaints at exit: drop them.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
            if _leaving:  # now: the exception holds objects that take seconds to free
                atexit._run_exitfuncs()
        raise
    finally:
        stop_moving()


def _wrapped(kind: type[TextIOWrapper], stream: Any) -> Any:
    """Wrap a standard stream, so that file names need not be UTF-8."""
    if not isinstance(stream, TextIOWrapper) or isinstance(stream, kind):
        return stream
    _first.append(stream)
    # click would replace an ASCII stream by one in UTF-8.
    encoding = "utf-8" if lookup(stream.encoding).name == "ascii" else stream.encoding
    buffered_lines = stream.line_buffering or kind is TextWithoutSecrets
    return kind(stream.buffer, encoding, "backslashreplace", line_buffering=buffered_lines)


_first: list[TextIOWrapper] = []  # if collected, they would close the underlying buffers
_leaving: list[Any] = []  # the exit code, once the process exits


@atexit.register  # registered first, so it runs last
def _leave_at_once() -> None:
    """Exit without freeing objects, which takes up to a second."""
    if not _leaving or not isinstance(_leaving[0], int):
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except OSError:  # Python reports it
        return
    os._exit(_leaving[0])
