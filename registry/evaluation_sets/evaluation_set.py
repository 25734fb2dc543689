"""An evaluation set: fixed texts, known by their content, on which a name's versions are measured.

The value and what may be said of it; how it is kept is in `registry.evaluation_sets.kept_sets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bpeline.tokenizer_core.corpus import DecontaminationSet, in_parts, without_special_looking
from bpeline.tokenizer_core.digests import DocumentDigest, digest_of
from bpeline.tokenizer_core.display import megabytes
from bpeline.tokenizer_core.records import check_fields

FORMAT = 1

# With 50 sections of 4 KiB, bytes per token is off by 3 % (English, C) to 6 % (many languages), one
# standard deviation over samples of the same corpus; with 10 of them by 7 to 14 %.
FEWEST_DOCUMENTS = 50
LEAST_BYTES = FEWEST_DOCUMENTS * 4096

BY_TRAINING = "bpeline train"  # who gave a set to a name, where no person did


@dataclass(frozen=True, slots=True)
class Text:
    """One named text with its documents, before it belongs to a set.

    Attributes:
        name: of the text, and of its slice.
        documents: UTF-8.
        language, domain: labels; texts with the same label also make a slice.
        files: where they were read from; none for held-out documents of a corpus.
    """

    name: str
    documents: Sequence[bytes]
    language: str | None = None
    domain: str | None = None
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SetText:
    """One text of a set.

    Attributes:
        name, language, domain, files: see `Text`.
        digest: of its documents.
        documents, bytes: how much it is.
    """

    name: str
    language: str | None
    domain: str | None
    files: tuple[str, ...]
    digest: str
    documents: int
    bytes: int


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """What versions are measured on.

    Attributes:
        digest: of all its documents, their names and labels.
        texts: at least one; names differ.
        parallel: the texts of all languages say the same.
        origin: ``held-out`` documents of a training's corpus, or ``given``.
        left_out: what no training of its name reads.
    """

    digest: str
    texts: tuple[SetText, ...]
    parallel: bool
    origin: str
    left_out: DecontaminationSet

    @property
    def documents(self) -> int:
        """Of all texts."""
        return sum(text.documents for text in self.texts)

    @property
    def bytes(self) -> int:
        """Of all texts."""
        return sum(text.bytes for text in self.texts)

    @property
    def provisional(self) -> bool:
        """Whether it is too small: another sample of the same text would give other figures."""
        return self.documents < FEWEST_DOCUMENTS or self.bytes < LEAST_BYTES

    def __str__(self) -> str:
        """``evaluation set 3f2a91c0 (1,992 documents, 8.2 MB)``."""
        provisional = ", provisional" if self.provisional else ""
        return (
            f"evaluation set {self.digest[:8]} ({self.documents:,} "
            f"document{'' if self.documents == 1 else 's'}, {megabytes(self.bytes)}{provisional})"
        )

    def as_record(self) -> dict[str, Any]:
        """JSON values."""
        left_out = {
            **asdict(self.left_out),
            "passages": self.left_out.passages.hex(),
            "shards": sorted(self.left_out.shards),
        }
        del left_out["rule"]  # of each training
        return {**asdict(self), "left_out": left_out}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> EvaluationSet:
        """What `as_record` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is no such record.
        """
        texts = (check_fields(SetText(**one)) for one in record["texts"])
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
    """Texts become a set. What looks like a special token is not among its documents.

    A version that has a special token and one that has it not are then measured on the same.

    Args:
        texts: each with at least one document.
        shards: keys of the counts of the chunks that a training held them out of.
        parallel: the texts of all languages say the same.

    Returns:
        The set, and the documents by the name of their text.
    """
    kept = {
        one.name: [
            part
            for document in one.documents
            for piece in without_special_looking(document)
            for part in in_parts(piece)
        ]
        for one in texts
    }
    described = tuple(
        SetText(
            one.name,
            one.language,
            one.domain,
            one.files,
            content.digest,
            content.documents,
            content.bytes,
        )
        for one in texts
        if (content := DocumentDigest.of(kept[one.name])).documents
    )
    given = any(one.files for one in described)
    contents = [[one.name, one.language, one.domain, one.digest] for one in described]
    digest = digest_of(["evaluation set", FORMAT, parallel, contents])
    left_out = DecontaminationSet.of(
        [document for one in texts for document in one.documents],
        () if given else shards,
    )
    made = EvaluationSet(digest, described, parallel, "given" if given else "held-out", left_out)
    return made, {one.name: kept[one.name] for one in described}
