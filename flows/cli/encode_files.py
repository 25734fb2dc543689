"""``bpeline encode REF FILES... -o DIRECTORY``: what it says while shards are made."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flows.cli.options import echo_json

if TYPE_CHECKING:
    from tokenizer_core.token_shards import ShardRecord


def encode_files(
    reference: str, files: tuple[str, ...], output: Path, as_json: bool, options: Mapping[str, Any]
) -> None:
    """Encode files into token shards and say how it went.

    Args:
        reference: of the tokenizer.
        files: files, directories or globs.
        output: the directory of the shards.
        as_json: print the manifest instead of a sentence.
        options: keyword arguments of `Tokenizer.encode_files`.
    """
    from registry import load_tokenizer

    def say(shard: ShardRecord) -> None:
        click.echo(f"{shard.name}: {shard.documents} documents, {shard.tokens} tokens", err=True)

    tokenizer = load_tokenizer(reference)
    begun = time.monotonic()
    shards = tokenizer.encode_files(files, output, on_shard=say, **options)
    if as_json:
        echo_json(shards.manifest)
        return
    counts = shards.manifest
    click.echo(
        f"{output}: {counts['documents']} documents, {counts['tokens']} tokens, "
        f"{counts['bytes']} bytes in {len(shards.records)} shards of {counts['dtype']}, "
        f"{time.monotonic() - begun:.1f} s"
    )
    if sys.stdout.isatty():
        click.echo(f'read them with: TokenShards("{output}") from tokenizer_core.token_shards')
