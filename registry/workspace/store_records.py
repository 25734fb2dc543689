"""Which stores of others a workspace has met: the catalogue and the MLflow at each address.

A store that was there and is not, or is another, is told from one that never was. Knows identities
and addresses, opens nothing. Remembers where the workspace itself was, too.
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
    """A store that was here.

    Attributes:
        kind: what it keeps.
        place: its address as people may see it: without a password.
        address: digest of the whole address.
        id: the store's own identity.
    """

    kind: StoreKind
    place: str
    address: str
    id: str


def known_stores(path: Path) -> list[KnownStore]:
    """All that a workspace has met, whose file this is.

    Raises:
        CorruptFile: what it remembers is damaged.
    """
    return _read(path)[1]


def remembers_from_the_beginning(path: Path) -> bool:
    """Whether a workspace was made by a release that remembers stores."""
    return _read(path)[0]


def remember_no_store(path: Path) -> None:
    """Begin to remember, in a new workspace."""
    _write(path, True, [])


def _read(path: Path) -> tuple[bool, list[KnownStore]]:
    if not path.exists():
        return False, []
    try:
        record = unsealed(read_json(path))
        return bool(record["from_the_beginning"]), [
            check_fields(KnownStore(**one)) for one in record["stores"]
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptFile(
            f"{path} is not what was written",
            "accepted is the file as bpeline wrote it, which says which stores were here",
            "put it back; or remove it, when you know that catalogue and MLflow are there",
        ) from error


def _write(path: Path, from_the_beginning: bool, stores: Sequence[KnownStore]) -> None:
    record = {
        "format": FORMAT,
        "from_the_beginning": from_the_beginning,
        "stores": [asdict(one) for one in stores],
    }
    DURABLE.write(path, canonical_json(sealed(record)))


def known_store(path: Path, kind: StoreKind, url: str) -> str:
    """The identity of the store that was at an address; empty when none ever was."""
    address = digest_of(url)
    stores = known_stores(path)
    return next((s.id for s in stores if (s.kind, s.address) == (kind, address)), "")


def remember_store(path: Path, kind: StoreKind, url: str, identity: str) -> None:
    """Remember which store is at an address; with an empty identity, let the next be a new one."""
    since, stores = _read(path)
    address = digest_of(url)
    kept = [one for one in stores if (one.kind, one.address) != (kind, address)]
    new = [KnownStore(kind, without_secrets(url), address, identity)] if identity else []
    _write(path, since, [*kept, *new])


def remember_place(file: Path, place: Path) -> Path | None:
    """Remember where a directory is. Returns where it was, for a new place without a link to it."""
    places: list[str] = []
    with suppress(OSError, ValueError, TypeError, KeyError):
        places = [os.fspath(one) for one in read_json(file)["places"]]
    if str(place) not in places:
        with suppress(OSError, BpelineError):
            DURABLE.write(file, canonical_json({"places": [*places[-15:], str(place)]}))
            if places and os.path.realpath(places[-1]) != str(place):
                return Path(places[-1])
    return None
