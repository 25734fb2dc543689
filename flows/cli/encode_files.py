"""``bpeline encode REF FILES... -o DIRECTORY``: what it says while shards are made."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bpeline.flows.cli.options import echo_json
from bpeline.flows.engines import LOCAL, check_engine
from bpeline.flows.running import for_stream, listening

if TYPE_CHECKING:
    from bpeline.tokenizer_core.shards import ShardRecord


def encode_files(
    reference: str, files: tuple[str, ...], output: Path, as_json: bool, options: Mapping[str, Any]
) -> None:
    """Encode files into token shards and say how it went.

    Args:
        reference: of the tokenizer.
        files: files, directories or globs.
        output: the directory of the shards.
        as_json: print the manifest instead of a sentence.
        options: ``engine``, ``format``, ``shard_megabytes``, and others of
            `Tokenizer.encode_files`.
    """
    from bpeline.registry import load_tokenizer
    from bpeline.tokenizer_core.corpus import find_source_files, sources_of

    keywords = dict(options)
    engine = keywords.pop("engine")
    check_engine(engine)
    keywords["shard_bytes"] = keywords.pop("shard_megabytes") << 20
    if keywords["format"] == "parquet":
        from bpeline.registry.token_parquet import PARQUET

        keywords["format"] = PARQUET
    tokenizer = load_tokenizer(reference)
    total = sum(file.size for file in find_source_files(sources_of(files)))
    progress = for_stream(sys.stderr)

    def say(shard: ShardRecord) -> None:
        progress.note(f"{shard.name}: {shard.documents} documents, {shard.tokens} tokens")

    begun = time.monotonic()
    progress.step_started("encode", total, "bytes")
    try:
        if engine == LOCAL:
            shards = tokenizer.encode_files(
                files,
                output,
                on_shard=say,
                on_progress=lambda amount: progress.step_advanced("encode", amount),
                **keywords,
            )
        else:
            from bpeline.flows.steps import shard_encoding as encode_shards

            with listening(progress):
                shards = encode_shards.encode_files(
                    tokenizer, files, output, engine, on_shard=say, **keywords
                )
        counts = shards.manifest
        said = f"{counts['tokens']} tokens of {counts['documents']} documents"
        progress.step_finished("encode", time.monotonic() - begun, said)
    finally:
        progress.closed()
    if as_json:
        echo_json(counts)
        return
    click.echo(
        f"{output}: {counts['documents']} documents, {counts['tokens']} tokens, "
        f"{counts['bytes']} bytes in {len(shards.records)} shards "
        f"({counts['shard_format']}, {counts['dtype']})"
    )
    if sys.stdout.isatty() and counts["shard_format"] != "parquet":
        click.echo("read them with: from bpeline.tokenizer_core.shards import TokenShards")
        click.echo(f'                TokenShards("{output}")')
