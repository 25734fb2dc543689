"""Where an imported version comes from, and its files as they were downloaded.

They lie beside the version's own files under names of their own, with a sealed record of their
digests; whoever needs them gets verified copies. Knows no format of tokenizers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.bounded_files import UnfitFile, parse_json, read_file, read_json
from bpeline.tokenizer_core.digests import canonical_json, sealed, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import CorruptFile, MissingSource
from bpeline.tokenizer_core.records import check_fields

RECORD = "imported.json"
_PREFIX = "original."  # tokenizer.json of theirs is not tokenizer.json of ours
_CONFIG = "tokenizer_config.json"  # where transformers keeps what tokens are for
_LARGEST_RECORD = 1 << 20  # bytes
# Of a folder, everything that readers of tokenizers open; never weights.
OF_FOLDERS = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model",
    "sentencepiece.bpe.model", "tekken.json", "chat_template.jinja", "chat_template.json",
    "freqs.json", "vocab_to_idx.json", "idx_to_vocab.json", "bpeline.json", "manifest.json",
    "tokenizer.bin",
)  # fmt: skip
# Of a file, what may say beside it how it is meant.
_BESIDE_FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """A file as it was downloaded: its name, its size, its SHA-256."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Imported:
    """Where an imported version comes from.

    Attributes:
        path: what was imported, absolute.
        details: what `Tokenizer.load` was told besides.
        format: what it is.
        files: all that was kept; the first, or the folder of all, is what is read.
        is_folder: which of both.
        remarks: what people should know of how it was read.
        licence: as whoever imported it said; empty where nobody did.
        at: when, UTC.
        libraries: what was installed, name → version.
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
        """JSON values."""
        return {**asdict(self), "files": [asdict(one) for one in self.files]}

    @property
    def digest(self) -> str:
        """Of names and contents of all files."""
        return sha256(canonical_json([asdict(one) for one in self.files])).hexdigest()


def files_of(path: Path) -> tuple[tuple[OriginalFile, Path], ...]:
    """The files to keep of what is imported, each with its place; a file itself comes first.

    Raises:
        MissingSource: nothing is there.
    """
    if path.is_dir():
        places = [path / name for name in OF_FOLDERS]
    else:
        beside = ("merges.txt",) if path.name == "vocab.json" else ()
        places = [path, *(path.with_name(name) for name in (*beside, *_BESIDE_FILES))]
    found = [place for place in dict.fromkeys(places) if place.is_file()]
    if not found:
        raise MissingSource(
            f"there is no tokenizer at {path}",
            "a tokenizer's file, or the folder that it was downloaded to",
            "check the path",
        )
    return tuple((_described(place), place) for place in found)


def keep_originals(
    imported: Imported, files: Iterable[tuple[OriginalFile, Path]], to: Path
) -> None:
    """Copy files into a version's directory, with the record of where they come from.

    Raises:
        CorruptFile: a file is not what it was when it was read.
        DiskFull: no space left.
    """
    for file, place in files:
        DURABLE.write(to / f"{_PREFIX}{file.name}", _verified(file, place))
    DURABLE.write(to / RECORD, canonical_json(sealed(imported.as_record())))


def imported_in(directory: Path) -> Imported | None:
    """The record of a version's directory; None where there is none that can be read."""
    try:
        record = unsealed(read_json(directory / RECORD, _LARGEST_RECORD))
        record["files"] = tuple(check_fields(OriginalFile(**one)) for one in record["files"])
        return check_fields(Imported(**record))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def kept_files(imported: Imported, directory: Path) -> list[tuple[OriginalFile, Path]]:
    """The originals of a version with their places, for `keep_originals` of another."""
    return [(file, directory / f"{_PREFIX}{file.name}") for file in imported.files]


def copy_originals(imported: Imported, directory: Path, to: Path) -> Path:
    """Copy the originals of a version under their own names; what to give to a reader of them.

    Raises:
        CorruptFile: one is missing, or not what was downloaded.
    """
    for file in imported.files:
        DURABLE.write(to / file.name, _verified(file, directory / f"{_PREFIX}{file.name}"))
    return to if imported.is_folder else to / imported.files[0].name


def chat_template_of(imported: Imported, directory: Path) -> str:
    """The chat template among the originals of a version; empty where there is none.

    Raises:
        CorruptFile: its file is not what was imported, or cannot be read.
    """
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
        # Some hold several by name, of which one is what is meant where nobody says which.
        if isinstance(template, list):
            template = next((one["template"] for one in template if one["name"] == "default"), "")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _unreadable(place, error) from error
    return template if isinstance(template, str) else ""


def roles_declared_by(imported: Imported, directory: Path) -> dict[str, str]:
    """Role → special token, as the originals of a version declare it for `transformers`.

    Raises:
        CorruptFile: their file is not what was imported.
    """
    config: Any = None
    for file, place in kept_files(imported, directory):
        if file.name == _CONFIG:
            with suppress(ValueError):  # whoever made it declared nothing that can be read
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
        "a template in UTF-8, or a tokenizer_config.json as transformers writes it",
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
            "the files as they were downloaded",
            "download them and import them again",
        )
    return content
