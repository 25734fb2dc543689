r"""Rules for the tokens that training may make: forbidden tokens, whole characters.

Each rule looks at the bytes of one token, so it can be checked on the finished vocabulary too.
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

# Increase `_VERSION` when a name gets another meaning.
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
    "one: <| before a letter, |> after one",
}

Characters = Literal["any", "whole", "left-to-right"]
CHARACTERS: tuple[Characters, ...] = get_args(Characters)

LONGEST_REGEX = 1 << 14  # bytes
LONGEST_LIST = 1 << 26  # bytes of a file
_SEARCH_SECONDS = 10.0  # per token; patterns that take longer backtrack exponentially
_MOST_CONTINUATIONS = 3  # bytes of a character after its first
_HEX = "hex:"


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Tokens that training must not make.

    Attributes:
        looks: names of `FORBIDDEN_LOOKS` or regexes; no token may have a match anywhere in it.
            Incomplete characters of a token are searched as U+FFFD.
        tokens: the bytes of forbidden tokens; longer tokens may contain them.
        characters: ``whole``: a token of several bytes consists of whole characters, or is a part
            of one character. ``left-to-right``: such a part must be the beginning of a character,
            so a character is assembled from its left (arXiv 2505.24689). Bytes that are not UTF-8
            are never merged.
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
        """Build rules that a vocabulary can satisfy.

        Args:
            tokens: texts; ``hex:e4bd`` is the token of these bytes.

        Raises:
            InvalidOption: an invalid regex, a rule that forbids one of the 256 bytes, which every
                vocabulary holds, or an unknown value of ``characters``.
        """
        if characters not in CHARACTERS:
            raise InvalidOption(
                f"characters is {characters!r}",
                f"expected {', '.join(CHARACTERS)}",
                "leave it out for 'any': tokens may hold parts of characters",
            )
        patterns = (looks,) if isinstance(looks, str) else checks.texts("forbid", looks)
        items = [tokens] if isinstance(tokens, str | bytes) else tokens
        items = [
            item if isinstance(item, bytes) else checks.text("an item of forbidden_tokens", item)
            for item in checks.rows("forbidden_tokens", items, "strings or bytes")
        ]
        as_bytes = tuple(sorted(set(map(bytes_of, items))))
        rules = cls(tuple(dict.fromkeys(patterns)), as_bytes, characters)
        for byte in range(256):
            rules._refuse_byte(bytes([byte]))
        return rules

    def __bool__(self) -> bool:
        return bool(self.looks or self.tokens) or self.characters != "any"

    def __str__(self) -> str:
        parts = []
        if self.looks:
            parts.append(f"no match of {' or '.join(self.looks)}")
        if self.tokens:
            parts.append(f"none of {len(self.tokens):,} forbidden tokens")
        if self.characters != "any":
            parts.append(_KEPT[self.characters])
        return ", ".join(parts)

    @property
    def digest(self) -> str:
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
        """Return a function that tells whether a token is allowed; None if all are."""
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
        """Describe the rule that a token breaks; None if it is allowed."""
        for look in self.looks:
            if _matcher(look)(token):
                return f"matches --forbid {look}"
        if token in set(self.tokens):
            return "is one of the forbidden tokens"
        if self.characters == "any" or keeps_characters(token, self.characters != "whole"):
            return None
        return f"does not keep --characters {self.characters}"

    def require_of_merges(self, given: NDArray[np.int32] | None, tie_break: str, what: str) -> None:
        """Raise `InvalidOption` if ``given`` (int32 [n, 2]) makes a forbidden token."""
        if given is None or not self:
            return
        given_tokens = token_bytes(map(tuple, given.tolist()), byte_order(tie_break))
        broken = self.first_broken(given_tokens)
        if broken is not None:
            raise InvalidOption(
                f"{what} make {shown(broken)}, which {self.broken_by(broken)}",
                "expected merges that keep the rules",
                "leave the token out, or do not forbid it",
            )

    def prove(self, tokens: Iterable[bytes]) -> None:
        """Raise `InvalidTokenizer` if an ordinary token of a vocabulary breaks a rule."""
        broken = self.first_broken(tokens)
        if broken is not None:
            raise InvalidTokenizer(
                f"the vocabulary holds {shown(broken)}, which {self.broken_by(broken)}",
                "expected no learned token that breaks a rule",
                "this is a defect of bpeline: report it; nothing was published",
            )

    def first_broken(self, tokens: Iterable[bytes]) -> bytes | None:
        allows = self.judge()
        if allows is None:
            return None
        return next((token for token in tokens if not allows(token)), None)

    def _refuse_byte(self, byte: bytes) -> None:
        reason = self.broken_by(byte)
        if reason is not None:
            raise InvalidOption(
                f"the byte {shown(byte)} {reason}",
                "expected rules for two bytes or more: the 256 bytes are always tokens, and "
                "incomplete characters are searched as U+FFFD",
                r"for example, write `--forbid '\d.|.\d'` to keep digits separate",
            )


NO_RULES = TokenRules()
_KEPT: dict[Characters, str] = {
    "whole": "whole characters or a part of one",
    "left-to-right": "whole characters or the beginning of one",
}


def keeps_characters(token: bytes, from_left: bool) -> bool:
    """Whether a token is a byte, whole characters, or a part or beginning of one."""
    if len(token) < 2 or token.isascii():
        return True
    try:
        read = codecs.utf_8_decode(token, "strict", False)[1]  # stops before an incomplete one
    except UnicodeDecodeError:
        continues = len(token) <= _MOST_CONTINUATIONS and all(byte >> 6 == 0b10 for byte in token)
        return continues and not from_left
    # The codec accepts two bytes of a surrogate, which is not a character.
    begins = read == 0 and not (token[0] == 0xED and token[1] >= 0xA0)
    return begins or read == len(token)


def bytes_of(token: str | bytes) -> bytes:
    """Parse a token in a list: text, or ``hex:`` and its bytes."""
    if isinstance(token, bytes):
        return token
    try:
        content = (
            token.encode() if not token.startswith(_HEX) else bytes.fromhex(token[len(_HEX) :])
        )
    except (UnicodeEncodeError, ValueError):
        content = b""
    if not content:
        raise InvalidOption(
            f"the forbidden token {token!r} is not a token",
            "expected at least one character, or hex: and pairs of hexadecimal digits",
            "write the token as it is, with its leading space, or 'hex:20ff'",
        )
    return content


def spelling_of(token: bytes) -> str:
    """Spell a token for a list, the inverse of `bytes_of`."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return _HEX + token.hex()
    is_line = text.splitlines() == [text]
    return text if is_line and not text.startswith(_HEX) else _HEX + token.hex()


def read_token_list(path: str | Path) -> tuple[str, ...]:
    """Read tokens from a UTF-8 file, one per line; empty lines are skipped."""
    accepted = "expected a UTF-8 file with one token per line; a leading space belongs to the token"
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
            "expected a regex without catastrophic backtracking",
            "write (?:a+)+ as a+, or make repetitions possessive: a++",
        ) from error


def _compiled(look: str) -> Any:
    source = _NAMED_REGEXES.get(look, look)
    accepted = (
        f"expected {', '.join(FORBIDDEN_LOOKS)}, or a regex in the syntax of Python's `regex` "
        f"package of at most {LONGEST_REGEX:,} bytes"
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
        "write `--forbid digits`, or correct the regex",
    )
