"""``bpeline explain``: show the merges of a text or a token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bpeline.flows.cli.commands import PATH, answer, command
from bpeline.flows.cli.text_arguments import text_of
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from bpeline.flows.versions import TokenOrigin
    from bpeline.tokenizer_core import Tokenizer
    from bpeline.tokenizer_core.encoding import ExplainedPreToken, MergeTree
    from bpeline.tokenizer_core.word_encoding import ExplainedWord


@command(
    'bpeline explain news@champion "the newest news"',
    'bpeline explain news@champion --token " newest"',
    "bpeline explain news/3 --id 512 --json",
)
@click.argument("reference", metavar="REF")
@click.argument("text", required=False)
@click.option("--file", "file", type=PATH, help="Explain the text of a file.")
@click.option("--token", metavar="TOKEN", help="Explain one token of the vocabulary.")
@click.option("--id", "id_", type=int, metavar="ID", help="Explain the token with this id.")
@click.option(
    "--words",
    type=click.IntRange(0, 1_000_000),
    default=15,
    help="Number of words and sources of a token to show.",
)
def explain(
    reference: str,
    text: str | None,
    file: Path | None,
    token: str | None,
    id_: int | None,
    words: int,
    as_json: bool,
) -> None:
    """Show the merges that produce the tokens of TEXT, or one token.

    TEXT "-" is standard input.

    For each pre-token: its merges in the order applied, and the final tokens. Bytes are shown in
    GPT-2's printable form: a space is Ġ. Special tokens are treated as in `bpeline encode REF
    TEXT`. For algorithms over characters: each step of a word.

    For a token: the tree of its merges. For registered byte-level BPE also: how often each merge
    was applied to the training text, and the words and files that it came from.

    REF is name@alias, name/number, a digest or a path.
    """
    inputs = [value for value in (text, file, token, id_) if value is not None]
    if len(inputs) != 1:
        raise InvalidOption(
            f"{len(inputs)} things to explain were given",
            "expected one of: a text, --file FILE, --token TOKEN, --id ID",
            'bpeline explain REF "some text"',
        )
    content = text_of(text, file) if token is None and id_ is None else None
    if content is None:
        _explain_token(reference, token, int(id_ or 0), words, as_json)
        return
    from bpeline.registry import load_tokenizer
    from bpeline.tokenizer_core.tokenizer_spec import ByteBpe
    from bpeline.tokenizer_core.word_encoding import explain_words

    tokenizer = load_tokenizer(reference)
    if not isinstance(tokenizer.algorithm, ByteBpe):
        explained_words = explain_words(tokenizer, content)
        result = [asdict(word) for word in explained_words]
        answer(as_json, result, _lines_of_words(explained_words))
        return
    explained = tokenizer.explain(content)
    lines = (line for pre_token in explained for line in _lines_of(pre_token))
    answer(as_json, [_json_of(pre_token) for pre_token in explained], lines)


def _explain_token(reference: str, text: str | None, id_: int, shown: int, as_json: bool) -> None:
    from bpeline.registry import load_tokenizer
    from bpeline.registry.records import ByPath, parse_reference
    from bpeline.tokenizer_core.tokenizer_spec import ByteBpe

    tokenizer = load_tokenizer(reference)
    if text is not None:
        id_ = tokenizer.token_to_id(text)
    if not isinstance(tokenizer.algorithm, ByteBpe):
        _explain_text_token(tokenizer, id_, as_json)
        return
    token = tokenizer.id_to_token(id_)
    explained = tokenizer.explainer.token(token)
    special = tokenizer.is_special(id_)
    parsed = parse_reference(reference)
    origin, fired = None, {}
    if not isinstance(parsed, ByPath) and not special:
        from bpeline.flows.versions import token_origin
        from bpeline.registry.loading import resolve
        from bpeline.registry.opening import open_registry
        from bpeline.registry.versions import Lineage

        registry = open_registry()
        origin = token_origin(tokenizer, Lineage.of(registry, resolve(registry, parsed)), id_)
    if origin is not None:
        counts = origin.use.made
        fired = {token: int(counts[id_]) for id_, token in tokenizer.vocab.items()}
    reached = explained.ids == (id_,)
    value = {
        "id": id_,
        "special": special,
        "reached_by_merges": reached,
        **_json_of(explained),
        "trees": [_json_of_tree(tree, fired) for tree in explained.trees()],
        **({} if origin is None else _json_of_origin(origin, id_, shown)),
    }
    lines = [f"token {id_}  {_shown(token)}  {len(token)} bytes"]
    if special:
        lines.append("a special token: no merge produces it")
    else:
        if not reached:
            lines.append("not reachable by merges: they stop at these tokens:")
        lines += [line for tree in explained.trees() for line in _drawn(tree, fired)]
        if origin is not None:
            lines += _told(origin, id_, shown)
        elif not isinstance(parsed, ByPath):
            lines.append("\nits word counts are not in this workspace")
    answer(as_json, value, lines)


def _explain_text_token(tokenizer: Tokenizer, id_: int, as_json: bool) -> None:
    """Print a token of an algorithm over characters, with its merges if the algorithm has any."""
    from bpeline.tokenizer_core.word_encoding import merge_tree

    special_texts = {number: text for text, number in tokenizer.special_tokens.items()}
    special = id_ in special_texts
    content = special_texts[id_].encode() if special else tokenizer.vocab.get(id_)
    if content is None:
        tokenizer.id_to_token(id_)  # raises: there is no such token
    assert content is not None
    text = content.decode(errors="replace")
    tree = None if special else merge_tree(tokenizer.merges, content)
    frequency = dict(getattr(tokenizer.algorithm, "frequencies", ())).get(text)
    value: dict[str, Any] = {"id": id_, "token": text, "special": special}
    lines = [f"token {id_}  {text}"]
    if frequency is not None:
        value["frequency"] = frequency
        lines.append(f"frequency {frequency:,}")
    if tree is not None and tree.parts:
        value["trees"] = [_json_of_tree(tree, {}, bytes.decode)]
        lines += _drawn(tree, {}, shown=bytes.decode)
    else:
        lines.append(
            "a special token: no merge produces it"
            if special
            else f"{tokenizer.algorithm.name} has no merges"
            if not tokenizer.merges
            else "no merge produces it"
        )
    answer(as_json, value, lines)


def _told(origin: TokenOrigin, id_: int, shown: int) -> Iterator[str]:
    times, final = int(origin.use.made[id_]), int(origin.use.left[id_])
    yield f"\nproduced {times:,} times in the training text; {final:,} remain as final tokens"
    yield f"\nwords that produce it{_so_many(len(origin.words), shown)}"
    for word in origin.words[:shown]:
        each = f", {word.times} times in each" if word.times > 1 else ""
        yield f"  {word.count:>12,}  {_shown(word.word)}{each}"
    read = f", from {origin.chunks_read} of {origin.chunks} chunks"
    yield f"\nsources{_so_many(len(origin.sources), shown)}{read}"
    for source in origin.sources[:shown]:
        place = source.path or "an unknown file"
        yield f"  {source.made:>12,}  {place}  bytes {source.begin:,} to {source.end:,}"


def _so_many(number: int, shown: int) -> str:
    return f" ({shown} of {number:,})" if number > shown else f" ({number:,})"


def _json_of_origin(origin: TokenOrigin, id_: int, shown: int) -> dict[str, Any]:
    return {
        "made": int(origin.use.made[id_]),
        "left": int(origin.use.left[id_]),
        "words_making_it": len(origin.words),
        "words": [{**asdict(entry), "word": _shown(entry.word)} for entry in origin.words[:shown]],
        "chunks": origin.chunks,
        "chunks_read": origin.chunks_read,
        "sources": [asdict(entry) for entry in origin.sources[:shown]],
    }


def _json_of_tree(
    tree: MergeTree, fired: Mapping[bytes, int], shown: Callable[[bytes], str] | None = None
) -> dict[str, Any]:
    shown = shown or _shown
    return {
        "token": shown(tree.token),
        "rank": tree.rank,
        "made": fired.get(tree.token),
        "parts": [_json_of_tree(part, fired, shown) for part in tree.parts],
    }


def _lines_of(one: ExplainedPreToken) -> Iterator[str]:
    tokens = "  ".join(f"{_shown(t)} {i}" for t, i in zip(one.tokens, one.ids, strict=True))
    yield f"{_shown(one.word)}  at byte {one.begin}  ->  {tokens}"
    if one.whole:
        yield "    a token as a whole, without merges"
    width = max((len(str(merge.rank)) for merge in one.merges), default=0)
    for merge in one.merges:
        left, right = _shown(merge.left), _shown(merge.right)
        merged = _shown(merge.left + merge.right)
        yield f"    rank {merge.rank:>{width}}  {left} + {right} -> {merged}  at byte {merge.begin}"


def _lines_of_words(words: Sequence[ExplainedWord]) -> Iterator[str]:
    for word in words:
        tokens = "  ".join(f"{t} {i}" for t, i in zip(word.tokens, word.ids, strict=True))
        yield f"{word.word}  ->  {tokens}"
        for step in word.steps:
            yield f"    {' + '.join(step.takes)}  ({step.why})  ->  {' '.join(step.symbols)}"


def _drawn(
    tree: MergeTree,
    fired: Mapping[bytes, int],
    before: str = "",
    last: bool | None = None,
    shown: Callable[[bytes], str] | None = None,
) -> Iterator[str]:
    shown = shown or _shown
    branch = "" if last is None else "└── " if last else "├── "
    facts = [] if tree.rank is None else [f"rank {tree.rank}"]
    if tree.token in fired:
        facts.append(f"{fired[tree.token]:,} ×")
    yield "  ".join([f"{before}{branch}{shown(tree.token)}", *facts])
    below = before if last is None else before + ("    " if last else "│   ")
    for place, part in enumerate(tree.parts):
        yield from _drawn(part, fired, below, place == len(tree.parts) - 1, shown)


def _json_of(one: ExplainedPreToken) -> dict[str, Any]:
    return {
        "word": _shown(one.word),
        "begin": one.begin,
        "ids": list(one.ids),
        "tokens": [_shown(token) for token in one.tokens],
        "whole": one.whole,
        "merges": [
            {**asdict(merge), "left": _shown(merge.left), "right": _shown(merge.right)}
            for merge in one.merges
        ],
    }


def _shown(token: bytes) -> str:
    from bpeline.tokenizer_core.vocabulary import to_printable

    return to_printable(token)
