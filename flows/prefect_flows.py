"""The place where deployments of release 0.2 look for their flows."""

from __future__ import annotations

from typing import NoReturn

from bpeline.tokenizer_core.errors import InvalidOption


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise InvalidOption(
        f"this deployment was made by bpeline 0.2, and its flow {name} has moved",
        "expected a deployment of this release",
        "type `bpeline deploy` again",
    )
