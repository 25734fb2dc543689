"""Read dataclasses from JSON values and check the types of their fields."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from bpeline.tokenizer_core.errors import WrongKind

R = TypeVar("R")

_REFUSED: Any = object()
_WIDEST = 1 << 64  # limit for whole numbers


def read(made: type[R], given: Any, what: str = "", *, complete: bool = False) -> R:
    """Build a dataclass from a JSON object, or with its ``of_json``.

    Args:
        what: name of the object in messages; by default the class name.
        complete: require all members, also those with a default.

    Raises:
        WrongKind: a member is missing, unknown or of another type.
    """
    what = what or made.__name__
    if (of_json := getattr(made, "of_json", None)) is not None:
        return cast(R, of_json(given))
    if not isinstance(given, Mapping):
        raise _unread(made, f"{what} is {str(given)[:40]!r}")
    known = {field.name: field for field in fields(made)}  # type: ignore[arg-type]
    if unknown := [name for name in given if name not in known]:
        raise _unread(made, f"{what} has the unknown member {str(unknown[0])[:40]!r}")
    checked = {}
    types = _types_of(cast(type, made))
    for name, field in known.items():
        if name in given:
            checked[name] = _taken(types[name], given[name])
            if checked[name] is _REFUSED:
                raise _unread(made, f"{what} sets {name!r} to {str(given[name])[:40]!r}")
        elif complete or field.default is MISSING:
            raise _unread(made, f"{what} lacks {name!r}")
    return made(**checked)


def _unread(made: type, happened: str) -> WrongKind:
    types = ", ".join(f"{name}: {inspect.formatannotation(kind)}" for name, kind in
                      _types_of(made).items())  # fmt: skip
    return WrongKind(happened, f"expected: {types or 'nothing'}", "write the file again")


def check_fields(record: R) -> R:
    """Check the field types of a dataclass; raises `WrongKind`.

    Strings may contain surrogate escapes, as from `os.fsdecode`; numbers may be NaN.
    """
    cls: type = type(record)
    for name, declared in _types_of(cls).items():
        value = getattr(record, name)
        checked = _taken(declared, value)
        if checked is _REFUSED:
            raise WrongKind(
                f"{cls.__name__} was value {name}={value!r:.60}, of type {type(value).__name__}",
                f"expected: {inspect.formatannotation(declared)}",
                f"type help({cls.__name__})",
            )
        if checked is not value:
            object.__setattr__(record, name, checked)
    return record


@functools.cache
def _types_of(made: type) -> dict[str, Any]:
    return get_type_hints(made)


def _taken(declared: Any, given: Any) -> Any:
    """Convert a value to a field type, or return `_REFUSED`."""
    origin, parts = get_origin(declared) or declared, get_args(declared)
    if origin in (Union, UnionType):
        attempts = (_taken(part, given) for part in parts)
        return next((choice for choice in attempts if choice is not _REFUSED), _REFUSED)
    if hasattr(declared, "of_json"):
        return given if isinstance(given, declared) else read(declared, given)
    if is_dataclass(declared) and isinstance(given, Mapping):
        return read(cast("type[Any]", declared), given)
    if origin is Literal:
        same = any(type(given) is type(choice) and given == choice for choice in parts)
        return given if same else _REFUSED
    if origin is tuple:
        return _tuple_of(parts, given)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_of(parts, given)
    if declared in (int, float):
        number = isinstance(given, Integral if declared is int else Real)
        if not number or isinstance(given, bool):
            return _REFUSED
        return given if declared is float or abs(given) < _WIDEST else _REFUSED
    if declared is Path and isinstance(given, (str, os.PathLike)):
        return Path(given)
    if declared is str and isinstance(given, str):
        return given if _is_writable(given) else _REFUSED
    return given if declared is Any or isinstance(given, origin) else _REFUSED


def _tuple_of(parts: tuple[Any, ...], given: Any) -> Any:
    if not isinstance(given, (list, tuple)):
        return _REFUSED
    kinds = parts[:1] * len(given) if parts[-1] is Ellipsis else parts
    if len(kinds) != len(given):
        return _REFUSED
    items = tuple(map(_taken, kinds, given))
    return _REFUSED if any(item is _REFUSED for item in items) else items


def _mapping_of(parts: tuple[Any, ...], given: Any) -> Any:
    if not isinstance(given, Mapping):
        return _REFUSED
    items = {_taken(parts[0], key): _taken(parts[1], value) for key, value in given.items()}
    return _REFUSED if any(_REFUSED in pair for pair in items.items()) else items


def _is_writable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
