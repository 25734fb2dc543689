"""A report as one page of HTML. Computes next to nothing; escapes everything.

Words and tokens are text of somebody's corpus. The page forbids itself the network and every
script but its own (Content-Security-Policy), and shows what cannot be seen by its number.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import numpy as np

from bpeline.flows.report import comparing, tokens
from bpeline.flows.report.compression import compression
from bpeline.flows.report.contents import ReportContents, unreachable_ids
from bpeline.flows.report.facts import parameters, provenance, sources, tiles
from bpeline.flows.report.interactive import playground, vocab
from bpeline.flows.report.packed import packed_tokenizer
from bpeline.flows.report.token_html import text_html

LARGEST = 5 << 20  # bytes; what is asked of a page of 100,000 tokens


def report_page(contents: ReportContents) -> str:
    """The whole page."""
    unreachable = unreachable_ids(contents.tokenizer)
    packed = packed_tokenizer(contents.tokenizer, tokens.by_id(contents, unreachable))
    sections = [
        ("try", "Try it", playground(contents)),
        ("compression", "Compression", compression(contents)),
        ("tokens", "Tokens", tokens.lists(contents, unreachable)),
        ("privacy", "Personal data", tokens.privacy(contents)),
        ("difference", "Difference", comparing.difference(contents)),
        ("vocabulary", "Vocabulary", vocab(contents)),
        (
            "provenance",
            "Provenance",
            provenance(contents) + sources(contents) + parameters(contents),
        ),
    ]
    shown = [(key, title, html) for key, title, html in sections if html]
    style, script = asset("report.css"), asset("report.js")
    title = text_html(f"{contents.title}: a report")
    return "\n".join([
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta http-equiv="Content-Security-Policy" content="'
        f"default-src 'none'; script-src {_hash_of(script)}; style-src {_hash_of(style)}; "
        "base-uri 'none'; form-action 'none'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{style}</style></head>",
        '<body><a class="skip" href="#try">Skip to the playground</a>',
        f"<header><div>{_heading(contents)}{tiles(contents, len(unreachable))}</div></header>",
        f'<nav aria-label="Sections"><div>{"".join(_links(shown))}</div></nav>',
        "<main>",
        *(
            f'<section id="{key}" aria-labelledby="{key}-title">'
            f'<h2 id="{key}-title">{text_html(title)}</h2>{html}</section>'
            for key, title, html in shown
        ),
        "</main>",
        "<footer>Made by <code>bpeline report</code>. This page needs no network: it holds the "
        "whole tokenizer.</footer>",
        f'<script type="application/json" id="about">{_json(packed.about)}</script>',
        f'<script type="application/octet-stream" id="packed">{packed.content}</script>',
        f"<script>{script}</script></body></html>\n",
    ])  # fmt: skip


@cache
def asset(name: str) -> str:
    """A file that belongs to the page."""
    return files("bpeline.flows.report").joinpath(name).read_text(encoding="utf-8")


def _heading(contents: ReportContents) -> str:
    pattern = contents.tokenizer.pattern
    said = [
        f"{contents.tokenizer.vocab_size:,} tokens",
        contents.tokenizer.algorithm.name,
        f"split pattern {pattern.name or 'of its own'}",
        f"digest {contents.tokenizer.digest[:12]}",
    ]
    return f"<h1>{text_html(contents.title)}</h1><p class=soft>{text_html(' · '.join(said))}</p>"


def _links(sections: Iterable[tuple[str, str, str]]) -> Iterable[str]:
    return (f'<a href="#{key}">{text_html(title)}</a>' for key, title, _ in sections)


def _hash_of(content: str) -> str:
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _json(value: object) -> str:
    """JSON that may stand in a script element: what could end it is written as numbers."""
    text = json.dumps(value, separators=(",", ":"), default=_plain)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value).__name__)
