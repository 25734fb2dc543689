"""``bpeline doctor``."""

from __future__ import annotations

import click

from flows.cli.options import echo_json, json_option, workspace_option

COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}


@click.command(
    epilog="""\b
Examples:
  bpeline doctor
  bpeline doctor --json
""",
)
@workspace_option
@json_option
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Look for what could go wrong: versions, kernels, workspace, servers, disk.

    Exit code 1 if something is broken.
    """
    from dataclasses import asdict

    from flows.diagnosis import examine

    findings = examine()
    if as_json:
        echo_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            click.secho(f"{finding.state:<7}", fg=COLOURS[finding.state], nl=False)
            click.echo(f"{finding.subject:<16} {finding.found}")
            if finding.advice:
                click.echo(f"{'':<24}{finding.advice}")
    if any(finding.state == "broken" for finding in findings):
        context.exit(1)
