"""``bpeline encode`` and ``bpeline decode``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from flows.cli.options import echo_json, json_option, workspace_option
from tokenizer_core.errors import InvalidOption, InvalidUtf8, MissingSource, UnreadableSource


@click.command(
    epilog="""\b
Examples:
  bpeline encode news@candidate "Good news"
  bpeline encode news/3 --file article.txt --json
  cat article.txt | bpeline encode news@candidate -
""",
)
@click.argument("reference", metavar="REF")
@click.argument("text", required=False)
@click.option("--file", "file", type=click.Path(path_type=Path), help="Encode a file's text.")
@click.option("--allow-special", is_flag=True, help="Special tokens in the text become their ids.")
@workspace_option
@json_option
def encode(
    reference: str, text: str | None, file: Path | None, allow_special: bool, as_json: bool
) -> None:
    """Print the token ids of a text: TEXT, a file, or standard input ("-").

    REF is name@alias, name/number, a digest or a path.
    """
    if text is not None and file is not None:
        raise InvalidOption(
            "both a text and a file were given", "either of them", "leave one of them out"
        )
    content = _decoded(file) if file is not None or text in {None, "-"} else str(text)
    from registry import load_tokenizer

    tokenizer = load_tokenizer(reference)
    ids = tokenizer.encode(content, allowed_special="all" if allow_special else "none")
    if as_json:
        from tokenizer_core.vocabulary import to_printable

        tokens = [to_printable(tokenizer.vocab[one]) for one in ids]
        echo_json({"ids": ids, "tokens": tokens, "count": len(ids), "digest": tokenizer.digest})
    else:
        click.echo(" ".join(map(str, ids)))


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
    words = list(ids) if ids and ids != ("-",) else sys.stdin.read().split()
    numbers = [_number(word.strip("[],")) for word in words]
    from registry import load_tokenizer

    text = load_tokenizer(reference).decode(numbers)
    if as_json:
        echo_json({"text": text})
    else:
        click.echo(text)


def _number(word: str) -> int:
    try:
        return int(word)
    except ValueError as error:
        raise InvalidOption(
            f"{word!r} is not a token id",
            "whole numbers, as `bpeline encode` prints them",
            "type `bpeline decode REF 464 3290`",
        ) from error
