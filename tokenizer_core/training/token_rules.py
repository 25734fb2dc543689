r"""Which tokens training may make: no forbidden ones, whole characters.

A rule is asked about the bytes of a token alone, so what holds of every merge holds of the
vocabulary, and can be checked there.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import regex
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.splitting import MOST_WRITTEN_OUT, set_operator, size_written_out
from bpeline.tokenizer_core.vocabulary import (
    KINDS,
    MEANINGS,
    byte_order,
    looks_like,
    shown,
    token_bytes,
)

# What has a name; `_VERSION` is counted up when one of these means something else.
_DIGITS = r"\p{Nd}{4}"
_CHAT_MARKER = (
    r"<[|｜][\w▁]|[\w▁][|｜]>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"
    r"|<</?SYS>>|<(?:start|end)_of_(?:turn|role|text)>|</?(?:s|bos|eos|pad|unk|mask)>"
    r"|\[(?:BOS|EOS|PAD|UNK|MASK|CLS|SEP)\]"
)
_NAMED_REGEXES = {"digits": _DIGITS, "chat-marker": _CHAT_MARKER}
_VERSION = 1

FORBIDDEN_LOOKS: dict[str, str] = {
    "digits": "more than three digits in a row",
    **{kind: MEANINGS[kind] for kind in KINDS},
    "chat-marker": "a marker of chat templates such as <|im_start|>, [INST] or <s>, or an edge of "
    "one: <| before a letter, |> behind one",
}

Characters = Literal["any", "whole", "left-to-right"]
CHARACTERS: tuple[Characters, ...] = get_args(Characters)

LONGEST_REGEX = 1 << 14  # bytes
LONGEST_LIST = 1 << 26  # bytes of a file
_SEARCH_SECONDS = 10.0  # on one token: patterns that take longer backtrack without end
_MOST_CONTINUATIONS = 3  # bytes of a character after its first
_HEX = "hex:"


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What no learned token may be.

    Attributes:
        looks: names of `FORBIDDEN_LOOKS` or regexes; no token has a match anywhere in it. A token
            that is not UTF-8 is searched with U+FFFD for what is incomplete.
        tokens: the bytes of tokens that are not made; longer ones that hold them may be.
        characters: ``whole``: a token of several bytes is one or more whole characters, or a part
            of one character, and mixes nothing with a part. ``left-to-right``: such a part is the
            beginning of a character, so parts are merged only to complete one from its left
            (arXiv 2505.24689). What is not UTF-8 is joined to nothing.
    """

    looks: tuple[str, ...] = ()
    tokens: tuple[bytes, ...] = ()
    characters: Characters = "any"

    @classmethod
    def checked(
        cls,
        looks: Sequence[str] = (),
        tokens: str | bytes | Sequence[str | bytes] = (),
        characters: Characters = "any",
    ) -> TokenRules:
        """Rules that a vocabulary can keep.

        Args:
            looks: names and regexes.
            tokens: texts; ``hex:e4bd`` is the token of these bytes.
            characters: one of `CHARACTERS`.

        Raises:
            InvalidOption: a regex that does not compile, or a rule that forbids one of the 256
                bytes, which every vocabulary holds; or no such rule about characters.
        """
        if characters not in CHARACTERS:
            raise InvalidOption(
                f"characters is {characters!r}",
                f"accepted: {', '.join(CHARACTERS)}",
                "leave it out for 'any': tokens may hold parts of characters",
            )
        given = (looks,) if isinstance(looks, str) else checks.texts("forbid", looks)
        listed = [tokens] if isinstance(tokens, str | bytes) else tokens
        listed = [
            one if isinstance(one, bytes) else checks.text("an item of forbidden_tokens", one)
            for one in checks.rows("forbidden_tokens", listed, "strings or bytes")
        ]
        as_bytes = tuple(sorted(set(map(bytes_of, listed))))
        rules = cls(tuple(dict.fromkeys(given)), as_bytes, characters)
        for byte in range(256):
            rules._refuse_byte(bytes([byte]))
        return rules

    def __bool__(self) -> bool:
        return bool(self.looks or self.tokens) or self.characters != "any"

    def __str__(self) -> str:
        """What holds of each token: ``matches neither digits nor email; whole characters``."""
        said = []
        if self.looks:
            said.append(f"no match of {' or '.join(self.looks)}")
        if self.tokens:
            said.append(f"none of {len(self.tokens):,} forbidden tokens")
        if self.characters != "any":
            said.append(_KEPT[self.characters])
        return ", ".join(said)

    @property
    def digest(self) -> str:
        """Digest of what is forbidden."""
        named = [look if look in FORBIDDEN_LOOKS else f"regex {look}" for look in self.looks]
        return digest_of(
            {
                "version": _VERSION,
                "looks": sorted(named),
                "tokens": [token.hex() for token in self.tokens],
                "characters": self.characters,
            }
        )

    def judge(self) -> Callable[[bytes], bool] | None:
        """Whether a token may be made; None when all may.

        Raises, when called:
            InvalidOption: a regex that takes seconds on one token.
        """
        if not self:
            return None
        matchers, tokens = tuple(map(_matcher, self.looks)), frozenset(self.tokens)

        by_characters, from_left = self.characters != "any", self.characters == "left-to-right"

        def allows(token: bytes) -> bool:
            if by_characters and not keeps_characters(token, from_left):
                return False
            return token not in tokens and not any(matches(token) for matches in matchers)

        return allows

    def broken_by(self, token: bytes) -> str | None:
        """The rule that a token breaks, in words; None for one that is allowed."""
        for look in self.looks:
            if _matcher(look)(token):
                return f"matches --forbid {look}"
        if token in set(self.tokens):
            return "is one of the forbidden tokens"
        if self.characters == "any" or keeps_characters(token, self.characters != "whole"):
            return None
        return f"does not keep --characters {self.characters}"

    def require_of_merges(self, given: NDArray[np.int32] | None, tie_break: str, what: str) -> None:
        """Refuse merges from elsewhere that make a token which a rule forbids.

        Args:
            given: int32 [n, 2], as `learn_merges` takes them.
            tie_break: decides how bytes are numbered.
            what: what they are called in the error.

        Raises:
            InvalidOption: naming the first such token.
        """
        if given is None or not self:
            return
        made = token_bytes(map(tuple, given.tolist()), byte_order(tie_break))
        found = self.first_broken(made)
        if found is not None:
            raise InvalidOption(
                f"{what} make {shown(found)}, which {self.broken_by(found)}",
                "tokens that are given are among those that are allowed",
                "leave the token out, or do not forbid it",
            )

    def prove(self, tokens: Iterable[bytes]) -> None:
        """Check that none of the ordinary tokens of a vocabulary breaks a rule.

        Raises:
            InvalidTokenizer: one does: training is at fault, or what it saved was changed.
        """
        found = self.first_broken(tokens)
        if found is not None:
            raise InvalidTokenizer(
                f"the vocabulary holds {shown(found)}, which {self.broken_by(found)}",
                "no learned token may break a rule that training was given",
                "this is a defect of bpeline: report it; nothing was published",
            )

    def first_broken(self, tokens: Iterable[bytes]) -> bytes | None:
        """The first token that breaks a rule."""
        allows = self.judge()
        if allows is None:
            return None
        return next((token for token in tokens if not allows(token)), None)

    def _refuse_byte(self, byte: bytes) -> None:
        said = self.broken_by(byte)
        if said is not None:
            raise InvalidOption(
                f"the byte {shown(byte)} {said}",
                "what is forbidden has two bytes or more: the 256 bytes are always tokens, and "
                "incomplete characters are searched as U+FFFD",
                r"to keep digits by themselves, for instance, write `--forbid '\d.|.\d'`",
            )


NO_RULES = TokenRules()
_KEPT: dict[Characters, str] = {
    "whole": "whole characters or a part of one",
    "left-to-right": "whole characters or the beginning of one",
}


def keeps_characters(token: bytes, from_left: bool) -> bool:
    """Whether a token is a byte, whole characters, or a part of one character.

    Args:
        token: any bytes.
        from_left: whether such a part must be the beginning of a character.
    """
    if len(token) < 2 or token.isascii():
        return True
    try:
        read = codecs.utf_8_decode(token, "strict", False)[1]  # stops before what is incomplete
    except UnicodeDecodeError:
        continues = len(token) <= _MOST_CONTINUATIONS and all(byte >> 6 == 0b10 for byte in token)
        return continues and not from_left
    # The codec waits for the third byte of a surrogate, although none is a character.
    begins = read == 0 and not (token[0] == 0xED and token[1] >= 0xA0)
    return begins or read == len(token)


def bytes_of(token: str | bytes) -> bytes:
    """The bytes of a token as a list spells it: text, or ``hex:`` and its bytes.

    Raises:
        InvalidOption: nothing, text that UTF-8 cannot hold, or wrong hexadecimal digits.
    """
    if isinstance(token, bytes):
        return token
    try:
        spelt = token.encode() if not token.startswith(_HEX) else bytes.fromhex(token[len(_HEX) :])
    except (UnicodeEncodeError, ValueError):
        spelt = b""
    if not spelt:
        raise InvalidOption(
            f"the forbidden token {token!r} is no token",
            "text of a character or more, or hex: and pairs of hexadecimal digits",
            "write the token as it is, with its leading space, or 'hex:20ff'",
        )
    return spelt


def spelling_of(token: bytes) -> str:
    """How a list spells a token: what `bytes_of` reads."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return _HEX + token.hex()
    is_line = text.splitlines() == [text]
    return text if is_line and not text.startswith(_HEX) else _HEX + token.hex()


def read_token_list(path: str | Path) -> tuple[str, ...]:
    """The tokens that a UTF-8 file lists, one a line, with the spaces that belong to them.

    Empty lines are none.

    Raises:
        InvalidOption: no such file, one that is not UTF-8 or too large, or one without tokens.
    """
    accepted = "a UTF-8 file with one token a line; a leading space belongs to the token"
    try:
        text = read_file(path, LONGEST_LIST, pipes=True).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise InvalidOption(
            f"the list of tokens {str(path)!r} cannot be read: {error}", accepted, "name another"
        ) from error
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    tokens = tuple(line for line in lines if line)
    if not tokens:
        raise InvalidOption(f"the list of tokens {str(path)!r} is empty", accepted, "fill it")
    for token in tokens:
        bytes_of(token)
    return tokens


@lru_cache(maxsize=256)
def _matcher(look: str) -> Callable[[bytes], bool]:
    if look in KINDS:
        return partial(looks_like, look)
    return partial(_holds, _compiled(look), look)


def _holds(expression: Any, look: str, token: bytes) -> bool:
    text = token.decode(errors="replace")
    try:
        return expression.search(text, timeout=_SEARCH_SECONDS) is not None
    except TimeoutError as error:
        raise InvalidOption(
            f"--forbid {look!r} takes more than {_SEARCH_SECONDS:.0f} s on {shown(token)}",
            "regexes that do not try the same text again and again",
            "write (?:a+)+ as a+, or make repetitions possessive: a++",
        ) from error


def _compiled(look: str) -> Any:
    source = _NAMED_REGEXES.get(look, look)
    accepted = (
        f"names are {', '.join(FORBIDDEN_LOOKS)}; anything else is a regex in the syntax of "
        f"Python's `regex` package, of {LONGEST_REGEX:,} bytes at most"
    )
    problem = "is not a regex"
    try:
        if isinstance(look, str) and source and len(source.encode()) <= LONGEST_REGEX:
            size = size_written_out(source)
            if size is None or size > MOST_WRITTEN_OUT:
                problem = "is too large when its repetitions are written out"
            elif operator := set_operator(source):
                problem = f"has a set with an operator, {operator[:100]!r}, read as literals"
            else:
                return regex.compile(source)
    except (regex.error, ValueError, RecursionError, OverflowError) as error:
        problem = f"does not compile: {error}"
    raise InvalidOption(
        f"--forbid {str(look)[:200]!r} {problem}",
        accepted,
        "write `--forbid digits`, or mend the regex",
    )
