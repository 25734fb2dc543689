"""The report of a version as a page: its token lists and its packed tokenizer."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.flows.pages.comparison import difference
from bpeline.flows.pages.compression import compression
from bpeline.flows.pages.contents import ReportContents, junk_ids, merged_ids, unreachable_ids
from bpeline.flows.pages.rendering import render
from bpeline.flows.wording import statistics_table
from bpeline.registry.tokens import FEWEST_DOCUMENTS, ONE_DOCUMENT
from bpeline.tokenizer_core.evaluation import JUNK_SHARE
from bpeline.tokenizer_core.kernels.scanning.automaton import MOVE
from bpeline.tokenizer_core.vocabulary import BYTE_BPE, KINDS, MEANINGS

if TYPE_CHECKING:
    from bpeline.tokenizer_core.tokenizer import Tokenizer

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


_MOST_BYTES_OF_ONE = 9  # 63 bits
_LEVEL = 9


def packed_tokenizer(
    tokenizer: Tokenizer, by_id: Mapping[str, NDArray[np.int64]]
) -> dict[str, Any]:
    """Everything `report.js` needs to encode text and to show the vocab.

    Args:
        tokenizer: of any algorithm; only byte-level BPE is encoded with.
        by_id: numbers from 0 for every id, int64 ``[largest id + 1]``; sent under their names.

    Returns:
        ``about``, JSON values, and ``content``, the sections in base64.
    """
    over_bytes = tokenizer.algorithm == BYTE_BPE
    ids = np.array(sorted(tokenizer.vocab), np.int64)
    nothing = np.zeros(0, np.int64)
    left = right = results = byte_ids = nothing
    if over_bytes:
        left, right, results = tokenizer.merge_ids
        byte_ids = tokenizer.byte_pairs.byte_ids.astype(np.int64)
    others = np.setdiff1d(ids, np.concatenate([results, byte_ids]))
    tokens = [tokenizer.vocab[id_] for id_ in others.tolist()]
    sections = {
        "bytes": byte_ids,
        "left": left,
        "right": right,
        "results": _differences(results),
        "others": _differences(others),
        "otherLengths": np.fromiter(map(len, tokens), np.int64, len(tokens)),
        "otherBytes": np.frombuffer(b"".join(tokens), np.uint8).astype(np.int64),
        "ids": _differences(ids),
        **{name: values[ids] for name, values in by_id.items()},
    }
    automaton = tokenizer.pattern.automaton if over_bytes else None
    about: dict[str, Any] = {
        "special": {token: int(id_) for token, id_ in tokenizer.special_tokens.items()},
        "ignoreMerges": tokenizer.ignore_merges,
        "overBytes": over_bytes,
        "split": None,
    }
    if automaton is not None:
        columns = automaton.columns
        sections["classes"] = _runs(automaton.class_of_point)
        sections["rows"] = automaton.moves[..., 0].ravel().astype(np.int64) // (columns * MOVE)
        sections["flags"] = automaton.moves[..., 1].ravel().astype(np.int64)
        about["split"] = {
            "columns": int(columns),
            "lastLineFeed": int(automaton.last_line_feed),
            "end": int(automaton.end),
        }
    about["sections"] = {name: len(values) for name, values in sections.items()}
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    content = deflate.compress(b"".join(map(leb128, sections.values()))) + deflate.flush()
    return {"about": about, "content": base64.b64encode(content).decode()}


def leb128(values: NDArray[np.int64]) -> bytes:
    """Whole numbers from 0 as bytes of 7 bits each, the lowest first; 128 is added to all but the
    last of a number."""
    shifts = np.arange(_MOST_BYTES_OF_ONE) * 7
    rest = values[:, None] >> shifts
    septets = (rest & 127).astype(np.uint8)
    more = rest >> 7 > 0
    septets[more] |= 128
    needed = np.ones_like(more)
    needed[:, 1:] = more[:, :-1]
    return septets[needed].tobytes()


def _differences(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each number less the one before, signs in the lowest bit."""
    steps = np.diff(values, prepend=0)
    return np.where(steps < 0, -2 * steps - 1, 2 * steps)


def _runs(classes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Class and length of each run, alternating."""
    edges = np.flatnonzero(np.diff(classes)) + 1
    begins = np.concatenate([[0], edges])
    lengths = np.diff(np.concatenate([begins, [len(classes)]]))
    return np.stack([classes[begins].astype(np.int64), lengths], axis=1).ravel()


LARGEST = 5 << 20  # bytes; what is asked of a page of 100,000 tokens
_WORDS = 12  # of each kind, in the difference


def report_page(contents: ReportContents) -> str:
    """The whole page."""
    tokenizer, use, screening = contents.tokenizer, contents.use, contents.screening
    unreachable = unreachable_ids(tokenizer)
    values = {
        "contents": contents,
        "tokenizer": tokenizer,
        "pattern": tokenizer.pattern,
        "metrics": contents.metrics,
        "counted": use is not None,
        "plays": tokenizer.algorithm == BYTE_BPE,
        "typed_special": [t for t in tokenizer.special_tokens if t.isascii() and t.isprintable()],
        "junk": len(junk_ids(tokenizer, use)) if use is not None and len(use.gains) else None,
        "compression": compression(contents),
        "lists": useful_and_idle(contents),
        "junk_share": JUNK_SHARE,
        "longest": longest(contents),
        "unreachable": None if tokenizer.words is not None else list(unreachable.values()),
        "screening": screening,
        "documents_known": ONE_DOCUMENT in screening.metrics,
        "fewest_documents": FEWEST_DOCUMENTS,
        "looked_for": [MEANINGS[kind] for kind in KINDS],
        "one_document": some(screening.one_document, tokenizer.vocab),
        "unread": some(screening.unread, tokenizer.vocab),
        "difference": contents.comparison and difference(contents.comparison, _WORDS),
        "signs": SIGNS,
        "sources": statistics_table(contents.sources) if contents.sources else None,
        "development": [
            (one.name, one.digest, f"{one.documents:,}", f"{one.bytes:,}", ", ".join(one.files))
            for one in contents.development
        ],
        "parameters": {
            key: value
            for key, value in contents.parameters.items()
            if value not in (None, [], {}, "") and key != "name"
        },
        "packed": packed_tokenizer(tokenizer, by_id(contents, unreachable)),
    }
    return render("report.html", values)
