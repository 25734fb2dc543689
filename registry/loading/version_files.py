"""The files of a version: made from a tokenizer, kept in the workspace, read back and verified."""

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

# Of our own format the manifest comes last: where it is, the others are.
MANIFEST = "manifest.json"
FOR_READERS = ("vocab.json", "merges.txt")  # written for people and other programs
_OF_LOADERS = {"tokenizer.bin", *FOR_READERS, MANIFEST}
KEPT = ("hf", "tiktoken")  # formats whose file stays with a version, if it was read alike
CERTIFYING = ("tokenizers", "tiktoken")  # what reads these, installed by the extra `certify`
FIGURES = "figures"
PAGES = "pages"
EXTENSION = "extension.json"  # what was checked of a version that extends another
RECIPE = "extension-recipe.json"  # and which of its old ids each new one stands for


def write_exports(tokenizer: Tokenizer, name: str, directory: Path) -> list[Path]:
    """Write a tokenizer in the formats people load without bpeline, with a certificate of each.

    ``tokenizer.json`` for HuggingFace and ``NAME.tiktoken``; besides, without a certificate,
    ``vocab.json`` and ``merges.txt``. A format that cannot express this tokenizer is left out, and
    so is one that its own program reads otherwise: then there is the certificate alone, which says
    how.

    Args:
        tokenizer: what to write.
        name: the tokenizer's name.
        directory: where the ``bpeline`` format already lies.

    Returns:
        The exports with a certificate.
    """
    from bpeline.registry.certify import Certificate, certify
    from bpeline.tokenizer_core.formats import bpeline

    texts = golden_texts(directory)
    with suppress(InvalidInput):  # a special token that reads like an ordinary one
        bpeline.save_for_readers(tokenizer, directory)
    exports: tuple[tuple[SavedFormat, str], ...]
    exports = (("hf", "tokenizer.json"), ("tiktoken", f"{name}.tiktoken"))
    written: list[tuple[SavedFormat, Path]] = []
    for format_name, file_name in exports:
        with suppress(InvalidInput):  # e.g. a rank order that tiktoken cannot hold
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
    """The export to a format that `write_exports` left with a version; None where it left none."""
    patterns = {"hf": "tokenizer.json", "tiktoken": "*.tiktoken"}
    found = sorted(directory.glob(patterns[format])) if format in patterns else []
    return found[0] if found else None


def certificate_path(directory: Path, format: str) -> Path:
    """Where a version keeps the certificate of its export to a format."""
    return directory / f"certificate-{format}.json"


def uncertified(directory: Path, reference: str) -> str:
    """What to type because an export of a version was compared with no library; may be empty."""
    from bpeline.registry.certify import certificates_in

    certificates = certificates_in(directory)
    exports = [kind for kind in KEPT if kept_export(directory, kind)]
    if all(kind in certificates and not certificates[kind].not_checked for kind in exports):
        return ""
    if all(map(find_spec, CERTIFYING)):
        return f"exports not certified: type `bpeline export --check {reference}`"
    return "exports not certified: pip install 'bpeline[certify]'"


def require_certified(directory: Path, reference: str, what: str) -> None:
    """Refuse a version whose exports are not known to be read alike by the libraries.

    Raises:
        PromotionRefused: a library reads an export otherwise.
        PromotionNotJudged: no library has read one of them, or there are none here.
    """
    from bpeline.registry.certify import certificates_in

    exports = {kind: one for kind, one in certificates_in(directory).items()
               if kind in KEPT and kept_export(directory, kind)}  # fmt: skip
    wrong = [f"{one} in the export {kind}" for kind, one in exports.items() if one.difference]
    why = uncertified(directory, reference)
    if not wrong and not why and exports:
        return
    judged = wrong or [f"not judged: {why or f'this workspace has no export of {reference}'}"]
    raise (PromotionRefused if wrong else PromotionNotJudged)(
        f"{what}: {'; '.join(judged)}",
        "for a promotion with `certified = true`, libraries must have read each export alike",
        f"type `pip install 'bpeline[certify]'`, then `bpeline export --check {reference}` on the "
        "machine that trained it",
    )


def golden_texts(directory: Path) -> list[str]:
    """The texts whose ids are kept with a version, words of its corpus among them."""
    from bpeline.tokenizer_core.formats import read_manifest

    return [entry["text"] for entry in read_manifest(directory)["golden"]]


def holds_version(workspace: Workspace, digest: str) -> bool:
    """Whether the workspace has all files of a version, here or, until now, in its store.

    Raises:
        StorageError: the store does not answer.
    """
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
    """Whether the workspace has more of a version than who only loads it would."""
    directory = workspace.version_directory(digest)
    return directory.is_dir() and any(one.name not in _OF_LOADERS for one in directory.iterdir())


def format_files(directory: Path) -> list[Path]:
    """The files of the ``bpeline`` format, the only ones a loader reads; the manifest last."""
    from bpeline.tokenizer_core.formats import bpeline

    return [directory / name for name in bpeline.files_of(directory)]


def all_files(directory: Path) -> list[Path]:
    """Every finished file directly in ``directory``, the manifest last."""
    found = [one for one in directory.iterdir() if one.is_file() and not is_temporary(one)]
    return sorted(found, key=lambda path: (path.name == MANIFEST, path.name))


def keep_files(workspace: Workspace, publication: Publication) -> Publication:
    """Copy a publication's files, figures and pages into the workspace, durably and verified.

    Returns:
        The publication, pointing to the kept files and sealing the exports among them: the
        files of our own format, evaluations and certificates are sealed by themselves.

    Raises:
        CorruptFile: the files are not the tokenizer whose digest the publication names, also where
            they have waited in the workspace, or not those that it sealed.
        DiskFull: no space; nothing refers to what was copied.
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
    kept = {
        path.name: digest_of_bytes(read_file(path))
        for path in all_files(target)
        if path.name in ("tokenizer.json", *FOR_READERS) or path.suffix == ".tiktoken"
    }
    for name, digest in publication.kept.items():
        if kept.get(name) != digest:
            raise CorruptFile(
                f"{target / name} is {'not what was written' if name in kept else 'missing'}",
                "the files of a version as they were when training ended",
                "type the training again: it finds what it has learned and writes the files again",
            )
    share_directory(workspace, target, MANIFEST)
    return replace(
        publication,
        tokenizer_directory=target,
        figures=figure_files,
        pages=page_files,
        kept=kept,
    )


def keep_downloads(workspace: Workspace, digest: str, downloads: Path) -> Tokenizer:
    """Verify downloaded files, then keep them as the version with this digest.

    Raises:
        CorruptFile: the files are another tokenizer than the registry promised; nothing is kept.
    """
    tokenizer = load_verified(downloads, digest)
    # Keeping is a convenience: a full or read-only disk does not make the tokenizer worse.
    if workspace.manifest.exists():
        with suppress(OSError, StorageError):
            _copy(format_files(downloads), workspace.version_directory(digest))
    return tokenizer


def load_verified(directory: Path, digest: str | None = None) -> Tokenizer:
    """Load the ``bpeline`` format and compare what it behaves like with what was promised.

    Reads bounded JSON and text; executes nothing.

    Args:
        directory: holds the files of the format.
        digest: the digest it must have; None accepts any.

    Raises:
        CorruptFile: a file is damaged, or the tokenizer has another digest.
        InvalidTokenizer: the files contradict each other.
    """
    from bpeline.tokenizer_core.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(directory, format="bpeline")
    if digest is not None and tokenizer.digest != digest:
        raise CorruptFile(
            f"{directory} holds the tokenizer {tokenizer.digest}, not {digest}",
            "accepted are exactly the files that were registered",
            f"remove {directory} to have it fetched again, and find out who changed it",
        )
    return tokenizer


def _copy(files: Iterable[Path], target: Path) -> None:
    for path in files:
        DURABLE.write(target / path.name, read_file(path))
