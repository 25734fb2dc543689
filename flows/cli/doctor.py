"""``bpeline doctor``."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain

import click

from bpeline.flows.cli.options import command, echo_json
from bpeline.flows.cli.output import say_coloured

COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}


@command(
    "bpeline doctor", "bpeline doctor --json", "bpeline doctor --compile", "bpeline doctor --fix"
)
@click.option(
    "--compile",
    "compile_first",
    is_flag=True,
    help="First compile all native code that is not compiled yet, so that no later command has to.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="First make good what is lost or disagrees: a catalogue is made anew from the files of "
    "versions, MLflow and the records of word counts; versions that MLflow lost, or that a shared "
    "store holds and nobody published, are registered; what MLflow says of a number is accepted.",
)
def doctor(compile_first: bool, fix: bool, as_json: bool) -> None:
    """Look for what could go wrong: versions, kernels, workspace, servers, disk.

    Exit code 1 if something is broken.
    """
    from bpeline.flows.diagnosis import compile_kernels, examine, fix_stores

    findings = []
    looks = [*[compile_kernels] * compile_first, *[fix_stores] * fix, examine]
    for finding in chain.from_iterable(look() for look in looks):  # one after the other
        findings.append(finding)
        if not as_json:
            say_coloured(f"{finding.state:<7}", COLOURS[finding.state])
            click.echo(f"{finding.subject:<16} {finding.found}")
            if finding.advice:
                click.echo(f"{'':<24}{finding.advice}")
    if as_json:
        echo_json([asdict(finding) for finding in findings])
    if any(finding.state == "broken" for finding in findings):
        raise SystemExit(1)
