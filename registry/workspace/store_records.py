"""Record the catalogues and MLflows that a workspace has used.

This distinguishes a lost or replaced store from a new one. Former paths of a directory are
recorded too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.digests import canonical_json, digest_of, sealed, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import BpelineError, CorruptFile
from bpeline.tokenizer_core.records import check_fields
from bpeline.tokenizer_core.redaction import without_secrets

FORMAT = 1
StoreKind = Literal["catalogue", "mlflow"]


@dataclass(frozen=True, slots=True)
class KnownStore:
    """A store that the workspace has used.

    Attributes:
        place: its URL without a password.
        address: digest of the full URL.
    """

    kind: StoreKind
    place: str
    address: str
    id: str


def known_stores(path: Path) -> list[KnownStore]:
    """Return all stores in a workspace's record."""
    return _read(path)[1]


def remembers_from_the_beginning(path: Path) -> bool:
    """Whether the workspace was created by a release that records stores."""
    return _read(path)[0]


def remember_no_store(path: Path) -> None:
    """Create an empty record in a new workspace."""
    _write(path, True, [])


def _read(path: Path) -> tuple[bool, list[KnownStore]]:
    if not path.exists():
        return False, []
    try:
        record = unsealed(read_json(path))
        return bool(record["from_the_beginning"]), [
            check_fields(KnownStore(**fields)) for fields in record["stores"]
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptFile(
            f"{path} is not what was written",
            "expected the file as bpeline wrote it, with the stores of the workspace",
            "restore it; or remove it, if you are sure that the catalogue and MLflow exist",
        ) from error


def _write(path: Path, from_the_beginning: bool, stores: Sequence[KnownStore]) -> None:
    record = {
        "format": FORMAT,
        "from_the_beginning": from_the_beginning,
        "stores": [asdict(store) for store in stores],
    }
    DURABLE.write(path, canonical_json(sealed(record)))


def known_store(path: Path, kind: StoreKind, url: str) -> str:
    """Return the identity of the store at a URL; empty if it was never used."""
    address = digest_of(url)
    stores = known_stores(path)
    return next((s.id for s in stores if (s.kind, s.address) == (kind, address)), "")


def remember_store(path: Path, kind: StoreKind, url: str, identity: str) -> None:
    """Record the identity of the store at a URL; an empty one removes the record."""
    since, stores = _read(path)
    address = digest_of(url)
    others = [store for store in stores if (store.kind, store.address) != (kind, address)]
    new = [KnownStore(kind, without_secrets(url), address, identity)] if identity else []
    _write(path, since, [*others, *new])


def remember_place(file: Path, place: Path) -> Path | None:
    """Record the path of a directory; returns its former path if it has moved."""
    places: list[str] = []
    with suppress(OSError, ValueError, TypeError, KeyError):
        places = [os.fspath(path) for path in read_json(file)["places"]]
    if str(place) not in places:
        with suppress(OSError, BpelineError):
            DURABLE.write(file, canonical_json({"places": [*places[-15:], str(place)]}))
            if places and os.path.realpath(places[-1]) != str(place):
                return Path(places[-1])
    return None
