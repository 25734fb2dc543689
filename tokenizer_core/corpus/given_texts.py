"""Texts that a program hands over become documents; knows no files and counts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bpeline.tokenizer_core.corpus.documents import ChunkText, in_form
from bpeline.tokenizer_core.corpus.reading import Reading
from bpeline.tokenizer_core.corpus.row_fields import likely_field
from bpeline.tokenizer_core.errors import InvalidOption, InvalidUtf8
from bpeline.tokenizer_core.text import Text, utf8_of

BATCH_BYTES = 1 << 20  # of text that is handed on at a time; a longer text is a batch of its own


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Texts in the order in which they came.

    Attributes:
        documents: in UTF-8, as they came.
        texts: how many had come with the last of them, empty ones included.
        begin: bytes of all texts before.
        size: bytes of these.
    """

    documents: tuple[bytes, ...]
    texts: int
    begin: int
    size: int

    def read(self, reading: Reading) -> ChunkText:
        """The texts as one, in the form of a reading; nothing is joined across their ends."""
        lengths = np.fromiter(map(len, self.documents), np.int64, len(self.documents))
        ends = np.cumsum(lengths + 1) - 1
        begins = ends - lengths
        # A line feed between two, which is of none, and no byte of what came.
        origins = begins - np.arange(len(begins))
        spans, anchors = (np.stack((begins, one), axis=1) for one in (ends, origins))
        given = ChunkText(Text.of(b"\n".join(self.documents)), spans, anchors)
        return in_form(given, reading.text_form) if reading.text_form else given


def batches_of(texts: Iterable[Any], reading: Reading) -> Iterator[TextBatch]:
    """Texts in batches of about 1 MiB; no more than one of them is held.

    Args:
        texts: strings, UTF-8 bytes, mappings whose field ``reading.text_field`` holds one of
            these, and lists and tuples of such (as loaders of datasets give batches).
        reading: says the field, and what becomes of what is not Unicode.

    Raises:
        InvalidOption: something else, naming which.
        InvalidUtf8: bytes or a lone surrogate, under ``strict``.
    """
    held: list[bytes] = []
    number = begin = size = 0
    for document in _documents(texts, reading):
        number += 1
        if document:
            held.append(document)
            size += len(document)
        if size >= BATCH_BYTES:
            yield TextBatch(tuple(held), number, begin, size)
            held, begin, size = [], begin + size, 0
    if held:
        yield TextBatch(tuple(held), number, begin, size)


def _documents(texts: Iterable[Any], reading: Reading) -> Iterator[bytes]:
    utf8 = {"strict": _strictly, "replace": _replacing, "ignore": _ignoring}[reading.invalid_utf8]
    for number, item in enumerate(texts):
        if isinstance(item, str | bytes):
            yield utf8(item, number)
            continue
        found = item
        if isinstance(item, Mapping):
            if reading.text_field not in item:
                meant = likely_field(reading.text_field, item) or "the name of the field"
                raise InvalidOption(
                    f"item {number} has no field {reading.text_field!r}, but "
                    f"{', '.join(map(repr, list(item)[:8])) or 'none'}",
                    "mappings whose field holds the text",
                    f"text_field={meant!r}",
                )
            found = item[reading.text_field]
        several = found if isinstance(found, list | tuple) else [found]
        for text in several:
            if not isinstance(text, str | bytes):
                raise InvalidOption(
                    f"item {number} holds {type(text).__name__} where text should be",
                    "str, UTF-8 bytes, mappings with a field that holds them, and lists of these",
                    "convert it to text first",
                )
            yield utf8(text, number)


def _strictly(text: str | bytes, number: int) -> bytes:
    try:
        if isinstance(text, str):
            return str.encode(text)
        text.decode()
    except UnicodeError as error:
        raise InvalidUtf8(
            f"item {number} is not Unicode text: {error}",
            "strings without lone surrogates, and bytes that are UTF-8",
            'give invalid_utf8="replace" to read U+FFFD there, or convert it first',
        ) from None
    return text


def _replacing(text: str | bytes, number: int) -> bytes:
    return utf8_of(text if isinstance(text, str) else text.decode("utf-8", "replace"))


def _ignoring(text: str | bytes, number: int) -> bytes:
    if isinstance(text, str):
        return text.encode(errors="ignore")
    return text.decode(errors="ignore").encode()
