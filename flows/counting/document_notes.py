"""Notes on how files were split into documents, and on special tokens in them."""

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
    """Where documents of text files end as nobody said otherwise; of many tokens, how many."""
    if len(separators) > _NAMED:
        where = f"any of the {len(separators)} special tokens"
    else:
        where = " and ".join(separators)
    return (
        f"documents of text files end at {where}; `--separator none` reads each file as one "
        "document"
    )


def unknown_special(found: SpecialLooking, option: str) -> str:
    """One line about text that looks like special tokens and is none; empty where there is none.

    Args:
        option: what makes it one: ``--special-token``, ``--separator``; empty: nothing does.
    """
    if not found.counts:
        return ""
    shown = list(found.counts.items())[:_NAMED]
    named = ", ".join(f"{one} {count:,} times" for one, count in shown)
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
