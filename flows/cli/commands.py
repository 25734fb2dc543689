"""The command class, shared options, output and error printing."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bpeline.flows.cli.completion import COMPLETED
from bpeline.flows.wording import as_typed
from bpeline.registry.environment import configure as configure_registry
from bpeline.registry.environment import elsewhere, name_project
from bpeline.tokenizer_core import machine
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption
from bpeline.tokenizer_core.redaction import Unescaped, escaped

if TYPE_CHECKING:
    from bpeline.flows.requests import Project
    from bpeline.tokenizer_core.corpus import FoundFiles

Function = TypeVar("Function", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
DIRECTORY = click.Path(path_type=Path, file_okay=False)
# Address space that commands need: none, kernels and MLflow (`_READING`), or all libraries.
_NO_LIBRARIES = {"versions"}
_READING = {
    "count", "decode", "delete", "deploy", "doctor", "encode", "explain", "gc", "init",
    "promote", "rollback", "serve", "show", "sql",
}  # fmt: skip
# Commands that change the workspace: they print its path if it is not in this directory.
_WRITING = {
    "delete", "deploy", "drift", "encode", "evaluate", "extend", "gc", "import",
    "export", "promote", "prune", "rename", "resume", "rollback", "serve",
    "superwords", "sweep", "train",
}  # fmt: skip
HELP_ALL = "bpeline.help_all"  # key in `Context.meta`: show all options
TYPED = "bpeline.typed"  # key in `Context.meta`: the words after `bpeline`

# Read-only commands, and parameters that make any command read-only.
ANSWERS = frozenset({
    "compare", "count", "decode", "explain", "show", "sql", "verify", "versions",
})  # fmt: skip
LOOKS_WITH = ("only_list", "dry_run", "show_steps")
# Commands that write only with this parameter; all others always write.
CHANGES_WITH = {"doctor": "fix", "encode": "output"}


class Command(click.Command):
    """A command that checks address space first, and prints to stderr if stdout fails.

    Attributes:
        usual: parameters that ``--help`` shows; None for all.
    """

    usual: frozenset[str] | None = None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        if self.usual is not None and HELP_ALL not in ctx.meta:
            options = [
                option for option in options if option.name in self.usual or not option.expose_value
            ]
        records = [record for option in options if (record := option.get_help_record(ctx))]
        with formatter.section("Options"):
            formatter.write_dl(records, col_max=24)

    def invoke(self, ctx: click.Context) -> Any:
        self._require_addresses(ctx)
        if self.name in _WRITING:
            with suppress(OSError, BpelineError):  # the command itself reports these
                if workspace := elsewhere():
                    click.echo(f"note: the workspace is {workspace}", err=True)
        if not changes(ctx):
            return super().invoke(ctx)
        output: Any = _Output(sys.stdout)
        with redirect_stdout(output):
            result = super().invoke(ctx)
            output.flush()
        if output.is_refused:
            ctx.exit(1)
        return result

    def _require_addresses(self, ctx: click.Context) -> None:
        if self.name in _NO_LIBRARIES:
            return
        threads = ctx.params.get("workers") or ctx.params.get("threads")
        more = (threads or machine.available_processors()) - 2
        need = machine.READING if self.name in _READING else machine.TRAINING
        need += machine.MORE_THREADS * max(0, more)
        machine.save_addresses()
        machine.require_addresses(need, f"`bpeline {self.name}`")


def changes(ctx: click.Context) -> bool:
    """Whether a command, with the options typed, writes anything."""
    name = str(ctx.command.name)
    if name in ANSWERS or any(ctx.params.get(parameter) for parameter in LOOKS_WITH):
        return False
    return name not in CHANGES_WITH or bool(ctx.params[CHANGES_WITH[name]])


class _Output:
    """Standard output; after a failed write, standard error."""

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
            happened = f"cannot write to standard output: {error.strerror or error}"
            outcome = "the command has finished; its output follows here"
            say_error(BpelineError(happened, outcome))
            Unescaped(self._stream).write(text)


def say_coloured(text: str, colour: str, bold: bool = False, err: bool = False) -> None:
    stream: Any = Unescaped(sys.stderr if err else sys.stdout)
    click.secho(text, stream, nl=False, color=stream.isatty(), fg=colour, bold=bold or None)


def say_error(error: BpelineError) -> None:
    """Print the three parts of an error to standard error."""
    say_coloured("error: ", "red", bold=True, err=True)
    click.echo(as_typed(error.happened), err=True)
    for part in (error.accepted, error.next_step):
        if part:
            click.echo(f"       {as_typed(part)}", err=True)


def command(
    *examples: str,
    workspace: bool = True,
    prints_json: bool = True,
    usual: Iterable[str] | None = None,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Decorate a function as a command whose help shows examples and defaults.

    Args:
        examples: command lines.
        workspace: add ``--workspace``.
        prints_json: add ``--json``, passed as ``as_json``.
        usual: parameters that ``--help`` shows; ``--help-all`` shows all.
    """
    lines = "\n".join(f"  {example}" for example in examples)
    epilog = f"\b\nExample{'s' if len(examples) > 1 else ''}:\n{lines}\n"

    def make(function: Callable[..., Any]) -> click.Command:
        settings = {"show_default": True}
        result = click.command(cls=Command, epilog=epilog, context_settings=settings)(function)
        if usual is not None:
            result.params.append(_help_all_option())
            result.usual = frozenset((*usual, "as_json"))
        for parameter in result.params:
            if parameter.name in COMPLETED and parameter.type is click.STRING:
                parameter.type = COMPLETED[parameter.name]
        if workspace:
            result.params.append(_workspace_option())
        result.params.append(_quiet_option())
        if prints_json:
            result.params.append(
                click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")
            )
        return result

    return make


def _help_all_option() -> click.Option:
    def show(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            context.meta[HELP_ALL] = True
            click.echo(context.get_help())
            context.exit()

    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        callback=show,
        expose_value=False,
        help="Show all options and exit.",
    )


def _quiet_option() -> click.Option:
    def be_quiet(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            from bpeline.flows.running import progress

            context.call_on_close(progress.be_quiet())

    return click.Option(
        ["--quiet", "-q"],
        is_flag=True,
        callback=be_quiet,
        expose_value=False,
        help="Show no progress.",
    )


def _workspace_option() -> click.Option:
    def configure(_: click.Context, __: click.Parameter, value: str | None) -> None:
        if value is not None:
            configure_registry(workspace=value)

    return click.Option(
        ["--workspace"],
        type=click.Path(file_okay=False),
        callback=configure,
        expose_value=False,
        help="Workspace: a directory or URL.  [default: BPELINE_HOME, else .bpeline]",
    )


def project_option(function: Function) -> Function:
    """Add ``--project`` to a command."""

    def name(context: click.Context, _: click.Parameter, value: Path | None) -> None:
        if value is not None:
            name_project(value)
            # Reset after the root context: messages of errors depend on the project, too.
            context.find_root().call_on_close(lambda: name_project(None))

    option = click.option(
        "--project",
        type=FILE,
        callback=name,
        expose_value=False,
        is_eager=True,
        help="Project file.  [default: bpeline.toml in this or a parent directory]",
    )
    return option(function)


def project_is_named() -> bool:
    """Whether ``--project`` was typed."""
    context = click.get_current_context()
    return context.get_parameter_source("project") == click.core.ParameterSource.COMMANDLINE


def project_for(reference: str | None, *, needed: bool) -> Project | None:
    """Find the project that supplies defaults, and print a note about it.

    A project file found in a parent directory applies to its own name only.

    Args:
        reference: a name or version, as typed; None for the name of the project.
        needed: read the project for any name, because no text was named.
    """
    from bpeline.flows.requests import find_project, this_project

    if find_project() is None and not needed:
        return None
    project, name = this_project(), re.split("[@/]", reference or "")[0]
    if needed or project_is_named() or name in ("", project.name):
        click.echo(f"note: using {project.path}", err=True)
        return project
    click.echo(f"note: {project.path} is not used for {name}: it is for {project.name}", err=True)
    return None


def typed_again(*more: str) -> str:
    """The command line as typed, without ``--json`` and ``--dry-run``, plus more words."""
    typed = click.get_current_context().meta[TYPED]
    return shlex.join(
        ["bpeline", *(word for word in typed if word not in ("--json", "--dry-run")), *more]
    )


def reached(link: str) -> str:
    """A link into MLflow, with the command that serves it if no server runs."""
    from bpeline.registry.opening import open_registry

    command = link and open_registry(make=False).tracker.settings.ui_command
    return as_typed(f"{link}  (after `{command}`)") if command else link


dry_run_option = click.option(
    "--dry-run", is_flag=True, help="List what would be removed; remove nothing."
)
yes_option = click.option("--yes", is_flag=True, help="Remove without asking.")


def require_answer(decided: bool, as_json: bool) -> None:
    """Raise `InvalidOption` if a removal was not confirmed and there is no terminal."""
    if not decided and (as_json or not sys.stdin.isatty()):
        raise InvalidOption(
            "nothing was removed: there is no terminal to ask on",
            "expected --yes to remove, or --dry-run to list what would be removed",
            f"type `{typed_again('--dry-run')}`",
        )


def model_shape_option(function: Function) -> Function:
    """Add ``--model-shape`` to a command that computes serving costs."""
    option = click.option(
        "--model-shape",
        metavar="NAME|FILE",
        help="Also show the forward FLOPs for each byte of text in this model: llama-3.2-1b, "
        "llama-3.1-8b, llama-3.1-70b, marin-moe, or a config.json, .json or .toml file.",
    )
    return option(function)


class _Size(click.ParamType):  # type: ignore[type-arg]
    name = "size"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        from bpeline.flows.requests import AUTO

        return AUTO if value == AUTO else int(click.INT.convert(value, param, ctx))


SIZE = _Size()


def bulk_options(function: Function) -> Function:
    """Add the options for reading files to a command that encodes or counts them."""
    for option in (
        click.option(
            "--invalid-utf8",
            type=click.Choice(["strict", "replace"]),
            default="strict",
            help="Invalid UTF-8 in files: strict raises an error, replace inserts U+FFFD.",
        ),
        click.option("--text-field", default="text", help="Field or column that holds the text."),
        click.option(
            "--include",
            multiple=True,
            metavar="GLOB",
            help="Also read matching files as text, such as '*.rst' or 'notes/*.log'. Repeatable.",
        ),
        click.option(
            "--strict",
            is_flag=True,
            help="Fail if a directory or glob contains files of unknown types.",
        ),
        click.option("--threads", type=int, help="Number of threads.  [default: one per core]"),
        click.option("--end-of-text", help="Special token to append to each document."),
        click.option(
            "--separator",
            metavar="TEXT|none",
            help="Separator of documents in text files; none: one document per file.  "
            "[default: the special tokens of REF; none if REF is imported]",
        ),
    ):
        function = option(function)
    return function


def found_by(files: Sequence[str], include: Sequence[str], strict: bool) -> FoundFiles:
    """Find the files of arguments and the skipped ones; ``strict`` raises for these."""
    from bpeline.tokenizer_core.corpus import Source, search_sources

    search = search_sources([Source(path, include=tuple(include)) for path in files])
    if strict:
        search.skipped.refuse()
    return search


def echo_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def answer(as_json: bool, value: Any, lines: Iterable[str]) -> None:
    """Print ``value`` as JSON, or else ``lines``."""
    if as_json:
        echo_json(value)
        return
    for line in lines:
        click.echo(line)
