"""A tokenizer from texts in one call, for those who come from a trainer that takes an iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bpeline.tokenizer_core.arguments import checked, require_options_of
from bpeline.tokenizer_core.counting import TextsCounted, count_texts
from bpeline.tokenizer_core.training.bpe import merges_for, train_bpe

if TYPE_CHECKING:
    from bpeline.tokenizer_core.splitting import SplitPattern
    from bpeline.tokenizer_core.tokenizer import Tokenizer


@checked
def train_from_iterator(
    texts: Iterable[Any],
    vocab_size: int,
    *,
    pattern: str | SplitPattern = "gpt2",
    special_tokens: Sequence[str] = (),
    workers: int | None = None,
    text_field: str = "text",
    on_counting: Callable[[TextsCounted], None] | None = None,
    **options: Any,
) -> Tokenizer:
    """Count the words of texts and train a byte-level BPE tokenizer on them.

    Args:
        texts, pattern, workers, text_field: see `count_texts`.
        vocab_size: see `train_bpe`.
        special_tokens: separate documents, are never counted, and have the first ids.
        on_counting: is told how far counting is.
        options: further ones of `train_bpe`: ``min_count``, ``tie_break``, ``on_progress``, …

    Raises:
        InvalidOption: an option that `train_bpe` does not have.
        BpelineError: as `count_texts` and `train_bpe`.

    Example:
        >>> train_from_iterator(["low lower lowest"] * 9, 260).encode("lower")
        [257, 68, 81]
    """
    # Refused before anything is counted:
    merges_for(vocab_size, tuple(special_tokens))
    require_options_of(train_bpe, options)
    counts = count_texts(
        texts,
        pattern,
        special_tokens,
        workers,
        text_field=text_field,
        on_progress=on_counting,
    )
    return train_bpe(counts, vocab_size, special_tokens=tuple(special_tokens), **options)
