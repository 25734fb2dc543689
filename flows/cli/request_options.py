"""Command line options made from the fields of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import click

from bpeline.flows.requests import type_of
from bpeline.tokenizer_core.bounded_files import parse_toml
from bpeline.tokenizer_core.errors import InvalidOption, likely

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from bpeline.flows.requests import Request

Command = TypeVar("Command", bound=Callable[..., Any])


def options_of(
    request: type[Request], spelt: Mapping[str, Mapping[str, Any]], *, but: tuple[str, ...]
) -> Callable[[Command], Command]:
    """Add an option for each field of a request; options not typed are None or ``()``.

    Args:
        request: the model.
        spelt: field → arguments of `click.option` that differ, and ``option`` for its name.
        but: fields without an option.
    """
    names = [name for name in request.model_fields if name not in but]

    def add(command: Command) -> Command:
        for name in reversed(names):
            arguments = dict(spelt.get(name, {}))
            option = arguments.pop("option", "--" + name.replace("_", "-"))
            described = _described(request.model_fields[name])
            if described.get("is_flag"):
                option += f"/--no-{option.removeprefix('--')}"
            command = click.option(option, name, **described | arguments)(command)
        return command

    return add


settings_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set any parameter by its name in bpeline.toml, or options.NAME of the algorithm. "
    "Repeatable.",
)


def with_settings(
    request: type[Request], given: Mapping[str, Any], settings: Iterable[str]
) -> dict[str, Any]:
    """Merge the values of `settings_option` into parameters.

    A value is TOML (``0.05``, ``true``, ``["a", "b"]``) or else text. Lists accept single values.

    Raises:
        InvalidOption: a setting without a name, or of an unknown parameter.
    """
    merged = dict(given)
    seen: set[str] = set()
    for setting in settings:
        path, equals, text = setting.partition("=")
        name, _, option = path.partition(".")
        field = request.model_fields.get(name)
        if not equals or field is None or bool(option) != (name == "options"):
            raise InvalidOption(
                f"--set {setting!r} names no parameter{likely(name, request.model_fields)}",
                f"expected NAME=VALUE with one of {', '.join(request.model_fields)}",
                "type `--set held_out=0.05` or `--set options.score=gain`",
            )
        value = _value_of(text, holds_text=str in (field.annotation, *get_args(field.annotation)))
        if option:
            merged[name] = {**(merged.get(name) or {}), option: value}
        elif get_origin(field.annotation) is tuple:
            before = merged[name] if name in seen else ()
            merged[name] = (*before, *(value if isinstance(value, list) else (value,)))
        else:
            merged[name] = value
        seen.add(name)
    return merged


def _value_of(text: str, *, holds_text: bool) -> Any:
    """Read TOML or plain text; a parameter that holds text takes numbers and dates as text."""
    try:
        value = parse_toml(f"value = {text}".encode())["value"]
    except ValueError:
        return text
    return text if holds_text and not isinstance(value, str | list) else value


def _described(field: FieldInfo) -> dict[str, Any]:
    description = str(field.description)
    several = get_origin(field.annotation) is tuple
    default = "" if several or field.default is None or field.is_required() else field.default
    default_text = f"  [default: {default}]" if default != "" else ""
    arguments: dict[str, Any] = {
        "help": f"{description[:1].upper()}{description[1:]}.{default_text}"
    }
    if several:
        return {**arguments, "multiple": True, "help": f"{arguments['help']} Repeatable."}
    kinds = [kind for kind in get_args(type_of(field)) if kind is not NoneType]
    if get_origin(field.annotation) is Literal:
        values = [value for value in get_args(field.annotation) if value]
        return {**arguments, "type": click.Choice(values)}
    type_ = kinds[0] if kinds else field.annotation
    # No default: a flag that is not typed must not override the project file.
    return (
        {**arguments, "is_flag": True, "default": None}
        if type_ is bool
        else {**arguments, "type": type_}
    )
