"""Check the exports of a version again with the installed libraries."""

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
    """An export of a version that was read again.

    Attributes:
        before: the text of the earlier certificate.
        spelled_otherwise: files whose bytes differ from the first export.
        remark: what could not be done; may be empty.
    """

    version: ResolvedVersion
    format: str
    before: str
    now: Certificate
    spelled_otherwise: tuple[str, ...] = ()
    remark: str = ""

    @property
    def outcome(self) -> Outcome:
        """Whether texts still have the expected ids."""
        if self.now.difference is not None:
            return "changed"
        return "not checked" if self.now.not_checked else "equal"

    @property
    def said(self) -> str:
        """The new certificate in one line, with the first difference."""
        first = self.now.difference
        line = str(self.now)
        if first is not None:
            line += f", the first {first.what!r}: at {first.at} {first.theirs} for {first.ours}"
        return line

    def as_dict(self) -> dict[str, Any]:
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
    """Read every certified export of a version again and yield the results.

    Exports kept with the version are read as they are; others are written again. New certificates
    replace the old ones, and MLflow gets a tag on the version.

    Args:
        folder: use packages from this folder instead of the installed ones; the result then goes to
            MLflow only.
        unchecked_only: skip exports that a library has already read.
    """
    tokenizer = load_version(registry, version)
    if not holds_version(registry.workspace, version.digest):
        return  # a read-only workspace has no certificates
    directory = registry.workspace.version_directory(version.digest)
    certificates, roles = certificates_in(directory), Lineage.of(registry, version).roles
    for path in sorted(directory.glob("certificate-*.json")):
        format = path.stem.removeprefix("certificate-")
        before = certificates.get(format)  # None if damaged
        if unchecked_only and before is not None and not before.not_checked:
            continue
        if format in KEPT and kept_export(directory, format) is None:
            continue  # it failed before, so the export was removed
        with tempfile.TemporaryDirectory(prefix="bpeline-") as aside:
            now = _read_again(tokenizer, format, directory, Path(aside), folder, roles)
        remark = _keep(registry, version, format, directory, now, folder)
        spelled = () if before is None else _of_other_bytes(before, now)
        earlier = "an unreadable certificate" if before is None else str(before)
        yield Recertified(version, format, earlier, now, spelled, remark)


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
                raise CorruptFile("the original files of the import are not here any more")
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
    # A single file may have any name; files of a directory have fixed names.
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
    """Keep a certificate here and tag it in MLflow; return a remark on failure."""
    if now.not_checked:
        return ""  # keep the earlier certificate
    if folder is None:
        with suppress(OSError, StorageError):  # a read-only workspace
            DURABLE.write(certificate_path(directory, format), now.as_json())
    if not version.number:
        return ""
    try:
        tag = f"certificate.{format}.{now.library}"
        registry.tracker.tag_version(version.name, version.number, {tag: str(now)})
    except RegistryError as error:
        return f"it is not in MLflow: {error.happened}"
    return ""
