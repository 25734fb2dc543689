"""What people should know of how files were taken apart into documents; encodes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from bpeline.flows.wording import FOUND_IN_TEXTS, counted, separated_at, unknown_special
from bpeline.tokenizer_core.corpus import SourceFile, look_for_special
from bpeline.tokenizer_core.shards import TokenShards, missing_values, separators_of
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


def notes_on_columns(shards: TokenShards) -> list[str]:
    """Which columns that were carried over have no value in some documents."""
    asked = shards.manifest.get("columns")
    if not asked:
        return []
    paths = [shards.file(record.files[0]) for record in shards.records]
    return [
        f"the column {name!r} is empty in {number:,} of {counted(len(shards), 'document')}: "
        "their rows have none"
        for name, number in missing_values(paths, list(asked)).items()
    ]
