"""The page of a name with all its versions, written to a file."""

from __future__ import annotations

from pathlib import Path

from bpeline.flows.pages import page_of_name
from bpeline.registry.aliases import name_history
from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption


def write_name_page(name: str | None, path: Path) -> None:
    """Write the page of a name, with links to the report of each version.

    Raises:
        InvalidOption: no name, or a misspelt one.
        UnknownVersion: it has no version.
        DiskFull: no space left.
    """
    if name is None:
        raise InvalidOption(
            "a page is about the versions of one name, and none is given",
            "the name of a tokenizer",
            "type `bpeline versions` to see the names, then `bpeline versions NAME --html FILE`",
        )
    registry = open_registry(make=False)
    history = name_history(registry, name)
    page = page_of_name(history, registry.tracker.settings.ui)
    DURABLE.write(path, page.encode(errors="backslashreplace"))
