"""Segmenters: jieba and Sudachi for words, NLTK's Punkt for sentences.

They are optional packages and usually run in worker processes (`regex_processes`).
"""

from __future__ import annotations

import functools
import hashlib
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import read_bounded
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import InvalidOption, SegmenterUnavailable, wrap_errors

if TYPE_CHECKING:
    from bpeline.tokenizer_core.text import Text

Lengths = Callable[[str], Iterable[int]]

# Cache of jieba's segments: it is as slow for an English word as for a Chinese one.
_BLOCKS_REMEMBERED = 1 << 16
_LONGEST_REMEMBERED = 64
# Sudachi refuses more than 49,149 bytes, or 65,535 once normalized (up to 33 bytes a character).
_LONGEST_LINE = 1024
_END_OF_SENTENCE = re.compile(r"[。．！？!?]+[」』）)]*")
_PAUSE = re.compile(r"[、，,;；:：\s]+")

PUNKT = "punkt"

# Files of a model in NLTK's `punkt_tab`.
PUNKT_TABLES = "abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt"

# White space, a word that may end a sentence, white space; then a complete word. Lengths are
# limited so that a window of bytes decides.
_BEFORE = re.compile(r"(?<=[ \t\n\r\v\f])([^\W_]{1,20}[.?!]\s{0,6}[ \t\n\r\v\f])\Z")
_BEHIND = re.compile(r"([^\W_][^\s\ufffd]{0,23})\s")
_END = re.compile(rb"[.?!][^.?!\w]{0,18}?[ \t\n\r\v\f](?=[\w\x80-\xff])")


@dataclass(frozen=True, slots=True)
class Segmenter:
    """A dictionary-based segmenter.

    Attributes:
        name: of the split pattern.
        blocks: a regex whose matches are segmented independently of each other.
        packages: required distributions; `shown` gives the version of the first.
        data: files that decide the segments, as (module, path in its directory).
        extra: installed by ``bpeline[extra]``.
        parts_at_spaces: whether a single space between two other characters is a segment.
    """

    name: str
    blocks: str
    packages: tuple[str, ...]
    data: tuple[tuple[str, str], ...]
    extra: str
    parts_at_spaces: bool

    @property
    def identity(self) -> str:
        """What decides its segments: name, package versions, digest of the dictionary."""
        return _identity(self)

    @property
    def shown(self) -> str:
        return self.identity.split(", ")[1]


# The regex of `jieba.cut`, which returns every other character (and CR LF) by itself.
JIEBA_BLOCKS = "[\u4e00-\u9fd5a-zA-Z0-9+#&._%\\-]+|\\r\\n|[\\s\\S]"

# Like `jieba.cut`, with its HMM for unknown words.
_JIEBA = Segmenter(
    name="jieba",
    blocks=JIEBA_BLOCKS,
    packages=("jieba",),
    data=(
        ("jieba", "dict.txt"),
        ("jieba", "finalseg/prob_start.py"),
        ("jieba", "finalseg/prob_trans.py"),
        ("jieba", "finalseg/prob_emit.py"),
    ),
    extra="chinese",
    parts_at_spaces=True,
)

# Sudachi uses all of its input as context, so it gets single lines.
LINES = "[^\\r\\n]+|\\r\\n|[\\r\\n]"

# Split mode C, the longest units; `sudachi-a` is mode A, the shortest.
_SUDACHI = Segmenter(
    name="sudachi",
    blocks=LINES,
    packages=("SudachiPy", "SudachiDict-core"),
    data=(
        ("sudachidict_core", "resources/system.dic"),
        ("sudachipy", "resources/sudachi.json"),
        ("sudachipy", "resources/char.def"),
        ("sudachipy", "resources/rewrite.def"),
        ("sudachipy", "resources/unk.def"),
    ),
    extra="japanese",
    parts_at_spaces=False,
)

SEGMENTERS = {
    "jieba": _JIEBA,
    "jieba-no-hmm": replace(_JIEBA, name="jieba-no-hmm"),
    "sudachi": _SUDACHI,
    "sudachi-a": replace(_SUDACHI, name="sudachi-a"),
}


@functools.lru_cache(maxsize=len(SEGMENTERS))
def _identity(segmenter: Segmenter) -> str:
    try:
        versions = [f"{package} {version(package)}" for package in segmenter.packages]
        dictionary = _digest_of_files(segmenter.data)
    except (PackageNotFoundError, OSError) as error:
        raise SegmenterUnavailable(
            f"the split pattern {segmenter.name!r} needs {' and '.join(segmenter.packages)}, "
            "which cannot be found",
            "expected the optional package and its dictionary",
            f"type: pip install 'bpeline[{segmenter.extra}]'",
        ) from error
    return f"{segmenter.name}, {' with '.join(versions)}, dictionary {dictionary}"


@functools.lru_cache(maxsize=len(SEGMENTERS))
def _digest_of_files(data: tuple[tuple[str, str], ...]) -> str:
    digests = []
    for module, place in data:
        spec = find_spec(module)
        if spec is None or not spec.submodule_search_locations:
            raise FileNotFoundError(module)
        with (Path(spec.submodule_search_locations[0]) / place).open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return digest_of(digests)


_LINE = re.compile(LINES)


def segmenter_named(name: str) -> Lengths:
    """A function from text to the lengths of its segments, in characters.

    ``name`` is one of `SEGMENTERS`. `ImportError` or `OSError`: the library or dictionary is
    missing.
    """
    if name.startswith("jieba"):
        return _jieba(hmm=name == "jieba")
    return _sudachi(shortest=name == "sudachi-a")


def _jieba(hmm: bool) -> Lengths:
    import jieba

    # Do not let it load its dictionary from a cache in the temporary directory, which any user
    # may have written.
    tokenizer = jieba.Tokenizer()
    directory = Path(jieba.__file__).parent
    with (directory / "dict.txt").open("rb") as dictionary:
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(dictionary)
    tokenizer.initialized = True
    blocks = re.compile(JIEBA_BLOCKS)

    @functools.lru_cache(maxsize=_BLOCKS_REMEMBERED)
    def remembered(block: str) -> list[int]:
        return [len(segment) for segment in tokenizer.cut(block, HMM=hmm)]

    def lengths(text: str) -> Iterator[int]:
        for block in blocks.findall(text):
            if len(block) == 1:
                yield 1
            elif block.isascii() and len(block) <= _LONGEST_REMEMBERED:
                yield from remembered(block)
            else:
                yield from map(len, tokenizer.cut(block, HMM=hmm))

    return lengths


def _sudachi(shortest: bool) -> Lengths:
    from sudachipy import Dictionary, SplitMode

    mode = SplitMode.A if shortest else SplitMode.C
    tokenizer = Dictionary(dict="core").tokenizer(mode=mode)

    def lengths(text: str) -> Iterator[int]:
        for line in _LINE.findall(text):
            if line[0] in "\r\n":
                yield len(line)
                continue
            for part in parts_of_line(line):
                begin = 0
                # A character may become several morphemes, all but one of them empty.
                for end in [morpheme.end() for morpheme in tokenizer.tokenize(part)]:
                    if end > begin:
                        yield end - begin
                        begin = end

    return lengths


def parts_of_line(line: str, longest: int = _LONGEST_LINE) -> Iterator[str]:
    """Parts of a line: after a sentence, else after a pause, else anywhere.

    Parts have up to ``longest`` characters.
    """
    begin = 0
    while len(line) - begin > longest:
        window = line[begin : begin + longest]
        ends = [match.end() for match in _END_OF_SENTENCE.finditer(window)]
        ends = ends or [match.end() for match in _PAUSE.finditer(window)]
        end = begin + (ends[-1] if ends else longest)
        yield line[begin:end]
        begin = end
    yield line[begin:]


def as_text(tables: tuple[str, ...]) -> str:
    return "\0".join((PUNKT, *tables))


def of_text(text: str) -> Any:
    return tokenizer_of(tuple(text.split("\0")[1:]))


def directories_of(language: str) -> list[Path]:
    from nltk import data

    return [Path(place, "tokenizers/punkt_tab", language) for place in data.path]


@functools.lru_cache(maxsize=4)
def tokenizer_of(tables: tuple[str, ...]) -> Any:
    """Punkt's tokenizer with the tables of a language; untrained without tables."""
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    if tables:
        abbreviations, collocations, contexts, starters = (
            [line for line in text.replace("\r\n", "\n").split("\n") if line] for text in tables
        )
        parameters.abbrev_types = set(abbreviations)
        parameters.collocations = {tuple(line.split("\t")) for line in collocations}
        parameters.sent_starters = set(starters)
        for line in contexts:
            word, number = line.rsplit("\t", 1)
            parameters.ortho_context[word] = int(number)
    return PunktSentenceTokenizer(parameters)


@dataclass(frozen=True, slots=True)
class Punkt:
    """Punkt, untrained or with the tables of a language.

    Attributes:
        name: ``punkt``, or ``punkt:`` and the digest of the tables.
        tables: content of `PUNKT_TABLES`; empty for the untrained model, and for stored word
            counts, which only keep the name.
    """

    name: str = PUNKT
    tables: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of_tables(cls, tables: tuple[str, ...]) -> Punkt:
        return cls(f"{PUNKT}:{digest_of(list(tables))}", tables) if tables else cls()

    @classmethod
    def named(cls, asked: str) -> Punkt:
        """The model for ``punkt``, ``punkt:LANGUAGE`` or ``punkt:DIRECTORY``.

        `InvalidOption`: unknown name, or NLTK or the tables are not installed.
        """
        kind, _, language = asked.partition(":")
        if kind != PUNKT or asked == f"{PUNKT}:":
            raise InvalidOption(
                f"unknown way to find sentences: {asked!r}",
                "expected none, lines, punkt, punkt:LANGUAGE or punkt:DIRECTORY",
                "use 'lines' where each line is a sentence",
            )
        # None in `sys.modules` blocks an import.
        if sys.modules.get("nltk.tokenize.punkt", 0) is None or find_spec("nltk") is None:
            raise InvalidOption(
                "sentences by Punkt need NLTK, which is not installed",
                "expected NLTK, or sentences 'lines' or 'none'",
                "type: pip install 'bpeline[nltk]'",
            )
        return cls.of_tables(_tables_of(language)) if language else cls()

    @classmethod
    def asked(cls, sentences: str) -> Punkt | None:
        """`named`, or None for ``none`` and ``lines``."""
        return None if sentences in ("none", "lines") else cls.named(sentences)

    def spans_in(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each sentence of a text, in characters."""
        with wrap_errors("NLTK", "finding sentences"):
            yield from tokenizer_of(self.tables).span_tokenize(text)

    def ends_between(self, words: str) -> bool:
        """Whether a sentence ends before the last of a few words."""
        with wrap_errors("NLTK", "finding the end of a sentence"):
            return bool(tokenizer_of(self.tables).text_contains_sentbreak(words))


@dataclass(frozen=True, slots=True)
class SentenceBreaks:
    """Cuts at sentence ends, so that Punkt finds the same sentences in both parts.

    A cut is after an alphanumeric word that ends a sentence, before another word. Punkt decides by
    these two words alone.

    Attributes:
        form: Unicode normalization form applied before sentences are found.
    """

    punkt: Punkt
    form: Literal["", "NFC", "NFD", "NFKC", "NFKD"] = ""

    LOOK = 128  # bytes needed on both sides of a position

    def first(self, content: bytes | memoryview, begin: int, end: int) -> int:
        """The first legal cut in [begin, end), or -1; see `CutPairs.first`."""
        for match in _END.finditer(content, max(begin - self.LOOK, 0), end):
            if begin <= (cut := match.end()) < end:
                around = content[max(cut - self.LOOK, 0) : cut], content[cut : cut + self.LOOK]
                if self._ends(*(bytes(side).decode(errors="replace") for side in around)):
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
    """The lines in [begin, end) that are not empty: int64 ``[n, 2]``, ascending."""
    breaks = np.flatnonzero(text.data[begin:end] == ord("\n")) + begin
    edges = np.concatenate(([begin], np.repeat(breaks, 2), [end])).reshape(-1, 2)
    edges[1:, 0] += 1
    return np.ascontiguousarray(edges[edges[:, 0] < edges[:, 1]])


def sentences_between(
    text: Text,
    spans: NDArray[np.int64],
    mark: Callable[[NDArray[np.int64]], NDArray[np.uint64]],
) -> NDArray[np.int64]:
    """Sentences in spans of a text, without the white space between: int64 ``[n, 2]``.

    ``mark`` sets a bit where a sentence, or white space between two, begins in a span.
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
    # Pieces that begin with white space are gaps; only the first sentence may begin so.
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
    directory = Path(language).expanduser()
    if "/" not in language:
        with wrap_errors("NLTK", "looking for the tables of Punkt"):
            places = directories_of(language)
        directory = next((place for place in places if place.is_dir()), Path(places[0]))
    missing = [name for name in PUNKT_TABLES if not (directory / name).is_file()]
    if missing:
        raise InvalidOption(
            f"the tables of Punkt for {language!r} are not installed: {directory / missing[0]} is "
            "missing",
            f"expected a directory with {', '.join(PUNKT_TABLES)}, or a language of NLTK's "
            "punkt_tab",
            "type: python -m nltk.downloader punkt_tab",
        )
    return tuple(read_bounded(directory / name).decode() for name in PUNKT_TABLES)
