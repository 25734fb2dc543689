"""``bpeline compress``: compress a file with byte pairs, or expand it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bpeline.flows.cli.commands import FILE, PATH, answer, command
from bpeline.flows.cli.text_arguments import content_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption

SUFFIX = ".bpec"
_BLOCK_BYTES, _THRESHOLD = 5000, 3


@command(
    "bpeline compress book.txt",
    "bpeline compress book.txt -o book.small --block-bytes 20000 --threshold 2 --json",
    "bpeline compress toy.txt --threshold 2 --show-steps --new-bytes HG",
    "bpeline compress --expand book.txt.bpec",
    workspace=False,
)
@click.argument("file", type=PATH)
@click.option("-o", "--output", type=FILE, help="Output file.")
@click.option("--expand", "expands", is_flag=True, help="Expand a compressed file.")
@click.option("--block-bytes", type=int, default=_BLOCK_BYTES)
@click.option(
    "--threshold",
    type=int,
    default=_THRESHOLD,
    help="Minimum count of a byte pair to be replaced, overlaps included.",
)
@click.option("--show-steps", is_flag=True, help="Print each replacement; write nothing.")
@click.option(
    "--new-bytes",
    metavar="LETTERS",
    default="",
    show_default=False,
    help="With --show-steps: letters to show for new bytes, such as HG.",
)
def compress(
    file: Path,
    output: Path | None,
    expands: bool,
    block_bytes: int,
    threshold: int,
    show_steps: bool,
    new_bytes: str,
    as_json: bool,
) -> None:
    """Compress FILE by byte pair compression (Gage 1994).

    Replaces the most frequent byte pairs, block by block, and writes FILE.bpec unless -o names
    another file. --expand restores FILE and verifies its digest.

    --show-steps prints each replaced pair, the block after it, and the remaining pairs. Bytes are
    shown in GPT-2's printable form: a space is Ġ.
    """
    from bpeline.tokenizer_core import algorithms

    if expands:
        if show_steps or new_bytes:
            raise InvalidOption(
                "--expand was given together with --show-steps or --new-bytes",
                "expected one of them: only compression has steps",
                f"type `bpeline compress --expand {file}`",
            )
        _expand(file, output, as_json)
        return
    if show_steps:
        if output is not None:
            raise InvalidOption(
                f"--show-steps was given together with the output {output}",
                "expected one of them: --show-steps writes nothing",
                "leave out -o or --show-steps",
            )
        _show_steps(file, block_bytes, threshold, new_bytes, as_json)
        return
    if new_bytes:
        raise InvalidOption(
            "--new-bytes was given without --show-steps",
            "expected both: --new-bytes only changes how steps are shown",
            f"bpeline compress {file} --show-steps --new-bytes {new_bytes}",
        )
    target = _free(output or file.with_name(file.name + SUFFIX))
    content = content_of(file, "file")
    packed = algorithms.compress(content, block_bytes, threshold)
    DURABLE.write(target, packed)
    ratio = len(packed) / len(content) if content else 1.0
    line = f"{target}: {len(content):,} bytes → {len(packed):,} ({ratio:.1%})"
    answer(as_json, {**_sizes(target, content, packed), "ratio": ratio}, [line])


def _expand(file: Path, output: Path | None, as_json: bool) -> None:
    from bpeline.tokenizer_core import algorithms

    if output is None and file.suffix != SUFFIX:
        raise InvalidOption(
            f"{file} does not end in {SUFFIX}, so the output has no name",
            f"expected a file FILE{SUFFIX}, or -o",
            f"bpeline compress --expand {file} -o NAME",
        )
    target = _free(output or file.with_suffix(""))
    packed = content_of(file, "file")
    content = algorithms.expand(packed)
    DURABLE.write(target, content)
    line = f"{target}: {len(packed):,} bytes → {len(content):,}"
    answer(as_json, _sizes(target, content, packed), [line])


def _show_steps(
    file: Path, block_bytes: int, threshold: int, new_bytes: str, as_json: bool
) -> None:
    from bpeline.tokenizer_core.algorithms import compression_lines, compression_steps

    content = content_of(file, "file")
    steps = list(compression_steps(content, block_bytes, threshold, new_bytes))
    answer(
        as_json,
        [asdict(step) for step in steps],
        (line for step in steps for line in compression_lines(step)),
    )


def _sizes(target: Path, content: bytes, packed: bytes) -> dict[str, Any]:
    return {"output": str(target), "bytes": len(content), "compressed_bytes": len(packed)}


def _free(path: Path) -> Path:
    """Return ``path`` if nothing exists there."""
    if path.exists():
        raise InvalidOption(
            f"{path} already exists",
            "expected a new file name",
            "remove the file, or name another one with -o",
        )
    return path
