"""An evaluation set: fixed texts, identified by content, to measure versions on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bpeline.tokenizer_core.corpus import DecontaminationSet, in_parts, without_special_looking
from bpeline.tokenizer_core.digests import DocumentDigest, digest_of
from bpeline.tokenizer_core.display import megabytes
from bpeline.tokenizer_core.records import check_fields

FORMAT = 1

# With 50 sections of 4 KiB, the standard deviation of bytes per token over samples of a corpus is
# 3 % (English, C) to 6 % (many languages); with 10 sections 7 to 14 %.
FEWEST_DOCUMENTS = 50
LEAST_BYTES = FEWEST_DOCUMENTS * 4096

BY_TRAINING = "bpeline train"  # `NamedSet.by` of sets made by training


@dataclass(frozen=True, slots=True)
class Text:
    """A named text with its documents (UTF-8), before it is part of a set.

    Attributes:
        language, domain: labels; texts with the same label also make a slice.
        files: its sources; empty for documents held out of a corpus.
    """

    name: str
    documents: Sequence[bytes]
    language: str | None = None
    domain: str | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetText:
    """A text of a set, without its documents; ``digest`` is of these."""

    name: str
    language: str | None
    domain: str | None
    files: tuple[str, ...]
    digest: str
    documents: int
    bytes: int


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A fixed set of texts.

    Attributes:
        digest: of all documents, names and labels.
        parallel: the texts are translations of each other.
        origin: ``held-out`` from the corpus of a training, or ``given``.
        left_out: text that no training of the name reads.
    """

    digest: str
    texts: tuple[SetText, ...]
    parallel: bool
    origin: str
    left_out: DecontaminationSet

    @property
    def documents(self) -> int:
        return sum(text.documents for text in self.texts)

    @property
    def bytes(self) -> int:
        return sum(text.bytes for text in self.texts)

    @property
    def provisional(self) -> bool:
        """Whether it is too small: another sample would give other figures."""
        return self.documents < FEWEST_DOCUMENTS or self.bytes < LEAST_BYTES

    def __str__(self) -> str:
        """Return e.g. ``evaluation set 3f2a91c0 (1,992 documents, 8.2 MB)``."""
        provisional = ", provisional" if self.provisional else ""
        return (
            f"evaluation set {self.digest[:8]} ({self.documents:,} "
            f"document{'' if self.documents == 1 else 's'}, {megabytes(self.bytes)}{provisional})"
        )

    def as_record(self) -> dict[str, Any]:
        left_out = {
            **asdict(self.left_out),
            "passages": self.left_out.passages.hex(),
            "shards": sorted(self.left_out.shards),
        }
        del left_out["rule"]  # chosen by each training
        return {**asdict(self), "left_out": left_out}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> EvaluationSet:
        """Read a record made by `as_record`; raises KeyError, TypeError, ValueError."""
        texts = (check_fields(SetText(**text)) for text in record["texts"])
        left_out = {
            **record["left_out"],
            "passages": bytes.fromhex(record["left_out"]["passages"]),
            "shards": frozenset(record["left_out"].get("shards", ())),
        }
        return cls(
            str(record["digest"]),
            tuple(texts),
            bool(record["parallel"]),
            str(record["origin"]),
            check_fields(DecontaminationSet(**left_out)),
        )


def as_set(
    texts: Sequence[Text], *, shards: Iterable[str] = (), parallel: bool = False
) -> tuple[EvaluationSet, dict[str, list[bytes]]]:
    """Make a set from texts; returns it and its documents by name of the text.

    Text that looks like a special token is removed: versions with and without that token are then
    measured on the same text.

    Args:
        shards: keys of the counts of the chunks that the documents were held out of.
        parallel: the texts are translations of each other.
    """
    documents = {
        text.name: [
            part
            for document in text.documents
            for piece in without_special_looking(document)
            for part in in_parts(piece)
        ]
        for text in texts
    }
    described = tuple(
        SetText(
            text.name,
            text.language,
            text.domain,
            text.files,
            content.digest,
            content.documents,
            content.bytes,
        )
        for text in texts
        if (content := DocumentDigest.of(documents[text.name])).documents
    )
    is_given = any(text.files for text in described)
    contents = [[text.name, text.language, text.domain, text.digest] for text in described]
    digest = digest_of(["evaluation set", FORMAT, parallel, contents])
    left_out = DecontaminationSet.of(
        [document for text in texts for document in text.documents],
        () if is_given else shards,
    )
    evaluation_set = EvaluationSet(
        digest, described, parallel, "given" if is_given else "held-out", left_out
    )
    return evaluation_set, {text.name: documents[text.name] for text in described}
