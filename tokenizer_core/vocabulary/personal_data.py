r"""Find tokens that look like e-mail addresses, keys, phone or card numbers.

Text that is repeated often becomes a token of the published vocab. The result is for human review:
tokens are fragments, so a whole address is found only if the split pattern keeps it whole, and ten
digits need not be a phone number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import regex

Kind = Literal["email", "key", "phone", "card"]
KINDS: tuple[Kind, ...] = get_args(Kind)

MEANINGS: dict[Kind, str] = {
    "email": "an e-mail address: letters, @ and a domain with a dot",
    "key": "a key, token or password: a prefix of a known service, a line of PEM, or 16 or more "
    "characters with letters and digits mixed at random",
    "phone": "a telephone number: 7 to 15 digits after +, 9 to 15 digits in groups, or 10 digits "
    "in North American form",
    "card": "a payment card: 13 to 19 digits that start with 2 to 6 and pass the Luhn check",
}

_SHORTEST = 7  # characters; shorter tokens are skipped
_EMAIL = regex.compile(r"[\p{L}\p{N}._%+-]{2,64}@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)*\.\p{L}{2,}")
# Documented prefixes: AWS, GitHub, GitLab, Slack, Stripe and others, Google, npm, JSON Web Tokens
_PREFIXED = regex.compile(
    r"(?:AKIA|ASIA)[0-9A-Z]{4,}|gh[opusr]_[0-9A-Za-z]{4,}|github_pat_\w{4,}|glpat-[\w-]{4,}"
    r"|xox[abeprs]-[\w-]{4,}|(?:sk|pk|rk)_(?:live|test)_\w{4,}|sk-(?:proj-|ant-)?[A-Za-z0-9_]{12,}"
    r"|AIza[\w-]{8,}|npm_[0-9A-Za-z]{8,}|eyJ[\w-]{12,}|-----(?:BEGIN|END)|(?:BEGIN|PRIVATE) .*KEY--"
    r"|\bMII[A-Za-z0-9+/]{10,}"
)
_RUN = regex.compile(r"[A-Za-z0-9+/=]{16,}")
_DIGITS = regex.compile(r"[0-9]+")
_DATE = regex.compile(r"(?<!\d)\d{4}[-./]\d\d?[-./]\d\d?(?!\d)")
_PLUS = regex.compile(r"(?<!\d)\+\d[\d ().-]{5,}\d(?!\d)")
_GROUPS = regex.compile(r"(?<![\d.])\(?0?\d{1,4}\)?(?:[ .-]\(?\d{2,5}\)?){2,4}(?![\d.])")
_NORTH_AMERICA = regex.compile(r"(?<!\d)[2-9]\d\d[2-9]\d{6}(?!\d)")
_CARD = regex.compile(r"(?<!\d)[2-6](?:[ -]?\d){12,18}(?!\d)")
_LIMITS = frozenset(str(limit) for power in (31, 32) for limit in (2**power - 1, 2**power))
_ADDRESS_OF_A_MACHINE = regex.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_LIKE_CHANCE = 3.2  # bits per character; 16 different ones have 4
_FEWEST_NUMBERS = 2  # runs of digits
_FEWEST_CHANGES = 0.25  # between letters and digits, or lower and upper case, per character
_SAME_DIGITS = 4  # fewer different digits make a round number


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A token and the kind of personal data that it looks like."""

    id: int
    token: bytes
    kind: Kind


def suspicious_tokens(tokens: Iterable[tuple[int, bytes]]) -> list[Suspicion]:
    """Return tokens that look like personal data, each with its first kind."""
    return [Suspicion(id_, token, kind) for id_, token in tokens if (kind := kind_of(token))]


def kind_of(token: bytes) -> Kind | None:
    """Return the first kind that a token looks like; None for nearly all."""
    if len(token) < _SHORTEST:
        return None
    text = token.decode(errors="replace")
    return next((kind for kind, looks_so in _LOOKS.items() if looks_so(text)), None)


def looks_like(kind: Kind, token: bytes) -> bool:
    """Return whether a token looks like this kind, whatever other kinds it matches."""
    return len(token) >= _SHORTEST and _LOOKS[kind](token.decode(errors="replace"))


def _is_email(text: str) -> bool:
    return "@" in text and _EMAIL.search(text) is not None


def _is_key(text: str) -> bool:
    return _PREFIXED.search(text) is not None or any(map(_like_chance, _RUN.findall(text)))


def _has_card(text: str) -> bool:
    return _has_digits(text) and any(_is_card(digits) for digits in _CARD.findall(text))


def _has_phone(text: str) -> bool:
    return _has_digits(text) and _is_phone(_DATE.sub("", text))


def _has_digits(text: str) -> bool:
    return sum(map(str.isdecimal, text)) >= _SHORTEST


def _like_chance(run: str) -> bool:
    """Return whether letters and digits alternate at random, unlike words."""
    if len(_DIGITS.findall(run)) < _FEWEST_NUMBERS:
        return False
    classes = [character.isdigit() + 2 * character.isupper() for character in run]
    changes = sum(first != second for first, second in pairwise(classes))
    shares = [number / len(run) for number in Counter(run).values()]
    entropy = -sum(share * math.log2(share) for share in shares)
    return changes >= _FEWEST_CHANGES * len(run) and entropy >= _LIKE_CHANCE


def _is_card(text: str) -> bool:
    digits = _digits(text)
    if len(set(digits)) < _SAME_DIGITS:
        return False
    doubled = [2 * digit - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[::-2]) + sum(doubled)) % 10 == 0


def _is_phone(text: str) -> bool:
    for expression, fewest in ((_PLUS, 7), (_GROUPS, 9), (_NORTH_AMERICA, 10)):
        for number in expression.findall(text):
            digits = _digits(number)
            is_ip_address = _ADDRESS_OF_A_MACHINE.fullmatch(number)
            if fewest <= len(digits) <= 15 and len(set(digits)) >= _SAME_DIGITS:
                steps = {b - a for a, b in pairwise(digits)}
                if not is_ip_address and number not in _LIMITS and len(steps) > 2:
                    return True  # len(steps) > 2 excludes sequences such as 0123456789
    return False


def _digits(text: str) -> list[int]:
    return [int(character) for character in text if character.isdecimal()]


# The order decides the kind of a token that matches several.
_LOOKS: dict[Kind, Callable[[str], bool]] = {
    "email": _is_email,
    "key": _is_key,
    "card": _has_card,
    "phone": _has_phone,
}
