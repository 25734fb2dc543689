"""The kinds of values that an annotation names: what is taken, and what was probably meant.

Some more is taken than a type checker would: NumPy's numbers where numbers are declared (they
become Python's), a path as text where a `Path` is, and other rows of values, such as generators
and arrays, where a sequence is (they become a list). A ``bool`` is no number, a string is no
sequence of strings, a set has no order, and NaN is no ``float``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from inspect import Parameter
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, Literal, TypeVar, Union, get_args, get_origin

REFUSED: Any = object()
_MEND_ITEM = "put that item right, or take it out"
_WIDEST = 1 << 64  # no whole number that is asked for has more bits
_MADE_BY = {  # values that nobody writes down
    "ParityRule": "ParityRule()",
    "Registry": "open_registry()",
    "SplitPattern": 'SplitPattern.parse("gpt2")',
    "Tokenizer": 'load_tokenizer("news@champion")',
    "WordCounts": 'count_words("corpus.txt")',
}


@dataclass(frozen=True, slots=True)
class Kind:
    """Values of one type.

    Attributes:
        words: what they are called.
        taken: the value for the function, or `REFUSED`.
        types: a refused value of these is of the right type, and wrong all the same.
        meant: what a refused value probably stands for, as it is written; or nothing.
        example: how one is written.
        flaw: what is wrong with a value of the right type, as the end of a sentence; or nothing.
        reads: whether items of an iterator are looked at, which takes them from it.
        mend: what to do about that, where it is something else than to write another value.
    """

    words: str
    taken: Callable[[Any], Any]
    types: tuple[type, ...] = ()
    meant: Callable[[Any], str] = lambda given: ""
    example: str = ""
    flaw: Callable[[Any], str] = lambda given: ""
    mend: str = ""
    reads: bool = False


def kinds_of(annotation: Any) -> tuple[Kind, ...]:
    """The kinds that an annotation names, one for each member of a union.

    Raises:
        NotImplementedError: an annotation that says nothing that could be checked.
    """
    parts = _members(annotation)
    paths = [part for part in parts if _is_path(part)]
    if paths:
        parts = (_PATH_OF_TEXT if str in parts else _PATH, *(
            part for part in parts if part is not str and part not in paths
        ))  # fmt: skip
    return tuple(part if isinstance(part, Kind) else _kind_of(part) for part in parts)


def _members(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, also of those that are members; anything else by itself."""
    annotation = _without_aliases(annotation)
    if _origin(annotation) not in (Union, UnionType):
        return (annotation,)
    return tuple(member for part in get_args(annotation) for member in _members(part))


def _without_aliases(annotation: Any) -> Any:
    """What a type alias such as NumPy 2.5's ``NDArray[np.uint8]`` stands for."""
    while hasattr(annotation, "__value__"):  # `TypeAliasType`, and aliases with arguments
        given = dict(zip(annotation.__type_params__, get_args(annotation), strict=False))
        annotation = annotation.__value__
        parameters = getattr(annotation, "__parameters__", ()) if given else ()
        if parameters:
            annotation = annotation[tuple(given[name] for name in parameters)]
        elif annotation in given:
            annotation = given[annotation]
    return annotation


def taken_by(kinds: tuple[Kind, ...], given: Any) -> Any:
    """What the first kind makes of a value that takes it; or `REFUSED`."""
    for kind in kinds:
        taken = kind.taken(given)
        if taken is not REFUSED:
            return taken
    return REFUSED


def listed(kinds: Iterable[Kind]) -> str:
    """The kinds in words."""
    words = list(dict.fromkeys(kind.words for kind in kinds))
    words = [one for one in words if not any(other.startswith(f"{one} of") for other in words)]
    return ", ".join(words[:-1]) + (" or " if words[1:] else "") + words[-1]


def _origin(annotation: Any) -> Any:
    return get_origin(annotation) or annotation


def _is_path(annotation: Any) -> bool:
    origin = _origin(annotation)
    return isinstance(origin, type) and issubclass(origin, os.PathLike)


def _kind_of(annotation: Any) -> Kind:
    origin, parts = _origin(annotation), get_args(annotation)
    if origin is Annotated:  # the type for who reads it, and what is taken
        return next(part for part in parts if isinstance(part, Kind))
    if isinstance(annotation, ForwardRef):
        return _instances(annotation.__forward_arg__)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin is Callable:
        return _instances_of(callable, "a function")
    if origin is Literal:
        return _one_of(parts)
    if isinstance(annotation, TypeVar) or annotation in (Any, object, Parameter.empty):
        return Kind("anything", lambda given: given)
    if not isinstance(origin, type):
        raise NotImplementedError(f"the annotation {annotation} cannot be checked")
    if issubclass(origin, Mapping):
        return _mappings(*map(kinds_of, parts or (Any, Any)))
    if issubclass(origin, (list, tuple)) or origin is Sequence:
        fixed = len(parts) if origin is tuple and Ellipsis not in parts else None
        if fixed:
            return _instances_of(lambda given: isinstance(given, tuple), "a tuple")
        return _rows(kinds_of(parts[0] if parts else Any), origin is tuple)
    if origin in (Iterable, Collection, AbstractSet, set, frozenset):
        return _collections(kinds_of(parts[0] if parts else Any), origin)
    return _instances(origin.__name__, origin)


def _none(given: Any) -> Any:
    return None if given is None else REFUSED


def _flag(given: Any) -> Any:
    return bool(given) if type(given).__name__ in ("bool", "bool_") else REFUSED


def _meant_flag(given: Any) -> str:
    spelled = {"true": "True", "1": "True", "yes": "True", "false": "False", "0": "False"}
    return spelled.get(str(given).lower(), "")


def _whole(given: Any) -> Any:
    if type(given) is int:
        return given if abs(given) < _WIDEST else REFUSED
    if isinstance(given, Integral) and not isinstance(given, bool):
        return int(given)
    return REFUSED


def _flaw_of_whole(given: Any) -> str:
    wide = type(given) is int and _whole(given) is REFUSED
    return ", which has more than 64 bits" if wide else ""


def _meant_whole(given: Any) -> str:
    try:
        number = float(given) if isinstance(given, (str, Real)) else math.nan
    except (ValueError, OverflowError):
        return ""
    plain = number.is_integer() and abs(number) < 1 << 53 and not isinstance(given, bool)
    return str(int(number)) if plain else ""


def _real(given: Any) -> Any:
    if not isinstance(given, Real) or isinstance(given, bool):
        return REFUSED
    try:
        finite = math.isfinite(given)
    except OverflowError:  # a whole number above all that are floats
        return REFUSED
    if not finite:
        return REFUSED
    return given if isinstance(given, (int, float)) else float(given)


def _meant_real(given: Any) -> str:
    try:
        number = _real(float(given)) if isinstance(given, str) else REFUSED
    except ValueError:
        return ""
    return "" if number is REFUSED else repr(number)


def _flaw_of_text(given: Any) -> str:
    if isinstance(given, str) and _text(given) is REFUSED:
        return ", which holds a lone surrogate and is not UTF-8 therefore"
    return ""


def _text(given: Any) -> Any:
    if not isinstance(given, str):
        return REFUSED
    try:
        str.encode(given)
    except UnicodeEncodeError:
        return REFUSED
    return given


def _text_with_names(given: Any) -> Any:
    if not isinstance(given, str):
        return REFUSED
    try:
        str.encode(given, "utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return REFUSED
    return given


def _number(given: Any) -> Any:
    """A number for Python's ``float``: NaN and infinities, too."""
    if not isinstance(given, Real) or isinstance(given, bool):
        return REFUSED
    try:
        number = float(given)
    except OverflowError:  # a whole number above all that are floats
        return REFUSED
    return given if isinstance(given, (int, float)) else number


def _meant_text(given: Any) -> str:
    if isinstance(given, bytes) and _text(given.decode("utf-8", "surrogateescape")) is not REFUSED:
        return repr(given.decode())
    if isinstance(given, (list, tuple)) and len(given) == 1 and isinstance(given[0], str):
        return repr(given[0])
    return ""


def _bytes(given: Any) -> Any:
    return given if isinstance(given, bytes) else REFUSED


def _flaw_of_path(given: Any) -> str:
    if isinstance(given, str) and _path_of_text(given) is REFUSED:
        return ", which no file system takes" if given else ", which names no file"
    return ""


def _path_of_text(given: Any) -> Any:
    """A path, as it is written; none is empty or holds what no file system takes."""
    if not isinstance(given, (str, os.PathLike)):
        return REFUSED
    try:
        written = os.fsencode(given)
    except (TypeError, UnicodeEncodeError):
        return REFUSED
    if not written or b"\0" in written:
        return REFUSED
    return given if isinstance(given, (str, Path)) else Path(os.fsdecode(written))


def _path(given: Any) -> Any:
    taken = _path_of_text(given)
    return taken if taken is REFUSED or isinstance(taken, Path) else Path(taken)


_PLAIN: dict[Any, Kind] = {
    None: Kind("None", _none),
    NoneType: Kind("None", _none),
    bool: Kind("True or False", _flag, meant=_meant_flag, example="True"),
    int: Kind("a whole number", _whole, (int,), _meant_whole, "1000", _flaw_of_whole),
    float: Kind("a finite number", _real, (float,), _meant_real, "0.5"),
    str: Kind("a string", _text, (str,), _meant_text, '"text"', _flaw_of_text),
    bytes: Kind("bytes", _bytes, example='b"text"'),
}
_PATH_OF_TEXT = Kind(
    "a path", _path_of_text, (str, os.PathLike), _meant_text, '"file.txt"', _flaw_of_path
)
_PATH = replace(_PATH_OF_TEXT, taken=_path)

#: Text in which names of files may stand: of these no system asks that they are UTF-8, and
#: `os.fsdecode` writes other bytes as lone surrogates.
TextWithNames = Annotated[str, replace(_PLAIN[str], taken=_text_with_names)]
#: What was measured, also where that has no value.
MeasuredNumber = Annotated[float, Kind("a number", _number, (), _meant_real, "0.5")]


def _one_of(values: tuple[Any, ...]) -> Kind:
    def taken(given: Any) -> Any:
        found = (one for one in values if isinstance(given, type(one)) and given == one)
        return next(found, REFUSED)

    def meant(given: Any) -> str:
        from difflib import get_close_matches

        names = [one for one in values if isinstance(one, str)]
        near = get_close_matches(given, names, 1) if isinstance(given, str) else []
        return repr(near[0]) if near else ""

    return Kind(", ".join(map(repr, values)), taken, (str,), meant, repr(values[0]))


def _instances(name: str, made: type | None = None) -> Kind:
    """Instances of a class; of one that is not imported here, known by its name."""
    if made is None:
        return _instances_of(
            lambda given: any(one.__name__ == name for one in type(given).__mro__), name
        )
    return _instances_of(lambda given: isinstance(given, made), name)


def _instances_of(accepts: Callable[[Any], bool], name: str) -> Kind:
    example = _MADE_BY.get(name, "")
    return Kind(name, lambda given: given if accepts(given) else REFUSED, example=example)


def _items(kinds: tuple[Kind, ...], given: Collection[Any]) -> Any:
    """Items as the function takes them, in a list; the same collection where they are the same."""
    taken = [taken_by(kinds, one) for one in given]
    if any(one is REFUSED for one in taken):
        return REFUSED
    same = all(one is before for one, before in zip(taken, given, strict=True))
    return given if same else taken


def _rows(kinds: tuple[Kind, ...], as_tuple: bool) -> Kind:
    def taken(given: Any) -> Any:
        if not isinstance(given, (list, tuple)):
            given = _as_list(given)
        items = REFUSED if given is REFUSED else _items(kinds, given)
        return tuple(items) if as_tuple and items is not REFUSED else items

    return replace(_of_items(kinds, "a list", taken), reads=True)


def _of_items(kinds: tuple[Kind, ...], what: str, taken: Callable[[Any], Any]) -> Kind:
    plural = {"a string": "strings", "a whole number": "whole numbers", "a path": "paths"}
    anything = kinds[0].words == "anything"
    of_what = "" if anything else f" of {' or '.join(plural.get(k.words, k.words) for k in kinds)}"
    example = f"[{kinds[0].example}]" if kinds[0].example else ""

    def meant(given: Any) -> str:
        if isinstance(given, AbstractSet) and 0 < len(given) < 10:
            return f"sorted({given!r})"
        short = not isinstance(given, (str, bytes)) or len(given) < 60
        one = isinstance(given, (str, bytes)) if anything else taken_by(kinds, given) is not REFUSED
        return f"[{given!r}]" if short and one else ""

    def flaw(given: Any) -> str:
        return _flaw_of_items(kinds, given) if isinstance(given, (list, tuple)) else ""

    return Kind(what + of_what, taken, (list, tuple), meant, example, flaw, _MEND_ITEM)


def _flaw_of_items(kinds: tuple[Kind, ...], given: Iterable[Any]) -> str:
    for item in given:
        if taken_by(kinds, item) is REFUSED:
            more = "".join(kind.flaw(item) for kind in kinds)
            return f", in which {item!r:.40} stands{more}"
    return ""


def _as_list(given: Any) -> Any:
    if isinstance(given, (str, bytes, bytearray, AbstractSet)):
        return REFUSED
    try:
        return list(given)
    except TypeError:
        return REFUSED


def _collections(kinds: tuple[Kind, ...], origin: type) -> Kind:
    """What gives values one after the other. Of an iterable, whoever reads it looks at them: they
    may be many, or large."""

    def taken(given: Any) -> Any:
        if isinstance(given, (str, bytes, bytearray)) or not isinstance(given, Iterable):
            return REFUSED
        if origin is Iterable:
            return given
        return _items(kinds, given if isinstance(given, Collection) else list(given))

    return replace(_of_items(kinds, "an iterable", taken), reads=origin is not Iterable)


def _mappings(keys: tuple[Kind, ...], values: tuple[Kind, ...]) -> Kind:
    def taken(given: Any) -> Any:
        if not isinstance(given, Mapping):
            return REFUSED
        names, there = _items(keys, given.keys()), _items(values, given.values())
        if names is REFUSED or there is REFUSED:
            return REFUSED
        same = isinstance(names, type(given.keys())) and isinstance(there, type(given.values()))
        return given if same else dict(zip(names, there, strict=True))

    def flaw(given: Any) -> str:
        if not isinstance(given, Mapping):
            return ""
        for key, value in given.items():
            if found := _flaw_of_items(values, [value]):
                return f"{found} at {key!r:.40}"
        return _flaw_of_items(keys, given)

    written = f"{{{keys[0].example}: {values[0].example}}}" if values[0].example else ""
    words = f"a mapping from {listed(keys)} to {listed(values)}"
    return Kind(words, taken, (Mapping,), example=written, flaw=flaw, mend=_MEND_ITEM)
