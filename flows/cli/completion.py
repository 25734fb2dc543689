"""Shell completion of values: references of versions, and names of split patterns."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from bpeline.tokenizer_core.errors import BpelineError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Reference(click.types.StringParamType):
    """A version: ``name/number`` or ``name@alias``; paths are completed as files."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the versions and aliases of the workspace."""
        if incomplete.startswith((".", "/", "~")):
            return [CompletionItem(incomplete, type="file")]
        from bpeline.registry.versions import list_versions

        with suppress(BpelineError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            versions = list_versions()
            aliases = {f"{one.name}@{alias}" for one in versions for alias in one.aliases}
            return _beginning_with(incomplete, [*sorted(aliases), *(v.reference for v in versions)])
        return []


class Pattern(click.types.StringParamType):
    """A split pattern: a name or a regex."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the names."""
        from bpeline.tokenizer_core.splitting import NAMES

        return _beginning_with(incomplete, NAMES)


COMPLETED = {
    **dict.fromkeys(("reference", "references", "first", "second"), Reference()),
    **dict.fromkeys(("pattern", "patterns"), Pattern()),
}


def _beginning_with(incomplete: str, values: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(value) for value in values if value.startswith(incomplete)]
