"""Lists of tokens worth looking at: useful, idle, long, unreachable, and somebody's data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.flows.pages.contents import ReportContents, junk_ids, merged_ids

# What `report.js` calls the bits of ``signs``.
SIGNS = ("special", "junk", "unreachable", "one document", "suspicious", "part of a character")
_SPECIAL, _JUNK, _UNREACHABLE, _ONE_DOCUMENT, _SUSPICIOUS, _PART = (1 << bit for bit in range(6))
_LISTED = 15
_MANY = 200  # of what should be none


def by_id(
    contents: ReportContents, unreachable: Mapping[int, bytes]
) -> dict[str, NDArray[np.int64]]:
    """Numbers for every id: counts where they are known, and signs."""
    tokenizer, use, screening = contents.tokenizer, contents.use, contents.screening
    signs = np.zeros(tokenizer.spec.largest_id + 1, np.int64)
    parts = [id_ for id_, token in tokenizer.vocab.items() if not _is_text(token)]
    for ids, sign in (
        (tokenizer.special_tokens.values(), _SPECIAL),
        ([] if use is None else junk_ids(tokenizer, use).tolist(), _JUNK),
        (unreachable, _UNREACHABLE),
        (screening.one_document, _ONE_DOCUMENT),
        ([one.id for one in screening.suspicions], _SUSPICIOUS),
        (parts, _PART),
    ):
        signs[list(ids)] |= sign
    if use is None:
        return {"signs": signs}
    return {"made": use.made, "used": use.left, "signs": signs}


def useful_and_idle(contents: ReportContents) -> dict[str, Any] | None:
    """Merged tokens by their use in the training text, each a row of token, id, times left and one
    more figure; None where their use is not known."""
    use, vocab = contents.use, contents.tokenizer.vocab
    ids = merged_ids(contents.tokenizer)
    if use is None or not len(ids):
        return None
    lengths = np.fromiter((len(vocab[id_]) for id_ in ids.tolist()), np.int64, len(ids))
    left = use.left[ids]
    junk = junk_ids(contents.tokenizer, use)

    def rows(ids: NDArray[np.int64], figure: Callable[[int], str]) -> list[tuple[Any, ...]]:
        return [(vocab[i], i, int(use.left[i]), figure(i)) for i in ids[:_LISTED].tolist()]

    return {
        "carrying": rows(
            ids[np.argsort(-left * lengths, kind="stable")],
            lambda id_: f"{use.left[id_] * len(vocab[id_]) / use.bytes:.2%}",
        ),
        "never": int((left == 0).sum()),
        "idle": rows(ids[np.argsort(left, kind="stable")], lambda id_: f"{use.made[id_]:,}"),
        "steps": len(junk),
        "junk": rows(junk, lambda id_: f"{use.absorbed[id_]:.1%}"),
    }


def longest(contents: ReportContents) -> list[tuple[bytes, int]]:
    """The longest merged tokens, and their ids."""
    vocab = contents.tokenizer.vocab
    ids = sorted(merged_ids(contents.tokenizer).tolist(), key=lambda id_: (-len(vocab[id_]), id_))
    return [(vocab[id_], id_) for id_ in ids[:_LISTED]]


def some(ids: Iterable[int], vocab: Mapping[int, bytes]) -> list[bytes]:
    """The longest of some tokens: what is long says most of where it is from."""
    shown = sorted(ids, key=lambda id_: (-len(vocab[id_]), id_))[:_MANY]
    return [vocab[id_] for id_ in shown]


def _is_text(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True
