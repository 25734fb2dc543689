"""The original files of an imported version, and the record of their origin.

They are stored in the version's directory under a prefix, with a sealed record of their digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from bpeline.registry.hub import TOKENIZER_FILES
from bpeline.tokenizer_core.bounded_files import UnfitFile, parse_json, read_file, read_json
from bpeline.tokenizer_core.digests import canonical_json, sealed, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import CorruptFile, MissingSource
from bpeline.tokenizer_core.records import check_fields

RECORD = "imported.json"
_PREFIX = "original."  # keeps the original tokenizer.json apart from bpeline's export
_CONFIG = "tokenizer_config.json"  # where transformers stores the roles of special tokens
_LARGEST_RECORD = 1 << 20  # bytes
# Files next to an imported file that complete it.
_BESIDE_FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """A file as it was downloaded."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Imported:
    """The origin of an imported version.

    Attributes:
        path: absolute path of the imported file or folder.
        files: the stored files; the tokenizer is read from the first, or from their folder.
        is_folder: whether a folder was imported.
        remarks: notes for the user about how it was read.
    """

    path: str
    details: Mapping[str, str | bool]
    format: str
    files: tuple[OriginalFile, ...]
    is_folder: bool
    remarks: tuple[str, ...] = ()
    licence: str = ""
    at: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)

    def as_record(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        return {**asdict(self), "files": [asdict(file) for file in self.files]}

    @property
    def digest(self) -> str:
        """Digest of the names and contents of all files."""
        return sha256(canonical_json([asdict(file) for file in self.files])).hexdigest()


def files_of(path: Path) -> tuple[tuple[OriginalFile, Path], ...]:
    """Return the files to store of a tokenizer file or folder, each with its path."""
    if path.is_dir():
        places = [path / name for name in TOKENIZER_FILES]
    else:
        beside = ("merges.txt",) if path.name == "vocab.json" else ()
        places = [path, *(path.with_name(name) for name in (*beside, *_BESIDE_FILES))]
    existing = [place for place in dict.fromkeys(places) if place.is_file()]
    if not existing:
        raise MissingSource(
            f"there is no tokenizer at {path}",
            "expected a tokenizer file, or the folder it was downloaded to",
            "check the path",
        )
    return tuple((_described(place), place) for place in existing)


def keep_originals(
    imported: Imported, files: Iterable[tuple[OriginalFile, Path]], to: Path
) -> None:
    """Copy the original files and their record into a version's directory."""
    for file, place in files:
        DURABLE.write(to / f"{_PREFIX}{file.name}", _verified(file, place))
    DURABLE.write(to / RECORD, canonical_json(sealed(imported.as_record())))


def imported_in(directory: Path) -> Imported | None:
    """Read the import record of a version's directory; None if missing or unreadable."""
    try:
        record = unsealed(read_json(directory / RECORD, _LARGEST_RECORD))
        record["files"] = tuple(check_fields(OriginalFile(**item)) for item in record["files"])
        return check_fields(Imported(**record))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def kept_files(imported: Imported, directory: Path) -> list[tuple[OriginalFile, Path]]:
    """Return the original files of a version and their paths, for `keep_originals`."""
    return [(file, directory / f"{_PREFIX}{file.name}") for file in imported.files]


def copy_originals(imported: Imported, directory: Path, to: Path) -> Path:
    """Copy the original files to ``to`` under their original names.

    Returns:
        The file or folder to load the tokenizer from.
    """
    for file in imported.files:
        DURABLE.write(to / file.name, _verified(file, directory / f"{_PREFIX}{file.name}"))
    return to if imported.is_folder else to / imported.files[0].name


def chat_template_of(imported: Imported, directory: Path) -> str:
    """Return the chat template in the original files; empty if there is none."""
    originals = {file.name: (file, place) for file, place in kept_files(imported, directory)}
    if "chat_template.jinja" in originals:
        file, place = originals["chat_template.jinja"]
        try:
            return _verified(file, place).decode()
        except UnicodeDecodeError as error:
            raise _unreadable(place, error) from error
    if _CONFIG not in originals:
        return ""
    file, place = originals[_CONFIG]
    content = _verified(file, place)
    try:
        template = parse_json(content).get("chat_template")
        if isinstance(template, list):  # several named templates
            template = next(
                (entry["template"] for entry in template if entry["name"] == "default"), ""
            )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _unreadable(place, error) from error
    return template if isinstance(template, str) else ""


def roles_declared_by(imported: Imported, directory: Path) -> dict[str, str]:
    """Return role → special token from the original ``tokenizer_config.json``."""
    config: Any = None
    for file, place in kept_files(imported, directory):
        if file.name == _CONFIG:
            with suppress(ValueError):  # an unreadable file declares no roles
                config = parse_json(_verified(file, place))
    roles = {}
    for role in ("eos", "bos", "pad") if isinstance(config, dict) else ():
        token = config.get(f"{role}_token")
        token = token.get("content") if isinstance(token, dict) else token
        if isinstance(token, str):
            roles[role] = token
    return roles


def _unreadable(place: Path, error: Exception) -> CorruptFile:
    return CorruptFile(
        f"no chat template can be read in {place}: {error}",
        "expected a UTF-8 template or a tokenizer_config.json written by transformers",
        "give one: `bpeline export REF --format transformers --output FOLDER --chat-template FILE`",
    )


def _described(place: Path) -> OriginalFile:
    content = read_file(place)
    return OriginalFile(place.name, len(content), sha256(content).hexdigest())


def _verified(file: OriginalFile, place: Path) -> bytes:
    try:
        content = read_file(place)
    except (FileNotFoundError, UnfitFile):
        content = b""
    if sha256(content).hexdigest() != file.sha256:
        raise CorruptFile(
            f"{place} is not the file that was imported: its SHA-256 was {file.sha256}",
            "expected the files as they were downloaded",
            "download them and import them again",
        )
    return content
