"""What all commands share: their class, options, output and errors."""

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
# What commands need of address space: none of the large libraries, kernels and MLflow, or all.
_NO_LIBRARIES = {"versions"}
_READING = {
    "count", "decode", "delete", "deploy", "doctor", "encode", "explain", "gc", "init",
    "promote", "rollback", "serve", "show", "sql",
}  # fmt: skip
# What changes the workspace; it is said which, unless it is in this directory.
_WRITING = {
    "delete", "deploy", "drift", "encode", "evaluate", "extend", "gc", "import",
    "export", "promote", "prune", "rename", "resume", "rollback", "serve",
    "superwords", "sweep", "train",
}  # fmt: skip
HELP_ALL = "bpeline.help_all"  # in a context's `meta`: all options are shown
TYPED = "bpeline.typed"  # in a context's `meta`: the words after `bpeline`

# These commands, and all others with one of these parameters, only answer.
ANSWERS = frozenset({
    "compare", "count", "decode", "explain", "show", "sql", "verify", "versions",
})  # fmt: skip
LOOKS_WITH = ("only_list", "dry_run", "show_steps")
# Commands that change something only with this parameter. All others change something.
CHANGES_WITH = {"doctor": "fix", "encode": "output"}


class Command(click.Command):
    """A command that checks address space before it starts, and prints even if stdout fails.

    Attributes:
        usual: names of the parameters that ``--help`` shows; ``--help-all`` shows all. None where
            ``--help`` shows all.
    """

    usual: frozenset[str] | None = None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        if self.usual is not None and HELP_ALL not in ctx.meta:
            options = [one for one in options if one.name in self.usual or not one.expose_value]
        records = [record for one in options if (record := one.get_help_record(ctx))]
        with formatter.section("Options"):
            formatter.write_dl(records, col_max=24)

    def invoke(self, ctx: click.Context) -> Any:
        self._require_addresses(ctx)
        if self.name in _WRITING:
            with suppress(OSError, BpelineError):  # what the command itself will meet
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


def command(
    *examples: str,
    workspace: bool = True,
    prints_json: bool = True,
    usual: Iterable[str] | None = None,
) -> Callable[[Callable[..., Any]], click.Command]:
    """A command with examples in its help, which also shows the defaults of all options.

    Args:
        examples: what to type.
        workspace: whether it has ``--workspace``, in force for everything the command does.
        prints_json: whether it has ``--json``, the parameter ``as_json``.
        usual: names of the parameters that ``--help`` shows; ``--help-all`` shows all.
    """
    shown = "\n".join(f"  {example}" for example in examples)
    epilog = f"\b\nExample{'s' if len(examples) > 1 else ''}:\n{shown}\n"

    def make(function: Callable[..., Any]) -> click.Command:
        settings = {"show_default": True}
        made = click.command(cls=Command, epilog=epilog, context_settings=settings)(function)
        if usual is not None:
            made.params.append(_help_all_option())
            made.usual = frozenset((*usual, "as_json"))
        for parameter in made.params:
            if parameter.name in COMPLETED and parameter.type is click.STRING:
                parameter.type = COMPLETED[parameter.name]
        if workspace:
            made.params.append(_workspace_option())
        made.params.append(_quiet_option())
        if prints_json:
            made.params.append(
                click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")
            )
        return made

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
    """Which project's file is read, for the commands that read one."""

    def name(context: click.Context, _: click.Parameter, value: Path | None) -> None:
        if value is not None:
            name_project(value)
            # Of the whole program: errors that end the command are said in its terms, too.
            context.find_root().call_on_close(lambda: name_project(None))

    option = click.option(
        "--project",
        type=FILE,
        callback=name,
        expose_value=False,
        is_eager=True,
        help="Project file.  [default: bpeline.toml here or in a directory above]",
    )
    return option(function)


def project_is_named() -> bool:
    """Whether the command's project was typed, so that it is read whatever else was."""
    context = click.get_current_context()
    return context.get_parameter_source("project") == click.core.ParameterSource.COMMANDLINE


def project_for(reference: str | None, *, needed: bool) -> Project | None:
    """The project whose file holds below what was typed, with a note that says so.

    A project that was found holds for its own name. For another one a note says that its file is
    not read.

    Args:
        reference: a name or version, as typed; None for the name of the project.
        needed: whether the file is read for any name, as nothing else names the text.
    """
    from bpeline.flows.requests import find_project, this_project

    if find_project() is None and not needed:
        return None
    project, name = this_project(), re.split("[@/]", reference or "")[0]
    if needed or project_is_named() or name in ("", project.name):
        click.echo(f"note: as {project.path} says", err=True)
        return project
    click.echo(f"note: {project.path} is not read for {name}: its name is {project.name}", err=True)
    return None


def typed_again(*more: str) -> str:
    """The current command as typed, without --json and --dry-run, with more words at its end."""
    typed = click.get_current_context().meta[TYPED]
    return shlex.join(
        ["bpeline", *(word for word in typed if word not in ("--json", "--dry-run")), *more]
    )


def reached(link: str) -> str:
    """A link into MLflow, and what to type first where nobody serves it."""
    from bpeline.registry.opening import open_registry

    command = link and open_registry(make=False).tracker.settings.ui_command
    return as_typed(f"{link}  (after `{command}`)") if command else link


dry_run_option = click.option(
    "--dry-run", is_flag=True, help="List what would be removed, and remove nothing."
)
yes_option = click.option("--yes", is_flag=True, help="Remove without asking.")


def require_answer(decided: bool, as_json: bool) -> None:
    """Refuse to remove anything where nobody can be asked.

    Raises:
        InvalidOption: neither --yes nor --dry-run was given, and there is no terminal.
    """
    if not decided and (as_json or not sys.stdin.isatty()):
        raise InvalidOption(
            "nothing was removed: there is no terminal to ask on",
            "expected --yes to remove, or --dry-run to list what would go",
            f"type `{typed_again('--dry-run')}`",
        )


def model_shape_option(function: Function) -> Function:
    """Which model the vocabulary is for, for the commands that say what text costs it."""
    option = click.option(
        "--model-shape",
        metavar="NAME|FILE",
        help="Also say what a byte of text costs this model, in forward FLOPs: llama-3.2-1b, "
        "llama-3.1-8b, llama-3.1-70b, marin-moe, a .toml or .json file of its sizes, or the "
        "config.json of a dense model.",
    )
    return option(function)


class _Size(click.ParamType):  # type: ignore[type-arg]
    """A number of ids, or ``auto``."""

    name = "size"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        from bpeline.flows.requests import AUTO

        return AUTO if value == AUTO else int(click.INT.convert(value, param, ctx))


SIZE = _Size()


def bulk_options(function: Function) -> Function:
    """How whole files are read, for the commands that encode or count them."""
    for option in (
        click.option(
            "--invalid-utf8",
            type=click.Choice(["strict", "replace"]),
            default="strict",
            help="What bytes mean that are not UTF-8, in files: an error, or U+FFFD.",
        ),
        click.option("--text-field", default="text", help="Field of .jsonl files, or column."),
        click.option(
            "--include",
            multiple=True,
            metavar="GLOB",
            help="Read files of these names as text as well, '*.rst' or 'notes/*.log', where "
            "directories and globs are searched; repeat for more.",
        ),
        click.option(
            "--strict",
            is_flag=True,
            help="An error where the search meets files that are not read.",
        ),
        click.option("--threads", type=int, help="For files.  [default: one per processor]"),
        click.option("--end-of-text", help="The special token to put behind each document."),
        click.option(
            "--separator",
            metavar="TEXT|none",
            help="What stands between the documents of a text file; none: each is one document.  "
            "[default: the special tokens of REF; none where REF is imported and finds them]",
        ),
    ):
        function = option(function)
    return function


def found_by(files: Sequence[str], include: Sequence[str], strict: bool) -> FoundFiles:
    """The files that arguments of a command mean, and what is skipped, see `bulk_options`.

    Raises:
        MissingSource, UnreadableSource: see `search_sources`; with ``strict`` also for what would
            be skipped.
    """
    from bpeline.tokenizer_core.corpus import Source, search_sources

    found = search_sources([Source(one, include=tuple(include)) for one in files])
    if strict:
        found.skipped.refuse()
    return found


def echo_json(value: Any) -> None:
    """Print JSON for programs."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def answer(as_json: bool, value: Any, lines: Iterable[str]) -> None:
    """Print a value for programs, or lines for people."""
    if as_json:
        echo_json(value)
        return
    for line in lines:
        click.echo(line)
