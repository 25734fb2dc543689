"""``bpeline recertify``."""

from __future__ import annotations

import sys

import click

from bpeline.flows.cli.options import answer, command
from bpeline.flows.cli.request_options import options_of
from bpeline.flows.requests import RecertifyRequest

CHANGED, NOT_JUDGED = 3, 4  # exit codes


@command(
    "bpeline recertify                         # whatever an alias points to",
    "bpeline recertify news llama3/2 --json",
    "pip install --target recent --pre --no-deps tokenizers; bpeline recertify --library recent/",
)
@click.argument("versions", nargs=-1, metavar="[NAME|REF]...")
@options_of(RecertifyRequest, {"library": {"metavar": "FOLDER"}}, but=("versions",))
def recertify(versions: tuple[str, ...], as_json: bool, library: str | None) -> None:
    """Read the exports of promoted versions again in the libraries that are installed now.

    Every export that has a certificate is read by the program it was made for and compared on the
    same texts. The exit code is 0 when all are read alike, 3 when one is read otherwise, 4 when
    none is but one was not checked; then it says why.
    """
    from bpeline.flows import recertify as recertifying
    from bpeline.flows.running import progress

    with progress.listening(progress.for_stream(sys.stderr)):
        made = recertifying.recertify(versions, library)
    lines = [
        f"{one.version!s:<16} {one.format:<12} {one.outcome:<12} {one.said}" for one in made.exports
    ]
    answer(as_json, made.as_dict(), [*lines, *made.remarks(), made.outcome])
    if made.having("changed"):
        raise SystemExit(CHANGED)
    if made.having("not checked"):
        raise SystemExit(NOT_JUDGED)
