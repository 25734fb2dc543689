"""Options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def workspace_option(command: Command) -> Command:
    """``--workspace``: in force for everything the command does."""

    def configure(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
        if value is not None:
            from bpeline.registry.environment import configure

            configure(workspace=value)
        return value

    return click.option(
        "--workspace",
        type=click.Path(file_okay=False),
        callback=configure,
        expose_value=False,
        help="Directory of the workspace, or URL of its store.  [default: BPELINE_HOME, else "
        ".bpeline]",
    )(command)


def bulk_options(command: Command) -> Command:
    """How whole files are read, for the commands that encode or count them."""
    for option in (
        click.option(
            "--invalid-utf8",
            type=click.Choice(["strict", "replace"]),
            default="strict",
            show_default=True,
            help="What bytes mean that are not UTF-8, in files: an error, or U+FFFD.",
        ),
        click.option(
            "--text-field", default="text", show_default=True, help="Field of .jsonl files."
        ),
        click.option("--threads", type=int, help="For files.  [default: one per processor]"),
        click.option("--end-of-text", help="The special token to put behind each document."),
        click.option("--separator", help="What stands between the documents of a text file."),
    ):
        command = option(command)
    return command


engine_option = click.option(
    "--engine",
    default="local",
    show_default=True,
    metavar="local|dask|ADDRESS",
    help="Who works: threads, processes of this machine, or the Dask cluster at tcp://HOST:PORT.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def echo_json(value: Any) -> None:
    """Print JSON for programs."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))
