"""Exports of a version read again by the libraries of today, which may be others than those then.

Knows which exports a version has; the comparison is in `registry.certify`, and who hears of it is
not known here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from bpeline.registry.certify import (
    ORIGINAL,
    Certificate,
    certificates_in,
    certify,
    certify_originals,
)
from bpeline.registry.loading import (
    KEPT,
    ResolvedVersion,
    certificate_path,
    golden_texts,
    holds_version,
    kept_export,
    load_version,
)
from bpeline.registry.opening import Registry
from bpeline.registry.versions import Lineage, copy_originals, imported_in
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidInput,
    RegistryError,
    StorageError,
)
from bpeline.tokenizer_core.formats import save_with_roles
from bpeline.tokenizer_core.tokenizer import Tokenizer

Outcome = Literal["equal", "changed", "not checked"]


@dataclass(frozen=True, slots=True)
class Recertified:
    """An export of a version, read again.

    Attributes:
        version: whose. format: as what it was exported.
        before: what its certificate said.
        now: what it says today.
        spelled_otherwise: files of other bytes than were exported then.
        remark: what was not done about it; may be empty.
    """

    version: ResolvedVersion
    format: str
    before: str
    now: Certificate
    spelled_otherwise: tuple[str, ...] = ()
    remark: str = ""

    @property
    def outcome(self) -> Outcome:
        """Whether texts have the ids that they are to have."""
        if self.now.difference is not None:
            return "changed"
        return "not checked" if self.now.not_checked else "equal"

    @property
    def said(self) -> str:
        """In a line."""
        first = self.now.difference
        told = str(self.now)
        if first is not None:
            told += f", the first {first.what!r}: at {first.at} {first.theirs} for {first.ours}"
        return told

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "reference": str(self.version),
            "digest": self.version.digest,
            "format": self.format,
            "outcome": self.outcome,
            "before": self.before,
            "certificate": asdict(self.now),
            "spelled_otherwise": list(self.spelled_otherwise),
            "remark": self.remark,
        }


def recertified(
    registry: Registry,
    version: ResolvedVersion,
    folder: Path | None = None,
    *,
    unchecked_only: bool = False,
) -> Iterator[Recertified]:
    """Read every export of a version again that has a certificate.

    What lies with the version is read as it lies there; what was written elsewhere is written
    anew. What the libraries installed say is kept in the place of the certificate that was; all
    that was said stands in MLflow, on the version and its run.

    Args:
        registry: where the version is.
        version: which.
        folder: packages in there are asked instead of those installed; what they say is in MLflow
            alone.
        unchecked_only: skip exports that a library has read before.

    Yields:
        Each export as it has been read.

    Raises:
        CorruptFile: the version's own files are damaged.
        UnknownVersion: they are nowhere.
        RegistryUnreachable: they would have to be fetched and MLflow does not answer.
    """
    tokenizer = load_version(registry, version)
    if not holds_version(registry.workspace, version.digest):
        return  # where nothing can be kept, there are no certificates either
    directory = registry.workspace.version_directory(version.digest)
    certificates, roles = certificates_in(directory), Lineage.of(registry, version).roles
    for path in sorted(directory.glob("certificate-*.json")):
        format = path.stem.removeprefix("certificate-")
        before = certificates.get(format)  # None if damaged
        if unchecked_only and before is not None and not before.not_checked:
            continue
        if format in KEPT and kept_export(directory, format) is None:
            continue  # was never read alike, and is no export
        with tempfile.TemporaryDirectory(prefix="bpeline-") as aside:
            now = _read_again(tokenizer, format, directory, Path(aside), folder, roles)
        remark = _keep(registry, version, format, directory, now, folder)
        spelled = () if before is None else _of_other_bytes(before, now)
        said = "a certificate that cannot be read" if before is None else str(before)
        yield Recertified(version, format, said, now, spelled, remark)


def _read_again(
    tokenizer: Tokenizer,
    format: str,
    directory: Path,
    aside: Path,
    folder: Path | None,
    roles: Mapping[str, str],
) -> Certificate:
    try:
        if format == ORIGINAL:
            imported = imported_in(directory)
            if imported is None:
                raise CorruptFile("what it was imported from is not kept here any more")
            path = copy_originals(imported, directory, aside)
            return certify_originals(tokenizer, imported.format, path, folder)
        path = kept_export(directory, format) or aside / "export"
        if not path.exists():
            save_with_roles(format, tokenizer, path, roles)
        return certify(tokenizer, format, path, golden_texts(directory), folder)
    except (CorruptFile, InvalidInput) as error:
        return Certificate(format, tokenizer.digest, {}, not_checked=error.happened)


def _of_other_bytes(before: Certificate, now: Certificate) -> tuple[str, ...]:
    if before.tokenizer != now.tokenizer or len(before.files) != len(now.files):
        return ()
    # A single file has the name that somebody gave it; those of a directory have their own.
    pairs = zip(sorted(before.files.items()), sorted(now.files.items()), strict=True)
    return tuple(name for (name, then), (_, today) in pairs if then != today)


def _keep(
    registry: Registry,
    version: ResolvedVersion,
    format: str,
    directory: Path,
    now: Certificate,
    folder: Path | None,
) -> str:
    """Keep what was said, here and in MLflow; a remark where that is not possible."""
    if now.not_checked:
        return ""  # and what was seen once stays
    if folder is None:
        with suppress(OSError, StorageError):  # a workspace that can only be read
            DURABLE.write(certificate_path(directory, format), now.as_json())
    if not version.number:
        return ""
    try:
        tag = f"certificate.{format}.{now.library}"
        registry.tracker.tag_version(version.name, version.number, {tag: str(now)})
    except RegistryError as error:
        return f"it is not in MLflow: {error.happened}"
    return ""
