"""Which old ids each new token of an extension stands for."""

from __future__ import annotations

from dataclasses import dataclass

from bpeline.registry.loading import load_version, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.references import parse_registered
from bpeline.registry.version_files import RECIPE
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.digests import unsealed
from bpeline.tokenizer_core.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token of a version that extends another, and the old ids that its text was before."""

    id: int
    token: str
    old_ids: tuple[int, ...]


def recipe_of(reference: str) -> list[NewToken]:
    """The new tokens of a version that extends another, by id: for initialising embeddings.

    Raises:
        UnknownVersion: there is no such version.
        InvalidOption: it extends no other, or the workspace does not know how.
    """
    registry = open_registry(make=False)
    found = resolve(registry, parse_registered(reference))
    path = registry.workspace.version_directory(found.digest) / RECIPE
    try:
        recipe = unsealed(read_json(path))["new_ids"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InvalidOption(
            f"{found} has no list of new ids in this workspace",
            "versions that `bpeline extend` made here",
            f"type `bpeline show {reference}` to see where it comes from",
        ) from error
    vocab = load_version(registry, found).vocab
    shown = ((id_, vocab[id_].decode(errors="backslashreplace"), old) for id_, old in recipe)
    return [NewToken(id_, token, tuple(old)) for id_, token, old in shown]
