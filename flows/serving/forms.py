"""Signatures as forms of Prefect's UI show them best: one type for each parameter, empty or set.

Knows Prefect's habits and no flow. `X | None = None` makes a form ask for the type first and a
table say nothing of it; so it is shown as an `X` that may be left out, and None is accepted anyway.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import NoneType
from typing import Annotated, Any, Union, get_args

from pydantic import BeforeValidator, TypeAdapter

_EMPTY_IS_NONE = BeforeValidator(lambda value: None if value == "" else value)


def shown_like(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """`functools.wraps`, with a signature that makes a readable form."""
    signature = inspect.signature(function)
    shown = [
        one.replace(annotation=_shown(one.annotation)) for one in signature.parameters.values()
    ]

    def wrap(wrapper: Any) -> Any:
        wrapped: Any = functools.wraps(function)(wrapper)
        wrapped.__signature__ = signature.replace(parameters=shown)
        return wrapped

    return wrap


def _shown(type_: Any) -> Any:
    kinds = get_args(type_)
    if NoneType not in kinds:
        return type_
    plain: Any = Union[tuple(kind for kind in kinds if kind is not NoneType)]  # noqa: UP007
    return Annotated[type_, _EMPTY_IS_NONE, _ShownAs(TypeAdapter(plain).json_schema())]


class _ShownAs:
    """The JSON schema of another type."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return _WithoutDefault(self.schema)


class _WithoutDefault(dict[str, Any]):
    """A schema that takes no default: a form would send its null, which is no value of the type."""

    def __setitem__(self, key: str, value: Any) -> None:
        if key != "default":
            super().__setitem__(key, value)
