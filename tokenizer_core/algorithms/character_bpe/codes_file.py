"""subword-nmt's codes files: a version, then one merge per line. Imports no subword-nmt.

Version 0.2 joins the mark of the end of a word to the last character (``t</w>``), version 0.1 and
files without a version have it as a symbol of its own. The files hold no vocab and no ids: loading
numbers the unknown token, the characters, then what merges make. Characters that stand in no merge
are not in them either; subword-nmt prints any character, but here only those with an id are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.algorithms import CharacterBpe
from bpeline.tokenizer_core.bounded_files import read_bounded, refuse, text_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.formats import pattern_left_out, refuse_other_algorithms
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.vocabulary import TokenizerSpec, shown

END_OF_WORD = "</w>"
_MOST_SHOWN = 2_000  # characters in a warning
_VERSIONS = {"0.1": False, "0.2": True}  # whether the mark is joined to the last character


def save(tokenizer: TokenizerParts, path: Path) -> None:
    """Write the codes file that ``subword-nmt apply-bpe --codes`` reads.

    Raises:
        InvalidOption: the tokenizer follows another algorithm.
        InvalidTokenizer: another mark of the end of a word, or a token with a space or line break.
        DiskFull: no space left.
    """
    refuse_other_algorithms(tokenizer, "character BPE", CharacterBpe)
    algorithm = tokenizer.spec.algorithm
    assert isinstance(algorithm, CharacterBpe)
    pairs = [(left.decode(), right.decode()) for left, right in tokenizer.spec.merges]
    if algorithm.end_of_word != END_OF_WORD:
        raise InvalidTokenizer(
            f"words of this tokenizer end in {algorithm.end_of_word!r}",
            f"in a codes file they end in {END_OF_WORD!r}",
            "save it as 'bpeline'",
        )
    if any(set(" \r\n") & set(left + right) for left, right in pairs):
        raise InvalidTokenizer(
            "a merge of this tokenizer joins a space or a line break",
            "in a codes file a space stands between the two sides of a merge",
            "save it as 'bpeline'",
        )
    version = "0.2" if algorithm.joined else "0.1"
    lines = [f"#version: {version}", *(f"{left} {right}" for left, right in pairs), ""]
    DURABLE.write(path, "\n".join(lines).encode())


def left_out(tokenizer: TokenizerParts) -> dict[str, Any]:
    """Split pattern, unknown token, special tokens, and the characters that no merge holds."""
    assert isinstance(tokenizer.spec.algorithm, CharacterBpe)
    return {
        "pattern": pattern_left_out(tokenizer),
        "unknown": tokenizer.spec.algorithm.unknown,
        "special_tokens": list(tokenizer.spec.special_tokens),
        "characters": _unmerged(tokenizer),
    }


def forgotten(tokenizer: TokenizerParts) -> str:
    """What nobody can find out from the file again, and how its reader is told; or nothing."""
    assert isinstance(tokenizer.spec.algorithm, CharacterBpe)
    unmerged = _unmerged(tokenizer)
    if not unmerged:
        return ""
    shown = repr(unmerged[:_MOST_SHOWN])
    if len(unmerged) > _MOST_SHOWN:
        shown += " and so on (`bpeline export`, with --json, prints them all)"
    return (
        f"characters that stand in no merge, {len(unmerged):,} here, are not in a codes file, and "
        f"whoever reads it without them finds {tokenizer.spec.algorithm.unknown} instead. Read it "
        f"with Tokenizer.load(PATH, characters=…), which are {shown}; or save it as 'bpeline', "
        "which keeps everything"
    )


def _unmerged(tokenizer: TokenizerParts) -> str:
    """The characters with an id that no merge holds, in the order of their ids."""
    merged = b"".join(left + right for left, right in tokenizer.spec.merges).decode()
    tokens = [token.decode() for _, token in sorted(tokenizer.spec.vocab.items())]
    return "".join(one for one in tokens if len(one) == 1 and one not in merged)


def load(
    path: Path,
    *,
    merges: int | None = None,
    unknown: str = "<unk>",
    characters: str | None = None,
    pattern: SplitPattern | str = "whitespace",
    special_tokens: Sequence[str] = (),
) -> TokenizerSpec:
    """Read a codes file.

    Args:
        path: the file.
        merges: how many of its first merges to take; by default all.
        unknown: the token of characters that the vocab does not hold.
        characters: what the vocab holds besides the characters in the merges; empty for nothing.
        pattern: the split pattern, which the file does not name.
        special_tokens: further tokens, numbered behind the unknown one.

    Raises:
        MissingSource: no such file. InvalidTokenizer: malformed.
        InvalidOption: nobody said which characters the vocab holds.
    """
    pairs, joined = read_codes(path)
    if characters is None:
        raise InvalidOption(
            f"{path} does not say which characters it knows besides those in its merges: any other "
            f"would be {unknown}",
            "those characters in one string (`bpeline export` prints them, `subword-nmt get-vocab` "
            "lists them), or an empty one where there are none",
            "name them: Tokenizer.load(PATH, characters='qxz'), and wherever a command takes a "
            f"tokenizer: {path},characters=qxz; none: {path},characters=",
        )
    pairs = pairs[:merges]
    parts = [part for pair in pairs for part in pair]
    inner = [part.removesuffix(END_OF_WORD) for part in parts]
    single = dict.fromkeys(sorted({*characters, *(c for part in inner for c in part)}))
    last = [c + END_OF_WORD for c in single] if joined else [END_OF_WORD]
    made = [left + right for left, right in pairs]
    tokens = dict.fromkeys([unknown, *special_tokens, *single, *last, *parts, *made])
    vocab = {id_: token.encode() for id_, token in enumerate(tokens)}
    return TokenizerSpec.checked(
        vocab,
        [(left.encode(), right.encode()) for left, right in pairs],
        list(special_tokens),
        pattern,
        algorithm=CharacterBpe(END_OF_WORD, joined, unknown),
    )


def read_codes(path: Path) -> tuple[list[tuple[str, str]], bool]:
    """The merges of a codes file, each pair once, and whether the mark of the end is joined.

    Raises:
        MissingSource: no such file.
        InvalidTokenizer: another version, or a line that is not two tokens and a space between.
    """
    lines = text_of(read_bounded(path), path).rstrip("\n").split("\n")
    joined = False
    if lines[0].startswith("#version:"):
        version = lines.pop(0).removeprefix("#version:").strip()
        if version not in _VERSIONS:
            refuse(path, f"has the version {shown(version)}", "versions 0.1 and 0.2 are read")
        joined = _VERSIONS[version]
    pairs: dict[tuple[str, str], None] = {}
    for number, line in enumerate(lines):
        if not line and len(lines) == 1:
            break
        parts = line.strip("\r\n ").split(" ")
        if len(parts) != 2:
            refuse(path, f"has no pair of tokens at merge {number}: {shown(line)}")
        pairs.setdefault((parts[0], parts[1]))
    return list(pairs), joined
