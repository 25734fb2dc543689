"""What requests have in common: one model from which a flow's parameters and its options follow.

Knows no request.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, Self, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError

from bpeline.flows.running import interruption_behind
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption

R = TypeVar("R")

WORKSPACE = "its directory; BPELINE_HOME, else .bpeline, when empty"


class Request(BaseModel):
    """The parameters of a flow: a field for each, with its default and its description."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def checked(cls, **parameters: Any) -> Self:
        """Make a request; what is left out, or None, has its usual value.

        Raises:
            InvalidOption: a parameter that there is not, that is missing, or is not accepted.
            BpelineError: whatever else a request refuses.
        """
        given = {name: value for name, value in parameters.items() if value is not None}
        try:
            return cls(**given)
        except ValidationError as error:
            raise _as_ours(error, cls) from None


def _as_ours(error: ValidationError, model: type[Request]) -> BpelineError:
    """The first thing that pydantic found, or the error of ours that it met there."""
    first = error.errors()[0]
    ours = first.get("ctx", {}).get("error")
    if isinstance(ours, BpelineError):
        return ours
    name = str(first["loc"][0]) if first["loc"] else ""
    typed = "--" + name.replace("_", "-")
    field = model.model_fields.get(name)
    if field is None:
        return InvalidOption(
            f"there is no parameter {name!r}",
            f"accepted: {', '.join(model.model_fields)}",
            "leave it out",
        )
    if first["type"] == "missing":
        return InvalidOption(f"{name} is missing", field.description or "", f"give {typed}")
    return InvalidOption(
        f"{typed} is {first['input']!r}: {first['msg'][:1].lower()}{first['msg'][1:]}",
        f"accepted: {field.description}",
        f"give {typed} another value, or leave it out",
    )


def asks(model: type[Request]) -> Callable[[Callable[[Any, str | None], R]], Callable[..., R]]:
    """Give a flow the parameters of a request, one by one, instead of the request.

    The function takes a request and the directory of a workspace. What is called takes every field
    of the model and ``workspace``, in this order or by name; its signature, its types and the
    arguments in its docstring are made from the model.
    """
    shown = [_parameter(name, field) for name, field in model.model_fields.items()]
    shown.append(
        Parameter("workspace", Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=str | None)
    )
    described = {name: field.description for name, field in model.model_fields.items()}
    described["workspace"] = WORKSPACE

    def mark(function: Callable[[Any, str | None], R]) -> Callable[..., R]:
        returned = get_type_hints(function)["return"]
        signature = inspect.Signature(shown, return_annotation=returned)

        @functools.wraps(function)
        def flow(*args: Any, **parameters: Any) -> R:
            given = signature.bind(*args, **parameters).arguments
            workspace = given.pop("workspace", None)
            try:
                return function(model.checked(**given), workspace)
            except Exception as error:
                interruption = interruption_behind(error)
                if interruption is None:
                    raise
                raise interruption from error

        flow.__signature__ = signature  # type: ignore[attr-defined]
        flow.__annotations__ = {one.name: one.annotation for one in shown} | {"return": returned}
        lines = [f"        {name}: {what}." for name, what in described.items()]
        said, _, raised = inspect.getdoc(function).partition("\nRaises:\n")  # type: ignore[union-attr]
        flow.__doc__ = f"{said.rstrip()}\n\nArgs:\n" + "\n".join(lines)
        if raised:
            flow.__doc__ += f"\n\nRaises:\n{raised}"
        return flow

    return mark


def _parameter(name: str, field: Any) -> Parameter:
    """A field as a parameter: whatever is None when nobody says it may also be said to be None."""
    default = Parameter.empty if field.is_required() else field.default
    type_ = field.annotation
    if default is None and type(None) not in get_args(type_):
        type_ |= None
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=type_)
