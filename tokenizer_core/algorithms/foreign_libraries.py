"""The libraries that run tokenizers which have no encoder here; the only file that imports them.

The optional extra ``foreign`` brings them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple

from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.optional_libraries import fenced

TOKENIZERS = "tokenizers"
SENTENCEPIECE = "sentencepiece"

Edges = Sequence[tuple[int, int]]


class ForeignToken(NamedTuple):
    """A token as its library shows it, and whether it counts as special there."""

    text: str
    special: bool


class _Tokenizers:
    """A tokenizer run by ``tokenizers``; any number of threads may use it at once."""

    def __init__(self, content: str) -> None:
        self.name = _installed(TOKENIZERS)
        self._finding, self._ignoring = self._read(content), None
        self._content = content
        added = self._finding.get_added_tokens_decoder()
        specials = {id_ for id_, token in added.items() if token.special}
        vocab = self._finding.get_vocab(with_added_tokens=True)
        self.tokens = {id_: ForeignToken(text, id_ in specials) for text, id_ in vocab.items()}
        with fenced(self.name, "normalizing the added tokens"):
            normalizer = self._finding.normalizer
            normalize = normalizer.normalize_str if normalizer else str
            sought = [normalize(one.content) for one in added.values() if one.normalized]
        if len({*sought} - {""}) < len(sought):
            raise InvalidTokenizer(
                "added tokens are empty or the same once they are normalized, and "
                f"{self.name} finds one of them, by chance",
                "added tokens that are different, and there, when they are normalized",
                "remove one from added_tokens, or set its normalized to false",
            )
        if len(self.tokens) < len(vocab):
            raise InvalidTokenizer(
                f"{len(vocab)} tokens have {len(self.tokens)} ids, and {self.name} decodes an id "
                "of two as either of them, by chance",
                "each id is one token",
                "export the tokenizer again from where it came",
            )

    def _read(self, content: str) -> Any:
        with fenced(self.name, "reading the tokenizer"):
            import tokenizers

            read = tokenizers.Tokenizer.from_str(content)
            read.no_truncation()
            read.no_padding()
            return read

    def _asked(self, special: bool) -> Any:
        """The choice is kept by the tokenizer and not given with a text: so there are two."""
        if special:
            return self._finding
        if self._ignoring is None:
            ignoring = self._read(self._content)
            ignoring.encode_special_tokens = True
            self._ignoring = ignoring
        return self._ignoring

    def encode(self, text: str, special: bool) -> Sequence[int]:
        """Ids of a text, none put around it, special tokens found in it or not."""
        with fenced(self.name, "encoding"):
            ids: list[int] = self._asked(special).encode(text, add_special_tokens=False).ids
            return ids

    def encode_with_edges(self, text: str, special: bool) -> tuple[Sequence[int], Edges]:
        """Ids, and where each stands: (begin, end) in characters."""
        with fenced(self.name, "encoding"):
            found = self._asked(special).encode(text, add_special_tokens=False)
            return found.ids, found.offsets

    def decode(self, ids: Sequence[int]) -> str:
        """Text of known ids, special tokens included."""
        with fenced(self.name, "decoding"):
            return str(self._finding.decode(list(ids), skip_special_tokens=False))


class _SentencePiece:
    """A tokenizer run by ``sentencepiece``; any number of threads may use it at once."""

    def __init__(self, content: str) -> None:
        self.name = _installed(SENTENCEPIECE)
        with fenced(self.name, "reading the tokenizer"):
            import sentencepiece

            self._processor = sentencepiece.SentencePieceProcessor(
                model_proto=base64.b64decode(content)
            )
            processor = self._processor
            self.tokens = {
                id_: ForeignToken(
                    processor.id_to_piece(id_),
                    bool(processor.is_control(id_) or processor.is_unknown(id_)),
                )
                for id_ in range(processor.get_piece_size())
            }

    def encode(self, text: str, special: bool) -> Sequence[int]:
        with fenced(self.name, "encoding"):
            ids: list[int] = self._processor.encode(text, out_type=int)
            return ids

    def encode_with_edges(self, text: str, special: bool) -> tuple[Sequence[int], Edges]:
        with fenced(self.name, "encoding"):
            found = self._processor.EncodeAsOffsetMapping(text)
            return found["ids"], found["offsets"]

    def decode(self, ids: Sequence[int]) -> str:
        with fenced(self.name, "decoding"):
            return str(self._processor.decode(list(ids)))


ForeignLibrary = _Tokenizers | _SentencePiece

_LIBRARIES: dict[str, type[_Tokenizers] | type[_SentencePiece]] = {
    TOKENIZERS: _Tokenizers,
    SENTENCEPIECE: _SentencePiece,
}


def library_of(library: str, content: str) -> ForeignLibrary:
    """A tokenizer read by its library.

    Args:
        library: `TOKENIZERS` or `SENTENCEPIECE`.
        content: see `Foreign`.

    Raises:
        InvalidOption: the library is not installed.
        LibraryFailed: it does not read this.
    """
    return _LIBRARIES[library](content)


@cache
def _installed(library: str) -> str:
    """A library's name and version.

    Raises:
        InvalidOption: it is not installed.
    """
    try:
        return f"{library} {version(library)}"
    except ModuleNotFoundError:
        raise InvalidOption(
            f"this tokenizer is run by {library}, which is not installed",
            f"{library} of the optional extra 'foreign'",
            "pip install 'bpeline[foreign]'",
        ) from None
