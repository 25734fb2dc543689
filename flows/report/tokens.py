"""Lists of tokens worth looking at: useful, idle, long, unreachable, and somebody's data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bpeline.flows.report.contents import ReportContents, junk_ids, merged_ids
from bpeline.flows.report.facts import table
from bpeline.flows.report.token_html import text_html, token_html
from bpeline.registry.screening import FEWEST_DOCUMENTS
from bpeline.tokenizer_core.evaluation import JUNK_SHARE, KINDS, MEANINGS

if TYPE_CHECKING:
    from bpeline.registry.screening import Screening

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
    signs = np.zeros(max(tokenizer.vocab) + 1, np.int64)
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


def lists(contents: ReportContents, unreachable: Mapping[int, bytes]) -> str:
    """The lists that say what the vocab is good and not so good for."""
    vocab = contents.tokenizer.vocab
    cards = [*_of_use(contents), _longest(contents)]
    if unreachable:
        some = list(unreachable)[:_MANY]
        said = (
            f"{len(unreachable):,} tokens whose own text is encoded otherwise: no text gives them."
        )
        cards.append(_card("No text reaches these", said, _flow(vocab[id_] for id_ in some)))
    return f"<div class=columns>{''.join(cards)}</div>"


def _of_use(contents: ReportContents) -> Iterable[str]:
    use, vocab = contents.use, contents.tokenizer.vocab
    ids = merged_ids(contents.tokenizer)
    if use is None or not len(ids):
        return
    lengths = np.fromiter((len(vocab[id_]) for id_ in ids.tolist()), np.int64, len(ids))
    left = use.left[ids]
    carried = left * lengths
    best = ids[np.argsort(-carried, kind="stable")][:_LISTED]
    yield _card(
        "Carry the most text",
        "By bytes of the training text that they stand for.",
        _counted(
            contents,
            best,
            "of the text",
            lambda i: f"{use.left[i] * len(vocab[i]) / use.bytes:.2%}",
        ),
    )
    idle = ids[np.argsort(left, kind="stable")]
    never = int((left == 0).sum())
    yield _card(
        "Least used",
        f"{never:,} merged tokens are never left in the end: longer ones take them in.",
        _counted(contents, idle[:_LISTED], "came about", lambda id_: f"{use.made[id_]:,}"),
    )
    junk = junk_ids(contents.tokenizer, use)
    if len(junk):
        yield _card(
            "Steps to longer tokens",
            f"{len(junk):,} tokens of which one longer token takes in {JUNK_SHARE:.0%} or more: "
            "they fill the vocab and are hardly trained.",
            _counted(contents, junk[:_LISTED], "taken in", lambda id_: f"{use.absorbed[id_]:.1%}"),
        )


def _longest(contents: ReportContents) -> str:
    vocab = contents.tokenizer.vocab
    ids = sorted(merged_ids(contents.tokenizer).tolist(), key=lambda id_: (-len(vocab[id_]), id_))
    rows = ((token_html(vocab[id_]), str(id_), f"{len(vocab[id_]):,}") for id_ in ids[:_LISTED])
    head = [("token", False), ("id", True), ("bytes", True)]
    return _card("Longest", "Runs, rules and boilerplate gather here.", table(head, rows))


def privacy(contents: ReportContents) -> str:
    """What the screen found, and what exactly it looked at."""
    screening, vocab = contents.screening, contents.tokenizer.vocab
    tokens = f"{contents.tokenizer.vocab_size:,} tokens"
    kinds = "; ".join(MEANINGS[kind] for kind in KINDS)
    if screening.suspicions:
        rows = (
            (token_html(one.token), str(one.id), text_html(one.kind))
            for one in screening.suspicions[:_MANY]
        )
        head = [("token", False), ("id", True), ("looks like", False)]
        found = table(head, rows)
        said = f"{len(screening.suspicions):,} of {tokens} look like somebody's data."
    else:
        found, said = "", f"None of {tokens} looks like somebody's data."
    cards = [
        _card(
            "What tokens look like",
            said,
            f"{found}<details><summary>What was looked for</summary><p>{text_html(kinds)}. Tokens "
            "are fragments: a whole address is found only where the split pattern leaves it whole."
            "</p></details>",
        )
    ]
    if screening.chunks:
        cards.append(_of_one_document(screening, vocab))
    elif contents.use is not None:
        said = (
            "Documents say nothing here of where tokens come from: the corpus has fewer than "
            f"{FEWEST_DOCUMENTS} (a file without special tokens is a single one), or it is not "
            "known any more."
        )
        cards.append(_card("From one document alone", said, ""))
    return f"<div class=columns>{''.join(cards)}</div>"


def _of_one_document(screening: Screening, vocab: Mapping[int, bytes]) -> str:
    """Tokens that one document's text alone made, and what could not be looked at."""
    said = (
        f"{len(screening.one_document):,} tokens came about in the training text of one document "
        "only: the merges that lead to them fired in its words and nowhere else."
    )
    if screening.chunks > 1:
        said += (
            f" {len(screening.one_chunk):,} came about in one chunk only, of "
            f"{screening.chunks:,}; a chunk is 64 MiB of one file."
        )
    html = _some(screening.one_document, vocab)
    if screening.unread:
        html += (
            f"<p class=soft>{len(screening.unread):,} tokens came about in one chunk only; the "
            f"text is not there to look closer:</p>{_some(screening.unread, vocab)}"
        )
    return _card("From one document alone", said, html)


def _some(ids: Sequence[int], vocab: Mapping[int, bytes]) -> str:
    """The longest of some tokens: what is long says most of where it is from."""
    shown = sorted(ids, key=lambda id_: (-len(vocab[id_]), id_))[:_MANY]
    more = len(ids) - len(shown)
    rest = f"<p class=soft>and {more:,} more: see the vocabulary</p>" if more else ""
    return _flow(vocab[id_] for id_ in shown) + rest if shown else ""


def _counted(
    contents: ReportContents, ids: NDArray[np.int64], title: str, value: Callable[[int], str]
) -> str:
    use, vocab = contents.use, contents.tokenizer.vocab
    assert use is not None
    rows = (
        (token_html(vocab[id_]), str(id_), f"{use.left[id_]:,}", value(id_)) for id_ in ids.tolist()
    )
    return table([("token", False), ("id", True), ("left", True), (title, True)], rows)


def _flow(tokens: Iterable[bytes]) -> str:
    return f"<p class=flow>{''.join(map(token_html, tokens))}</p>"


def _card(title: str, said: str, html: str) -> str:
    heading = f"<h3>{text_html(title)}</h3><p class=soft>{text_html(said)}</p>"
    return f"<div class=card>{heading}{html}</div>"


def _is_text(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True
