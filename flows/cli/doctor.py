"""``bpeline doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from bpeline.flows.cli.options import echo_json, json_option, workspace_option

if TYPE_CHECKING:
    from bpeline.flows.diagnosis import Finding

COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}


@click.command(
    epilog="""\b
Examples:
  bpeline doctor
  bpeline doctor --json
  bpeline doctor --compile
""",
)
@click.option(
    "--compile",
    "compile_first",
    is_flag=True,
    help="First compile all native code that is not compiled yet, so that no later command has to.",
)
@workspace_option
@json_option
@click.pass_context
def doctor(context: click.Context, compile_first: bool, as_json: bool) -> None:
    """Look for what could go wrong: versions, kernels, workspace, servers, disk.

    Exit code 1 if something is broken.
    """
    from dataclasses import asdict

    findings = []
    for finding in _findings(compile_first):
        findings.append(finding)
        if not as_json:
            click.secho(f"{finding.state:<7}", fg=COLOURS[finding.state], nl=False)
            click.echo(f"{finding.subject:<16} {finding.found}")
            if finding.advice:
                click.echo(f"{'':<24}{finding.advice}")
    if as_json:
        echo_json([asdict(finding) for finding in findings])
    if any(finding.state == "broken" for finding in findings):
        context.exit(1)


def _findings(compile_first: bool) -> Iterator[Finding]:
    from bpeline.flows.diagnosis import compile_kernels, examine

    if compile_first:
        yield from compile_kernels()
    yield from examine()
