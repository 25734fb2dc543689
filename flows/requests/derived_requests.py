"""Requests of flows that derive a version from another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from bpeline.flows.requests.request import Maybe, Request
from bpeline.flows.requests.training_request import LARGEST_SIZE
from bpeline.tokenizer_core.errors import InvalidOption


class DerivedRequest(Request):
    """The parameter that all derivations share."""

    reference: str = Field(description="version: news@champion, news/3 or a digest")


class ExtensionRequest(DerivedRequest):
    """The parameters of extending a version."""

    vocab_size: int | str = Field(
        description="vocabulary size of the new version; auto chooses the cheapest size for the "
        "model shape"
    )
    paths: tuple[str, ...] = Field(default=(), description="corpus; default: that of the version")
    name: Maybe[str] = Field(
        default=None, description="name to register under; default: that of the version"
    )
    reserve: int = Field(default=0, description="number of reserved ids at the end of the new ids")
    round_to: int = Field(
        default=1,
        description="reserve more ids until the vocabulary size is a multiple of this",
    )
    largest_size: Maybe[int] = Field(
        default=None,
        description="with auto: the largest size to try; default: 131072",
    )
    model_shape: Maybe[str] = Field(
        default=None,
        description="with auto: the model that the vocabulary is for, as for `bpeline train`",
    )

    @property
    def size(self) -> int:
        """The number of ids, or the largest size to try."""
        chosen = isinstance(self.vocab_size, str)
        return self.largest_size or LARGEST_SIZE if chosen else int(self.vocab_size)

    @property
    def choice(self) -> dict[str, Any]:
        """The parameters for choosing the size; empty if a size was given."""
        if not isinstance(self.vocab_size, str):
            return {}
        return {"largest_size": self.size, "model_shape": self.model_shape}

    @model_validator(mode="after")
    def _accepted(self) -> ExtensionRequest:
        chooses = self.largest_size is not None or self.model_shape is not None
        if chooses and not isinstance(self.vocab_size, str):
            raise InvalidOption(
                f"--largest-size or --model-shape was given with --vocab-size {self.vocab_size}",
                "expected --vocab-size auto with these options",
                "type `--vocab-size auto`, or leave them out",
            )
        return self


class SuperwordsRequest(ExtensionRequest):
    """The parameters of adding superwords to a version."""

    transition_size: Maybe[int] = Field(
        default=None, description="number of ids to keep from the version; default: all"
    )
    cuts: Literal["punctuation", "digits"] = Field(
        default="punctuation",
        description="where superwords end: at numbers and punctuation, or only at numbers, in "
        "groups of three digits from the right (for llama.cpp)",
    )


class PruneRequest(DerivedRequest):
    """The parameters of a pruning plan."""

    output: str = Field(description="file for the plan (JSON)")
    paths: tuple[str, ...] = Field(
        default=(),
        description="files to count tokens in; default: the words the version was trained on",
    )
    min_count: int = Field(default=0, description="drop rarer tokens")
    drop_unreachable: bool = Field(default=False, description="drop tokens that no text produces")
    save_to: Maybe[str] = Field(
        default=None,
        description="also save the pruned tokenizer to this directory, in bpeline's format",
    )


class RenameRequest(DerivedRequest):
    """The parameters of renaming special tokens."""

    names: Mapping[str, str] = Field(description="old name → new name")
