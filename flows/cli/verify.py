"""``bpeline verify``: a version made again from its recorded inputs."""

from __future__ import annotations

import sys

import click

from bpeline.flows.cli.options import answer, command


@command("bpeline verify news/3", "bpeline verify news@champion --reuse-counts --json")
@click.argument("reference", metavar="REF")
@click.option(
    "--reuse-counts",
    is_flag=True,
    help="Begin with the word counts that were kept, without reading the corpus: proves the "
    "merges alone.",
)
def verify(reference: str, reuse_counts: bool, as_json: bool) -> None:
    """Make a version again from the files it was trained on; it must come out identical.

    REF is name@alias, name/number or a digest. The files are read and counted anew, the merges
    learned anew, and corpus, word counts, tokenizer and its files compared by digest. The exit
    code is 0 when all are the same, 1 when something differs, has changed or is gone; then it says
    what.
    """
    from bpeline.flows.running import progress
    from bpeline.flows.verify_version import lines_of, verify_version

    with progress.listening(progress.for_stream(sys.stderr)):
        verification = verify_version(reference, reuse_counts=reuse_counts)
    lines = list(lines_of(verification))
    changed = verification.verdict in ("inputs gone", "inputs changed")
    if changed and verification.counts_suffice and not reuse_counts:
        lines.append("type the same with --reuse-counts to prove the merges alone")
    answer(as_json, verification.as_dict(), lines)
    if not verification.holds:
        raise SystemExit(1)
