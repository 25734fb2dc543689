"""What people type to mean a version: ``news@champion``, ``news/3``, a digest or a path.

Knows the spelling only; whether such a version exists is decided elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.digests import DIGEST_LENGTH
from bpeline.tokenizer_core.errors import InvalidOption

SHORTEST_DIGEST_PREFIX = 8

CHAMPION = "champion"  # the alias in use; also the label of its figures
CANDIDATE = "candidate"  # the alias of the latest publication

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
# MLflow allows no dot in an alias and reads "v3" and "latest" as versions.
_ALIAS = re.compile(r"(?!v[0-9]+$|latest$)[a-z0-9][a-z0-9_-]{0,63}")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_DIGEST = re.compile(rf"[0-9a-f]{{{SHORTEST_DIGEST_PREFIX},{DIGEST_LENGTH}}}")

# What files of tokenizers are called: whoever types one that is not there means no name.
_FILE = re.compile(r".+\.(?:json|tiktoken|model|gguf|codes|txt)(?:,.*)?", re.DOTALL)
_SIZED = re.compile(r"(.+):([1-9][0-9]{0,8})", re.DOTALL)

# Behind a path: what its files do not say, or what of them is left out. A regex may hold commas, so
# the split pattern comes last, and before it characters, of which one may be a comma.
_DETAILS = re.compile(
    r"(?P<path>.+?)(?P<flags>(?:,[a-z_]+(?:=(?<=,sentences=)[^,]*)?)*)"
    r"(?:,characters=(?P<characters>.*?))?(?:,pattern=(?P<pattern>.+))?",
    re.DOTALL,
)

_MLFLOW_SCHEME = "models:/"

ACCEPTED = (
    "accepted are name@alias (news@champion), name/number (news/3), "
    f"a digest or its first {SHORTEST_DIGEST_PREFIX} or more digits, "
    "or a path beginning with ./ or / (with what its files do not say: ./x.tiktoken,pattern=gpt2)"
)


@dataclass(frozen=True, slots=True)
class ByAlias:
    """``news@champion``: the version an alias points to now."""

    name: str
    alias: str

    def __str__(self) -> str:
        return f"{self.name}@{self.alias}"


@dataclass(frozen=True, slots=True)
class ByNumber:
    """``news/3``: one version for ever."""

    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}/{self.number}"


@dataclass(frozen=True, slots=True)
class ByDigest:
    """A digest, or enough of its beginning to be the only one."""

    prefix: str

    def __str__(self) -> str:
        return self.prefix


@dataclass(frozen=True, slots=True)
class ByPath:
    """A directory or file outside the registry.

    Attributes:
        path: of it.
        details: what `Tokenizer.load` is told besides: names, and values or True.
    """

    path: Path
    details: tuple[tuple[str, str | bool], ...] = ()

    def __str__(self) -> str:
        told = (name if value is True else f"{name}={value}" for name, value in self.details)
        return ",".join((str(self.path), *told))


Registered = ByAlias | ByNumber | ByDigest
Reference = Registered | ByPath


def validate_name(name: str) -> str:
    """Return ``name`` if it may name a tokenizer.

    MLflow itself accepts NUL, 300 characters and ``%2f..%2f``; names become file names and parts
    of URLs, so the rule is ours and narrow.

    Raises:
        InvalidOption: anything but ``[a-z0-9][a-z0-9._-]{0,63}``.
    """
    if not _NAME.fullmatch(checks.text("name", name, "news")):
        raise InvalidOption(
            f"{name!r} cannot name a tokenizer",
            "accepted are 1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit",
            "choose a name such as news or news-32k",
        )
    return name


def validate_alias(alias: str) -> str:
    """Return ``alias`` if it may be an alias.

    Raises:
        InvalidOption: anything but ``[a-z0-9][a-z0-9_-]{0,63}``, ``latest``, or ``v`` with digits.
    """
    if not _ALIAS.fullmatch(checks.text("alias", alias, "champion")):
        raise InvalidOption(
            f"{alias!r} cannot be an alias",
            "accepted are 1 to 64 of a-z, 0-9, '_' and '-', beginning with a letter or digit; "
            "'latest' and 'v3' are reserved by MLflow",
            "choose an alias such as champion or candidate",
        )
    return alias


def is_name(text: str) -> bool:
    """Whether a text names all versions of a name, and is no reference to one of them."""
    return bool(_NAME.fullmatch(text)) and not _DIGEST.fullmatch(text)


def parse_registered(text: str) -> Registered:
    """Read what a person typed, where only a registered version will do.

    Raises:
        InvalidOption: a path, or none of the accepted forms.
    """
    parsed = parse_reference(text)
    if isinstance(parsed, ByPath):
        raise InvalidOption(
            f"{text} is a path, not a registered version",
            "accepted are name@alias, name/number or a digest",
            "type `bpeline versions` to see what is registered",
        )
    return parsed


def parse_reference(text: str | Path) -> Reference:
    """Read what a person typed.

    A name with an alias or number always means the registry: a directory of that spelling is
    reached as ``./news/3``. MLflow's own spelling ``models:/news@champion`` is understood. A path
    may be followed by what `Tokenizer.load` is told of it: ``ranks.tiktoken,pattern=cl100k``,
    ``vocab.txt,without_normalizer``, ``x.codes,characters=qxz``; a file
    whose own name ends like that is itself.

    Raises:
        InvalidOption: the text is none of the accepted forms.
    """
    if isinstance(text, Path):
        return ByPath(text)
    checks.text("reference", text, "news@champion")
    plain = text.removeprefix(_MLFLOW_SCHEME)
    name, at, alias = plain.partition("@")
    if at and _NAME.fullmatch(name) and "/" not in alias:
        return ByAlias(name, validate_alias(alias))
    name, slash, number = plain.partition("/")
    if slash and _NAME.fullmatch(name) and _NUMBER.fullmatch(number):
        return ByNumber(name, int(number))
    if _DIGEST.fullmatch(plain):
        return ByDigest(plain)
    if text and (text[0] in "./~" or "/" in text or "\\" in text or _is_there(text)):
        return _by_path(text)
    if _FILE.fullmatch(plain):
        raise InvalidOption(
            f"there is no file {text}, and it names no version",
            ACCEPTED,
            "check the spelling, or type `bpeline versions`",
        )
    if _NAME.fullmatch(plain):
        raise InvalidOption(
            f"{text!r} is a name without a version",
            ACCEPTED,
            f"type {plain}@champion, or `bpeline versions {plain}` to see what exists",
        )
    raise InvalidOption(f"{text!r} names no version", ACCEPTED, "type `bpeline versions`")


def _is_there(text: str) -> bool:
    told = _DETAILS.fullmatch(text)
    return Path(text).exists() or (told is not None and Path(told["path"]).exists())


def _by_path(text: str) -> ByPath:
    told = _DETAILS.fullmatch(text)
    if told is None or Path(text).expanduser().exists():
        return ByPath(Path(text).expanduser())
    details: list[tuple[str, str | bool]] = []
    for flag in filter(None, told["flags"].split(",")):
        name, says, value = flag.partition("=")
        details.append((name, value if says else True))
    for name in ("characters", "pattern"):
        if told[name] is not None:
            details.append((name, told[name]))
    return ByPath(Path(told["path"]).expanduser(), tuple(details))


def split_size(text: str | Path) -> tuple[str | Path, int | None]:
    """Part ``news@champion:8000`` into the reference and the vocab size to serve it in.

    Returns:
        The reference as it is, and None, where no size is named; a file whose own name ends like
        that is itself.
    """
    sized = _SIZED.fullmatch(text) if isinstance(text, str) else None
    if sized is None or Path(text).expanduser().exists():
        return text, None
    return sized[1], int(sized[2])
