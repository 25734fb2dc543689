"""Folders of tokenizers on the Hugging Face Hub: fetched at a commit, pushed as one.

The only door to ``huggingface_hub``, which a user may leave out; knows files and commits, and
nothing of what is in them. Keys are that library's own affair (``hf auth login``, ``HF_TOKEN``).
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
    fenced,
)

SCHEME = "hf://"
CARD = "README.md"
MAIN = "main"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[\w.][\w./-]{0,254}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubReference:
    """``hf://ORG/REPO@REVISION``: a branch, a tag or a commit of a repository."""

    repository: str
    revision: str = MAIN

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}@{self.revision}"

    @classmethod
    def parse(cls, text: str) -> HubReference:
        """Read what a person typed, with or without ``hf://`` and revision.

        Raises:
            InvalidOption: it names no repository.
        """
        repository, _, revision = text.removeprefix(SCHEME).partition("@")
        revision = revision or MAIN
        if not _REPOSITORY.fullmatch(repository) or not _REVISION.fullmatch(revision):
            raise InvalidOption(
                f"{text!r} names no repository of the Hugging Face Hub",
                "accepted is ORG/REPO, or hf://ORG/REPO@REVISION: a branch, a tag or a commit",
                "spell it as in hf://openai-community/gpt2@main",
            )
        return cls(repository, revision)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Files of a repository as they are in one commit.

    Attributes:
        path: the folder they are in.
        reference: with the commit as its revision: it means the same for ever.
        licence: as the repository states it; empty where it does not.
    """

    path: Path
    reference: HubReference
    licence: str


@dataclass(frozen=True, slots=True)
class Pushed:
    """What was pushed.

    Attributes:
        reference: with the commit as its revision.
        files: that were sent.
        remarks: what people should know; others' files that stay, a card that was left as it is.
    """

    reference: HubReference
    files: tuple[str, ...]
    remarks: tuple[str, ...]


def fetch(reference: HubReference, names: Iterable[str]) -> Snapshot:
    """Fetch files of a repository, those of ``names`` that there are; into the library's cache.

    Raises:
        MissingSource: there is no such repository or revision, or it is not open to this user.
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
    """Push the files of a folder as one commit, and read them back.

    A repository and a branch that are not there are made. Other files of a repository stay; so
    does a README.md that does not contain ``ours``.

    Args:
        folder: whose files are sent.
        reference: the repository and the branch.
        message: of the commit.
        private: whether a repository that is made is private.
        ours: stands in every README.md that may be replaced.

    Raises:
        LibraryFailed: ``huggingface_hub`` is not installed, or the Hub refuses or does not answer.
        CorruptFile: what is there now is not what was sent.
    """
    repository, branch = reference.repository, reference.revision
    files = {path.name: read_file(path) for path in sorted(folder.iterdir())}
    remarks = []
    with _hub(f"pushing to {reference}") as api:
        api.create_repo(repository, private=private or None, exist_ok=True)
        if branch != MAIN:
            api.create_branch(repository, branch=branch, exist_ok=True)
        head = api.model_info(repository, revision=branch)
        there = {one.rfilename for one in head.siblings or ()}
        if CARD in there:
            card = api.hf_hub_download(repository, CARD, revision=_commit(head.sha))
            if ours not in read_file(card).decode(errors="replace"):
                del files[CARD]
                remarks.append(f"{CARD} of {repository} is not of bpeline's making and stays")
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
    if others := sorted(there & _READ_BY_OTHERS - files.keys()):
        remarks.append(f"{repository} also holds {', '.join(others)}, not of this version")
    return Pushed(pinned, tuple(files), tuple(remarks))


# Files that some program prefers to tokenizer.json, or to what tokenizer_config.json says.
_READ_BY_OTHERS = {
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "tekken.json",
    "sentencepiece.bpe.model", "added_tokens.json", "chat_template.jinja",
}  # fmt: skip


def _require_sent(reference: HubReference, files: dict[str, bytes]) -> None:
    """Read files back from the commit that was made of them."""
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
                    "the files as they were written",
                    f"look at {reference}, and push again",
                )


# What those libraries for HTTP call it that huggingface_hub has used, and itself in a download.
_NO_FILE = "LocalEntryNotFoundError"
_NO_ANSWER = {"TransportError", "ConnectionError", _NO_FILE}
_UNAUTHORIZED = {401, 403}
_TRY_LATER = {429, *range(500, 600)}


@contextmanager
def _hub(doing: str) -> Iterator[Any]:
    """The library's client; whatever it raises becomes an error of ours."""
    prepare_hub()
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError:
        raise LibraryFailed(
            f"{doing} needs huggingface_hub, which is not installed",
            "the optional extra `hub`",
            "type `pip install 'bpeline[hub]'`",
        ) from None
    with fenced("huggingface_hub", doing):
        try:
            yield huggingface_hub.HfApi(library_name="bpeline")
        except (
            errors.RepositoryNotFoundError,  # a gated one, too
            errors.RevisionNotFoundError,
            errors.HFValidationError,
        ) as error:
            said = " ".join(str(error).split())[:300]
            raise MissingSource(
                f"{doing} failed: {type(error).__name__}: {said}",
                "a repository and a revision that exist and are open to you",
                "check the spelling, and type `hf auth login` for what is not public",
            ) from error
        except Exception as error:
            kinds = {one.__name__ for one in type(error).__mro__}
            why = error.__cause__ if _NO_FILE in kinds else error
            if isinstance(why, errors.HfHubHTTPError):
                raise _refused(doing, why) from error
            if not _NO_ANSWER & kinds:
                raise
            raise LibraryFailed(
                f"{huggingface_hub.constants.ENDPOINT} does not answer while {doing}: {error}",
                "a Hub that this machine reaches",
                "look at the network and at HF_ENDPOINT, and type the same command again",
            ) from error


def _refused(doing: str, error: Any) -> LibraryFailed:
    """What to do about an answer that is none of success."""
    status = getattr(error.response, "status_code", 0)
    accepted, next_step = "what the Hub accepts", "see what it says, and mend that"
    if status in _UNAUTHORIZED:
        accepted = "an account that may do this"
        next_step = "type `hf auth login`, or set HF_TOKEN; then the same command again"
    elif status in _TRY_LATER:
        accepted = "a Hub that has time for it; it refuses for now"
        next_step = "type the same command again in some minutes"
    said = " ".join(str(error).split())[:300]
    return LibraryFailed(f"{doing} failed: {said}", accepted, next_step)


def _commit(said: object) -> str:
    """A commit's hash as the Hub gave it.

    Raises:
        CorruptFile: it is none.
    """
    if isinstance(said, str) and _COMMIT.fullmatch(said):
        return said
    raise CorruptFile(
        f"the Hub named {str(said)[:60]!r} as a commit",
        "40 hexadecimal digits",
        "look whether HF_ENDPOINT names a Hub",
    )
