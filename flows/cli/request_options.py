"""Options of a command from the fields of a request: their types, defaults and descriptions."""

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
    """An option for each field of a request; a value that nobody gives is None, or an empty tuple.

    Args:
        request: whose fields.
        spelt: field → ``option``, where that is not the field's name, and arguments of
            `click.option` that differ.
        but: fields that are no options.
    """
    names = [name for name in request.model_fields if name not in but]

    def add(command: Command) -> Command:
        for name in reversed(names):
            given = dict(spelt.get(name, {}))
            option = given.pop("option", "--" + name.replace("_", "-"))
            described = _described(request.model_fields[name])
            if described.get("is_flag"):
                option += f"/--no-{option.removeprefix('--')}"
            command = click.option(option, name, **described | given)(command)
        return command

    return add


settings_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set any parameter by its name in bpeline.toml; options.NAME for one of the algorithm. "
    "Repeat for more.",
)


def with_settings(
    request: type[Request], given: Mapping[str, Any], settings: Iterable[str]
) -> dict[str, Any]:
    """Parameters with those of `settings_option` over them.

    A value is TOML (``0.05``, ``true``, ``["a", "b"]``), else text. Lists take single values, too.

    Raises:
        InvalidOption: a setting without a name, or of a parameter that the request does not have.
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
        try:
            value = parse_toml(f"value = {text}".encode())["value"]
        except ValueError:
            value = text
        if option:
            merged[name] = {**(merged.get(name) or {}), option: value}
        elif get_origin(field.annotation) is tuple:
            before = merged[name] if name in seen else ()
            merged[name] = (*before, *(value if isinstance(value, list) else (value,)))
        else:
            merged[name] = value
        seen.add(name)
    return merged


def _described(field: FieldInfo) -> dict[str, Any]:
    """What click is told of a field."""
    said = str(field.description)
    several = get_origin(field.annotation) is tuple
    default = "" if several or field.default is None or field.is_required() else field.default
    usual = f"  [default: {default}]" if default != "" else ""
    told: dict[str, Any] = {"help": f"{said[:1].upper()}{said[1:]}.{usual}"}
    if several:
        return {**told, "multiple": True, "help": f"{told['help']} Repeatable."}
    kinds = [kind for kind in get_args(type_of(field)) if kind is not NoneType]
    if get_origin(field.annotation) is Literal:
        return {**told, "type": click.Choice(list(get_args(field.annotation)))}
    type_ = kinds[0] if kinds else field.annotation
    # Without a default of its own: a flag that nobody gives must not undo what a file says.
    return {**told, "is_flag": True, "default": None} if type_ is bool else {**told, "type": type_}
