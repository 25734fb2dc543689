"""How bytes become counted text: the settings that decide which words a chunk holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from bpeline.tokenizer_core.corpus.cuts import Cuts
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.model import validate_special_tokens
from bpeline.tokenizer_core.splitting import SpacesFirst, SplitPattern

_COUNTING = 3  # raised whenever the same bytes and settings give other counts than before


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything beside a chunk's bytes that its counts depend on.

    Attributes:
        pattern: how documents are cut into pre-tokens.
        special_tokens: boundaries between documents; never counted.
        invalid_utf8: what bytes that are not UTF-8 mean: ``strict`` refuses the file, ``replace``
            reads U+FFFD as Python's decoder does.
        text_field: the member of a JSON line that holds its document.
        held_out: share of the text (0 ≤ share < 1) kept from counting, for evaluation. The choice
            is made by content, section by section, so it stays as it is when a corpus grows.
        text_fields: (source, text field) of sources with a field of their own, see `of_source`.

    Raises:
        InvalidOption: a share or a policy that is not among these.
        InvalidSpecialToken: see `validate_special_tokens`.
    """

    pattern: SplitPattern
    special_tokens: tuple[str, ...] = ()
    invalid_utf8: Literal["strict", "replace"] = "strict"
    text_field: str = "text"
    held_out: float = 0.0
    text_fields: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "special_tokens", validate_special_tokens(self.special_tokens))
        if self.invalid_utf8 not in ("strict", "replace"):
            raise InvalidOption(
                f"there is no policy {self.invalid_utf8!r} for bytes that are not UTF-8",
                "strict (refuse the file) or replace (read U+FFFD)",
                'invalid_utf8="replace"',
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
        """Where files of this format (``text`` or ``jsonl``) may be cut."""
        if format == "jsonl":
            return Cuts(at_line_feeds=True)
        return Cuts(pairs=self.pattern.cut_pairs, special_tokens=self.special_bytes)

    def quick_cuts(self, format: str) -> Cuts:
        """Legal cuts as well, but not always the first ones; known without an automaton."""
        if format == "jsonl" or not self.pattern.cuts_at_spaces:
            return self.cuts(format)
        return Cuts(pairs=SpacesFirst(self.pattern), special_tokens=self.special_bytes)

    @property
    def held_out_below(self) -> int:
        """Sections whose 64-bit fingerprint is below this number are held out."""
        return int(self.held_out * 2.0**64)

    @property
    def digest(self) -> str:
        """Digest of the settings of `of_source`: with a chunk's digest, the key of its counts."""
        return digest_of(
            {
                "counting": _COUNTING,
                "pattern": self.pattern.digest,
                "special_tokens": list(self.special_tokens),
                "invalid_utf8": self.invalid_utf8,
                "text_field": self.text_field,
                "held_out": f"{self.held_out_below:016x}",
            }
        )
