"""``bpeline decode``."""

from __future__ import annotations

import sys

import click

from bpeline.flows.cli.options import command, echo_json
from bpeline.flows.cli.standard_input import standard_input
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.errors import InvalidOption


@command(
    "bpeline decode news@candidate 464 3290 318",
    'bpeline encode news/3 "Good news" | bpeline decode news/3 -',
)
@click.argument("reference", metavar="REF")
@click.argument("ids", nargs=-1, metavar="IDS...")
@click.option(
    "--keep-markers", is_flag=True, help="Join the tokens as they are, with the marks of word ends."
)
def decode(reference: str, ids: tuple[str, ...], keep_markers: bool, as_json: bool) -> None:
    """Print the text of token IDS, or of those on standard input ("-").

    REF is name@alias, name/number, a digest or a path.
    """
    typed = ids and ids != ("-",)
    numbers = list(map(_number, ids)) if typed else _piped_ids(standard_input().read())
    from bpeline.registry import load_tokenizer

    tokenizer = load_tokenizer(reference)
    content = tokenizer.decode_bytes(numbers)  # so that a pipe gives back what was encoded
    if keep_markers:
        content = b"".join(tokenizer.vocab[number] for number in numbers)
    if as_json:
        echo_json({"text": content.decode(errors="replace")})
    else:
        click.echo(content, nl=sys.stdout.isatty())


def _piped_ids(content: str) -> list[int]:
    """Ids as `bpeline encode` prints them, with or without ``--json``."""
    if content.lstrip().startswith(("{", "[")):
        try:
            value = parse_json(content)
            ids = value["ids"] if isinstance(value, dict) else value
            return [_number(str(one)) for one in ids]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidOption(
                "standard input is not what `bpeline encode REF --json` prints",
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
