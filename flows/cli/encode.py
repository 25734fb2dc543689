"""``bpeline encode`` and ``bpeline decode``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bpeline.flows.cli.commands import PATH, answer, bulk_options, command, echo_json, found_by
from bpeline.flows.cli.text_arguments import standard_input, text_of, with_standard_input
from bpeline.flows.engines import check_engine
from bpeline.flows.running import ENCODE, for_stream, listening, progress
from bpeline.registry.environment import addresses
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from bpeline.tokenizer_core import Tokenizer
    from bpeline.tokenizer_core.shards import ShardRecord


@command(
    'bpeline encode news@candidate "Good news"',
    "cat article.txt | bpeline encode news@candidate - --offsets",
    'bpeline encode en-de@candidate "Guten Tag" --language de --threshold 50',
    'bpeline encode news@champion data/*.jsonl.zst -o tokens --end-of-text "<|endoftext|>"',
    "bpeline encode news@champion data -o tokens --format megatron --pack 4096 --seed 7",
    'bpeline encode news@champion "Good news" --dropout 0.1 --seed 7',
)
@click.argument("reference", metavar="REF")
@click.argument("texts", nargs=-1, metavar="[TEXT | FILES...]")
@click.option("--file", "file", type=PATH, help="Encode the text of a file.")
@click.option("--allow-special", is_flag=True, help="Encode special tokens in the text as ids.")
@click.option(
    "--special",
    "allowed",
    multiple=True,
    metavar="TOKEN",
    help="Encode this special token as its id. Repeatable.",
)
@click.option(
    "--on-special",
    type=click.Choice(["text", "error"]),
    default="text",
    help="Other special tokens in the text: ordinary text, or an error.",
)
@click.option("--language", help="Language of a tokenizer from `bpeline train --joint`.")
@click.option(
    "--threshold",
    type=click.IntRange(min=1),
    default=1,
    help="With --language: split tokens that are rarer than this in that language.",
)
@click.option(
    "--dropout",
    type=click.FloatRange(0, 1),
    metavar="PROBABILITY",
    help="BPE dropout: probability of skipping a merge, such as 0.1. Also for files with -o.",
)
@click.option("--offsets", is_flag=True, help="Also print byte and character offsets.")
@click.option(
    "-o",
    "--output",
    metavar="DIRECTORY|URL",
    help="Encode FILES (as for `bpeline train`) into token shards in this directory or store, "
    "such as s3://bucket/tokens.",
)
@click.option(
    "--format",
    "format",
    type=click.Choice(["bin", "npy", "megatron", "parquet"]),
    default="bin",
    help="With -o: raw integers, NumPy arrays, the format of Megatron-LM and NeMo, or one Parquet "
    "row for each document.",
)
@click.option(
    "--id-field",
    default="id",
    metavar="NAME",
    help="With -o: field with the document's id, stored in the document index.",
)
@click.option(
    "--pack",
    type=click.IntRange(min=1),
    metavar="LENGTH",
    help="With -o: also write shuffled, concatenated documents as sequences of LENGTH ids, to "
    "packed-LENGTH-SEED in the directory.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, (1 << 64) - 1),
    default=0,
    metavar="NUMBER",
    help="Random seed for --pack (order of documents) and --dropout (skipped merges).",
)
@click.option(
    "--shard-megabytes",
    type=click.IntRange(min=1),
    default=256,
    help="With -o: MiB of text in a shard. Documents are not split.",
)
@click.option(
    "--engine",
    default="local",
    metavar="local|dask|ADDRESS",
    help="Threads, local processes, or the Dask cluster at tcp://HOST:PORT.",
)
@bulk_options
def encode(
    reference: str,
    texts: tuple[str, ...],
    file: Path | None,
    allow_special: bool,
    allowed: tuple[str, ...],
    on_special: Any,
    language: str | None,
    threshold: int,
    dropout: float | None,
    offsets: bool,
    output: str | None,
    as_json: bool,
    **bulk: Any,
) -> None:
    """Print the token ids of TEXT, a file, or standard input ("-").

    Special tokens in text are ordinary text unless allowed. Imported tokenizers find them as their
    own library does.

    With -o DIRECTORY, write the ids of FILES to token shards. The special tokens of REF separate
    the documents of text files and are not written, except --end-of-text. Run the same command
    again to continue after an interruption or to add new files.

    REF is name@alias, name/number, a digest or a path; news@champion:8000 is its size 8,000.
    """
    about_specials = allow_special or allowed or on_special != "text" or offsets
    if output is not None:
        if file or about_specials or language or not texts:
            raise InvalidOption(
                "-o was given together with options for single texts, or without FILES",
                "expected bpeline encode REF FILES... -o DIRECTORY",
                "leave out --file, --allow-special, --special, --on-special, --language and "
                "--offsets, and name the files",
            )
        _encode_files(reference, texts, output, as_json, dropout=dropout or 0.0, **bulk)
        return
    _refuse_options_of_files(name for name in bulk if name != "seed" or dropout is None)
    if len(texts) > 1:
        raise InvalidOption(
            f"{len(texts)} texts were given",
            "expected one text, or files together with -o",
            "put quotes around the text, or add -o DIRECTORY",
        )
    content = text_of(texts[0] if texts else None, file)
    if dropout is not None and (about_specials or language):
        raise InvalidOption(
            "--dropout was given together with options of special tokens, offsets or languages",
            "expected one of them: with --dropout, special tokens are text",
            "leave out --allow-special, --special, --on-special, --offsets and --language",
        )
    if language is not None:
        if about_specials:
            raise InvalidOption(
                "--language was given together with options of special tokens or offsets",
                "expected one of them: with --language, special tokens are text",
                "leave out --allow-special, --special, --on-special and --offsets",
            )
        _echo_in_language(reference, language, threshold, content, as_json)
        return
    from bpeline.registry import load_tokenizer

    tokenizer = load_tokenizer(reference)
    if dropout is not None:
        from bpeline.tokenizer_core.derived import DropoutEncoding

        dropping = DropoutEncoding(tokenizer, dropout, bulk["seed"])
        _echo_ids(tokenizer, dropping.encode(content), as_json)
        return
    policy: dict[str, Any] = {
        "allowed_special": "all" if allow_special else set(allowed) or None,
        "on_special": on_special,
    }
    if offsets:
        _echo_with_offsets(tokenizer, content, policy, as_json)
    else:
        _echo_ids(tokenizer, tokenizer.encode(content, **policy), as_json)


def _encode_files(
    reference: str,
    files: tuple[str, ...],
    output: str,
    as_json: bool,
    engine: str,
    pack: int | None,
    seed: int,
    dropout: float,
    **keywords: Any,
) -> None:
    from bpeline.flows.encoding import pack_beside, write_shards
    from bpeline.flows.wording import counted
    from bpeline.registry import load_tokenizer
    from bpeline.tokenizer_core.corpus import Source

    check_engine(engine)
    keywords["shard_bytes"] = keywords.pop("shard_megabytes") << 20
    tokenizer = load_tokenizer(reference)
    files = tuple(with_standard_input(files, keywords["text_field"]))
    include = keywords.pop("include")
    search = found_by(files, include, keywords.pop("strict"))
    sources = [Source(path, include=include) for path in files]
    if dropout:
        keywords |= {"dropout": dropout, "seed": seed}
    listener = for_stream(sys.stderr)
    shared = _meeting_place()

    def held(documents: int, tokens: int) -> str:
        return f"{counted(documents, 'document')}, {counted(tokens, 'token')}"

    def say(shard: ShardRecord) -> None:
        listener.part_finished(f"{shard.name}: {held(shard.documents, shard.tokens)}")

    total = sum(file.size for file in search.files)
    with listening(listener), progress.telling(ENCODE, total, "bytes") as outcome:
        shards, notes = write_shards(
            tokenizer,
            sources,
            search,
            output,
            engine=engine,
            shared=shared,
            on_shard=say,
            **keywords,
        )
        counts = shards.manifest
        held_by_all = held(counts["documents"], counts["tokens"])
        outcome(held_by_all)
    lines = [
        f"{output}: {held_by_all}, {counts['bytes']:,} bytes in "
        f"{counted(len(shards.records), 'shard')} "
        f"({counts['shard_format']}, {counts['dtype']})"
    ]
    if sys.stdout.isatty() and counts["shard_format"] != "parquet":
        lines.append("read them with: from bpeline import TokenShards")
        lines.append(f'                TokenShards("{output}")')
    result = {**counts, "skipped": search.skipped.as_dict(), "notes": notes}
    if pack is not None:
        packed, notes_on_packing = pack_beside(
            shards, pack, seed, engine, keywords["threads"], shared
        )
        lines += notes_on_packing
        result |= {"packed": {"path": packed.location, **packed.manifest}}
        result["notes"] = [*notes, *notes_on_packing]
    answer(as_json, result, lines)


def _meeting_place() -> Path:
    """The directory from which cluster workers load the tokenizer if the output is a store."""
    from bpeline.registry.workspace import Workspace

    home = addresses().home
    return Workspace(home).temporary if Workspace.is_at(home) else Path(tempfile.gettempdir())


def _echo_in_language(
    reference: str, language: str, threshold: int, content: str, as_json: bool
) -> None:
    from bpeline.registry.versions import language_counts
    from bpeline.tokenizer_core.derived import RestrictedEncoding

    tokenizer, counts = language_counts(reference, language)
    restricted = RestrictedEncoding(tokenizer, counts, threshold)
    _echo_ids(tokenizer, restricted.encode(content), as_json)


def _echo_ids(tokenizer: Tokenizer, ids: list[int], as_json: bool) -> None:
    if as_json:
        echo_json(_described(tokenizer, ids))
    else:
        click.echo(" ".join(map(str, ids)))


def _refuse_options_of_files(names: Iterable[str]) -> None:
    context = click.get_current_context()
    typed = [
        name
        for name in names
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if typed:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in typed)
        raise InvalidOption(
            f"{options} only applies to files",
            "expected bpeline encode REF FILES... -o DIRECTORY",
            f"add -o DIRECTORY, or leave out {options}",
        )


def _echo_with_offsets(
    tokenizer: Tokenizer, content: str, policy: dict[str, Any], as_json: bool
) -> None:
    encoded = tokenizer.encode_with_offsets(content, **policy)
    described = _described(tokenizer, encoded.ids)
    bytes_, characters = encoded.byte_offsets.tolist(), encoded.char_offsets.tolist()
    lines = [f"{'id':>8}  {'bytes':>15}  {'characters':>15}  token"]
    for id_, (begin, end), (first, last), token in zip(
        encoded.ids, bytes_, characters, described["tokens"], strict=True
    ):
        lines.append(f"{id_:>8}  {f'{begin}:{end}':>15}  {f'{first}:{last}':>15}  {token}")
    answer(as_json, {**described, "byte_offsets": bytes_, "char_offsets": characters}, lines)


def _described(tokenizer: Tokenizer, ids: list[int]) -> dict[str, Any]:
    from bpeline.tokenizer_core.tokenizer_spec import ByteBpe
    from bpeline.tokenizer_core.vocabulary import to_printable

    over_bytes = isinstance(tokenizer.algorithm, ByteBpe)
    tokens = [
        to_printable(token) if over_bytes else token.decode(errors="backslashreplace")
        for token in map(tokenizer.vocab.__getitem__, ids)
    ]
    return {"ids": ids, "tokens": tokens, "count": len(ids), "digest": tokenizer.digest}


@command(
    "bpeline decode news@candidate 464 3290 318",
    'bpeline encode news/3 "Good news" | bpeline decode news/3 -',
)
@click.argument("reference", metavar="REF")
@click.argument("ids", nargs=-1, metavar="IDS...")
@click.option(
    "--keep-markers", is_flag=True, help="Keep end-of-word and continuation marks of tokens."
)
def decode(reference: str, ids: tuple[str, ...], keep_markers: bool, as_json: bool) -> None:
    """Print the text of token IDS, or of ids on standard input ("-").

    REF is name@alias, name/number, a digest or a path.
    """
    typed = ids and ids != ("-",)
    numbers = list(map(_number, ids)) if typed else _piped_ids(standard_input().read())
    from bpeline.registry import load_tokenizer

    tokenizer = load_tokenizer(reference)
    content = tokenizer.decode_bytes(numbers)  # bytes, so that a pipe restores the input exactly
    if keep_markers:
        content = b"".join(tokenizer.vocab[number] for number in numbers)
    if as_json:
        echo_json({"text": content.decode(errors="replace")})
    else:
        click.echo(content, nl=sys.stdout.isatty())


def _piped_ids(content: str) -> list[int]:
    """Parse the output of `bpeline encode`, with or without ``--json``."""
    if content.lstrip().startswith(("{", "[")):
        try:
            value = parse_json(content)
            ids = value["ids"] if isinstance(value, dict) else value
            return [_number(str(id_)) for id_ in ids]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidOption(
                "standard input is not the output of `bpeline encode REF --json`",
                'expected whole numbers, or JSON with a list of them under "ids"',
                "type `bpeline encode REF TEXT | bpeline decode REF -`",
            ) from error
    return [_number(word) for word in content.split()]


def _number(word: str) -> int:
    try:
        return int(word)
    except ValueError as error:
        raise InvalidOption(
            f"{word!r} is not a token id",
            "expected whole numbers, as printed by `bpeline encode`",
            "type `bpeline decode REF 464 3290`",
        ) from error
