"""The files of a version: write, copy to the workspace, verify and load them."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.records import Publication
from bpeline.registry.workspace import fetch_directory, share_directory
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.digests import digest_of_bytes
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidInput,
    InvalidTokenizer,
    MissingSource,
    PromotionNotJudged,
    PromotionRefused,
    StorageError,
)

if TYPE_CHECKING:
    from bpeline.registry.workspace import Workspace
    from bpeline.tokenizer_core.tokenizer import SavedFormat, Tokenizer

# Written last in our format: if it exists, the other files do.
MANIFEST = "manifest.json"
FOR_READERS = ("vocab.json", "merges.txt")  # for people and other programs
_OF_LOADERS = {"tokenizer.bin", *FOR_READERS, MANIFEST}
KEPT = ("hf", "tiktoken")  # formats kept with a version if their check found no difference
CERTIFYING = ("tokenizers", "tiktoken")  # their readers: the extra `certify`
FIGURES = "figures"
PAGES = "pages"
EXTENSION = "extension.json"  # checks of a version that extends another
RECIPE = "extension-recipe.json"  # the old ids that each new id stands for


def write_exports(tokenizer: Tokenizer, name: str, directory: Path) -> list[Path]:
    """Export a tokenizer to the common formats, with a certificate of each.

    Writes ``tokenizer.json`` for Hugging Face and ``NAME.tiktoken``, and without a certificate
    ``vocab.json`` and ``merges.txt``. A format that cannot hold the tokenizer is skipped. An export
    that its own program reads differently is removed; its certificate stays.

    Args:
        directory: already contains the ``bpeline`` format.

    Returns:
        The certified exports.
    """
    from bpeline.registry.certify import Certificate, certify
    from bpeline.tokenizer_core.formats import bpeline

    texts = golden_texts(directory)
    with suppress(InvalidInput):  # a special token that looks like an ordinary one
        bpeline.save_for_readers(tokenizer, directory)
    exports: tuple[tuple[SavedFormat, str], ...]
    exports = (("hf", "tokenizer.json"), ("tiktoken", f"{name}.tiktoken"))
    written: list[tuple[SavedFormat, Path]] = []
    for format_name, file_name in exports:
        with suppress(InvalidInput):  # such as a rank order that tiktoken cannot hold
            tokenizer.save(directory / file_name, format=format_name)
            written.append((format_name, directory / file_name))

    def certified(one: tuple[SavedFormat, Path]) -> Certificate:
        return certify(tokenizer, *one, texts=texts)

    with ThreadPoolExecutor(len(exports)) as programs:  # each is waited for by a thread
        certificates = list(programs.map(certified, written))
    for (kind, path), certificate in zip(written, certificates, strict=True):
        DURABLE.write(certificate_path(directory, kind), certificate.as_json())
        if certificate.difference is not None:
            DURABLE.remove(path)
    return [path for _, path in written if path.exists()]


def kept_export(directory: Path, format: str) -> Path | None:
    """Return the export that `write_exports` left with a version, or None."""
    patterns = {"hf": "tokenizer.json", "tiktoken": "*.tiktoken"}
    paths = sorted(directory.glob(patterns[format])) if format in patterns else []
    return paths[0] if paths else None


def certificate_path(directory: Path, format: str) -> Path:
    return directory / f"certificate-{format}.json"


def uncertified(directory: Path, reference: str) -> str:
    """Return what to type if an export was not checked by a library; else empty."""
    from bpeline.registry.certify import certificates_in

    certificates = certificates_in(directory)
    exports = [kind for kind in KEPT if kept_export(directory, kind)]
    if all(kind in certificates and not certificates[kind].not_checked for kind in exports):
        return ""
    if all(map(find_spec, CERTIFYING)):
        return f"exports not certified: type `bpeline export --check {reference}`"
    return "exports not certified: pip install 'bpeline[certify]'"


def require_certified(directory: Path, reference: str, what: str) -> None:
    """Require that libraries have read every export of a version without a difference.

    Raises:
        PromotionRefused: a library reads an export differently.
        PromotionNotJudged: an export was not checked, or there are none here.
    """
    from bpeline.registry.certify import certificates_in

    exports = {kind: certificate for kind, certificate in certificates_in(directory).items()
               if kind in KEPT and kept_export(directory, kind)}  # fmt: skip
    wrong = [
        f"{certificate} in the export {kind}"
        for kind, certificate in exports.items()
        if certificate.difference
    ]
    why = uncertified(directory, reference)
    if not wrong and not why and exports:
        return
    judged = wrong or [f"not judged: {why or f'this workspace has no export of {reference}'}"]
    raise (PromotionRefused if wrong else PromotionNotJudged)(
        f"{what}: {'; '.join(judged)}",
        "expected checked exports without differences: the rules say `certified = true`",
        f"type `pip install 'bpeline[certify]'`, then `bpeline export --check {reference}` on the "
        "machine that trained it",
    )


def golden_texts(directory: Path) -> list[str]:
    """Return the texts whose ids are stored with a version, with words of its corpus."""
    from bpeline.tokenizer_core.formats import read_manifest

    return [entry["text"] for entry in read_manifest(directory)["golden"]]


def holds_version(workspace: Workspace, digest: str) -> bool:
    """Whether the workspace has all files of a version; copies them from its store."""
    return fetch_directory(workspace, workspace.version_directory(digest), MANIFEST)


def is_whole(workspace: Workspace, digest: str) -> bool:
    """Whether the workspace has the files of a version, undamaged."""
    try:
        if holds_version(workspace, digest):
            load_verified(workspace.version_directory(digest), digest)
            return True
    except (CorruptFile, InvalidTokenizer, MissingSource):
        pass
    return False


def is_published_here(workspace: Workspace, digest: str) -> bool:
    """Whether the workspace has more files of a version than loading needs."""
    directory = workspace.version_directory(digest)
    return directory.is_dir() and any(path.name not in _OF_LOADERS for path in directory.iterdir())


def format_files(directory: Path) -> list[Path]:
    """Return the files of the ``bpeline`` format, which loading reads; manifest last."""
    from bpeline.tokenizer_core.formats import bpeline

    return [directory / name for name in bpeline.files_of(directory)]


def all_files(directory: Path) -> list[Path]:
    """Return the finished files directly in ``directory``, the manifest last."""
    paths = [file for file in directory.iterdir() if file.is_file() and not is_temporary(file)]
    return sorted(paths, key=lambda path: (path.name == MANIFEST, path.name))


def keep_files(workspace: Workspace, publication: Publication) -> Publication:
    """Copy a publication's files, figures and pages into the workspace.

    Returns:
        The publication with the new paths and digests of its exports. Files of our own format,
        evaluations and certificates contain their own digests.

    Raises:
        CorruptFile: the files do not have the digest of the publication, or changed since.
    """
    source = publication.tokenizer_directory
    target = workspace.version_directory(publication.digest)
    load_verified(source, publication.digest)
    if source.resolve() != target.resolve():
        _copy(all_files(source), target)
    figures, pages = target / FIGURES, target / PAGES
    _copy((path for path in publication.figures if path.parent != figures), figures)
    _copy((path for path in publication.pages if path.parent != pages), pages)
    figure_files = tuple(figures / path.name for path in publication.figures)
    page_files = tuple(pages / path.name for path in publication.pages)
    digests = {
        path.name: digest_of_bytes(read_file(path))
        for path in all_files(target)
        if path.name in ("tokenizer.json", *FOR_READERS) or path.suffix == ".tiktoken"
    }
    for name, digest in publication.kept.items():
        if digests.get(name) != digest:
            raise CorruptFile(
                f"{target / name} is {'not what was written' if name in digests else 'missing'}",
                "expected the files as they were when training ended",
                "type the training again: it reuses its checkpoints and writes the files again",
            )
    share_directory(workspace, target, MANIFEST)
    return replace(
        publication,
        tokenizer_directory=target,
        figures=figure_files,
        pages=page_files,
        kept=digests,
    )


def keep_downloads(workspace: Workspace, digest: str, downloads: Path) -> Tokenizer:
    """Verify downloaded files, then copy them into the workspace."""
    tokenizer = load_verified(downloads, digest)
    # The copy is only a cache: loading works on a full or read-only disk, too.
    if workspace.manifest.exists():
        with suppress(OSError, StorageError):
            _copy(format_files(downloads), workspace.version_directory(digest))
    return tokenizer


def load_verified(directory: Path, digest: str | None = None) -> Tokenizer:
    """Load the ``bpeline`` format and verify its digest; executes no code.

    Raises:
        CorruptFile: a file is damaged, or the digest differs.
        InvalidTokenizer: the files contradict each other.
    """
    from bpeline.tokenizer_core.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(directory, format="bpeline")
    if digest is not None and tokenizer.digest != digest:
        raise CorruptFile(
            f"{directory} holds the tokenizer {tokenizer.digest}, not {digest}",
            "expected the files that were registered",
            f"remove {directory} to fetch it again, and find out who changed it",
        )
    return tokenizer


def _copy(files: Iterable[Path], target: Path) -> None:
    for path in files:
        DURABLE.write(target / path.name, read_file(path))
