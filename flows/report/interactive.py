"""The parts of a report that `report.js` fills: the playground and the vocab."""

from __future__ import annotations

from html import escape

from bpeline.flows.report.contents import ReportContents
from bpeline.flows.report.token_html import text_html
from bpeline.flows.report.tokens import SIGNS
from bpeline.tokenizer_core.algorithms import BYTE_BPE

_SAMPLE = (
    "Hello, world! I'm sure they'll say it's 3.14159 or 1,234,567.\n"
    "naïve café · Größe · Съешь ещё · 我能吞下玻璃 · नमस्ते · 👩‍👧 👍🏽\n"
    "if (a[i] != b->c && x >= 10) {\n    return snake_case + camelCase;\n}\n"
)
_NEEDS_SCRIPT = (
    "<noscript><p class=failed>This part needs JavaScript.</p></noscript>"
    "<p class=failed hidden></p>"
)


def playground(contents: ReportContents) -> str:
    """Where people type text; empty with algorithms that the page does not encode by."""
    tokenizer = contents.tokenizer
    if tokenizer.algorithm != BYTE_BPE:
        return (
            f"<p>This page encodes byte-level BPE. To try {text_html(tokenizer.algorithm.name)}: "
            f"<code>bpeline encode {text_html(contents.reference)} 'some text'</code>.</p>"
        )
    special = ""
    if tokenizer.special_tokens:
        special = (
            '<label class=check><input type=checkbox id="with-special"> recognize special tokens'
            "</label>"
        )
    sample = _SAMPLE + "".join([t for t in tokenizer.special_tokens if t.isascii()][:1])
    return (
        f"<p>{_how(contents)}</p><div class='card needs-script'>{_NEEDS_SCRIPT}"
        '<label for=text class=soft>Text</label><textarea id="text" spellcheck=false '
        f"autocapitalize=off autocomplete=off dir=auto rows=6>{escape(sample)}</textarea>{special}"
        '<p class=counted id="counted" aria-live=polite></p>'
        '<div id="encoded" role=group aria-label="Tokens of the text"></div>'
        '<details><summary>Ids</summary><p class=mono id="ids" tabindex=0></p></details></div>'
    )


def _how(contents: ReportContents) -> str:
    pattern = contents.tokenizer.pattern
    if pattern.automaton is not None:
        return (
            "Type anything: the ids are those of the library, whatever browser this is. The page "
            "holds the merges, and the split pattern as the automaton it was trained with. Press a "
            "token to see how it is made."
        )
    reason = pattern.compiled_by.removeprefix("regex: ")
    return (
        f"The split pattern cannot run in this page ({text_html(reason)}). What you type is taken "
        "as <strong>one pre-token</strong>, uncut: its ids are those of the library only where the "
        "pattern would not cut it. For whole texts type "
        f"<code>bpeline encode {text_html(contents.reference)} 'some text'</code>."
    )


def vocab(contents: ReportContents) -> str:
    """Search, table and detail of all tokens."""
    counted = contents.use is not None
    orders = [("id", "id")]
    if counted:
        orders += [("most", "most used"), ("least", "least used")]
    orders.append(("longest", "longest"))
    order = "".join(f'<option value="{key}">{name}</option>' for key, name in orders)
    kinds = "".join(f'<option value="{bit}">{name}</option>' for bit, name in enumerate(SIGNS))
    counts = "<th scope=col class=n>came about</th><th scope=col class=n>left</th>"
    return (
        "<p>Press a token to see the merges that make it"
        + (
            " and how often each fired on the training text: what came about is partly taken in by "
            "longer tokens, what is left stands in the encoded text."
            if counted
            else ". The word counts it was trained on are not in this workspace, so there are no "
            "counts."
        )
        + f"</p><div class='card needs-script'>{_NEEDS_SCRIPT}"
        '<div class="controls screen-only"><label class=wide>Text or id'
        '<input type=search id="query" autocomplete=off autocapitalize=off spellcheck=false '
        'placeholder="e.g. ing, or 512"></label>'
        f'<label>Order<select id="order">{order}</select></label>'
        f'<label>Only<select id="only"><option value="">all tokens</option>{kinds}</select></label>'
        '</div><div id="detail" class=card tabindex=-1 hidden aria-live=polite></div>'
        "<div class=scroll><table><thead><tr><th scope=col class=n>id</th><th scope=col>token</th>"
        f"<th scope=col class=n>bytes</th>{counts if counted else ''}<th scope=col>marked</th></tr>"
        '</thead><tbody id="rows"></tbody></table></div>'
        '<div class="pages screen-only"><button type=button class=plain id="previous">Previous'
        '</button><button type=button class=plain id="next">Next</button>'
        '<span id="found" class=soft role=status></span></div></div>'
    )
