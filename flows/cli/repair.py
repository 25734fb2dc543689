"""``bpeline repair``."""

from __future__ import annotations

from dataclasses import asdict

import click

from bpeline.flows.cli.options import answer, command, typed_again


@command(
    "bpeline repair            # what is wrong, what would be done, what cannot be known again",
    "bpeline repair --write",
)
@click.option("--write", is_flag=True, help="Do it; without, only say what would be done.")
def repair(write: bool, as_json: bool) -> None:
    """Make good a catalogue or an MLflow that is lost, or that disagrees with the other.

    The catalogue is made anew from the files of versions, from MLflow and from the records of word
    counts. Versions of an MLflow that is gone wait to be registered in the one that is there now.
    Versions that a shared store holds and that were not published are registered.
    """
    from bpeline.flows.wording import as_typed
    from bpeline.registry.opening import open_registry
    from bpeline.registry.upkeep import repair as repair_stores

    told = repair_stores(open_registry(make=False), write=write)
    lines = [] if told.found else ["catalogue, files and MLflow agree; nothing to repair"]
    for title, sentences in (
        ("found", told.found),
        ("done" if write else "would be done", told.done),
        ("cannot be known again", told.lost),
    ):
        if sentences:
            lines += [f"{title}:", *(f"  {sentence}" for sentence in sentences)]
    if told.found and not write:
        lines += ["", as_typed(f"do it:  {typed_again('--write')}")]
    answer(as_json, asdict(told), lines)
