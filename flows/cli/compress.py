"""``bpeline compress`` and ``bpeline expand``: byte pair compression of a file."""

from __future__ import annotations

from pathlib import Path

import click

from bpeline.flows.cli.options import echo_json, json_option
from bpeline.tokenizer_core.errors import InvalidOption, MissingSource, UnreadableSource

SUFFIX = ".bpec"
_BLOCK_BYTES, _THRESHOLD = 5000, 3

_output = click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The file to write."
)


@click.command(
    epilog="""\b
Examples:
  bpeline compress book.txt
  bpeline compress book.txt -o book.small --block-bytes 20000 --threshold 2 --json
""",
)
@click.argument("file", type=click.Path(path_type=Path))
@_output
@click.option("--block-bytes", type=int, default=_BLOCK_BYTES, show_default=True)
@click.option(
    "--threshold",
    type=int,
    default=_THRESHOLD,
    show_default=True,
    help="How often a pair of bytes must occur to be replaced.",
)
@json_option
def compress(
    file: Path, output: Path | None, block_bytes: int, threshold: int, as_json: bool
) -> None:
    """Compress FILE by replacing its most frequent pairs of bytes, block by block (Gage 1994).

    The file written is FILE.bpec unless -o names another. `bpeline expand` gives FILE back.
    """
    from bpeline.tokenizer_core import compression

    target = _free(output or file.with_name(file.name + SUFFIX))
    content = _content_of(file)
    packed = compression.compress(content, block_bytes, threshold)
    _write(target, packed)
    ratio = len(packed) / len(content) if content else 1.0
    if as_json:
        echo_json(
            {
                "output": str(target),
                "bytes": len(content),
                "compressed_bytes": len(packed),
                "ratio": ratio,
            }
        )
    else:
        click.echo(f"{target}: {len(content):,} bytes → {len(packed):,} ({ratio:.1%})")


@click.command(
    epilog="""\b
Examples:
  bpeline expand book.txt.bpec
  bpeline expand book.small -o book.txt --json
""",
)
@click.argument("file", type=click.Path(path_type=Path))
@_output
@json_option
def expand(file: Path, output: Path | None, as_json: bool) -> None:
    """Give back the file that `bpeline compress` compressed, verified by its digest.

    The file written is FILE without .bpec unless -o names another.
    """
    from bpeline.tokenizer_core import compression

    if output is None and file.suffix != SUFFIX:
        raise InvalidOption(
            f"{file} does not end in {SUFFIX}, so the name of the file to write is not known",
            f"a file FILE{SUFFIX}, or a name for the file to write",
            f"bpeline expand {file} -o NAME",
        )
    target = _free(output or file.with_suffix(""))
    packed = _content_of(file)
    content = compression.expand(packed)
    _write(target, content)
    if as_json:
        echo_json({"output": str(target), "bytes": len(content), "compressed_bytes": len(packed)})
    else:
        click.echo(f"{target}: {len(packed):,} bytes → {len(content):,}")


def _free(path: Path) -> Path:
    """``path`` itself, where nothing is yet."""
    if path.exists():
        raise InvalidOption(
            f"there is {path} already",
            "the name of a file that does not exist yet",
            "remove it, or name another one with -o",
        )
    return path


def _content_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError as error:
        raise MissingSource(
            f"there is no file {file}", "the path of a file", "check the spelling"
        ) from error
    except OSError as error:
        raise UnreadableSource(
            f"{file} cannot be read: {error.strerror}", "a readable file", "check its permissions"
        ) from error


def _write(path: Path, content: bytes) -> None:
    from bpeline.tokenizer_core.durable_files import DURABLE

    DURABLE.write(path, content)
