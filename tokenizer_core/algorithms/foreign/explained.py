"""What can be said of a tokenizer that its own library runs: what comes out, not how."""

from __future__ import annotations

from collections.abc import Iterator

from bpeline.tokenizer_core.algorithms.foreign.codec import Foreign
from bpeline.tokenizer_core.algorithms.foreign.libraries import library_of
from bpeline.tokenizer_core.vocabulary import TokenizerSpec
from bpeline.tokenizer_core.word_encoding import Decide, Decision


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
