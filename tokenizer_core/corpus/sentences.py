"""Where sentences stand in a text: line by line, or as NLTK's untrained Punkt tokenizer says.

The one door to NLTK, which is optional: it is imported when Punkt is asked for, and not before.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.optional_libraries import fenced
from bpeline.tokenizer_core.text import Text

# White space as Punkt has it, a word that may end a sentence, white space, a word with its end.
_BREAK = re.compile(r"(?<=[ \t\n\r\v\f])([^\W_]+[.?!])(\s*[ \t\n\r\v\f])(?=([^\W_]\S*)\s)")


def sentence_spans(text: Text, begin: int, end: int, kind: str) -> NDArray[np.int64]:
    """Sentences in [begin, end): int64 ``[n, 2]``, ascending byte ranges.

    Args:
        kind: ``lines``: what lies between line feeds; ``punkt``: what NLTK's Punkt tokenizer finds
            with the abbreviations it has by itself (it needs no download).

    Raises:
        InvalidOption: another kind, or NLTK is not installed.
        LibraryFailed: NLTK raised something.
    """
    if kind == "lines":
        breaks = np.flatnonzero(text.data[begin:end] == ord("\n")) + begin
        edges = np.concatenate(([begin], np.repeat(breaks, 2), [end])).reshape(-1, 2)
        edges[1:, 0] += 1
        return np.ascontiguousarray(edges[edges[:, 0] < edges[:, 1]])
    if kind != "punkt":
        raise InvalidOption(
            f"there is no way to find sentences called {kind!r}",
            "accepted: none, lines, punkt",
            "use 'lines' where each line is a sentence",
        )
    content = text.bytes(begin, end)
    text_of_it, punkt = content.decode(), _punkt()
    with fenced("NLTK", "looking for sentences"):
        found = list(punkt.span_tokenize(text_of_it))
    is_lead = (np.frombuffer(content, np.uint8) & 0xC0) != 0x80
    positions = np.append(np.flatnonzero(is_lead), len(content)) + begin
    return positions[np.array(found, np.int64).reshape(-1, 2)]


class PunktBreaks:
    """Where a text may be cut so that Punkt finds the same sentences in both parts as in the whole.

    That is behind a word of letters and digits that ends a sentence, before another one. Punkt
    decides by these two words: what it would add to the sentence before, or read together with the
    word before, are other characters.
    """

    def last_in(self, text: str, begin: int, end: int) -> int:
        """The last such cut before a character at a position in [begin, end), or -1.

        What stands before ``begin - 1``, and the last word, which may go on, are not looked at.
        """
        punkt = _punkt()
        found = [*_BREAK.finditer(text, begin, max(begin, end))]
        with fenced("NLTK", "looking for the end of a sentence"):
            for one in reversed(found):
                word_before_and_behind = one.group(1) + one.group(2) + one.group(3)
                if punkt.text_contains_sentbreak(word_before_and_behind):
                    return one.start(3)
        return -1


def refuse_missing_library(kind: str) -> None:
    """Raise now rather than at the first text when what finds sentences is not installed.

    Raises:
        InvalidOption: naming the command that installs it.
    """
    if kind == "punkt":
        _punkt()


def _punkt() -> Any:
    try:
        from nltk.tokenize.punkt import PunktSentenceTokenizer
    except ImportError as error:
        raise InvalidOption(
            "sentences by Punkt need NLTK, which is not installed",
            "sentences can also be 'lines' or 'none'",
            "type: pip install 'bpeline[nltk]'",
        ) from error
    with fenced("NLTK", "beginning to look for sentences"):
        return PunktSentenceTokenizer()
