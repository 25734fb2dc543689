"""The Numba signature that a kernel's annotations declare; knows nothing of how it is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numba
from numba import types

_PLAIN = {int: types.int64, float: types.float64, bool: types.boolean, type(None): types.none}


@dataclass(frozen=True, slots=True)
class Signature:
    """What a kernel takes and gives, as Numba's types.

    Attributes:
        kernel: its module and name.
        arguments: by name, in order.
        returned: what it gives.
    """

    kernel: str
    arguments: dict[str, types.Type]
    returned: types.Type

    @property
    def dtypes(self) -> tuple[types.Type, ...]:
        """Those of the arguments."""
        return tuple(self.arguments.values())

    def types_of(self, given: Sequence[Any]) -> tuple[types.Type, ...]:
        """The types of values that are as declared; arrays may be writable for read-only ones.

        Raises:
            TypeError: one is not; names it.
        """
        found = tuple(map(numba.typeof, given))
        for (name, wanted), one in zip(self.arguments.items(), found, strict=True):
            if one != wanted and _read_only(one) != wanted:
                raise TypeError(f"{self.kernel} takes {wanted} as {name}, not {one}")
        return found


def signature_of(function: Any) -> Signature:
    """What a function's annotations declare.

    Raises:
        TypeError: a parameter or the result is not declared; names it.
    """
    kernel = name_of(function)
    hints = get_type_hints(function, include_extras=True)
    code = function.__code__
    names = (*code.co_varnames[: code.co_argcount], "return")
    declared = {name: _type_of(hints.get(name), f"{name} of {kernel}") for name in names}
    return Signature(kernel, declared, declared.pop("return"))


def name_of(function: Any) -> str:
    """The name of a kernel, with its module below `tokenizer_core`."""
    return f"{function.__module__.rpartition('tokenizer_core.')[2]}.{function.__name__}"


def _type_of(annotation: Any, what: str) -> types.Type:
    if get_origin(annotation) is Annotated:
        for said in get_args(annotation)[1:]:
            if isinstance(said, types.Type):
                return said
    elif get_origin(annotation) is tuple:
        parts = [_type_of(part, what) for part in get_args(annotation)]
        return types.BaseTuple.from_types(parts)
    elif annotation in _PLAIN:
        return _PLAIN[annotation]
    elif hasattr(annotation, "_fields"):
        hints = get_type_hints(annotation, include_extras=True)
        fields = [_type_of(hints[name], f"{name} in {what}") for name in annotation._fields]
        return types.BaseTuple.from_types(fields, annotation)
    raise TypeError(f"{what} is annotated {annotation}, which declares no dtype")


def _read_only(found: types.Type) -> types.Type:
    return found.copy(readonly=True) if isinstance(found, types.Array) else found
