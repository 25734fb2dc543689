"""Values that come from files, as dataclasses whose fields have the types that these declare."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from bpeline.tokenizer_core.errors import WrongKind

R = TypeVar("R")

_REFUSED: Any = object()
_WIDEST = 1 << 64  # no whole number that is written has more bits


def check_fields(record: R) -> R:
    """Refuse values of other types than a dataclass declares; the same record, rows as tuples.

    Text may hold names of files, as `os.fsdecode` writes them, and a number may be NaN.

    Raises:
        WrongKind: naming the field.
    """
    made: type = type(record)
    for name, declared in _types_of(made).items():
        given = getattr(record, name)
        taken = _taken(declared, given)
        if taken is _REFUSED:
            raise WrongKind(
                f"{made.__name__} was given {name}={given!r:.60}, of type {type(given).__name__}",
                f"accepted: {inspect.formatannotation(declared)}",
                f"type help({made.__name__})",
            )
        if taken is not given:
            object.__setattr__(record, name, taken)
    return record


@functools.cache
def _types_of(made: type) -> dict[str, Any]:
    return get_type_hints(made)


def _taken(declared: Any, given: Any) -> Any:
    """A value as a field of this type holds it; or `_REFUSED`."""
    origin, parts = get_origin(declared) or declared, get_args(declared)
    if origin in (Union, UnionType):
        taken = (_taken(part, given) for part in parts)
        return next((one for one in taken if one is not _REFUSED), _REFUSED)
    if origin is Literal:
        same = any(type(given) is type(one) and given == one for one in parts)
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
    return _REFUSED if any(one is _REFUSED for one in items) else items


def _mapping_of(parts: tuple[Any, ...], given: Any) -> Any:
    if not isinstance(given, Mapping):
        return _REFUSED
    items = {_taken(parts[0], key): _taken(parts[1], one) for key, one in given.items()}
    return _REFUSED if any(_REFUSED in pair for pair in items.items()) else items


def _is_writable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
