"""A tokenizer run by its original library, as a value, and its encoder and decoder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.foreign.libraries import (
    TOKENIZERS,
    ForeignLibrary,
    library_of,
)
from bpeline.tokenizer_core.algorithms.foreign.streams import parted_encoder
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.encoding import (
    Decoder,
    DecodeStream,
    Encoder,
    OnInvalid,
    PlacedIds,
    PreparedEncoder,
    StepDecoder,
    WholeStream,
    check_errors,
    list_of,
    spans_of_lengths,
)
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.splitting import Cuts
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import Algorithm, DecoderSteps, TokenizerSpec

# What words are where the library says nothing of any: for figures that people read.
WORDS = r"\s*\S+|\s+"


@dataclass(frozen=True, slots=True)
class Foreign(Algorithm):
    """Whatever a library of somebody else's makes of a file, behind the interface of all others.

    Every text is handed to the library whole; its words are not remembered, and `SplitPattern` says
    only what people take for words. Special tokens are found in every text, as there.

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
        InvalidOption: the library is not installed.
        LibraryFailed: it does not read the file.
    """
    algorithm = spec.algorithm
    assert isinstance(algorithm, Foreign)
    library = library_of(algorithm.library, algorithm.content)
    specials = frozenset(spec.special_tokens.values())
    return ForeignEncoder(spec, library, specials), ForeignDecoder(spec, library)


class ForeignEncoder(Encoder):
    """Hands spans of text to a library.

    Args:
        spec: what the library runs.
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
        parts: list[NDArray[np.uint32]] = []
        for (begin, end), id_ in zip(spans.tolist(), behind.tolist(), strict=True):
            ids = self.library.encode(text.bytes(begin, end).decode(), self._special)
            closing = [id_] if id_ >= 0 else []
            parts.append(np.array([*ids, *closing], np.uint32))
        ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
        return np.concatenate(parts) if parts else np.empty(0, np.uint32), ends

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
        """Token ids of words, each a text of its own."""
        spans = spans_of_lengths(words)
        return self.encode(Text.of(b"".join(words)), spans, np.full(len(spans), -1, np.int64))

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


class ForeignDecoder(Decoder):
    """Lets a library write the text of ids."""

    def __init__(self, spec: TokenizerSpec, library: ForeignLibrary) -> None:
        super().__init__(spec.vocab)
        self._spec = spec
        self._library = library

    def text(self, ids: Iterable[int] | NDArray[Any], errors: OnInvalid) -> str:
        check_errors(errors)
        return self._library.decode(self.known(list_of(ids)))

    def decode(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        return self.text(ids, "replace").encode()

    def stream(self, errors: OnInvalid = "replace") -> DecodeStream:
        """Text from ids one at a time; all of it in the end where nothing less is sure."""
        check_errors(errors)
        steps = self._steps
        # As in `text`, bytes that are not UTF-8 are what the library makes of them, and no error.
        return WholeStream(self) if steps is None else steps.stream()

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
            steps = DecoderSteps.of_description(document.get("decoder"))
        except InvalidTokenizer:
            return None
        return StepDecoder({id_: token.decode() for id_, token in self._spec.vocab.items()}, steps)
