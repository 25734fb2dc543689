"""Signatures as forms of Prefect's UI show them best: one type for each parameter, empty or set.

Knows Prefect's habits and no flow. `X | None = None` makes a form ask for the type first and a
table say nothing of it; so it is shown as an `X` that may be left out, and None is accepted anyway.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BeforeValidator, TypeAdapter

# What forms read as Markdown, outside of code: escaped where it is meant as it stands.
_MARKDOWN = re.compile(r"`[^`]*`|[*<\[]")
_EMPTY_IS_NONE = BeforeValidator(lambda value: None if value == "" else value)


def shown_like(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """`functools.wraps`, with a signature and a docstring that make a readable form."""
    signature = inspect.signature(function)
    shown = [
        one.replace(annotation=_shown(one.annotation)) for one in signature.parameters.values()
    ]

    def wrap(wrapper: Any) -> Any:
        wrapped: Any = functools.wraps(function)(wrapper)
        wrapped.__signature__ = signature.replace(parameters=shown)
        wrapped.__doc__ = _MARKDOWN.sub(_escaped, function.__doc__ or "")
        return wrapped

    return wrap


def _escaped(sign: re.Match[str]) -> str:
    return sign[0] if sign[0].startswith("`") else f"\\{sign[0]}"


def _shown(type_: Any) -> Any:
    if get_origin(type_) not in (Union, UnionType):
        return type_
    kinds = [kind for kind in get_args(type_) if kind is not NoneType]
    if NoneType not in get_args(type_):
        return Annotated[type_, _ShownAs(_choice(kinds))]
    plain: Any = Union[tuple(kinds)]  # noqa: UP007
    schema = _WithoutDefault(TypeAdapter(plain).json_schema())
    return Annotated[type_, _EMPTY_IS_NONE, _ShownAs(schema)]


def _choice(kinds: Iterable[Any]) -> dict[str, Any]:
    """A number, or a word in its stead: buttons that are named so, else ``int`` and ``str``."""
    schemas = [TypeAdapter(kind).json_schema() for kind in kinds]
    return {
        "anyOf": [
            {"type": one["type"], "title": word, "enum": [word]}
            if (word := one.get("const"))
            else {**one, "title": "number"}
            for one in schemas
        ]
    }


class _ShownAs:
    """The JSON schema of another type."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return self.schema


class _WithoutDefault(dict[str, Any]):
    """A schema that takes no default: a form would send its null, which is no value of the type."""

    def __setitem__(self, key: str, value: Any) -> None:
        if key != "default":
            super().__setitem__(key, value)
