"""What requests have in common: a pydantic model, checked strictly, that is a flow's parameter.

Knows no request.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterator
from inspect import Parameter
from numbers import Integral, Real
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import SkipJsonSchema

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption, WrongKind

R = TypeVar("R")


# What forms read as Markdown, outside of code: escaped where it is meant as it stands.
_MARKDOWN = re.compile(r"`[^`]*`|[*<\[]")


def as_markdown(text: str) -> str:
    """Text that a form, which reads Markdown, shows as it stands."""
    return _MARKDOWN.sub(lambda sign: sign[0] if sign[0][0] == "`" else f"\\{sign[0]}", text)


class _Unset(dict[str, Any]):
    """A JSON schema without a null default: a form would send it, and it is of another type."""

    def __setitem__(self, key: str, value: Any) -> None:
        if key != "default" or value is not None:
            super().__setitem__(key, value)


class _MayBeEmpty:
    """Of a form's field that may be left empty, and is None then."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return _Unset(handler(core))


Given = TypeVar("Given")
#: A value that may be left out; forms show its type alone.
Maybe = Annotated[
    Given | SkipJsonSchema[None],
    BeforeValidator(lambda value: None if value == "" else value),
    _MayBeEmpty(),
]


def _as_form(schema: dict[str, Any], model: type[Request]) -> None:
    """What a form shows of a request: words beside numbers as choices, descriptions as Markdown."""
    for name, one in schema["properties"].items():
        one["description"] = as_markdown(one["description"])
        if one.get("default", "") is None:  # which its own type does not accept
            del one["default"]
        if word := model.words_for.get(name):
            kind = one.pop("type")
            number = {"type": kind, "title": "number"}
            one["anyOf"] = [number, {"type": "string", "title": word, "enum": [word]}]


class Request(BaseModel):
    """What is asked of a flow: a field for each option, with its default and its description."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_as_form)

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
        try:
            return cls(**parameters)
        except ValidationError as error:
            raise _as_ours(error, cls) from None

    @model_validator(mode="wrap")
    @classmethod
    def _strict(cls, asked: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """See the types before anything is completed from them; what is None is left out."""
        if not isinstance(asked, dict):
            return handler(asked)
        return handler(
            {
                name: cls._of_its_type(name, value)
                for name, value in asked.items()
                if value is not None and not (value == "" and cls._may_be_empty(name))
            }
        )

    @classmethod
    def _of_its_type(cls, name: str, value: Any) -> Any:
        """A value as its field takes it.

        Raises:
            WrongKind, InvalidOption: it is of another type, or not one of a few.
        """
        alone = name in cls.one_for_many and isinstance(value, str)
        plain = (value,) if alone else _as_plain(name, value)
        known = _types_of(cls).get(name)
        if known is None or (isinstance(plain, str) and plain == cls.words_for.get(name)):
            return plain
        try:
            return known.validate_python(plain)
        except ValidationError as error:
            raise _of_another_type(cls, name, plain, error) from None

    @classmethod
    def _may_be_empty(cls, name: str) -> bool:
        return name in cls.model_fields and cls.model_fields[name].default is None


@functools.cache
def _types_of(model: type[Request]) -> dict[str, TypeAdapter[Any]]:
    strict = ConfigDict(strict=True, allow_inf_nan=False)
    fields = model.model_fields.items()
    return {name: TypeAdapter(type_of(field), config=strict) for name, field in fields}


def _of_another_type(
    model: type[Request], name: str, value: Any, error: ValidationError
) -> InvalidOption:
    first = error.errors()[0]
    given = first["input"]
    what = _typed(name) if given is value else f"an item of {_typed(name)}"
    meant = None if isinstance(value, float) else checks.number_in(value)
    write = f"{name}=[{value!r:.60}]" if first["type"] == "tuple_type" else ""
    if first["type"] == "int_type" and meant is not None and meant.is_integer():
        write = f"{name}={int(meant)}"
    return (WrongKind if first["type"].endswith("_type") else InvalidOption)(
        f"{what} is {given!r:.60}, of type {type(given).__name__}: "
        f"{first['msg'][:1].lower()}{first['msg'][1:]}",
        f"accepted: {model.model_fields[name].description}",
        f"write {write}" if write else f"give {name} another value, or leave it out",
    )


def _typed(name: str) -> str:
    return "--threads" if name == "workers" else "--" + name.replace("_", "-")


def _as_plain(name: str, value: Any) -> Any:
    """Paths as text and rows as tuples, which is what requests hold; numbers of NumPy as Python's.

    Raises:
        InvalidOption: a whole number of more than 64 bits.
    """
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple, Iterator)):
        return tuple(_as_plain(name, one) for one in value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return checks.whole_number(name, value)
    if isinstance(value, Real) and not isinstance(value, (bool, float)):
        return float(value)
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
    """Give a function the fields of a request as parameters, instead of the request.

    For flows whose deployments replace single parameters: an automation sends one, and the others
    stay. The function takes a request and the directory of a workspace.
    """
    shown = [_parameter(name, field) for name, field in model.model_fields.items()]
    shown.append(Parameter("workspace", _KIND, default=None, annotation=Maybe[str]))  # type: ignore[misc]
    described = {name: field.description for name, field in model.model_fields.items()}
    described["workspace"] = "its directory; BPELINE_HOME, else .bpeline, when empty"

    def mark(function: Callable[[Any, str | None], R]) -> Callable[..., R]:
        returned = get_type_hints(function)["return"]
        signature = inspect.Signature(shown, return_annotation=returned)

        @functools.wraps(function)
        def flow(*args: Any, **parameters: Any) -> R:
            given = signature.bind(*args, **parameters).arguments
            workspace = given.pop("workspace", None)
            return function(model.checked(**given), workspace)

        flow.__signature__ = signature  # type: ignore[attr-defined]
        flow.__annotations__ = {one.name: one.annotation for one in shown} | {"return": returned}
        lines = [f"        {name}: {what}." for name, what in described.items()]
        said, _, raised = (inspect.getdoc(function) or "").partition("\nRaises:\n")
        flow.__doc__ = f"{said.rstrip()}\n\nArgs:\n" + "\n".join(lines)
        if raised:
            flow.__doc__ += f"\n\nRaises:\n{raised}"
        return flow

    return mark


_KIND = Parameter.POSITIONAL_OR_KEYWORD


def _parameter(name: str, field: FieldInfo) -> Parameter:
    default = Parameter.empty if field.is_required() else field.default
    annotation: Any = field.annotation
    if field.metadata:
        annotation = Annotated[annotation, *field.metadata]
    return Parameter(name, _KIND, default=default, annotation=annotation)


def type_of(field: FieldInfo) -> Any:
    """The type of a field's values, None among them where that is its default."""
    kinds = [
        get_args(kind)[0] if get_origin(kind) is Annotated else kind
        for kind in (
            get_args(field.annotation)
            if get_origin(field.annotation) in (Union, UnionType)
            else [field.annotation]
        )
    ]
    return Union[tuple([*kinds, None] if field.default is None else kinds)]  # noqa: UP007
