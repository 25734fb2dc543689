"""``bpeline rename``."""

from __future__ import annotations

import click

from bpeline.flows.cli.options import answer, command


@command(
    "bpeline rename news@champion '<|reserved_0|>=<|tool|>' '<|reserved_1|>=<|image|>'",
    "bpeline rename llama3/1 '<|reserved_special_token_0|>=<|think|>' --json",
)
@click.argument("reference", metavar="REF")
@click.argument("names", nargs=-1, required=True, metavar="OLD=NEW...")
def rename(reference: str, names: tuple[str, ...], as_json: bool) -> None:
    """Give special tokens of a version other names, such as slots kept by `train --reserve`.

    No id changes, so a model that was trained with the version goes on with the new one. It is
    registered under the same name, and candidate points to it.

    REF is name@alias, name/number or a digest.
    """
    from bpeline.flows.renaming import names_of
    from bpeline.flows.renaming import rename as rename_tokens

    done = rename_tokens(reference, names_of(names))
    new = "newly registered" if done.version.newly_registered else "registered before: nothing new"
    answer(as_json, done.as_dict(), [
        f"{done.version.reference} ({new}): the ids of {done.base}, with other names",
        *(f"  {done.ids[new]:>8,}  {old} → {new}" for old, new in done.names.items()),
        f"{done.slots_left:,} slots are left",
    ])  # fmt: skip
