"""Rendering of pages from compiled templates; invisible characters are shown."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
import regex
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.bccache import Bucket, BytecodeCache
from jinja2.runtime import Context
from markupsafe import Markup

from bpeline.flows.wording import number_text
from bpeline.tokenizer_core.cache_directory import kept_below, opened, read_file, write_file
from bpeline.tokenizer_core.charts import Bars, Chart, inline_svg
from bpeline.tokenizer_core.digests import digest_of_bytes
from bpeline.tokenizer_core.display import printable


def render(template: str, values: Mapping[str, Any]) -> str:
    """Render a template."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bpeline.flows.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        # Disabled so that compiled templates do not depend on filters; see `_shown` too.
        optimized=False,
        bytecode_cache=KeptTemplates(settings=Path(__file__).read_bytes()),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "number": number_text,
        "drawn": _drawn,
        "pieces": cut_pieces,
        "sha256": _sha256,
        "signed": "{:+,}".format,
        "whole": "{:,}".format,
    }
    environment.globals["asset"] = _asset
    # The script reads packed sections in the order of their names in the page.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": False}
    return environment


@pass_context
def _shown(_: Context, value: object) -> str:
    """Keep markup of templates; spell out invisible characters in other values."""
    return value if isinstance(value, Markup) else printable(str(value))


def _drawn(chart: Chart | Bars) -> Markup:
    return Markup(inline_svg(chart))


@cache
def _asset(name: str) -> Markup:
    """Return a style sheet or a script of this package, to be inlined."""
    return Markup(files("bpeline.flows.pages").joinpath(name).read_text(encoding="utf-8"))


def _sha256(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


# Controls, direction marks, joiners, unusual spaces and unassigned characters, shown by code point.
_HIDDEN = regex.compile(r"[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]")
_MARK = regex.compile(r"\p{M}")
_SPELLED = {" ": "␣", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
_RUN = 8  # longest run of one character that is written out
_LONGEST = 80  # characters of one token in a list
_BROKEN = range(0xDC80, 0xDD00)  # `surrogateescape` of bytes that are not UTF-8


def visible(token: bytes) -> list[tuple[bool, str]]:
    """Split a token into pieces: (whether the piece replaces invisible text, text).

    Invalid bytes are shown as hexadecimal numbers, a combining mark at the beginning gets a dotted
    circle, and a long run of one character is shortened to the character and a number.
    """
    pieces: list[tuple[bool, str]] = []
    for character, run in groupby(token.decode(errors="surrogateescape")):
        times = len(list(run))
        for _ in range(times if times <= _RUN else 1):
            _add(pieces, character)
        if times > _RUN:
            pieces.append((True, f"×{times}"))
    return pieces


def _add(pieces: list[tuple[bool, str]], character: str) -> None:
    point = ord(character)
    if point in _BROKEN:
        pieces.append((True, f"{point - 0xDC00:02X}"))
    elif character in _SPELLED or _HIDDEN.match(character):
        pieces.append((True, _SPELLED.get(character, f"U+{point:04X}")))
    elif pieces and not pieces[-1][0]:
        pieces[-1] = (False, pieces[-1][1] + character)
    else:
        pieces.append((False, ("◌" if _MARK.match(character) else "") + character))


def cut_pieces(token: bytes) -> list[tuple[bool, str]]:
    """Like `visible`, but only the beginning of long tokens."""
    cut: list[tuple[bool, str]] = []
    room = _LONGEST
    for hidden, text in visible(token):
        if room <= 0:
            return [*cut, (False, "…")]
        cut.append((hidden, text if hidden else text[:room]))
        room -= len(text)
    return cut


class KeptTemplates(BytecodeCache):
    """jinja2's bytecode on disk; it also depends on ``settings``."""

    def __init__(self, settings: bytes) -> None:
        self._settings = settings

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """Return a file name that is the same for all installations."""
        return f"template-{name}"

    def get_source_checksum(self, source: str) -> str:
        """Return a checksum of source, jinja2 version and settings."""
        return digest_of_bytes(jinja2.__version__.encode(), b"\0", self._settings, source.encode())

    def load_bytecode(self, bucket: Bucket) -> None:
        try:
            with opened(kept_below()) as directory:
                bucket.bytecode_from_string(read_file(directory, bucket.key))
        except Exception:  # damaged files can raise anything; compile again
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError), opened(kept_below(), make=True) as directory:
            write_file(directory, bucket.key, bucket.bytecode_to_string())
