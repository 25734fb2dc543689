"""What is given to a public function, checked against the types it declares.

A function marked `checked` is never entered with an argument of another type than its annotation
names, so nobody has to write, or to forget, a check of types for a parameter. Ranges, and whatever
else a function asks of a value, are its own to check.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import reprlib
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter
from numbers import Integral
from typing import Any, ForwardRef, TypeVar, cast

from bpeline.tokenizer_core.arguments.kinds import REFUSED, kinds_of, listed, taken_by
from bpeline.tokenizer_core.errors import InvalidOption, OutOfRange, WrongKind, likely

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

_WIDEST = 1 << 64
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 60


def checked(function: F) -> F:
    """Refuse arguments that are not of the types which the function declares.

    Raises:
        WrongKind: an argument of another type.
        InvalidOption: none of the values that a ``Literal`` lists, text that has no UTF-8 form, a
            path that there cannot be, or a number of more than 64 bits.
    """

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        checks = _checks_of(function)
        taken = [check.taken(one) for check, one in zip(checks, given, strict=False)]
        taken += given[len(checks) :]  # too many of them: Python says so
        for check in checks[len(given) :]:
            if check.name in named:
                named[check.name] = check.taken(named[check.name])
        return function(*taken, **named)

    return cast(F, call)


def check_fields(record: R) -> R:
    """Refuse values of other types than a dataclass declares; the same record.

    For its ``__post_init__``, or where it is made of values from a file.

    Raises:
        WrongKind, InvalidOption: as for `checked`.
    """
    made: Callable[..., Any] = type(record)
    for check in _checks_of(made):
        given = getattr(record, check.name)
        taken = check.taken(given)
        if taken is not given:
            object.__setattr__(record, check.name, taken)
    return record


def require_options_of(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse options that a `checked` function will refuse, before anything else is done.

    Raises:
        InvalidOption: it has no parameter of that name.
        WrongKind, InvalidOption: as for `checked`.
    """
    known = {check.name: check for check in _checks_of(inspect.unwrap(function))}
    for name, given in options.items():
        if name not in known:
            raise InvalidOption(
                f"{function.__qualname__} has no parameter {name!r}",
                f"accepted: {', '.join(known)}",
                f"leave {name} out{likely(name, known)}",
            )
        known[name].taken(given)


def whole_number(name: str, value: object, least: int, next_step: str = "") -> int:
    """A whole number from ``least`` on, as Python's: for functions too quick to be `checked`.

    Raises:
        WrongKind, InvalidOption: something else.
    """
    if type(value) is int and value >= least:
        return value
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if whole and value >= least:  # type: ignore[operator]
        return int(value)  # type: ignore[call-overload, no-any-return]
    raise (InvalidOption if whole else WrongKind)(
        f"{name} is {_SHOWN.repr(value)}",
        f"accepted: a whole number from {least} on",
        next_step or f"leave {name} out",
    )


def row_number(what: str, value: object, rows: int) -> int:
    """The number of one of so many rows, as Python's; negative ones do not count from the end.

    Raises:
        WrongKind, OutOfRange: there is no such row.
    """
    number = whole_number(what, value, -_WIDEST, f"write 0 for the first {what}")
    if not 0 <= number < rows:
        raise OutOfRange(
            f"{what} {number} is asked for, of {rows}",
            f"accepted: 0 to {rows - 1}" if rows else "there is none",
            f"write 0 for the first {what}; len() tells how many there are",
        )
    return number


def flag(name: str, value: object) -> bool:
    """True or False; for functions too quick to be `checked`.

    Raises:
        WrongKind: something else.
    """
    if value is True or value is False:
        return value
    (kind,) = kinds_of(bool)
    taken = kind.taken(value)
    if taken is REFUSED:
        raise WrongKind(
            f"{name} is {_SHOWN.repr(value)}",
            "accepted: True or False",
            f"write {name}={kind.meant(value) or 'True'}",
        )
    return bool(taken)


class Check:
    """One parameter: of which function, what it is called, what it takes."""

    def __init__(self, function: str, parameter: Parameter) -> None:
        self.name = parameter.name
        self._function = function
        self._default = parameter.default
        self._kinds = kinds_of(parameter.annotation)
        self._reads = any(kind.reads for kind in self._kinds)

    def flaw(self, given: Any) -> str:
        """What is wrong with a value of the right type, as the end of a sentence; or nothing."""
        return next(filter(None, (kind.flaw(given) for kind in self._kinds)), "")

    def taken(self, given: Any) -> Any:
        """What the function is given for it.

        Raises:
            WrongKind, InvalidOption: what is given is not accepted.
        """
        if given is None and self._default == ():
            return ()
        if self._reads and isinstance(given, Iterator):
            given = list(given)  # once: the next kind would find it empty
        taken = taken_by(self._kinds, given)
        if taken is REFUSED:
            raise self._refusal(given)
        return taken

    def _refusal(self, given: Any) -> InvalidOption:
        right = any(isinstance(given, kind.types) for kind in self._kinds)
        named = "" if given is None else f", of type {type(given).__name__}"
        return (InvalidOption if right and type(given) is not bool else WrongKind)(
            f"{self._function} was given {self.name}={_SHOWN.repr(given)}{named}{self.flaw(given)}",
            f"accepted: {listed(self._kinds)}",
            self._next_step(given),
        )

    def _next_step(self, given: Any) -> str:
        flawed = next((kind for kind in self._kinds if kind.flaw(given)), None)
        if flawed and flawed.mend:
            return flawed.mend
        for kind in () if flawed else self._kinds:
            if meant := kind.meant(given):
                return f"write {self.name}={meant}"
        if self._default is not Parameter.empty:
            return f"leave {self.name} out"
        written = next((kind.example for kind in self._kinds if kind.example), "")
        return f"write {self.name}={written}" if written else f"type help({self._function})"


@functools.cache
def _checks_of(function: Callable[..., Any]) -> list[Check]:
    names = _Names(vars(sys.modules.get(function.__module__, builtins)))
    return [
        Check(function.__qualname__.removesuffix(".__init__"), one)
        for one in inspect.signature(function, locals=names, eval_str=True).parameters.values()
        if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    ]


class _Names(dict[str, Any]):
    """The names of a module; those that only type checkers import stand for themselves."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, None) or ForwardRef(name)
