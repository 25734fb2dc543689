"""Sentences of a text: line by line, or as NLTK's Punkt tokenizer finds them.

Punkt decides about the end of a sentence by the word
before it and the word after it, so text may be cut at the ends of sentences (`SentenceBreaks`).
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import read_bounded
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.optional_libraries import fenced
from bpeline.tokenizer_core.splitting.punkt_model import PUNKT, directories_of, tokenizer_of
from bpeline.tokenizer_core.text import Text

# The files of a trained model, as NLTK's `punkt_tab` has them.
PUNKT_TABLES = "abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt"

# White space as Punkt has it, a word that may end a sentence, white space; then a word with its
# end. Of so few characters that a window of bytes decides, wherever reading began.
_BEFORE = re.compile(r"(?<=[ \t\n\r\v\f])([^\W_]{1,20}[.?!]\s{0,6}[ \t\n\r\v\f])\Z")
_BEHIND = re.compile(r"([^\W_][^\s\ufffd]{0,23})\s")
_END = re.compile(rb"[.?!][^.?!\w]{0,18}?[ \t\n\r\v\f](?=[\w\x80-\xff])")
_END_OF_TEXT = re.compile(r"[.?!]\s{0,6}[ \t\n\r\v\f](?=[^\W_])")


@dataclass(frozen=True, slots=True)
class Punkt:
    """Punkt, untrained or with the tables of a language.

    Attributes:
        name: ``punkt``, with a colon and the digest of the tables where there are some.
        tables: the content of `PUNKT_TABLES`; empty for the untrained model, and where only the
            name is known, of word counts that were stored.
    """

    name: str = PUNKT
    tables: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of_tables(cls, tables: tuple[str, ...]) -> Punkt:
        """The model with these tables; the untrained one without any."""
        return cls(f"{PUNKT}:{digest_of(list(tables))}", tables) if tables else cls()

    @classmethod
    def named(cls, asked: str) -> Punkt:
        """The model for ``punkt``, ``punkt:LANGUAGE`` or ``punkt:DIRECTORY``.

        Raises:
            InvalidOption: another name, or NLTK or the tables are not installed.
        """
        kind, _, language = asked.partition(":")
        if kind != PUNKT or asked == f"{PUNKT}:":
            raise InvalidOption(
                f"there is no way to find sentences called {asked!r}",
                "expected: none, lines, punkt, punkt:LANGUAGE or punkt:DIRECTORY",
                "use 'lines' where each line is a sentence",
            )
        # A module that is not there is None in `sys.modules`.
        if sys.modules.get("nltk.tokenize.punkt", 0) is None or find_spec("nltk") is None:
            raise InvalidOption(
                "sentences by Punkt need NLTK, which is not installed",
                "sentences can also be 'lines' or 'none'",
                "type: pip install 'bpeline[nltk]'",
            )
        return cls.of_tables(_tables_of(language)) if language else cls()

    @classmethod
    def asked(cls, sentences: str) -> Punkt | None:
        """`named`; None for ``none`` and ``lines``, where words are those of the whole text."""
        return None if sentences in ("none", "lines") else cls.named(sentences)

    def spans_in(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the sentences of a text begin and end, in characters.

        Raises:
            LibraryFailed: NLTK raised an error.
        """
        with fenced("NLTK", "finding sentences"):
            yield from tokenizer_of(self.tables).span_tokenize(text)

    def ends_between(self, words: str) -> bool:
        """Whether a sentence ends in front of the last of a few words."""
        with fenced("NLTK", "finding the end of a sentence"):
            return bool(tokenizer_of(self.tables).text_contains_sentbreak(words))


@dataclass(frozen=True, slots=True)
class SentenceBreaks:
    """Where text may be cut so that Punkt finds the same sentences in both parts as in the whole.

    That is behind a word of letters and digits that ends a sentence, before another word. Punkt
    decides by these two words: what it would add to the sentence before, or read together with the
    word before, are other characters.

    Attributes:
        punkt: the model.
        form: the Unicode form that texts are brought to before sentences are found.
    """

    punkt: Punkt
    form: Literal["", "NFC", "NFD", "NFKC", "NFKD"] = ""

    LOOK = 128  # bytes on either side of a position by which it is judged

    def first(self, content: bytes | memoryview, begin: int, end: int) -> int:
        """The first legal cut at a position in [begin, end), or -1; see `CutPairs.first`."""
        for match in _END.finditer(content, max(begin - self.LOOK, 0), end):
            if begin <= (cut := match.end()) < end:
                around = content[max(cut - self.LOOK, 0) : cut], content[cut : cut + self.LOOK]
                if self._ends(*(bytes(side).decode(errors="replace") for side in around)):
                    return cut
        return -1

    def last_in(self, text: str, begin: int, end: int) -> int:
        """The last legal cut before a character at a position in [begin, end), or -1.

        The text before ``begin - 1``, and the last word, which may go on, do not matter.
        """
        begin = max(begin, 1)
        for match in reversed([*_END_OF_TEXT.finditer(text, begin - 1, max(begin, end))]):
            cut = match.end()
            before = text[max(cut - self.LOOK, begin - 1) : cut]
            if cut < end and self._ends(before, text[cut : min(cut + self.LOOK, end)]):
                return cut
        return -1

    def _ends(self, before: str, behind: str) -> bool:
        last, following = _BEFORE.search(before), _BEHIND.match(behind)
        if last is None or following is None:
            return False
        words = last[1] + following[1]
        formed = not self.form or unicodedata.normalize(self.form, words) == words
        return formed and self.punkt.ends_between(words)


def line_spans(text: Text, begin: int, end: int) -> NDArray[np.int64]:
    """The lines in [begin, end) that are not empty: int64 ``[n, 2]``, ascending byte ranges."""
    breaks = np.flatnonzero(text.data[begin:end] == ord("\n")) + begin
    edges = np.concatenate(([begin], np.repeat(breaks, 2), [end])).reshape(-1, 2)
    edges[1:, 0] += 1
    return np.ascontiguousarray(edges[edges[:, 0] < edges[:, 1]])


def sentences_between(
    text: Text,
    spans: NDArray[np.int64],
    mark: Callable[[NDArray[np.int64]], NDArray[np.uint64]],
) -> NDArray[np.int64]:
    """The sentences in spans of a text, without the white space between them.

    Args:
        mark: sets a bit where a sentence, or white space between two, begins in a span.

    Returns:
        int64 ``[n, 2]``, ascending byte ranges.
    """
    spans = spans[spans[:, 0] < spans[:, 1]]
    spans = spans[np.argsort(spans[:, 0])]
    begins = np.flatnonzero(np.unpackbits(mark(spans).view(np.uint8), bitorder="little"))
    if not begins.size:
        return np.empty((0, 2), np.int64)
    firsts = np.searchsorted(begins, spans[:, 0])  # every span begins one
    limits = np.repeat(spans[:, 1], np.diff(np.append(firsts, begins.size)))
    ends = np.minimum(np.append(begins[1:], text.size), limits)
    pieces = np.stack((begins, ends), axis=1)
    # No sentence begins with white space but the first one.
    is_gap = np.zeros(len(pieces), np.bool_)
    lead = text.data[begins]
    may_be_space = (lead <= 32) | np.isin(lead, _LEADS_OF_SPACES)
    may_be_space[firsts] = False
    for number in np.flatnonzero(may_be_space).tolist():
        is_gap[number] = text.bytes(*pieces[number].tolist()).decode()[0].isspace()
    for number in firsts.tolist():
        is_gap[number] = text.bytes(*pieces[number].tolist()).decode().isspace()
    return np.ascontiguousarray(pieces[~is_gap])


_LEADS_OF_SPACES = np.frombuffer(b"\xc2\xe1\xe2\xe3", np.uint8)


def _tables_of(language: str) -> tuple[str, ...]:
    """The tables in a directory, or of a language in NLTK's search path.

    Raises:
        InvalidOption: they are not there.
    """
    directory = Path(language).expanduser()
    if "/" not in language:
        with fenced("NLTK", "looking for the tables of Punkt"):
            places = directories_of(language)
        directory = next((place for place in places if place.is_dir()), Path(places[0]))
    missing = [name for name in PUNKT_TABLES if not (directory / name).is_file()]
    if missing:
        raise InvalidOption(
            f"the tables of Punkt for {language!r} are not installed: there is no "
            f"{directory / missing[0]}",
            f"a directory with {', '.join(PUNKT_TABLES)}, or a language of NLTK's punkt_tab",
            "type: python -m nltk.downloader punkt_tab",
        )
    return tuple(read_bounded(directory / name).decode() for name in PUNKT_TABLES)
