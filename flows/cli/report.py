"""``bpeline report``: everything about a version on one page."""

from __future__ import annotations

from pathlib import Path

import click

from bpeline.flows.cli.options import FILE, answer, command


@command(
    "bpeline report news@candidate --open",
    "bpeline report news/3 -o news-3.html",
    "bpeline report news/4 --against news/3",
)
@click.argument("reference", metavar="REF")
@click.option("-o", "--output", type=FILE, help="The file to write.  [default: NAME-NUMBER.html]")
@click.option("--against", metavar="REF", help="Compare with this one.  [default: the champion]")
@click.option("--open", "show", is_flag=True, help="Open it in the browser.")
def report(
    reference: str, output: Path | None, against: str | None, show: bool, as_json: bool
) -> None:
    """Write one page of HTML about a version that needs no network and no other file.

    REF is name@alias, name/number or a digest. The page holds figures and charts, tokens worth
    looking at, the personal-data screen, the difference to the champion, a playground that encodes
    what is typed, and the whole vocabulary with its merges.
    """
    from bpeline.flows.versions import write_report
    from bpeline.flows.wording import megabytes

    path = write_report(reference, output, against)
    size = path.stat().st_size
    told = {"path": str(path.absolute()), "bytes": size}
    answer(as_json, told, [f"wrote {path} ({megabytes(size)})"])
    if show:
        click.launch(path.absolute().as_uri())
