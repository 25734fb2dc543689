"""A bare list of tokens, one a line, for greedy encoding."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from bpeline.tokenizer_core.algorithms.greedy.codec import GreedyLongest
from bpeline.tokenizer_core.bounded_files import read_bounded, refuse, text_of
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.formats import nothing_left_out
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.vocabulary import TokenizerSpec


def save(tokenizer: TokenizerParts, path: Path) -> NoReturn:
    """Refuse: a list says neither the split pattern nor the unknown token.

    Raises:
        InvalidOption: always.
    """
    raise InvalidOption(
        "the format greedy is read and not written",
        "a format that holds the whole tokenizer",
        "save it as 'bpeline', which keeps every tokenizer",
    )


left_out = nothing_left_out


def load(
    path: Path,
    *,
    end_of_word: str = GreedyLongest().end_of_word,
    unknown: str = GreedyLongest().unknown,
    pattern: SplitPattern | str = GreedyLongest.default_pattern,
) -> TokenizerSpec:
    """Read a list of tokens; the number of a line is an id.

    Args:
        path: the file.
        end_of_word: the text that marks the end of a word in tokens.
        unknown: the token of what no other token covers; it gets the last id if it is not listed.
        pattern: the split pattern.

    Raises:
        MissingSource: no such file.
        InvalidTokenizer: not UTF-8, an empty line, or a token twice.
    """
    content = text_of(read_bounded(path), path).replace("\r\n", "\n").removesuffix("\n")
    tokens = content.split("\n")
    if "" in tokens or len({*tokens}) != len(tokens):
        refuse(path, "has an empty line, or a token twice", "each line is a token of its own")
    listed = dict.fromkeys([*tokens, unknown])
    vocab = {id_: token.encode() for id_, token in enumerate(listed)}
    return TokenizerSpec.checked(
        vocab, [], pattern=pattern, algorithm=GreedyLongest(end_of_word, unknown)
    )
