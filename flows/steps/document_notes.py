"""What people should know of how files were taken apart into documents; encodes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from bpeline.flows.wording import FOUND_IN_TEXTS, separated_at, unknown_special
from bpeline.tokenizer_core.corpus import SourceFile, look_for_special
from bpeline.tokenizer_core.shards import separators_of
from bpeline.tokenizer_core.tokenizer import Tokenizer


def notes_on_documents(
    files: Sequence[SourceFile], tokenizer: Tokenizer, asked: str | None
) -> list[str]:
    """Where documents of text files end, and what in them looks like a special token and is none.

    A line of a .jsonl file is a document whatever it holds, so these are not looked into.

    Args:
        files: that are encoded or counted.
        tokenizer: by which.
        asked: for a separator, see `separators_of`; who named one need not be told.
    """
    texts = [file for file in files if file.format == "text"]
    separators = separators_of(tokenizer, asked, encoded=True)
    found = look_for_special(texts, {*tokenizer.special_tokens, *separators})
    said = ""
    if asked is None and texts and tokenizer.special_tokens:
        said = separated_at(separators) if separators else FOUND_IN_TEXTS
    return [note for note in (said, unknown_special(found, "--separator")) if note]
