r"""Tokens that look like somebody's data: addresses, keys, numbers of telephones and cards.

A vocabulary is published, and what training text repeats often enough becomes a token. This is a
screen for people who then look, not a proof: tokens are fragments, so a whole address is found
only where the split pattern leaves it whole, and a number of ten digits need not be a telephone's.
Knows bytes of tokens; nothing of corpora.
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
    "key": "a key, token or password: a prefix that services give theirs, a line of PEM, or 16 "
    "characters and more that mix letters and digits like chance does",
    "phone": "a telephone number: 7 to 15 digits behind +, 9 to 15 digits in groups, or 10 digits "
    "as North America writes them",
    "card": "a payment card: 13 to 19 digits that begin with 2 to 6 and pass the Luhn check",
}

_SHORTEST = 7  # characters; nothing shorter is looked at
_EMAIL = regex.compile(r"[\p{L}\p{N}._%+-]{2,64}@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)*\.\p{L}{2,}")
# Documented prefixes: AWS, GitHub, GitLab, Slack, Stripe and others, Google, npm, JSON Web Tokens.
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
_LIKE_CHANCE = 3.2  # bits for each character; 16 different ones have 4
_FEWEST_NUMBERS = 2  # stretches of digits
_FEWEST_CHANGES = 0.25  # between letters and digits or small and capital ones, per character
_SAME_DIGITS = 4  # a number with fewer different digits is a round one


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A token, and what it looks like."""

    id: int
    token: bytes
    kind: Kind


def suspicious_tokens(tokens: Iterable[tuple[int, bytes]]) -> list[Suspicion]:
    """The tokens that look like personal data, in their order; one of several kinds is one."""
    return [Suspicion(id_, token, kind) for id_, token in tokens if (kind := kind_of(token))]


def kind_of(token: bytes) -> Kind | None:
    """What a token looks like, the first of several kinds; None for nearly all."""
    if len(token) < _SHORTEST:
        return None
    text = token.decode(errors="replace")
    return next((kind for kind, looks_so in _LOOKS.items() if looks_so(text)), None)


def looks_like(kind: Kind, token: bytes) -> bool:
    """Whether a token looks like one kind, whatever else it looks like."""
    return len(token) >= _SHORTEST and _LOOKS[kind](token.decode(errors="replace"))


def _is_email(text: str) -> bool:
    return "@" in text and _EMAIL.search(text) is not None


def _is_key(text: str) -> bool:
    return _PREFIXED.search(text) is not None or any(map(_like_chance, _RUN.findall(text)))


def _has_card(text: str) -> bool:
    return _has_digits(text) and any(_is_card(found) for found in _CARD.findall(text))


def _has_phone(text: str) -> bool:
    return _has_digits(text) and _is_phone(_DATE.sub("", text))


def _has_digits(text: str) -> bool:
    return sum(map(str.isdecimal, text)) >= _SHORTEST


def _like_chance(run: str) -> bool:
    """Whether letters and digits change as in a random string, not as in words or a range."""
    if len(_DIGITS.findall(run)) < _FEWEST_NUMBERS:
        return False
    classes = [character.isdigit() + 2 * character.isupper() for character in run]
    changes = sum(one != other for one, other in pairwise(classes))
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
        for found in expression.findall(text):
            digits = _digits(found)
            of_a_machine = _ADDRESS_OF_A_MACHINE.fullmatch(found)
            if fewest <= len(digits) <= 15 and len(set(digits)) >= _SAME_DIGITS:
                steps = {b - a for a, b in pairwise(digits)}
                if not of_a_machine and found not in _LIMITS and len(steps) > 2:
                    return True  # steps: 0123456789 is no one's
    return False


def _digits(text: str) -> list[int]:
    return [int(character) for character in text if character.isdecimal()]


# In the order in which a token of several kinds is said to be of one.
_LOOKS: dict[Kind, Callable[[str], bool]] = {
    "email": _is_email,
    "key": _is_key,
    "card": _has_card,
    "phone": _has_phone,
}
