"""Signatures as forms of Prefect's UI show them best: one type for each parameter, empty or set.

Knows Prefect's habits and no flow. `X | None = None` makes a form ask for the type first and a
table say nothing of it; so it is shown as an `X` that may be left out, and None is accepted anyway.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import NoneType
from typing import Annotated, Any, Union, get_args, get_type_hints

from pydantic import BeforeValidator, TypeAdapter


def shown_like(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """`functools.wraps`, with a signature that makes a readable form."""
    types = get_type_hints(function)  # Prefect would look for their names beside the wrapper
    signature = inspect.signature(function)
    shown = [
        one.replace(annotation=_shown(types[one.name])) for one in signature.parameters.values()
    ]

    def wrap(wrapper: Any) -> Any:
        wrapped: Any = functools.wraps(function)(wrapper)
        wrapped.__signature__ = signature.replace(
            parameters=shown, return_annotation=types["return"]
        )
        return wrapped

    return wrap


def _shown(type_: Any) -> Any:
    kinds = get_args(type_)
    if NoneType not in kinds:
        return type_
    plain: Any = Union[tuple(kind for kind in kinds if kind is not NoneType)]  # noqa: UP007
    empty = BeforeValidator(lambda value: None if value == "" else value)
    return Annotated[type_, empty, _ShownAs(plain)]


class _ShownAs:
    """The JSON schema of another type."""

    def __init__(self, type_: Any) -> None:
        self.schema = TypeAdapter(type_).json_schema()

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return _Empty(self.schema)


class _Empty(dict[str, Any]):
    """A schema that takes no default: a form would send its null, which is no value of the type."""

    def __setitem__(self, key: str, value: Any) -> None:
        if key != "default":
            super().__setitem__(key, value)
