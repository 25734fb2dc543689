"""Files of which the tokenizer has no encoder here: read by the library they were made for."""

from __future__ import annotations

from bpeline.tokenizer_core.companions import COMPANIONS
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    InvalidPattern,
    InvalidTokenizer,
    LibraryFailed,
)
from bpeline.tokenizer_core.vocabulary import TokenizerSpec

FOREIGN = "foreign"  # the companion that hands texts to a library


def read_by_library(
    library: str, content: bytes, refusal: InvalidTokenizer | InvalidPattern
) -> TokenizerSpec:
    """The spec of a file that was refused here.

    Args:
        library: ``tokenizers`` or ``sentencepiece``.
        content: of the file.
        refusal: why it has no encoder here; that is said in the remarks.

    Raises:
        InvalidTokenizer, InvalidPattern: the refusal: the library is not installed, and then how
            to get it is told, or does not read the file either.
    """
    foreign = COMPANIONS.get(FOREIGN)
    if foreign is None:
        raise refusal
    try:
        read: TokenizerSpec = foreign.part().foreign_spec(library, content, [refusal.happened])
        return read
    except InvalidOption as missing:
        raise type(refusal)(
            refusal.happened,
            f"{refusal.accepted}; others are run by the library they were made for",
            f"{missing.next_step}, and load it again",
        ) from refusal
    except LibraryFailed as failure:
        raise type(refusal)(
            f"{refusal.happened}; nor is it read otherwise: {failure.happened}",
            refusal.accepted,
            refusal.next_step,
        ) from refusal
