"""Requests of the flows that derive a version from another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from bpeline.flows.requests.request import Maybe, Request
from bpeline.flows.requests.training_request import LARGEST_SIZE
from bpeline.tokenizer_core.errors import InvalidOption


class DerivedRequest(Request):
    """The parameter that all of them have."""

    reference: str = Field(description="the version: news@champion, news/3, a digest")


class ExtensionRequest(DerivedRequest):
    """The parameters of continuing a version to more ids."""

    vocab_size: int | str = Field(
        description="number of ids of the new version; auto for the one at which text costs a "
        "model least"
    )
    paths: tuple[str, ...] = Field(
        default=(), description="the corpus; that of the version when empty"
    )
    name: Maybe[str] = Field(
        default=None, description="the name to register under; that of the version when empty"
    )
    reserve: int = Field(default=0, description="slots among the new ids, the last ones")
    round_to: int = Field(
        default=1, description="more slots, until the number of ids is a multiple"
    )
    largest_size: Maybe[int] = Field(
        default=None,
        description="with auto: the largest that is asked about; 131072 when empty",
    )
    model_shape: Maybe[str] = Field(
        default=None,
        description="with auto: register the size at which a byte of text costs this model least; "
        "as of `bpeline train`",
    )

    @property
    def size(self) -> int:
        """The number of ids, or the largest that is asked about."""
        chosen = isinstance(self.vocab_size, str)
        return self.largest_size or LARGEST_SIZE if chosen else int(self.vocab_size)

    @property
    def choice(self) -> dict[str, Any]:
        """The parameters that let a training choose its number of ids; empty if one was given."""
        if not isinstance(self.vocab_size, str):
            return {}
        return {"largest_size": self.size, "model_shape": self.model_shape}

    @model_validator(mode="after")
    def _accepted(self) -> ExtensionRequest:
        chooses = self.largest_size is not None or self.model_shape is not None
        if chooses and not isinstance(self.vocab_size, str):
            raise InvalidOption(
                f"the number of ids was given, {self.vocab_size:,}, and what chooses it, too",
                "--largest-size and --model-shape go with --vocab-size auto",
                "type `--vocab-size auto`, or leave these out",
            )
        return self


class SuperwordsRequest(ExtensionRequest):
    """The parameters of going on to tokens of several words."""

    transition_size: Maybe[int] = Field(
        default=None, description="how many of its ids the version gives; all of them when empty"
    )
    cuts: Literal["punctuation", "digits"] = Field(
        default="punctuation",
        description="where superwords end: at numbers and runs of punctuation, or at numbers "
        "alone, digits by three from the right, which llama.cpp reads (`export --format gguf`)",
    )


class PruneRequest(DerivedRequest):
    """The parameters of a plan for pruning."""

    output: str = Field(description="the plan, JSON")
    paths: tuple[str, ...] = Field(
        default=(),
        description="files to count tokens in; the words that the version was trained on when "
        "empty",
    )
    min_count: int = Field(default=0, description="tokens go that occur less often")
    drop_unreachable: bool = Field(default=False, description="tokens go that no text leads to")
    save_to: Maybe[str] = Field(
        default=None,
        description="save the tokenizer that is left in this directory, in bpeline's own format",
    )


class RenameRequest(DerivedRequest):
    """The parameters of giving special tokens other names."""

    names: Mapping[str, str] = Field(description="old name → new name")
