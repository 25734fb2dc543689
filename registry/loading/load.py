"""Load a tokenizer by alias, number, digest or path.

Files are limited in size and verified by digest; no downloaded code is executed.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.hub import SCHEME, TOKENIZER_FILES, HubReference, fetch
from bpeline.registry.loading.resolution import ResolvedVersion, resolve
from bpeline.registry.loading.version_files import (
    MANIFEST,
    format_files,
    holds_version,
    keep_downloads,
    load_verified,
)
from bpeline.registry.opening import open_registry
from bpeline.registry.records import ByDigest, ByPath, Reference, parse_reference, split_size
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.digests import DIGEST_LENGTH
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    RegistryError,
    UnknownVersion,
)

if TYPE_CHECKING:
    from bpeline.registry.opening import Registry
    from bpeline.registry.workspace import Workspace
    from bpeline.tokenizer_core.tokenizer import Tokenizer

_FULL_DIGEST = re.compile(rf"[0-9a-f]{{{DIGEST_LENGTH}}}")


def load_tokenizer(
    reference: str | Path,
    workspace: Workspace | Path | str | None = None,
    expect_digest: str | None = None,
) -> Tokenizer:
    """Load a registered tokenizer, or one from a path.

    Example:
        >>> from bpeline.registry import load_tokenizer
        >>> tokenizer = load_tokenizer("news@champion")     # doctest: +SKIP
        >>> tokenizer.encode("Good news")                   # doctest: +SKIP

    Args:
        reference: ``news@champion``, ``news/3``, a digest or its first 8 or more digits, or a path
            (``./here`` or a ``Path``); a path string may add what the files lack
            (``./ranks.tiktoken,pattern=cl100k``), or ``hf://ORG/REPO@REVISION``. The suffix
            ``:8000`` keeps only the first merges, so that there are 8,000 tokens; ids stay the same
            (`tokenizer_core.derived.of_size`).
        workspace: None takes ``BPELINE_HOME``, else ``.bpeline`` here.
        expect_digest: raise an error for any other version. Pin it in jobs that must not follow a
            moved alias. It is the digest of the full version, as `bpeline show` prints it.

    Raises:
        InvalidOption: the reference or digest is not valid, or there is no such size.
        UnknownVersion: there is no such version; the message lists those that exist.
        RegistryUnreachable: MLflow or the catalogue is needed and does not answer. If the files are
            here, the last known meaning of the reference is used instead; for an alias with a
            ``StaleAlias`` warning.
        StorageError: there is no workspace.
        RegistryError: the version is not the one of ``expect_digest``.
        CorruptFile: files are damaged or were changed.
        LibraryFailed: the Hugging Face Hub does not answer, or its library is not installed.
    """
    if expect_digest is not None:
        checks.text("expect_digest", expect_digest, "0" * 64)
    if expect_digest is not None and not _FULL_DIGEST.fullmatch(expect_digest):
        raise InvalidOption(
            f"{expect_digest!r} is not a digest",
            f"expected {DIGEST_LENGTH} hexadecimal digits",
            "copy it from `bpeline show`, or from tokenizer.digest",
        )
    if isinstance(reference, str) and reference.startswith(SCHEME):
        fetched = fetch(HubReference.parse(reference), TOKENIZER_FILES)
        return _load_path(ByPath(fetched.path), expect_digest)
    reference, vocab_size = split_size(reference)
    tokenizer = _load(parse_reference(reference), workspace, expect_digest)
    if vocab_size is None:
        return tokenizer
    from bpeline.tokenizer_core.derived import of_size

    return of_size(tokenizer, vocab_size)


def _load(
    parsed: Reference, workspace: Workspace | Path | str | None, expect_digest: str | None
) -> Tokenizer:
    if isinstance(parsed, ByPath):
        return _load_path(parsed, expect_digest)
    registry = open_registry(workspace, make=False)
    version = _kept(registry, parsed) or resolve(registry, parsed)
    if expect_digest is not None and version.digest != expect_digest:
        raise _unexpected(str(parsed), version.digest, expect_digest)
    return load_version(registry, version)


def _kept(registry: Registry, parsed: Reference) -> ResolvedVersion | None:
    """The version with a full digest whose files are here; needs no request."""
    digest = parsed.prefix if isinstance(parsed, ByDigest) else ""
    is_kept = len(digest) == DIGEST_LENGTH and holds_version(registry.workspace, digest)
    return ResolvedVersion("", 0, digest, "") if is_kept else None


def load_version(registry: Registry, version: ResolvedVersion) -> Tokenizer:
    """Load a version from the workspace, or download its files from MLflow.

    Raises:
        CorruptFile: the files are not the registered tokenizer.
        UnknownVersion: neither the workspace nor MLflow has the files.
        RegistryUnreachable: they must be downloaded and MLflow does not answer.
    """
    workspace = registry.workspace
    if holds_version(workspace, version.digest):
        return load_verified(workspace.version_directory(version.digest), version.digest)
    if not version.number:
        raise UnknownVersion(
            f"the files of {version} are neither in {workspace.root} nor in MLflow",
            "expected a version whose files exist",
            "type `bpeline versions` to see them",
        )
    # Outside the workspace: readers hold no lock, so a sweep could remove the directory.
    with tempfile.TemporaryDirectory(prefix="bpeline-") as downloads:
        fetch, target = registry.tracker.models.download_version, Path(downloads)
        fetch(version.name, version.number, (MANIFEST,), target)
        files = [path.name for path in format_files(target) if path.name != MANIFEST]
        fetch(version.name, version.number, files, target)
        return keep_downloads(workspace, version.digest, target)


def _load_path(named: ByPath, expect_digest: str | None) -> Tokenizer:
    from bpeline.tokenizer_core.tokenizer import Tokenizer

    path = named.path
    if not path.exists():
        raise UnknownVersion(
            f"there is no {path}",
            "expected a tokenizer file or directory, or a registered version",
            "type `bpeline versions` to see what is registered",
        )
    details: dict[str, Any] = dict(named.details)
    tokenizer = Tokenizer.load(path, **details)
    if expect_digest is not None and tokenizer.digest != expect_digest:
        raise _unexpected(str(path), tokenizer.digest, expect_digest)
    return tokenizer


def _unexpected(what: str, found: str, expected: str) -> RegistryError:
    return RegistryError(
        f"{what} is the tokenizer {found}",
        f"expected {expected}",
        f"find out who moved or changed it, or load {expected[:12]} by its digest",
    )
