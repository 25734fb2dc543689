"""How bytes become counted text: the settings that decide which words a chunk holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus.file_kinds import RECORD_END
from bpeline.tokenizer_core.corpus.held_out import hold_out, sections_of, touched, without
from bpeline.tokenizer_core.corpus.left_out import SECTIONS_RULE, LeftOut
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.splitting import (
    AnyPairs,
    Cuts,
    FormedPairs,
    LoneSpaces,
    SentenceBreaks,
    SpacesAndPairs,
    SpacesFirst,
    SplitPattern,
)
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import validate_special_tokens

CHUNK_BYTES = 64 << 20
TEXT_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_COUNTING = 3  # raised whenever the same bytes and settings give other counts than before


class Shares(NamedTuple):
    """What becomes of the documents of a text.

    Attributes:
        training: int64 ``[n, 2]``: the spans that are trained on.
        held_out: likewise, those kept for evaluation.
        left_out_bytes: of the documents, in neither.
        left_out_documents: documents of an evaluation set that begin in them.
    """

    training: NDArray[np.int64]
    held_out: NDArray[np.int64]
    left_out_bytes: int = 0
    left_out_documents: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything beside a chunk's bytes that its counts depend on.

    Attributes:
        pattern: how documents are cut into pre-tokens.
        special_tokens: boundaries between documents; never counted.
        invalid_utf8: what bytes that are not UTF-8 mean: ``strict`` refuses the file, ``replace``
            reads U+FFFD as Python's decoder does, ``ignore`` leaves them out as it does.
        text_field: the member of a JSON line, or the column, that holds documents.
        held_out: share of the text (0 ≤ share < 1) kept from counting, for evaluation. The choice
            is made by content, section by section, so it stays as it is when a corpus grows.
        text_fields: (source, text field) of sources with a field of their own, see `of_source`.
        left_out: passages that are not counted: those of the evaluation set.
        text_form: the Unicode form in which documents are read (``NFC`` …); empty: as they are.
        count_columns: the columns of words and of counts, of files that hold these.
        deduplicated: whether copies of documents are left out as well; which ones are copies, the
            whole corpus decides, so chunks with copies have other digests.
        chunk_bytes: how long chunks are, about. Words are the same whatever it is; held-out
            sections, which begin anew in each chunk, are others.

    Raises:
        InvalidOption: a share or a policy that is not among these.
        InvalidSpecialToken: see `validate_special_tokens`.
    """

    pattern: SplitPattern
    special_tokens: tuple[str, ...] = ()
    invalid_utf8: Literal["strict", "replace", "ignore"] = "strict"
    text_field: str = "text"
    held_out: float = 0.0
    text_fields: tuple[tuple[str, str], ...] = ()
    left_out: LeftOut | None = None
    deduplicated: bool = False
    text_form: Literal["", "NFC", "NFD", "NFKC", "NFKD"] = ""
    count_columns: tuple[str, str] = ("word", "count")
    chunk_bytes: int = CHUNK_BYTES

    def __post_init__(self) -> None:
        if self.special_tokens:
            specials = validate_special_tokens(self.special_tokens)
            object.__setattr__(self, "special_tokens", specials)
        if self.invalid_utf8 not in ("strict", "replace", "ignore"):
            raise InvalidOption(
                f"there is no policy {self.invalid_utf8!r} for bytes that are not UTF-8",
                "strict (refuse the file), replace (read U+FFFD) or ignore (leave them out)",
                'invalid_utf8="replace"',
            )
        if self.text_form not in ("", *TEXT_FORMS):
            raise InvalidOption(
                f"there is no Unicode form {self.text_form!r}",
                f"{', '.join(TEXT_FORMS)}, or an empty text",
                'text_form="NFC"',
            )
        if not 0 <= self.held_out < 1:
            raise InvalidOption(
                f"the held-out share is {self.held_out}",
                "a share from 0 up to, but not including, 1",
                "held_out=0.01 keeps one part in a hundred for evaluation",
            )

    def of_source(self, name: str) -> Reading:
        """How the files of one source are read: what their counts depend on, and nothing else."""
        if not self.text_fields:
            return self
        field = dict(self.text_fields).get(name, self.text_field)
        return replace(self, text_field=field, text_fields=())

    @property
    def special_bytes(self) -> tuple[bytes, ...]:
        """The special tokens in UTF-8."""
        return tuple(token.encode() for token in self.special_tokens)

    def cuts(self, format: str) -> Cuts:
        """Where files of this format (see `file_kinds.Format`) may be cut."""
        if format != "text":
            return Cuts(behind_each=b"\n" if format == "jsonl" else RECORD_END)
        pairs = self.pattern.cut_pairs
        if isinstance(pairs, SentenceBreaks):
            return self._cuts(replace(pairs, form=self.text_form))
        if pairs is None or not self.text_form:
            return self._cuts(pairs)
        return self._cuts(FormedPairs(pairs, self.text_form))

    def _cuts(self, pairs: AnyPairs) -> Cuts:
        return Cuts(
            pairs=pairs,
            special_tokens=self.special_bytes,
            drops_invalid=self.invalid_utf8 == "ignore",
        )

    def fields(self, format: str) -> str | tuple[str, str]:
        """The column, or the columns, that are read of files of this format."""
        return self.count_columns if format == "counts" else self.text_field

    def quick_cuts(self, format: str) -> Cuts:
        """Legal cuts as well, but not always the first ones; known without an automaton."""
        if not self._is_cut_at_spaces(format):
            return self.cuts(format)
        return self._cuts(SpacesFirst(self.pattern))

    def cuts_soon_found(self, format: str) -> tuple[Cuts, Cuts]:
        """Legal cuts that are found at memory speed, and others with these among them.

        The same ones twice where none are found sooner than others. Neither makes an automaton
        before the others are looked for.
        """
        if not self._is_cut_at_spaces(format):
            cuts = self.cuts(format)
            return cuts, cuts
        return self._cuts(LoneSpaces()), self._cuts(SpacesAndPairs(self.pattern))

    def _is_cut_at_spaces(self, format: str) -> bool:
        return format == "text" and not self.text_form and self.pattern.cuts_at_spaces

    @property
    def held_out_below(self) -> int:
        """Sections whose 64-bit fingerprint is below this number are held out."""
        return int(self.held_out * 2.0**64)

    def share_out(
        self, text: Text, documents: NDArray[np.int64], across: tuple[int, int] = (0, 0)
    ) -> Shares:
        """Share documents out between training and evaluation.

        Args:
            documents: int64 ``[n, 2]`` spans of the text, without special tokens.
            across: see `ChunkText.across`.
        """
        pairs = self.pattern.cut_pairs
        training, held_out = hold_out(text, documents, self.held_out_below, pairs)
        if self.left_out is None or not self.leaves_out:
            return Shares(training, held_out)
        found = self.left_out.spans_in(text)
        if any(across):
            edges = [[-1, across[0]], [text.size - across[1], text.size + 1]]
            found = np.concatenate((found, np.array(edges, np.int64)[np.array(across) > 0]))
            found = found[np.argsort(found[:, 0], kind="stable")]
        if not len(found):
            return Shares(training, held_out)
        if self.left_out.rule == SECTIONS_RULE:
            if not self.held_out_below:
                training = sections_of(text, documents, pairs)
            rest = without(text, training, found, None)
            held_out = without(text, held_out, found, None)
        else:
            rest = without(text, training, found, pairs)
        left_out = int(np.diff(training).sum() - np.diff(rest).sum())
        begins = found[:, 0] >= 0
        return Shares(rest, held_out, left_out, int((touched(found, training) & begins).sum()))

    def reach(self, format: str) -> int:
        """Bytes of a file on either side of a place that tell what is left out across it.

        Documents of other formats than text end where chunks do.
        """
        if format != "text" or self.left_out is None or not self.leaves_out:
            return 0
        reach = self.left_out.reach
        # What is looked at may begin and end within a character; four bytes may become one.
        return reach and (reach + 4) * (4 if self.text_form else 1)

    @property
    def leaves_out(self) -> bool:
        """Whether any passage is looked for."""
        one = self.left_out
        if one is None or not one.passages:
            return False
        if one.rule != SECTIONS_RULE or not 0 < one.held_out_below <= self.held_out_below:
            return True
        return one.cut_by != digest_of([self.pattern.digest, list(self.special_tokens)])

    @property
    def digest(self) -> str:
        """Digest of the settings of `of_source`: with a chunk's digest, the key of its counts."""
        settings: dict[str, Any] = {
            "counting": _COUNTING,
            "pattern": self.pattern.digest,
            "special_tokens": list(self.special_tokens),
            "invalid_utf8": self.invalid_utf8,
            "text_field": self.text_field,
            "held_out": f"{self.held_out_below:016x}",
        }
        if self.left_out is not None and self.leaves_out:
            settings["left_out"] = self.left_out.digest
        if self.text_form:
            settings["text_form"] = self.text_form
        if self.deduplicated:
            settings["deduplicated"] = True
        if self.count_columns != ("word", "count"):
            settings["count_columns"] = list(self.count_columns)
        return digest_of(settings)
