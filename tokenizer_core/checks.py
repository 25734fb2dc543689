"""Checks of what is given to public functions; each returns the value as the function uses it.

NumPy's numbers become Python's, and rows of values, such as generators and arrays, lists. A bool is
no number, a string is no row of strings, and NaN is no number. What has another type is refused by
`WrongKind`, what has the right one by `InvalidOption`.
"""

from __future__ import annotations

import difflib
import inspect
import math
import os
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

from bpeline.tokenizer_core.errors import InvalidOption, OutOfRange, WrongKind, likely

T = TypeVar("T")

_WIDEST = 1 << 64
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 60
_FLAGS = {"true": "True", "1": "True", "yes": "True", "false": "False", "0": "False"}
_MADE_BY = {  # values that nobody writes down
    "ParityRule": "ParityRule()",
    "Registry": "open_registry()",
    "SplitPattern": 'SplitPattern.parse("gpt2")',
    "Tokenizer": 'load_tokenizer("news@champion")',
    "WordCounts": 'count_words("corpus.txt")',
}


def refuse(
    name: str,
    value: object,
    accepted: str,
    write: str,
    flaw: str = "",
    error: type[InvalidOption] = WrongKind,
) -> NoReturn:
    """Raise what refuses a value.

    Args:
        name: of the parameter.
        accepted: what would have been taken.
        write: such a value, as it is written.
        flaw: what is wrong with it, where its type does not say so.
        error: `InvalidOption` for a value of the right type.
    """
    why = flaw or ("" if value is None else f", of type {type(value).__name__}")
    raise error(
        f"{name}={_SHOWN.repr(value)} was given{why}", f"accepted: {accepted}", f"write {write}"
    )


def whole_number(name: str, value: object, least: int = -_WIDEST, next_step: str = "") -> int:
    """A whole number from ``least`` on, of at most 64 bits."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        meant = number_in(value)
        written = int(meant) if meant is not None and meant.is_integer() else 1000
        refuse(name, value, "a whole number", f"{name}={written}")
    whole = int(value)
    if least <= whole < _WIDEST:
        return whole
    what = "of at most 64 bits" if abs(whole) >= _WIDEST else f"from {least} on"
    raise InvalidOption(
        f"{name} is {_SHOWN.repr(whole)}",
        f"accepted: a whole number {what}",
        next_step or f"write {name}={max(least, 1)}",
    )


def set_whole_numbers(record: object, **least: int) -> None:
    """Check fields of a frozen dataclass, from the given numbers on, and set them."""
    for name, smallest in least.items():
        object.__setattr__(record, name, whole_number(name, getattr(record, name), smallest))


def row_number(what: str, value: object, rows: int) -> int:
    """The number of one of so many rows; negative ones do not count from the end."""
    row = whole_number(what, value)
    if not 0 <= row < rows:
        raise OutOfRange(
            f"{what} {row} is asked for, of {rows}",
            f"accepted: 0 to {rows - 1}" if rows else "there is none",
            f"write 0 for the first {what}; len() tells how many there are",
        )
    return row


def number(name: str, value: object) -> int | float:
    """A finite number."""
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            if math.isfinite(value):
                return value if isinstance(value, (int, float)) else float(value)
        except OverflowError:  # a whole number above all that are floats
            pass
    meant = number_in(value)
    refuse(name, value, "a finite number", f"{name}={0.5 if meant is None else meant}")


def number_in(value: object) -> float | None:
    """The finite number that a text or another number stands for, below 2⁵³; None if none."""
    if isinstance(value, bool) or not isinstance(value, (str, Real)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) < 1 << 53 else None


def flag(name: str, value: object) -> bool:
    """True or False."""
    if type(value).__name__ not in ("bool", "bool_"):
        refuse(name, value, "True or False", f"{name}={_FLAGS.get(str(value).lower(), 'True')}")
    return bool(value)


def text(name: str, value: object, example: str = "text") -> str:
    """A string that has a UTF-8 form."""
    if not isinstance(value, str):
        meant = value.decode("utf-8", "replace") if isinstance(value, bytes) else example
        refuse(name, value, "a string", f"{name}={meant!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        flaw = ", which holds a lone surrogate and is not UTF-8"
        refuse(name, value, "a string", f"{name}={example!r}", flaw, InvalidOption)
    return value


def texts(name: str, values: object, *, ordered: bool = True) -> list[str]:
    """Strings, in an order unless it does not matter; None is no string at all."""
    if isinstance(values, (set, frozenset)) and not ordered:
        values = list(values)
    given = rows(name, values, "strings")
    for one in given:
        if not isinstance(one, str):
            flaw = f", in which {_SHOWN.repr(one)} stands"
            refuse(name, given, "a list of strings", f"{name}=['text']", flaw)
        text(f"an item of {name}", one)
    return given


def rows(name: str, values: object, what: str) -> list[Any]:
    """Values in an order, as a list; None is an empty one."""
    if values is None:
        return []
    shown = _SHOWN.repr(values)
    if isinstance(values, (set, frozenset)):
        refuse(name, values, f"a list of {what}", f"{name}=sorted({shown})")
    if isinstance(values, (str, bytes, bytearray, Mapping)) or not isinstance(values, Iterable):
        refuse(name, values, f"a list of {what}", f"{name}=[{shown}]")
    return list(values)


def iterable(name: str, values: T, what: str) -> T:
    """What gives values one after the other, which whoever reads it looks at."""
    if isinstance(values, (str, bytes, bytearray)) or not isinstance(values, Iterable):
        refuse(name, values, f"an iterable of {what}", f"{name}=[{_SHOWN.repr(values)}]")
    return values


def path(name: str, value: object) -> Path:
    """A path; text that names no file is refused."""
    return Path(location(name, value))


def location(name: str, value: object) -> str | Path:
    """A path as it is written, which may be a URL."""
    if not isinstance(value, (str, os.PathLike)):
        meant = os.fsdecode(value) if isinstance(value, bytes) else "file.txt"
        refuse(name, value, "a path", f"{name}={meant!r}")
    try:
        written = os.fsencode(value)
    except (TypeError, UnicodeEncodeError):
        written = b""
    if not written or b"\0" in written:
        refuse(name, value, "a path", f"{name}='file.txt'", ", which names no file", InvalidOption)
    return value if isinstance(value, (str, Path)) else Path(os.fsdecode(written))


def choice(name: str, value: object, choices: Any) -> Any:
    """One of the strings that a ``Literal``, or a collection, lists."""
    known = list(choices if isinstance(choices, Collection) else get_args(choices))
    if isinstance(value, str) and value in known:
        return value
    accepted = ", ".join(map(repr, known))
    if not isinstance(value, str):
        refuse(name, value, accepted, f"{name}={known[0]!r}")
    near = difflib.get_close_matches(value, known, 1) or known
    refuse(name, value, accepted, f"{name}={near[0]!r}", ", which is none of these", InvalidOption)


def instance(name: str, value: T, kind: type | str) -> T:
    """A value of a class, or of one of that name that is not imported where it is checked."""
    named = kind if isinstance(kind, str) else kind.__name__
    of_kind = (
        any(one.__name__ == kind for one in type(value).__mro__)
        if isinstance(kind, str)
        else isinstance(value, kind)
    )
    if not of_kind:
        refuse(name, value, named, f"{name}={_MADE_BY.get(named, f'{named}(...)')}")
    return value


def function(name: str, value: Any) -> Any:
    """A function, or None."""
    if value is not None and not callable(value):
        refuse(name, value, "a function", f"{name}=print")
    return value


def mapping(name: str, values: Any, check: Callable[[str, Any], T], what: str) -> dict[str, T]:
    """A mapping from strings to values that pass a check."""
    if not isinstance(values, Mapping):
        refuse(name, values, f"a mapping from strings to {what}", f"{name}={{'a': ...}}")
    return {
        text(f"a key of {name}", key): check(f"{name}[{key!r}]", one) for key, one in values.items()
    }


def options_of(function: Callable[..., Any], options: Collection[str]) -> None:
    """Refuse options that a function does not have.

    Raises:
        InvalidOption: naming those that it has.
    """
    known = inspect.signature(function).parameters
    for name in options:
        if name not in known:
            raise InvalidOption(
                f"{function.__qualname__} has no parameter {name!r}",
                f"accepted: {', '.join(known)}",
                f"leave {name} out{likely(name, known)}",
            )
