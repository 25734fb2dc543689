"""Validation of arguments of public functions; returns normalized values.

NumPy scalars become Python numbers; iterables become lists. A bool or NaN is not a number, and a
string is not a list of strings. Wrong types raise `WrongKind`, wrong values `InvalidOption`.
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
_MADE_BY = {  # example expressions for classes without a literal
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
    """Raise an error for an invalid argument.

    Args:
        write: an example of a valid one, such as ``min_count=2``.
        flaw: appended to the value; its type by default.
        error: `InvalidOption` for a value of the right type.
    """
    why = flaw or ("" if value is None else f", of type {type(value).__name__}")
    raise error(
        f"{name}={_SHOWN.repr(value)} was given{why}", f"expected: {accepted}", f"write {write}"
    )


def whole_number(name: str, value: object, least: int = -_WIDEST, next_step: str = "") -> int:
    """Check a whole number ≥ ``least`` of at most 64 bits."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        parsed = number_in(value)
        example = int(parsed) if parsed is not None and parsed.is_integer() else 1000
        refuse(name, value, "a whole number", f"{name}={example}")
    whole = int(value)
    if least <= whole < _WIDEST:
        return whole
    bound = "of at most 64 bits" if abs(whole) >= _WIDEST else f"of at least {least}"
    raise InvalidOption(
        f"{name} is {_SHOWN.repr(whole)}",
        f"expected: a whole number {bound}",
        next_step or f"write {name}={max(least, 1)}",
    )


def set_whole_numbers(record: object, **least: int) -> None:
    """Check fields of a frozen dataclass against their minimum, and set them."""
    for name, smallest in least.items():
        object.__setattr__(record, name, whole_number(name, getattr(record, name), smallest))


def row_number(what: str, value: object, rows: int) -> int:
    """Check an index from 0 to ``rows - 1``; negative indices are not allowed."""
    row = whole_number(what, value)
    if not 0 <= row < rows:
        raise OutOfRange(
            f"{what} {row} is out of range: there are {rows}",
            f"expected: 0 to {rows - 1}" if rows else "",
            f"write 0 for the first {what}; len() returns the number",
        )
    return row


def number(name: str, value: object) -> int | float:
    """Check a finite number."""
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            if math.isfinite(value):
                return value if isinstance(value, (int, float)) else float(value)
        except OverflowError:  # an integer too large for a float
            pass
    parsed = number_in(value)
    refuse(name, value, "a finite number", f"{name}={0.5 if parsed is None else parsed}")


def number_in(value: object) -> float | None:
    """Parse a finite number below 2⁵³ from a text or number; None if there is none."""
    if isinstance(value, bool) or not isinstance(value, (str, Real)):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    return parsed if abs(parsed) < 1 << 53 else None


def flag(name: str, value: object) -> bool:
    if type(value).__name__ not in ("bool", "bool_"):
        refuse(name, value, "True or False", f"{name}={_FLAGS.get(str(value).lower(), 'True')}")
    return bool(value)


def text(name: str, value: object, example: str = "text") -> str:
    """Check a string that can be encoded as UTF-8."""
    if not isinstance(value, str):
        suggestion = value.decode("utf-8", "replace") if isinstance(value, bytes) else example
        refuse(name, value, "a string", f"{name}={suggestion!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        flaw = ", which contains a lone surrogate and cannot be encoded as UTF-8"
        refuse(name, value, "a string", f"{name}={example!r}", flaw, InvalidOption)
    return value


def texts(name: str, values: object, *, ordered: bool = True) -> list[str]:
    """Check a list of strings, or a set where order is irrelevant; None is empty."""
    if isinstance(values, (set, frozenset)) and not ordered:
        values = list(values)
    items = rows(name, values, "strings")
    for item in items:
        if not isinstance(item, str):
            flaw = f", which contains {_SHOWN.repr(item)}"
            refuse(name, items, "a list of strings", f"{name}=['text']", flaw)
        text(f"an item of {name}", item)
    return items


def rows(name: str, values: object, what: str) -> list[Any]:
    """Check an ordered iterable and return it as a list; None is an empty list."""
    if values is None:
        return []
    shown = _SHOWN.repr(values)
    if isinstance(values, (set, frozenset)):
        refuse(name, values, f"a list of {what}", f"{name}=sorted({shown})")
    if isinstance(values, (str, bytes, bytearray, Mapping)) or not isinstance(values, Iterable):
        refuse(name, values, f"a list of {what}", f"{name}=[{shown}]")
    return list(values)


def iterable(name: str, values: T, what: str) -> T:
    """Check an iterable, without reading it."""
    if isinstance(values, (str, bytes, bytearray)) or not isinstance(values, Iterable):
        refuse(name, values, f"an iterable of {what}", f"{name}=[{_SHOWN.repr(values)}]")
    return values


def path(name: str, value: object) -> Path:
    return Path(location(name, value))


def location(name: str, value: object) -> str | Path:
    """Check a path or URL and return it as written."""
    if not isinstance(value, (str, os.PathLike)):
        suggestion = os.fsdecode(value) if isinstance(value, bytes) else "file.txt"
        refuse(name, value, "a path", f"{name}={suggestion!r}")
    try:
        encoded = os.fsencode(value)
    except (TypeError, UnicodeEncodeError):
        encoded = b""
    if not encoded or b"\0" in encoded:
        refuse(name, value, "a path", f"{name}='file.txt'", ", not a file name", InvalidOption)
    return value if isinstance(value, (str, Path)) else Path(os.fsdecode(encoded))


def choice(name: str, value: object, choices: Any) -> Any:
    """Check a string against a ``Literal`` or a collection."""
    options = list(choices if isinstance(choices, Collection) else get_args(choices))
    if isinstance(value, str) and value in options:
        return value
    expected = ", ".join(map(repr, options))
    if not isinstance(value, str):
        refuse(name, value, expected, f"{name}={options[0]!r}")
    near = difflib.get_close_matches(value, options, 1) or options
    refuse(name, value, expected, f"{name}={near[0]!r}", ", not one of the choices", InvalidOption)


def instance(name: str, value: T, kind: type | str) -> T:
    """Check an instance of a class, given as a class or by name to avoid its import."""
    class_name = kind if isinstance(kind, str) else kind.__name__
    is_instance = (
        any(base.__name__ == kind for base in type(value).__mro__)
        if isinstance(kind, str)
        else isinstance(value, kind)
    )
    if not is_instance:
        refuse(name, value, class_name, f"{name}={_MADE_BY.get(class_name, f'{class_name}(...)')}")
    return value


def function(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        refuse(name, value, "a function", f"{name}=print")
    return value


def mapping(name: str, values: Any, check: Callable[[str, Any], T], what: str) -> dict[str, T]:
    """Check a mapping from strings to values."""
    if not isinstance(values, Mapping):
        refuse(name, values, f"a mapping from strings to {what}", f"{name}={{'a': ...}}")
    return {
        text(f"a key of {name}", key): check(f"{name}[{key!r}]", item)
        for key, item in values.items()
    }


def options_of(function: Callable[..., Any], options: Collection[str]) -> None:
    """Raise `InvalidOption` for options that a function does not have."""
    parameters = inspect.signature(function).parameters
    for name in options:
        if name not in parameters:
            raise InvalidOption(
                f"{function.__qualname__} has no parameter {name!r}",
                f"expected: {', '.join(parameters)}",
                f"remove {name}{likely(name, parameters)}",
            )
