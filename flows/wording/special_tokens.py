"""What is said of special tokens in files: those that separate documents, and unknown ones."""

from __future__ import annotations

from collections.abc import Sequence

from bpeline.flows.wording.numbers import megabytes
from bpeline.tokenizer_core.corpus import SpecialLooking

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
