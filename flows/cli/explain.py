"""``bpeline explain``: which merges made the tokens of a text, or a token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flows.cli.options import echo_json, json_option, workspace_option
from flows.cli.text_arguments import text_of
from tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from tokenizer_core import Tokenizer
    from tokenizer_core.explanation import ExplainedPreToken, MergeTree


@click.command(
    epilog="""\b
Examples:
  bpeline explain news@champion "the newest news"
  bpeline explain news@champion --token " newest"
  bpeline explain news/3 --id 512 --json
""",
)
@click.argument("reference", metavar="REF")
@click.argument("text", required=False)
@click.option("--file", "file", type=click.Path(path_type=Path), help="Explain a file's text.")
@click.option("--token", metavar="TOKEN", help="Explain one token of the vocabulary.")
@click.option("--id", "id_", type=int, metavar="ID", help="Explain the token with this id.")
@workspace_option
@json_option
def explain(
    reference: str,
    text: str | None,
    file: Path | None,
    token: str | None,
    id_: int | None,
    as_json: bool,
) -> None:
    """Show the merges that made the tokens of TEXT ("-": standard input), or one token.

    For each pre-token: the merges in the order in which they fired, and the tokens that were
    left. Bytes are shown in GPT-2's printable form: a space is Ġ. Special tokens are ordinary
    text here.

    REF is name@alias, name/number, a digest or a path.
    """
    given = [what for what in (text, file, token, id_) if what is not None]
    if len(given) != 1:
        raise InvalidOption(
            f"{len(given)} things to explain were given",
            "one of: a text, --file FILE, --token TOKEN, --id ID",
            'bpeline explain REF "some text"',
        )
    content = text_of(text, file) if token is None and id_ is None else None
    from registry import load_tokenizer

    tokenizer = load_tokenizer(reference)
    if content is None:
        number = tokenizer.token_to_id(token) if token is not None else int(id_ or 0)
        _explain_token(tokenizer, number, as_json)
        return
    explained = tokenizer.explain(content)
    if as_json:
        echo_json([_json_of(one) for one in explained])
        return
    for one in explained:
        for line in _table(one):
            click.echo(line)


def _explain_token(tokenizer: Tokenizer, id_: int, as_json: bool) -> None:
    token = tokenizer.id_to_token(id_)
    explained = tokenizer.explainer.token(token)
    reached = explained.ids == (id_,)
    if as_json:
        echo_json({
            "id": id_,
            "special": tokenizer.is_special(id_),
            "reached_by_merges": reached,
            **_json_of(explained),
        })  # fmt: skip
        return
    click.echo(f"token {id_}  {_shown(token)}  {len(token)} bytes")
    if tokenizer.is_special(id_):
        click.echo("a special token: no merge makes it")
        return
    if not reached:
        click.echo("merges do not lead to it: they stop at the tokens below")
    for tree in explained.trees():
        for line in _drawn(tree):
            click.echo(line)


def _table(one: ExplainedPreToken) -> Iterator[str]:
    """A pre-token, its tokens, its merges."""
    tokens = "  ".join(f"{_shown(t)} {i}" for t, i in zip(one.tokens, one.ids, strict=True))
    yield f"{_shown(one.word)}  at byte {one.begin}  ->  {tokens}"
    if one.whole:
        yield "    one token by itself, whatever its merges say"
    width = max((len(str(merge.rank)) for merge in one.merges), default=0)
    for merge in one.merges:
        left, right = _shown(merge.left), _shown(merge.right)
        made = _shown(merge.left + merge.right)
        yield f"    rank {merge.rank:>{width}}  {left} + {right} -> {made}  at byte {merge.begin}"


def _drawn(tree: MergeTree, before: str = "", last: bool | None = None) -> Iterator[str]:
    """A tree, a line for each node; branches below it."""
    branch = "" if last is None else "└── " if last else "├── "
    rank = "" if tree.rank is None else f"  rank {tree.rank}"
    yield f"{before}{branch}{_shown(tree.token)}{rank}"
    below = before if last is None else before + ("    " if last else "│   ")
    for place, part in enumerate(tree.parts):
        yield from _drawn(part, below, place == len(tree.parts) - 1)


def _json_of(one: ExplainedPreToken) -> dict[str, Any]:
    return {
        "word": _shown(one.word),
        "begin": one.begin,
        "ids": list(one.ids),
        "tokens": [_shown(token) for token in one.tokens],
        "whole": one.whole,
        "merges": [
            {
                "rank": merge.rank,
                "left": _shown(merge.left),
                "right": _shown(merge.right),
                "begin": merge.begin,
            }
            for merge in one.merges
        ],
    }


def _shown(token: bytes) -> str:
    from tokenizer_core.vocabulary import to_printable

    return to_printable(token)
