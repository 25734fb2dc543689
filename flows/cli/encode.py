"""``bpeline encode`` and ``bpeline decode``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from flows.cli.encode_files import encode_files
from flows.cli.options import echo_json, json_option, workspace_option
from tokenizer_core.errors import InvalidOption, InvalidUtf8, MissingSource, UnreadableSource


@click.command(
    epilog="""\b
Examples:
  bpeline encode news@candidate "Good news"
  bpeline encode news/3 --file article.txt --json
  cat article.txt | bpeline encode news@candidate -
  bpeline encode news@champion data/*.jsonl.zst -o tokens --end-of-text "<|endoftext|>"
""",
)
@click.argument("reference", metavar="REF")
@click.argument("texts", nargs=-1, metavar="[TEXT | FILES...]")
@click.option("--file", "file", type=click.Path(path_type=Path), help="Encode a file's text.")
@click.option("--allow-special", is_flag=True, help="Special tokens in the text become their ids.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Encode FILES (text, .jsonl, also .gz and .zst) into token shards in this directory.",
)
@click.option("--separator", help="With -o: what stands between the documents of a text file.")
@click.option("--end-of-text", help="With -o: the special token to put behind each document.")
@click.option("--threads", type=int, help="With -o: threads.  [default: one per processor]")
@click.option("--text-field", default="text", show_default=True, help="With -o: field of .jsonl.")
@click.option(
    "--invalid-utf8",
    type=click.Choice(["strict", "replace"]),
    default="strict",
    show_default=True,
    help="With -o: what bytes mean that are not UTF-8.",
)
@workspace_option
@json_option
def encode(
    reference: str,
    texts: tuple[str, ...],
    file: Path | None,
    allow_special: bool,
    output: Path | None,
    as_json: bool,
    **bulk: Any,
) -> None:
    """Print the token ids of a text: TEXT, a file, or standard input ("-").

    With -o DIRECTORY: write the ids of whole FILES there. The same command goes on where it was
    interrupted, and adds files that have come since.

    REF is name@alias, name/number, a digest or a path.
    """
    if output is not None:
        if file is not None or allow_special or not texts:
            raise InvalidOption(
                "with -o, files are named as arguments and special tokens in them are text",
                "bpeline encode REF FILES... -o DIRECTORY",
                "leave --file and --allow-special out, and name the files",
            )
        encode_files(reference, texts, output, as_json, bulk)
        return
    if len(texts) > 1:
        raise InvalidOption(
            f"{len(texts)} texts were given",
            "one text; or files and a directory for their ids",
            "put quotes around the text, or add -o DIRECTORY",
        )
    text = texts[0] if texts else None
    if text is not None and file is not None:
        raise InvalidOption(
            "both a text and a file were given", "either of them", "leave one of them out"
        )
    content = _decoded(file) if file is not None or text in {None, "-"} else _typed(str(text))
    from registry import load_tokenizer

    tokenizer = load_tokenizer(reference)
    ids = tokenizer.encode(content, allowed_special="all" if allow_special else "none")
    if as_json:
        from tokenizer_core.vocabulary import to_printable

        tokens = [to_printable(tokenizer.vocab[one]) for one in ids]
        echo_json({"ids": ids, "tokens": tokens, "count": len(ids), "digest": tokenizer.digest})
    else:
        click.echo(" ".join(map(str, ids)))


def _typed(text: str) -> str:
    """A text from the command line, where bytes that are not UTF-8 arrive as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidUtf8(
            f"the text given is not UTF-8 at character {error.start}",
            "text in UTF-8",
            "put it into a file and convert that first, for example with iconv",
        ) from error
    return text


def _decoded(file: Path | None) -> str:
    try:
        content = sys.stdin.buffer.read() if file is None else file.read_bytes()
    except FileNotFoundError as error:
        raise MissingSource(
            f"there is no file {file}", "the path of a text file", "check the spelling"
        ) from error
    except OSError as error:
        raise UnreadableSource(
            f"{file} cannot be read: {error.strerror}",
            "a readable text file",
            "check its permissions",
        ) from error
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidUtf8(
            f"{file or 'standard input'} is not UTF-8 at byte {error.start}",
            "text in UTF-8",
            "convert it first, for example with iconv",
        ) from error


@click.command(
    epilog="""\b
Examples:
  bpeline decode news@candidate 464 3290 318
  bpeline encode news/3 "Good news" | bpeline decode news/3 -
""",
)
@click.argument("reference", metavar="REF")
@click.argument("ids", nargs=-1, metavar="IDS...")
@workspace_option
@json_option
def decode(reference: str, ids: tuple[str, ...], as_json: bool) -> None:
    """Print the text of token IDS, or of those on standard input ("-").

    REF is name@alias, name/number, a digest or a path.
    """
    numbers = list(map(_number, ids)) if ids and ids != ("-",) else _piped_ids(sys.stdin.read())
    from registry import load_tokenizer

    tokenizer = load_tokenizer(reference)
    if as_json:
        echo_json({"text": tokenizer.decode(numbers)})
    else:  # the very bytes, so that a pipe gives back what was encoded
        click.echo(tokenizer.decode_bytes(numbers), nl=sys.stdout.isatty())


def _piped_ids(content: str) -> list[int]:
    """Ids as `bpeline encode` prints them, with or without ``--json``."""
    import json

    if content.lstrip().startswith(("{", "[")):
        try:
            value = json.loads(content)
            ids = value["ids"] if isinstance(value, dict) else value
            return [_number(str(one)) for one in ids]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidOption(
                "standard input is not what `bpeline encode --json` prints",
                'whole numbers, or JSON with a list of them under "ids"',
                "type `bpeline encode REF TEXT | bpeline decode REF -`",
            ) from error
    return [_number(word) for word in content.split()]


def _number(word: str) -> int:
    try:
        return int(word)
    except ValueError as error:
        raise InvalidOption(
            f"{word!r} is not a token id",
            "whole numbers, as `bpeline encode` prints them",
            "type `bpeline decode REF 464 3290`",
        ) from error
