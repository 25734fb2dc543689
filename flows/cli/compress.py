"""``bpeline compress`` and ``bpeline expand``: byte pair compression of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bpeline.flows.cli.options import FILE, PATH, answer, command
from bpeline.flows.cli.text_arguments import content_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption

SUFFIX = ".bpec"
_BLOCK_BYTES, _THRESHOLD = 5000, 3

_output = click.option("-o", "--output", type=FILE, help="The file to write.")


@command(
    "bpeline compress book.txt",
    "bpeline compress book.txt -o book.small --block-bytes 20000 --threshold 2 --json",
    workspace=False,
)
@click.argument("file", type=PATH)
@_output
@click.option("--block-bytes", type=int, default=_BLOCK_BYTES)
@click.option(
    "--threshold",
    type=int,
    default=_THRESHOLD,
    help="How often a pair of bytes must occur to be replaced.",
)
def compress(
    file: Path, output: Path | None, block_bytes: int, threshold: int, as_json: bool
) -> None:
    """Compress FILE by replacing its most frequent pairs of bytes, block by block (Gage 1994).

    The file written is FILE.bpec unless -o names another. `bpeline expand` gives FILE back.
    """
    from bpeline.tokenizer_core import algorithms

    target = _free(output or file.with_name(file.name + SUFFIX))
    content = content_of(file, "file")
    packed = algorithms.compress(content, block_bytes, threshold)
    DURABLE.write(target, packed)
    ratio = len(packed) / len(content) if content else 1.0
    line = f"{target}: {len(content):,} bytes → {len(packed):,} ({ratio:.1%})"
    answer(as_json, {**_sizes(target, content, packed), "ratio": ratio}, [line])


@command(
    "bpeline expand book.txt.bpec", "bpeline expand book.small -o book.txt --json", workspace=False
)
@click.argument("file", type=PATH)
@_output
def expand(file: Path, output: Path | None, as_json: bool) -> None:
    """Give back the file that `bpeline compress` compressed, verified by its digest.

    The file written is FILE without .bpec unless -o names another.
    """
    from bpeline.tokenizer_core import algorithms

    if output is None and file.suffix != SUFFIX:
        raise InvalidOption(
            f"{file} does not end in {SUFFIX}, so the name of the file to write is not known",
            f"a file FILE{SUFFIX}, or a name for the file to write",
            f"bpeline expand {file} -o NAME",
        )
    target = _free(output or file.with_suffix(""))
    packed = content_of(file, "file")
    content = algorithms.expand(packed)
    DURABLE.write(target, content)
    line = f"{target}: {len(packed):,} bytes → {len(content):,}"
    answer(as_json, _sizes(target, content, packed), [line])


def _sizes(target: Path, content: bytes, packed: bytes) -> dict[str, Any]:
    return {"output": str(target), "bytes": len(content), "compressed_bytes": len(packed)}


def _free(path: Path) -> Path:
    """``path`` itself, where nothing is yet."""
    if path.exists():
        raise InvalidOption(
            f"there is {path} already",
            "the name of a file that does not exist yet",
            "remove it, or name another one with -o",
        )
    return path
