"""Tokenizers that their original library runs: value, encoder and decoder, reading of files.

Long texts are encoded in parts where their tokenizer.json allows it. `tokenizers` finds the added
tokens, normalizes the pieces between them, pre-tokenizes these and gives the model pre-token by
pre-token. The first two steps are done here as for every imported tokenizer (`PreparedEncoder`),
the library does the rest. At a cut of `cuts_of` the parts of a normalized piece have its ids:

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

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import encoding, vocabulary
from bpeline.tokenizer_core.algorithms.foreign_libraries import (
    TOKENIZERS,
    ForeignLibrary,
    library_of,
)
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.encoding import (
    Encoder,
    OnInvalid,
    PlacedIds,
    PreparedEncoder,
    StepDecoder,
)
from bpeline.tokenizer_core.errors import InvalidOption, InvalidPattern, InvalidTokenizer
from bpeline.tokenizer_core.normalization import WHITE_SPACE, Normalizer
from bpeline.tokenizer_core.splitting import (
    CutPairs,
    Cuts,
    SentenceBreaks,
    SplitPattern,
    SplitStep,
)
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import Pipeline, TokenizerSpec
from bpeline.tokenizer_core.word_encoding import Decide, Decision

_DROP_SPACES = ("WhitespaceSplit", "Whitespace", "BertPreTokenizer")
_OF_ONE_PIECE = (*_DROP_SPACES, "Metaspace", "Split", "ByteLevel", "Punctuation", "Digits",
                 "CharDelimiterSplit", "UnicodeScripts")  # fmt: skip
_MODELS = ("BPE", "WordPiece", "WordLevel", "Unigram")

# What words are where the library says nothing of any: for figures that people read.
WORDS = r"\s*\S+|\s+"


@dataclass(frozen=True, slots=True)
class Foreign(vocabulary.Algorithm):
    """What another library makes of a file, as an algorithm like all others.

    The library gets every text whole; its words are not remembered, and `SplitPattern` only says
    what counts as a word in figures. Special tokens are found in every text.

    Attributes:
        library: ``tokenizers`` or ``sentencepiece``.
        content: the file: of a tokenizer.json its text, of a .model its bytes in base64.
    """

    name: ClassVar[str] = "foreign"
    default_pattern: ClassVar[str] = WORDS
    finds_special: ClassVar[bool] = True
    library: str = TOKENIZERS
    content: str = ""

    @property
    def normalizer_name(self) -> str:
        return f"as {self.library} does"


KIND = Foreign


def coders(spec: TokenizerSpec) -> tuple[ForeignEncoder, ForeignDecoder]:
    """The encoder and the decoder.

    Raises:
        InvalidOption, LibraryFailed: see `library_of`.
    """
    algorithm = spec.algorithm
    assert isinstance(algorithm, Foreign)
    library = library_of(algorithm.library, algorithm.content)
    specials = frozenset(spec.special_tokens.values())
    return ForeignEncoder(spec, library, specials), ForeignDecoder(spec, library)


class ForeignEncoder(Encoder):
    """Hands spans of text to a library.

    Args:
        specials: ids of the special tokens.
        finding: the encoder that finds them in texts; None: this one does.
    """

    def __init__(
        self,
        spec: TokenizerSpec,
        library: ForeignLibrary,
        specials: frozenset[int],
        finding: ForeignEncoder | None = None,
    ) -> None:
        self._spec = spec
        self.library = library
        self._specials = specials
        self._special = finding is None
        self._finding = finding

    def ignoring(self, special: frozenset[int]) -> ForeignEncoder:
        if special != self._specials:
            raise InvalidOption(
                "some special tokens are to be found in the text, and others not",
                f"{self.library.name} finds all of them or none",
                "type allowed_special='all' or allowed_special='none'",
            )
        return ForeignEncoder(self._spec, self.library, self._specials, self)

    def cuts_of_files(self, cuts: Cuts) -> Cuts:
        cuts = Cuts(special_tokens=cuts.special_tokens)  # the split pattern is for people
        return cuts if self._parted is None else self._parted.cuts_of_files(cuts)

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        return _encoded(
            lambda content: self.library.encode(content, self._special), text, spans, behind
        )

    def encode_pieces(self, contents: Iterable[str]) -> Iterator[NDArray[np.uint32]]:
        """Token ids of one text that comes in parts, of whole characters.

        In bounded memory where `parted_encoder` knows how; else the whole text is held.
        """
        parted = self._parted
        if parted is None:
            yield self.encode_whole(Text.of("".join(contents).encode()))
            return
        yield from parted.encode_pieces(contents)

    @cached_property
    def _parted(self) -> PreparedEncoder | None:
        if self._finding is not None:
            found = self._finding._parted
            return None if found is None else found.ignoring(self._specials)
        algorithm = self._spec.algorithm
        assert isinstance(algorithm, Foreign)
        known = algorithm.library == TOKENIZERS
        return parted_encoder(self._spec, algorithm.content) if known else None

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        return self.encode(*_apart(words))

    def placed(self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> PlacedIds:
        """The ids of `encode`, and where they stand; an id behind a span has no place."""
        ids: list[int] = []
        places: list[tuple[int, int]] = []
        for (begin, end), id_ in zip(spans.tolist(), behind.tolist(), strict=True):
            content = text.bytes(begin, end).decode()
            found, edges = self.library.encode_with_edges(content, self._special)
            sizes = np.frombuffer(content.encode("utf-32-le"), np.uint32)
            widths = 1 + (sizes > 0x7F).astype(np.int64) + (sizes > 0x7FF) + (sizes > 0xFFFF)
            at = np.concatenate((np.zeros(1, np.int64), np.cumsum(widths))) + begin
            ids += found
            places += [(int(at[first]), int(at[last])) for first, last in edges]
            if id_ >= 0:
                ids.append(id_)
                places.append((end, end))
        return PlacedIds(
            np.array(ids, np.uint32),
            np.array(places, np.int64).reshape(-1, 2),
            np.ones(len(ids), np.bool_),
        )


def _encoded(
    encode: Callable[[str], Sequence[int]],
    text: Text,
    spans: NDArray[np.int64],
    behind: NDArray[np.int64],
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """As `Encoder.encode`: each span is a text of its own."""
    parts: list[NDArray[np.uint32]] = []
    for (begin, end), id_ in zip(spans.tolist(), behind.tolist(), strict=True):
        ids = encode(text.bytes(begin, end).decode())
        parts.append(np.array([*ids, *([id_] if id_ >= 0 else [])], np.uint32))
    ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
    return np.concatenate(parts) if parts else np.empty(0, np.uint32), ends


def _apart(words: Sequence[bytes]) -> tuple[Text, NDArray[np.int64], NDArray[np.int64]]:
    """Words as spans of one text, without ids after them."""
    spans = encoding.spans_of_lengths(words)
    return Text.of(b"".join(words)), spans, np.full(len(spans), -1, np.int64)


class ForeignDecoder(encoding.Decoder):
    """Lets a library write the text of ids."""

    def __init__(self, spec: TokenizerSpec, library: ForeignLibrary) -> None:
        super().__init__(spec.vocab)
        self._spec = spec
        self._library = library

    def text(self, ids: Iterable[int] | NDArray[Any], errors: OnInvalid) -> str:
        encoding.check_errors(errors)
        return self._library.decode(self.known(encoding.list_of(ids)))

    def decode(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        return self.text(ids, "replace").encode()

    def stream(self, errors: OnInvalid = "replace") -> encoding.DecodeStream:
        """Text from ids one at a time; all of it in the end where nothing less is sure."""
        encoding.check_errors(errors)
        steps = self._steps
        # As in `text`, bytes that are not UTF-8 are what the library makes of them, and no error.
        return encoding.WholeStream(self) if steps is None else steps.stream()

    @cached_property
    def _steps(self) -> StepDecoder | None:
        """What `tokenizers` does with the strings of tokens; None where that is not known."""
        algorithm = self._spec.algorithm
        assert isinstance(algorithm, Foreign)
        if algorithm.library != TOKENIZERS:
            return None
        document = parse_json(algorithm.content)
        added = document.get("added_tokens") or ()
        if document.get("normalizer") and any(one.get("normalized") for one in added):
            return None  # their strings are those that the normalizer makes of them
        try:
            steps = vocabulary.DecoderSteps.of_description(document.get("decoder"))
        except InvalidTokenizer:
            return None
        return StepDecoder({id_: token.decode() for id_, token in self._spec.vocab.items()}, steps)


def foreign_spec(library: str, content: bytes, remarks: Iterable[str] = ()) -> TokenizerSpec:
    """The spec of a file, once its library has read it.

    Tokens without text (Whisper has one) are left out of the vocab; the remarks say so.

    Args:
        content: of a tokenizer.json (UTF-8) or a .model.
        remarks: see `TokenizerSpec`; the library is named among them.

    Raises:
        InvalidOption, LibraryFailed: see `library_of`.
        InvalidTokenizer: two ids have the same token.
    """
    text = content.decode() if library == TOKENIZERS else base64.b64encode(content).decode()
    read = library_of(library, text)
    vocab = {id_: token.text.encode() for id_, token in read.tokens.items() if token.text}
    specials = {
        token.text: id_ for id_, token in read.tokens.items() if token.special and token.text
    }
    said = [*remarks, f"encoded by {read.name}"]
    if len(vocab) < len(read.tokens):
        said.append("a token without text is left out of the vocab")
    template: vocabulary.TextTemplate | None = None
    try:
        described = parse_json(text).get("post_processor") if library == TOKENIZERS else None
        template = None if described is None else vocabulary.TextTemplate.of_description(described)
    except InvalidTokenizer as error:
        said.append(f"nothing is put around texts: {error.happened}")
    return TokenizerSpec.checked(
        vocab,
        [],
        specials,
        algorithm=Foreign(library, text),
        remarks=said,
        pipeline=Pipeline(template=template),
    )


def tokenizer_json(spec: TokenizerSpec) -> bytes:
    """The tokenizer.json that a spec of `foreign_spec` came from.

    Raises:
        InvalidOption: it came from another file.
    """
    algorithm = spec.algorithm
    assert isinstance(algorithm, Foreign)
    if algorithm.library != TOKENIZERS:
        raise InvalidOption(
            f"this tokenizer is run by {algorithm.library}",
            "in tokenizer.json there is what tokenizers runs",
            "save it as 'bpeline', which keeps every tokenizer",
        )
    return algorithm.content.encode()


def words_of(text: str) -> list[str]:
    """The library takes texts whole."""
    return [text] if text else []


def explained(spec: TokenizerSpec) -> Decide:
    """Explains texts of a tokenizer."""
    algorithm = spec.algorithm
    assert isinstance(algorithm, Foreign)
    library = library_of(algorithm.library, algorithm.content)

    def decide(text: str) -> Iterator[Decision]:
        tokens = tuple(library.tokens[id_].text for id_ in library.encode(text, special=True))
        yield Decision(f"by {library.name}, which does not say how", (text,), tokens)

    return decide


@dataclass(frozen=True, slots=True)
class BeforeSpaces:
    """Cuts before the first of several spaces."""

    spaces: str  # the characters before which texts are cut
    behind: str  # those that no cut follows; the others are among them

    def last_in(self, text: str, begin: int, end: int) -> int:
        """The last legal cut before a character at a position in [begin, end), or -1."""
        at = end
        while (at := max(text.rfind(one, max(begin, 1), at) for one in self.spaces)) > 0:
            if text[at - 1] not in self.behind:
                return at
        return -1


class PreparedLibrary(Encoder):
    """Hands prepared texts to a library that reads a tokenizer.json without preparation.

    Args:
        cuts: where prepared texts may be parted.
    """

    longest_whole = 0

    def __init__(self, library: ForeignLibrary, cuts: encoding.LegalCuts) -> None:
        self._library = library
        self.legal_cuts: encoding.LegalCuts | None = cuts

    @property
    def of_parts(self) -> PreparedLibrary:
        return self

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        def encode(content: str) -> Sequence[int]:
            return self._library.encode(content, True) if content else ()

        return _encoded(encode, text, spans, behind)

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        return self.encode(*_apart(words))


def parted_encoder(spec: TokenizerSpec, content: str) -> PreparedEncoder | None:
    """An encoder of streams; None where texts are not known to be parted anywhere."""
    document = parse_json(content)
    cuts = cuts_of(document)
    ids = {token.decode(): id_ for id_, token in spec.vocab.items()}
    try:
        added = tuple(
            vocabulary.AddedToken.of_description({**one, "id": ids[one["content"]]})
            for one in document.get("added_tokens") or ()
        )
        normalizer = Normalizer.of_description(document.get("normalizer"))
        normalize = None if normalizer is None else normalizer.content
        preparation = encoding.TextPreparation(added, normalize)
    except (InvalidTokenizer, KeyError):
        return None
    if cuts is None:
        return None
    rest = {**document, "normalizer": None, "added_tokens": [], "post_processor": None}
    inner = PreparedLibrary(library_of(TOKENIZERS, json.dumps(rest)), cuts)
    prepared = replace(spec, pipeline=Pipeline(normalizer=normalizer))
    return PreparedEncoder(prepared, inner, preparation)


def cuts_of(document: dict[str, Any]) -> encoding.LegalCuts | None:
    """Where the normalized pieces of a tokenizer.json may be parted; None where it is not known."""
    model = document.get("model") or {}
    steps = _in_sequence(document.get("pre_tokenizer"))
    # Without a type it is whichever of these fits.
    if model.get("type") not in (None, *_MODELS) or model.get("dropout") or not steps:
        return None
    if any(step.get("type") not in _OF_ONE_PIECE for step in steps):
        return None
    if any(step["type"] == "Metaspace" and step.get("prepend_scheme") == "first" for step in steps):
        return None  # what is made of a pre-token depends on where it stands
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


def _before_spaces(
    pairs: CutPairs | SentenceBreaks | None,
) -> BeforeSpaces | None:
    """The spaces that every character but white space may be parted from."""
    if not isinstance(pairs, CutPairs):
        return None
    others = np.ones(len(pairs.class_of_point), np.bool_)
    others[[ord(one) for one in WHITE_SPACE]] = False
    classes = np.unique(pairs.class_of_point[others])
    spaces = [one for one in " \n" if pairs.legal[classes, pairs.class_of_point[ord(one)]].all()]
    return BeforeSpaces("".join(spaces), WHITE_SPACE) if spaces else None


def _in_sequence(part: Any) -> list[dict[str, Any]]:
    if not isinstance(part, dict):
        return []
    if part.get("type") != "Sequence":
        return [part]
    return [step for one in part.get("pretokenizers", ()) for step in _in_sequence(one)]
