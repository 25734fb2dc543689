"""The request of a flow that imports a tokenizer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from bpeline.flows.requests.baselines import normalized
from bpeline.flows.requests.corpus_files import EVALUATION, evaluation_sources
from bpeline.flows.requests.request import Maybe, Request
from bpeline.flows.requests.source_spelling import NamedSource
from bpeline.flows.requests.training_request import TrainingRequest
from bpeline.registry.hub import SCHEME, HubReference
from bpeline.registry.records import ByPath, parse_reference, validate_name
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.formats import declared_roles


class ImportRequest(Request):
    """The parameters of one import; a run's configuration has ``file``, which no training has."""

    file: str = Field(
        description="the tokenizer: a file or the folder it was downloaded to, perhaps with what "
        "it does not say: ranks.tiktoken,pattern=cl100k; or hf://ORG/REPO@REVISION"
    )
    name: str = Field(description="the name to register under: a-z, 0-9, '.', '_' and '-'")
    algorithm: Literal["", "greedy"] = Field(
        default="",
        description="greedy: the file is a list of tokens, one a line, see docs/algorithms.md",
    )
    end_of_word: str = Field(
        default="", description="with --algorithm greedy: what tokens end with at the end of a word"
    )
    licence: str = Field(
        default="", description="under which terms its makers give it, for the record"
    )
    roles: tuple[str, ...] = Field(
        default=(), description=str(TrainingRequest.model_fields["roles"].description)
    )
    evaluation: tuple[str, ...] = Field(
        default=(),
        description="texts to evaluate on where the name has no evaluation set, which they become: "
        "'english=heldout/*.txt', or a .toml file of such sources",
    )
    baselines: tuple[str, ...] = Field(
        default=(),
        description="tokenizers to measure on the same documents: files or registered versions, "
        "each perhaps named: 'gpt2=gpt2/tokenizer.json'; the champion is always measured",
    )
    rules: Maybe[str] = Field(
        default=None,
        description="a .toml file of rules; the imported version becomes champion if all hold",
    )
    text_field: str = Field(
        default="text", description="the field of .jsonl lines, or column, of the text"
    )

    # What runs have, whatever they do.
    engine: ClassVar[str] = "local"
    workers: ClassVar[int] = 1
    pattern_remark: ClassVar[str] = ""
    parity_remark: ClassVar[str] = ""
    named_sources: ClassVar[tuple[NamedSource, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, asked: dict[str, Any]) -> dict[str, Any]:
        """With absolute paths: a run can be continued from any directory."""
        given = dict(asked)
        if (file := given.get("file")) and file.startswith(SCHEME):
            given["file"] = str(HubReference.parse(file))
        elif file:
            # What looks like news/3 is a path here, too.
            parsed = parse_reference(file if file[0] in "./~" else f"./{file}")
            assert isinstance(parsed, ByPath)
            given["file"] = str(replace(parsed, path=Path(os.path.abspath(parsed.path))))
        evaluation = tuple(map(EVALUATION.absolute, given.get("evaluation") or ()))
        evaluation_sources(evaluation)  # refuses what cannot be read
        rules = given.get("rules")
        return {
            **given,
            "evaluation": evaluation,
            "baselines": normalized(given.get("baselines") or ()),
            "rules": os.path.abspath(rules) if rules else None,
        }

    @model_validator(mode="after")
    def _accepted(self) -> ImportRequest:
        validate_name(self.name)
        declared_roles(self.roles)
        if not self.file:
            raise InvalidOption(
                "no file was named",
                "a tokenizer's file, or the folder that it was downloaded to",
                "type `bpeline import tokenizer.json --name llama3`",
            )
        return self

    def as_config(self) -> dict[str, Any]:
        """The request as JSON values; the flow called with them does the same again."""
        config = self.model_dump(mode="json")
        return {
            key: value
            for key, value in config.items()
            if value or key not in ("roles", "algorithm", "end_of_word")
        }

    def same_as(self, config: Mapping[str, Any]) -> bool:
        """Whether a stored configuration asks for the same."""
        return self.as_config() == config

    @property
    def evaluation_reading(self) -> Any:
        """How evaluation sources are read: each file of text is one document.

        Not by the tokenizer's pattern and special tokens, so that a set is the same whatever is
        imported first; what looks like a special token is cut out of it, as of every set.
        """
        from bpeline.tokenizer_core.corpus import ReadOptions
        from bpeline.tokenizer_core.splitting import SplitPattern

        return ReadOptions(SplitPattern.named("gpt2"), text_field=self.text_field)
