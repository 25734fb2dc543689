"""Templates become pages here: one environment, in which nothing goes onto a page unescaped.

Words and tokens are text of somebody's corpus. What is put into a template is escaped, and what
cannot be seen in it becomes its number. A page forbids itself the network and every script and
style but its own (Content-Security-Policy in ``templates/base.html``).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from bpeline.flows.pages.kept_templates import KeptTemplates
from bpeline.flows.pages.visible import cut_pieces
from bpeline.flows.wording import number_text
from bpeline.tokenizer_core.charts import Bars, Chart, inline_svg
from bpeline.tokenizer_core.display import printable


def render(template: str, values: Mapping[str, Any]) -> str:
    """A page of one of the templates."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("bpeline.flows.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        # With this, and as `_shown` takes a context, no filter has a part in what is compiled.
        optimized=False,
        bytecode_cache=KeptTemplates(settings=Path(__file__).read_bytes()),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "number": number_text,
        "drawn": _drawn,
        "pieces": cut_pieces,
        "sha256": _sha256,
        "signed": "{:+,}".format,
        "whole": "{:,}".format,
    }
    made.globals["asset"] = _asset
    # The packed sections are read in the order that they are named in.
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": False}
    return made


@pass_context
def _shown(_: Context, value: object) -> str:
    """What the templates made themselves stays as it is; all else may come from anywhere."""
    return value if isinstance(value, Markup) else printable(str(value))


def _drawn(chart: Chart | Bars) -> Markup:
    return Markup(inline_svg(chart))


@cache
def _asset(name: str) -> Markup:
    """A style sheet or a script of this package, to stand in the page."""
    return Markup(files("bpeline.flows.pages").joinpath(name).read_text(encoding="utf-8"))


def _sha256(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
