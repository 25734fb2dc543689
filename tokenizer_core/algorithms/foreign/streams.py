"""Where a text that `tokenizers` is to encode may be parted, read off its tokenizer.json.

What the library does with a text is, in this order: added tokens are found, the pieces between them
normalized, pre-tokenized and given to the model pre-token by pre-token. The first two are done here
as for every imported tokenizer (`PreparedEncoder`), and the library is left with the
rest. Of a normalized piece both parts have the ids of the whole at a cut that `cuts_of` allows:

- *White space is dropped* (WhitespaceSplit, Whitespace, BertPreTokenizer as the first step): before
  a space or line feed that follows no white space ends a pre-token, and none holds the space. A
  pre-token is what lies between white space and other borders, so neither part gives another one.
- *Metaspace that splits* (first step): spaces become marks, and a pre-token begins at each. Before
  a space or mark that follows neither, the first part ends as that pre-token does; the second
  begins with a mark, so none is put in front of it, and its pre-tokens are those of the whole.
- *Split* by a regex that has an automaton (first step, Isolated or Removed): see `cut_pairs`.
  Before a space or line feed, and only where any character but white space may stand before it:
  which characters are letters differs between versions of Unicode, white space does not.

The steps that follow see one pre-token each, and none may ask where in the text it stands
(Metaspace with the scheme ``first`` does), nor does a model: BPE, WordPiece, WordLevel and Unigram
encode each pre-token by itself, without dropout. Anything else is not known to be parted, and such
a text is held whole. So is what a SentencePiece model is run on by its library: one path is sought
through the whole text with sums of single precision, which decide near ties by what stands before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.foreign.libraries import (
    TOKENIZERS,
    ForeignLibrary,
    library_of,
)
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.encoding import (
    Encoder,
    LegalCuts,
    PreparedEncoder,
    TextPreparation,
    spans_of_lengths,
)
from bpeline.tokenizer_core.errors import InvalidPattern, InvalidTokenizer
from bpeline.tokenizer_core.normalization import WHITE_SPACE, Normalizer
from bpeline.tokenizer_core.splitting import CutPairs, SentenceBreaks, SplitPattern, SplitStep
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import AddedToken, Pipeline, TokenizerSpec

_DROP_SPACES = ("WhitespaceSplit", "Whitespace", "BertPreTokenizer")
_OF_ONE_PIECE = (*_DROP_SPACES, "Metaspace", "Split", "ByteLevel", "Punctuation", "Digits",
                 "CharDelimiterSplit", "UnicodeScripts")  # fmt: skip
_MODELS = ("BPE", "WordPiece", "WordLevel", "Unigram")


@dataclass(frozen=True, slots=True)
class BeforeSpaces:
    """Cuts before the first of several spaces.

    Attributes:
        spaces: the characters before which texts are cut.
        behind: those that no cut follows; the others are among them.
    """

    spaces: str
    behind: str

    def last_in(self, text: str, begin: int, end: int) -> int:
        """The last legal cut before a character at a position in [begin, end), or -1."""
        at = end
        while (at := max(text.rfind(one, max(begin, 1), at) for one in self.spaces)) > 0:
            if text[at - 1] not in self.behind:
                return at
        return -1


class PreparedLibrary(Encoder):
    """Hands prepared texts to a library, which neither prepares them nor seeks added tokens.

    Args:
        library: of a tokenizer.json without these.
        cuts: where prepared texts may be parted.
    """

    longest_whole = 0

    def __init__(self, library: ForeignLibrary, cuts: LegalCuts) -> None:
        self._library = library
        self.legal_cuts: LegalCuts | None = cuts

    @property
    def of_parts(self) -> PreparedLibrary:
        return self

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        parts: list[NDArray[np.uint32]] = []
        for (begin, end), id_ in zip(spans.tolist(), behind.tolist(), strict=True):
            content = text.bytes(begin, end).decode()
            ids = self._library.encode(content, True) if content else ()
            parts.append(np.array([*ids, *([id_] if id_ >= 0 else [])], np.uint32))
        ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
        return np.concatenate(parts) if parts else np.empty(0, np.uint32), ends

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Token ids of words, each a text of its own."""
        spans = spans_of_lengths(words)
        return self.encode(Text.of(b"".join(words)), spans, np.full(len(spans), -1, np.int64))


def parted_encoder(spec: TokenizerSpec, content: str) -> PreparedEncoder | None:
    """An encoder of streams; None where texts are not known to be parted anywhere.

    Args:
        spec: of the tokenizer.
        content: its tokenizer.json, which the library has read.
    """
    document = parse_json(content)
    cuts = cuts_of(document)
    ids = {token.decode(): id_ for id_, token in spec.vocab.items()}
    try:
        added = tuple(
            AddedToken.of_description({**one, "id": ids[one["content"]]})
            for one in document.get("added_tokens") or ()
        )
        normalizer = Normalizer.of_description(document.get("normalizer"))
        normalize = None if normalizer is None else normalizer.content
        preparation = TextPreparation(added, normalize)
    except (InvalidTokenizer, KeyError):
        return None
    if cuts is None:
        return None
    rest = {**document, "normalizer": None, "added_tokens": [], "post_processor": None}
    inner = PreparedLibrary(library_of(TOKENIZERS, json.dumps(rest)), cuts)
    prepared = replace(spec, pipeline=Pipeline(normalizer=normalizer))
    return PreparedEncoder(prepared, inner, preparation)


def cuts_of(document: dict[str, Any]) -> LegalCuts | None:
    """Where the normalized pieces of a tokenizer.json may be parted; None where it is not known."""
    model = document.get("model") or {}
    steps = _in_sequence(document.get("pre_tokenizer"))
    # Without a type it is whichever of these fits.
    if model.get("type") not in (None, *_MODELS) or model.get("dropout") or not steps:
        return None
    if any(step.get("type") not in _OF_ONE_PIECE or _asks_where(step) for step in steps):
        return None
    first = steps[0]
    if first["type"] in _DROP_SPACES:
        return BeforeSpaces(" \n", WHITE_SPACE)
    if first["type"] == "Metaspace" and first.get("split", True):
        mark = first.get("replacement", "▁")
        return BeforeSpaces(f" {mark}", f" {mark}")
    pattern = first.get("pattern")
    if first["type"] == "Split" and isinstance(pattern, dict) and "Regex" in pattern:
        step = SplitStep(pattern["Regex"], first["behavior"], bool(first.get("invert")))
        try:
            if step.behavior in ("Isolated", "Removed") and step.automaton:
                return _before_spaces(SplitPattern(step.regex).cut_pairs)
        except InvalidPattern:
            return None
    return None


def _before_spaces(pairs: CutPairs | SentenceBreaks | None) -> BeforeSpaces | None:
    """The spaces that every character but white space may be parted from."""
    if not isinstance(pairs, CutPairs):
        return None
    others = np.ones(len(pairs.class_of_point), np.bool_)
    others[[ord(one) for one in WHITE_SPACE]] = False
    classes = np.unique(pairs.class_of_point[others])
    spaces = [one for one in " \n" if pairs.legal[classes, pairs.class_of_point[ord(one)]].all()]
    return BeforeSpaces("".join(spaces), WHITE_SPACE) if spaces else None


def _asks_where(step: dict[str, Any]) -> bool:
    """Whether what is made of a pre-token depends on where it stands."""
    return bool(step["type"] == "Metaspace" and step.get("prepend_scheme", "always") == "first")


def _in_sequence(part: Any) -> list[dict[str, Any]]:
    if not isinstance(part, dict):
        return []
    if part.get("type") != "Sequence":
        return [part]
    return [step for one in part.get("pretokenizers", ()) for step in _in_sequence(one)]
