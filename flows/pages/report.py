"""The report of a version: what its page needs to know, gathered for ``templates/report.html``."""

from __future__ import annotations

from bpeline.flows.pages.comparison import difference
from bpeline.flows.pages.compression import compression
from bpeline.flows.pages.contents import ReportContents, junk_ids, unreachable_ids
from bpeline.flows.pages.packed import packed_tokenizer
from bpeline.flows.pages.rendering import render
from bpeline.flows.pages.token_lists import SIGNS, by_id, longest, some, useful_and_idle
from bpeline.flows.wording import statistics_table
from bpeline.registry.tokens import FEWEST_DOCUMENTS, ONE_DOCUMENT
from bpeline.tokenizer_core.evaluation import JUNK_SHARE
from bpeline.tokenizer_core.vocabulary import BYTE_BPE, KINDS, MEANINGS

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
