"""What requests have in common: one model from which a flow's parameters and its options follow.

Knows no request.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from inspect import Parameter
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError

from bpeline.flows.running import interruption_behind
from bpeline.tokenizer_core.arguments import Check
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption

R = TypeVar("R")

WORKSPACE = "its directory; BPELINE_HOME, else .bpeline, when empty"


class Request(BaseModel):
    """The parameters of a flow: a field for each, with its default and its description."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Parameter → words that are read before anything else, and are of another type.
    words_for: ClassVar[dict[str, str]] = {}
    #: Parameters of which a single one may be given without a list.
    one_for_many: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def checked(cls, **parameters: Any) -> Self:
        """Make a request; what is left out, or None, has its usual value.

        Raises:
            InvalidOption: a parameter that there is not, that is missing, or is not accepted.
            BpelineError: whatever else a request refuses.
        """
        given = {
            name: cls._of_its_type(name, _as_text(value))
            for name, value in parameters.items()
            if value is not None
        }
        try:
            return cls(**given)
        except ValidationError as error:
            raise _as_ours(error, cls) from None

    @classmethod
    def _of_its_type(cls, name: str, value: Any) -> Any:
        """A value as its field takes it; the model itself would take "3", 3.0 and True for 3.

        Raises:
            InvalidOption: it is of another type.
        """
        check = _checks_of(cls).get(name)
        if name in cls.one_for_many and isinstance(value, str):
            value = (value,)
        word = cls.words_for.get(name)
        if check is None or (isinstance(value, str) and value == word):
            return value
        try:
            return check.taken(value)
        except InvalidOption as error:
            plain = _without_surrogates(value)  # names of files may hold them
            if plain is not value:
                check.taken(plain)
                return value
            raise type(error)(
                f"{_typed(name)} is {value!r:.60}, of type {type(value).__name__}"
                f"{check.flaw(value)}",
                f"{error.accepted} ({cls.model_fields[name].description})",
                error.next_step,
            ) from None


@functools.cache
def _checks_of(model: type[Request]) -> dict[str, Check]:
    return {
        name: Check(model.__name__, _parameter(name, field))
        for name, field in model.model_fields.items()
    }


def _typed(name: str) -> str:
    return "--" + name.replace("_", "-")


def _as_text(value: Any) -> Any:
    """Paths as text, which is what requests hold."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_as_text, value)) if type(value) in (list, tuple) else value
    return value


def _without_surrogates(value: Any) -> Any:
    """Text, or the texts of a row, that has a UTF-8 form; the same object where it has one."""
    if isinstance(value, str):
        plain = value.encode("utf-8", "replace").decode()
        return value if plain == value else plain
    if isinstance(value, (list, tuple)):
        parts = [_without_surrogates(part) for part in value]
        same = all(one is before for one, before in zip(parts, value, strict=True))
        return value if same else parts
    return value


def _as_ours(error: ValidationError, model: type[Request]) -> BpelineError:
    """The first thing that pydantic found, or the error of ours that it met there."""
    first = error.errors()[0]
    ours = first.get("ctx", {}).get("error")
    if isinstance(ours, BpelineError):
        return ours
    name = str(first["loc"][0]) if first["loc"] else ""
    typed = _typed(name)
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


def request_parameters(
    model: type[Request],
) -> Callable[[Callable[[Any, str | None], R]], Callable[..., R]]:
    """Give a flow the parameters of a request, one by one, instead of the request.

    The function takes a request and the directory of a workspace. What is called takes every field
    of the model and ``workspace``, in this order or by name; its signature, its types and the
    arguments in its docstring are made from the model.
    """
    shown = [
        _parameter(name, field, model.words_for.get(name))
        for name, field in model.model_fields.items()
    ]
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
        said, _, raised = (inspect.getdoc(function) or "").partition("\nRaises:\n")
        flow.__doc__ = f"{said.rstrip()}\n\nArgs:\n" + "\n".join(lines)
        if raised:
            flow.__doc__ += f"\n\nRaises:\n{raised}"
        return flow

    return mark


def _parameter(name: str, field: Any, word: str | None = None) -> Parameter:
    """A field as a parameter: it may be None where that is its default, or a word in its stead."""
    default = Parameter.empty if field.is_required() else field.default
    type_ = field.annotation if word is None else field.annotation | Literal[word]
    if default is None and type(None) not in get_args(type_):
        type_ |= None
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=type_)
