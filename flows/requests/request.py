"""The base class of requests: strictly checked pydantic models that are parameters of flows."""

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


# Characters that forms would read as Markdown, outside of code.
_MARKDOWN = re.compile(r"`[^`]*`|[*<\[]")


def as_markdown(text: str) -> str:
    """Escape text for forms, which render Markdown."""
    return _MARKDOWN.sub(lambda sign: sign[0] if sign[0][0] == "`" else f"\\{sign[0]}", text)


class _Unset(dict[str, Any]):
    """A JSON schema without a null default, which a form would send and fail to validate."""

    def __setitem__(self, key: str, value: Any) -> None:
        if key != "default" or value is not None:
            super().__setitem__(key, value)


class _MayBeEmpty:
    """Marks a field of a form that may be left empty and is then None."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return _Unset(handler(core))


Given = TypeVar("Given")
#: An optional value; forms show only its type.
Maybe = Annotated[
    Given | SkipJsonSchema[None],
    BeforeValidator(lambda value: None if value == "" else value),
    _MayBeEmpty(),
]


def _as_form(schema: dict[str, Any], model: type[Request]) -> None:
    """Adapt the JSON schema for forms: Markdown descriptions, and words such as auto as choices."""
    for name, schema_ in schema["properties"].items():
        schema_["description"] = as_markdown(schema_["description"])
        if schema_.get("default", "") is None:  # not valid for its own type
            del schema_["default"]
        if word := model.words_for.get(name):
            kind = schema_.pop("type")
            number = {"type": kind, "title": "number"}
            schema_["anyOf"] = [number, {"type": "string", "title": word, "enum": [word]}]


class Request(BaseModel):
    """The parameters of a flow: a field for each option, with default and description."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_as_form)

    #: Parameter → a word that is accepted instead of its type, such as auto.
    words_for: ClassVar[dict[str, str]] = {}
    #: Parameters that accept a single value instead of a list.
    one_for_many: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def checked(cls, **parameters: Any) -> Self:
        """Create a request; parameters left out or None get their defaults.

        Raises:
            InvalidOption: an unknown, missing or invalid parameter.
            BpelineError: other checks of the request.
        """
        try:
            return cls(**parameters)
        except ValidationError as error:
            raise _as_ours(error, cls) from None

    @model_validator(mode="wrap")
    @classmethod
    def _strict(cls, asked: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Check the types before defaults are completed, and drop values that are None."""
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
        is_single = name in cls.one_for_many and isinstance(value, str)
        plain = (value,) if is_single else _as_plain(name, value)
        adapter = _types_of(cls).get(name)
        if adapter is None or (isinstance(plain, str) and plain == cls.words_for.get(name)):
            return plain
        try:
            return adapter.validate_python(plain)
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
    bad_value = first["input"]
    subject = _typed(name) if bad_value is value else f"an item of {_typed(name)}"
    number = None if isinstance(value, float) else checks.number_in(value)
    suggestion = f"{name}=[{value!r:.60}]" if first["type"] == "tuple_type" else ""
    if first["type"] == "int_type" and number is not None and number.is_integer():
        suggestion = f"{name}={int(number)}"
    return (WrongKind if first["type"].endswith("_type") else InvalidOption)(
        f"{subject} is {bad_value!r:.60}, of type {type(bad_value).__name__}: "
        f"{first['msg'][:1].lower()}{first['msg'][1:]}",
        f"expected {model.model_fields[name].description}",
        f"write {suggestion}" if suggestion else f"give {name} another value, or leave it out",
    )


def _typed(name: str) -> str:
    return "--threads" if name == "workers" else "--" + name.replace("_", "-")


def _as_plain(name: str, value: Any) -> Any:
    """Convert paths to text, sequences to tuples, and NumPy numbers to Python's."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple, Iterator)):
        return tuple(_as_plain(name, item) for item in value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return checks.whole_number(name, value)
    if isinstance(value, Real) and not isinstance(value, (bool, float)):
        return float(value)
    return value


def _as_ours(error: ValidationError, model: type[Request]) -> BpelineError:
    """Convert the first error of pydantic, or return the `BpelineError` inside."""
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
            f"expected one of {', '.join(model.model_fields)}",
            "leave it out",
        )
    if first["type"] == "missing":
        return InvalidOption(f"{name} is missing", field.description or "", f"give {typed}")
    return InvalidOption(
        f"{typed} is {first['input']!r}: {first['msg'][:1].lower()}{first['msg'][1:]}",
        f"expected {field.description}",
        f"give {typed} another value, or leave it out",
    )


def request_parameters(
    model: type[Request],
) -> Callable[[Callable[[Any, str | None], R]], Callable[..., R]]:
    """Decorate a function of a request and a workspace, so that it takes the request's fields.

    For flows whose automations override single parameters of a deployment.
    """
    signature_parameters = [_parameter(name, field) for name, field in model.model_fields.items()]
    signature_parameters.append(Parameter("workspace", _KIND, default=None, annotation=Maybe[str]))  # type: ignore[misc]
    described = {name: field.description for name, field in model.model_fields.items()}
    described["workspace"] = "workspace directory; default: BPELINE_HOME, else .bpeline"

    def mark(function: Callable[[Any, str | None], R]) -> Callable[..., R]:
        returned = get_type_hints(function)["return"]
        signature = inspect.Signature(signature_parameters, return_annotation=returned)

        @functools.wraps(function)
        def flow(*args: Any, **parameters: Any) -> R:
            arguments = signature.bind(*args, **parameters).arguments
            workspace = arguments.pop("workspace", None)
            return function(model.checked(**arguments), workspace)

        flow.__signature__ = signature  # type: ignore[attr-defined]
        flow.__annotations__ = {
            parameter.name: parameter.annotation for parameter in signature_parameters
        } | {"return": returned}
        lines = [f"        {name}: {description}." for name, description in described.items()]
        summary, _, raised = (inspect.getdoc(function) or "").partition("\nRaises:\n")
        flow.__doc__ = f"{summary.rstrip()}\n\nArgs:\n" + "\n".join(lines)
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
    """The type of a field's values, with None if that is the default."""
    kinds = [
        get_args(kind)[0] if get_origin(kind) is Annotated else kind
        for kind in (
            get_args(field.annotation)
            if get_origin(field.annotation) in (Union, UnionType)
            else [field.annotation]
        )
    ]
    return Union[tuple([*kinds, None] if field.default is None else kinds)]  # noqa: UP007
