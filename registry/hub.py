"""Fetch and push folders of tokenizers on the Hugging Face Hub.

``huggingface_hub`` is an optional dependency and handles credentials (``hf auth login``,
``HF_TOKEN``).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpeline.registry.environment import prepare_hub
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    LibraryFailed,
    MissingSource,
    wrap_errors,
)

SCHEME = "hf://"
CARD = "README.md"
MAIN = "main"
# Files that tokenizer loaders read; never model weights.
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model",
    "sentencepiece.bpe.model", "tekken.json", "chat_template.jinja", "chat_template.json",
    "freqs.json", "vocab_to_idx.json", "idx_to_vocab.json", "bpeline.json", "manifest.json",
    "tokenizer.bin",
)  # fmt: skip
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[\w.][\w./-]{0,254}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubReference:
    """A branch, tag or commit of a repository: ``hf://ORG/REPO@REVISION``."""

    repository: str
    revision: str = MAIN

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}@{self.revision}"

    @classmethod
    def parse(cls, text: str) -> HubReference:
        """Parse ``ORG/REPO``, with or without ``hf://`` and a revision."""
        repository, _, revision = text.removeprefix(SCHEME).partition("@")
        revision = revision or MAIN
        if not _REPOSITORY.fullmatch(repository) or not _REVISION.fullmatch(revision):
            raise InvalidOption(
                f"{text!r} names no repository of the Hugging Face Hub",
                "expected ORG/REPO or hf://ORG/REPO@REVISION: a branch, a tag or a commit",
                "write it like hf://openai-community/gpt2@main",
            )
        return cls(repository, revision)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Files of a repository at the commit in ``reference``."""

    path: Path
    reference: HubReference
    licence: str


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result of a push; the revision of ``reference`` is the new commit."""

    reference: HubReference
    files: tuple[str, ...]
    remarks: tuple[str, ...]


def fetch(reference: HubReference, names: Iterable[str]) -> Snapshot:
    """Download the existing files of ``names`` to the cache of ``huggingface_hub``.

    Raises:
        MissingSource: no such repository or revision, or no access to it.
        LibraryFailed: ``huggingface_hub`` is not installed, or the Hub does not answer.
    """
    with _hub(f"fetching {reference}") as api:
        about = api.model_info(reference.repository, revision=reference.revision)
        commit = _commit(about.sha)
        path = api.snapshot_download(
            reference.repository, revision=commit, allow_patterns=list(names)
        )
    card = about.card_data.to_dict() if about.card_data else {}
    licence = card.get("license")
    return Snapshot(
        Path(path),
        HubReference(reference.repository, commit),
        licence if isinstance(licence, str) else "",
    )


def push(
    folder: Path, reference: HubReference, message: str, *, private: bool, ours: str
) -> Pushed:
    """Push the files of a folder as one commit and verify them by reading them back.

    A missing repository or branch is created. Other files of the repository stay, and so does a
    README.md that does not contain ``ours``.

    Args:
        message: of the commit.
        private: whether a new repository is private.
    """
    repository, branch = reference.repository, reference.revision
    files = {path.name: read_file(path) for path in sorted(folder.iterdir())}
    remarks = []
    with _hub(f"pushing to {reference}") as api:
        api.create_repo(repository, private=private or None, exist_ok=True)
        if branch != MAIN:
            api.create_branch(repository, branch=branch, exist_ok=True)
        head = api.model_info(repository, revision=branch)
        existing = {file.rfilename for file in head.siblings or ()}
        if CARD in existing:
            card = api.hf_hub_download(repository, CARD, revision=_commit(head.sha))
            if ours not in read_file(card).decode(errors="replace"):
                del files[CARD]
                remarks.append(f"{CARD} of {repository} was not created by bpeline; kept")
        commit = _commit(
            api.upload_folder(
                repo_id=repository,
                folder_path=folder,
                revision=branch,
                commit_message=message,
                parent_commit=_commit(head.sha),
                allow_patterns=sorted(files),
            ).oid
        )
    pinned = HubReference(repository, commit)
    _require_sent(pinned, files)
    if others := sorted(existing & _READ_BY_OTHERS - files.keys()):
        remarks.append(f"{repository} also has {', '.join(others)}, not from this version")
    return Pushed(pinned, tuple(files), tuple(remarks))


# Files that some programs read instead of tokenizer.json or tokenizer_config.json.
_READ_BY_OTHERS = {
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "tekken.json",
    "sentencepiece.bpe.model", "added_tokens.json", "chat_template.jinja",
}  # fmt: skip


def _require_sent(reference: HubReference, files: dict[str, bytes]) -> None:
    """Read files back from the commit and compare them with what was sent."""
    with tempfile.TemporaryDirectory(prefix="bpeline-") as aside:
        with _hub(f"reading back {reference}") as api:
            api.snapshot_download(
                reference.repository,
                revision=reference.revision,
                allow_patterns=sorted(files),
                local_dir=aside,
            )
        for name, content in files.items():
            path = Path(aside) / name
            if not path.is_file() or read_file(path) != content:
                raise CorruptFile(
                    f"{name} in {reference} is not what was sent",
                    "expected the files as they were sent",
                    f"check {reference} and push again",
                )


# Names of connection errors: of the HTTP libraries of huggingface_hub, and of its downloads.
_NO_FILE = "LocalEntryNotFoundError"
_NO_ANSWER = {"TransportError", "ConnectionError", _NO_FILE}
_UNAUTHORIZED = {401, 403}
_TRY_LATER = {429, *range(500, 600)}


@contextmanager
def _hub(doing: str) -> Iterator[Any]:
    """Yield a Hub client; converts errors of huggingface_hub to `BpelineError`."""
    prepare_hub()
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError:
        raise LibraryFailed(
            f"{doing} needs huggingface_hub, which is not installed",
            "expected the optional extra `hub`",
            "type `pip install 'bpeline[hub]'`",
        ) from None
    with wrap_errors("huggingface_hub", doing):
        try:
            yield huggingface_hub.HfApi(library_name="bpeline")
        except (
            errors.RepositoryNotFoundError,  # gated repositories, too
            errors.RevisionNotFoundError,
            errors.HFValidationError,
        ) as error:
            message = " ".join(str(error).split())[:300]
            raise MissingSource(
                f"{doing} failed: {type(error).__name__}: {message}",
                "expected a repository and a revision that exist and that you may read",
                "check the spelling; type `hf auth login` if it is not public",
            ) from error
        except Exception as error:
            kinds = {cls.__name__ for cls in type(error).__mro__}
            why = error.__cause__ if _NO_FILE in kinds else error
            if isinstance(why, errors.HfHubHTTPError):
                raise _refused(doing, why) from error
            if not _NO_ANSWER & kinds:
                raise
            raise LibraryFailed(
                f"{huggingface_hub.constants.ENDPOINT} does not answer while {doing}: {error}",
                "expected a Hub that this machine can reach",
                "check the network and HF_ENDPOINT, and type the same command again",
            ) from error


def _refused(doing: str, error: Any) -> LibraryFailed:
    status = getattr(error.response, "status_code", 0)
    accepted, next_step = (
        "expected a request that the Hub accepts",
        "correct what the message names",
    )
    if status in _UNAUTHORIZED:
        accepted = "expected an account that is allowed to do this"
        next_step = "type `hf auth login`, or set HF_TOKEN; then the same command again"
    elif status in _TRY_LATER:
        accepted = "expected a Hub that is not overloaded"
        next_step = "type the same command again in a few minutes"
    message = " ".join(str(error).split())[:300]
    return LibraryFailed(f"{doing} failed: {message}", accepted, next_step)


def _commit(said: object) -> str:
    """Check a commit hash from the Hub; raises CorruptFile."""
    if isinstance(said, str) and _COMMIT.fullmatch(said):
        return said
    raise CorruptFile(
        f"the Hub named {str(said)[:60]!r} as a commit",
        "expected 40 hexadecimal digits",
        "check that HF_ENDPOINT is the address of a Hub",
    )
