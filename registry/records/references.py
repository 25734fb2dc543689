"""Parse version references: ``news@champion``, ``news/3``, a digest or a path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.digests import DIGEST_LENGTH
from bpeline.tokenizer_core.errors import InvalidOption

SHORTEST_DIGEST_PREFIX = 8

CHAMPION = "champion"  # the alias of the version in use; also the label of its figures
CANDIDATE = "candidate"  # the alias of the latest publication

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
# MLflow allows no dot in an alias and reads "v3" and "latest" as versions.
_ALIAS = re.compile(r"(?!v[0-9]+$|latest$)[a-z0-9][a-z0-9_-]{0,63}")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_DIGEST = re.compile(rf"[0-9a-f]{{{SHORTEST_DIGEST_PREFIX},{DIGEST_LENGTH}}}")

# Names of tokenizer files; a missing file with such a name is not mistaken for a tokenizer name.
_FILE = re.compile(r".+\.(?:json|tiktoken|model|gguf|codes|txt)(?:,.*)?", re.DOTALL)
_SIZED = re.compile(r"(.+):([1-9][0-9]{0,8})", re.DOTALL)

# Load options after a path. The split pattern comes last because a regex may contain commas;
# `characters`, which may include a comma, comes just before it.
_DETAILS = re.compile(
    r"(?P<path>.+?)(?P<flags>(?:,[a-z_]+(?:=(?<=,sentences=)[^,]*)?)*)"
    r"(?:,characters=(?P<characters>.*?))?(?:,pattern=(?P<pattern>.+))?",
    re.DOTALL,
)

_MLFLOW_SCHEME = "models:/"

ACCEPTED = (
    "expected name@alias (news@champion), name/number (news/3), "
    f"a digest or at least its first {SHORTEST_DIGEST_PREFIX} digits, "
    "or a path that begins with ./ or / (load options follow it: ./x.tiktoken,pattern=gpt2)"
)


@dataclass(frozen=True, slots=True)
class ByAlias:
    """``news@champion``: the version that an alias points to."""

    name: str
    alias: str

    def __str__(self) -> str:
        return f"{self.name}@{self.alias}"


@dataclass(frozen=True, slots=True)
class ByNumber:
    """``news/3``: a fixed version."""

    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}/{self.number}"


@dataclass(frozen=True, slots=True)
class ByDigest:
    """A digest, or a unique prefix of it."""

    prefix: str

    def __str__(self) -> str:
        return self.prefix


@dataclass(frozen=True, slots=True)
class ByPath:
    """A directory or file outside the registry.

    Attributes:
        details: options of `Tokenizer.load` as (name, value); True for a flag.
    """

    path: Path
    details: tuple[tuple[str, str | bool], ...] = ()

    def __str__(self) -> str:
        options = (name if value is True else f"{name}={value}" for name, value in self.details)
        return ",".join((str(self.path), *options))


Registered = ByAlias | ByNumber | ByDigest
Reference = Registered | ByPath


def validate_name(name: str) -> str:
    """Return ``name`` if it is a valid tokenizer name: ``[a-z0-9][a-z0-9._-]{0,63}``.

    The rule is stricter than MLflow's because names become file names and parts of URLs.
    """
    if not _NAME.fullmatch(checks.text("name", name, "news")):
        raise InvalidOption(
            f"{name!r} cannot name a tokenizer",
            "expected 1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit",
            "choose a name such as news or news-32k",
        )
    return name


def validate_alias(alias: str) -> str:
    """Return ``alias`` if it is valid: ``[a-z0-9][a-z0-9_-]{0,63}``, not reserved."""
    if not _ALIAS.fullmatch(checks.text("alias", alias, "champion")):
        raise InvalidOption(
            f"{alias!r} cannot be an alias",
            "expected 1 to 64 of a-z, 0-9, '_' and '-', beginning with a letter or digit; "
            "'latest' and 'v3' are reserved by MLflow",
            "choose an alias such as champion or candidate",
        )
    return alias


def is_name(text: str) -> bool:
    """Whether a text is a tokenizer name, not a reference to one version."""
    return bool(_NAME.fullmatch(text)) and not _DIGEST.fullmatch(text)


def parse_registered(text: str) -> Registered:
    """Parse a reference to a registered version."""
    parsed = parse_reference(text)
    if isinstance(parsed, ByPath):
        raise InvalidOption(
            f"{text} is a path, not a registered version",
            "expected name@alias, name/number or a digest",
            "type `bpeline versions` to see what is registered",
        )
    return parsed


def parse_reference(text: str | Path) -> Reference:
    """Parse a reference to a version or a path.

    A name with an alias or number always means a registered version: write ``./news/3`` for a
    directory. MLflow's form ``models:/news@champion`` also works. Options of `Tokenizer.load`
    may follow a path: ``ranks.tiktoken,pattern=cl100k``, ``vocab.txt,without_normalizer``,
    ``x.codes,characters=qxz``. An existing file whose name looks like that is taken as it is.
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
            f"there is no file {text}, and it is not a version",
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
    match = _DETAILS.fullmatch(text)
    return Path(text).exists() or (match is not None and Path(match["path"]).exists())


def _by_path(text: str) -> ByPath:
    match = _DETAILS.fullmatch(text)
    if match is None or Path(text).expanduser().exists():
        return ByPath(Path(text).expanduser())
    details: list[tuple[str, str | bool]] = []
    for flag in filter(None, match["flags"].split(",")):
        name, equals, value = flag.partition("=")
        details.append((name, value if equals else True))
    for name in ("characters", "pattern"):
        if match[name] is not None:
            details.append((name, match[name]))
    return ByPath(Path(match["path"]).expanduser(), tuple(details))


def split_size(text: str | Path) -> tuple[str | Path, int | None]:
    """Split ``news@champion:8000`` into the reference and the vocab size.

    The size is None if the text has none, or if a file of that whole name exists.
    """
    sized = _SIZED.fullmatch(text) if isinstance(text, str) else None
    if sized is None or Path(text).expanduser().exists():
        return text, None
    return sized[1], int(sized[2])
