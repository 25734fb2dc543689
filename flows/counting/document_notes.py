"""Notes on how files are split into documents, and on special tokens in them."""

from __future__ import annotations

from collections.abc import Sequence

from bpeline.flows.wording import megabytes
from bpeline.tokenizer_core.corpus import SourceFile, SpecialLooking, look_for_special
from bpeline.tokenizer_core.shards import separators_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

FOUND_IN_TEXTS = (
    "each text file is one document, and special tokens in it become their ids, as in the "
    "tokenizer's own library; `--separator TOKEN` ends documents at one"
)
_NAMED = 3


def separated_at(separators: Sequence[str]) -> str:
    """Return a note on the default separators; of many tokens, only their number."""
    if len(separators) > _NAMED:
        where = f"any of the {len(separators)} special tokens"
    else:
        where = " and ".join(separators)
    return (
        f"documents of text files end at {where}; `--separator none` reads each file as one "
        "document"
    )


def unknown_special(found: SpecialLooking, option: str) -> str:
    """Return a note on text that looks like special tokens, or an empty string.

    Args:
        option: declares them special: ``--special-token``, ``--separator``, or empty for none.
    """
    if not found.counts:
        return ""
    shown = list(found.counts.items())[:_NAMED]
    named = ", ".join(f"{token} {count:,} times" for token, count in shown)
    more = len(found.counts) - len(shown)
    return (
        f"looks like special tokens, and is read as ordinary text: {named}"
        + (f", and {more} others" if more else "")
        + f", at least (in {megabytes(found.bytes)} at the beginning of files); "
        + (
            f"type `{option} '{shown[0][0]}'` if documents end there"
            if option
            else "an extension has the special tokens of the version that it extends"
        )
    )


def notes_on_documents(
    files: Sequence[SourceFile], tokenizer: Tokenizer, asked: str | None
) -> list[str]:
    """Return notes on separators and on text that looks like special tokens.

    Only text files are searched: in a .jsonl file, each line is a document.

    Args:
        asked: the requested separator, see `separators_of`; None for the default, which is noted.
    """
    texts = [file for file in files if file.format == "text"]
    separators = separators_of(tokenizer, asked, encoded=True)
    found = look_for_special(texts, {*tokenizer.special_tokens, *separators})
    separators_note = ""
    if asked is None and texts and tokenizer.special_tokens:
        separators_note = separated_at(separators) if separators else FOUND_IN_TEXTS
    return [note for note in (separators_note, unknown_special(found, "--separator")) if note]
