"""What commands share: examples, options, and printing for people or for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from bpeline.flows.pages import Frame
    from bpeline.tokenizer_core.corpus import FoundFiles

Function = TypeVar("Function", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
DIRECTORY = click.Path(path_type=Path, file_okay=False)


def command(
    *examples: str, workspace: bool = True, prints_json: bool = True
) -> Callable[[Callable[..., Any]], click.Command]:
    """A command with examples in its help, which also shows the defaults of all options.

    Args:
        examples: what to type.
        workspace: whether it has ``--workspace``, in force for everything the command does.
        prints_json: whether it has ``--json``, the parameter ``as_json``.
    """
    shown = "\n".join(f"  {example}" for example in examples)
    epilog = f"\b\nExample{'s' if len(examples) > 1 else ''}:\n{shown}\n"

    def make(function: Callable[..., Any]) -> click.Command:
        made = click.command(epilog=epilog, context_settings={"show_default": True})(function)
        if workspace:
            made.params.append(_workspace_option())
        made.params.append(_quiet_option())
        if prints_json:
            made.params.append(
                click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")
            )
        return made

    return make


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
        help="Show no progress; notes and errors alone on standard error.",
    )


def _workspace_option() -> click.Option:
    def configure(_: click.Context, __: click.Parameter, value: str | None) -> None:
        if value is not None:
            from bpeline.registry.environment import configure

            configure(workspace=value)

    return click.Option(
        ["--workspace"],
        type=click.Path(file_okay=False),
        callback=configure,
        expose_value=False,
        help="Directory of the workspace, or URL of its store.  [default: BPELINE_HOME, else "
        ".bpeline]",
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


HTML = click.option(
    "--html", type=FILE, help="Write a page that steps through it with the keyboard."
)


def write_page(page: Path, title: str, frames: Sequence[Frame]) -> None:
    """Write a page for `HTML`, and say so to people."""
    from bpeline.flows.pages import stepping_page
    from bpeline.tokenizer_core.durable_files import DURABLE

    DURABLE.write(page, stepping_page(title, frames).encode(errors="backslashreplace"))
    click.echo(f"wrote {page}: {len(frames):,} steps, → and ← go on and back", err=True)


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
            help="Read files of these names as text as well, '*.rst' or 'src/*.c', where "
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
            "[default: the special tokens of REF]",
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
