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
    """The parameters of one import. Stored configurations are recognised by ``file``."""

    file: str = Field(
        description="tokenizer file, its folder, or hf://ORG/REPO@REVISION; append what the file "
        "lacks: ranks.tiktoken,pattern=cl100k"
    )
    name: str = Field(description="name to register under: a-z, 0-9, '.', '_' and '-'")
    algorithm: Literal["", "greedy"] = Field(
        default="",
        description="greedy: the file is a list of tokens, one per line, see docs/algorithms.md",
    )
    end_of_word: str = Field(
        default="", description="with --algorithm greedy: end-of-word mark of tokens"
    )
    licence: str = Field(default="", description="licence of the tokenizer, for the record")
    roles: tuple[str, ...] = Field(
        default=(), description=str(TrainingRequest.model_fields["roles"].description)
    )
    evaluation: tuple[str, ...] = Field(
        default=(),
        description="evaluation set, if the name has none yet: 'english=heldout/*.txt', or a "
        ".toml file of such sources",
    )
    baselines: tuple[str, ...] = Field(
        default=(),
        description="tokenizer to measure on the same documents: a file or registered version, "
        "'gpt2=gpt2/tokenizer.json'; the champion is always measured",
    )
    rules: Maybe[str] = Field(
        default=None,
        description="file of promotion rules (.toml): the imported version becomes champion if "
        "all hold",
    )
    text_field: str = Field(
        default="text", description="field of .jsonl lines, or column, that holds the text"
    )

    # Attributes that runs read from every request.
    engine: ClassVar[str] = "local"
    workers: ClassVar[int] = 1
    pattern_remark: ClassVar[str] = ""
    parity_remark: ClassVar[str] = ""
    named_sources: ClassVar[tuple[NamedSource, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, asked: dict[str, Any]) -> dict[str, Any]:
        """Make paths absolute, so that a run can continue from any directory."""
        values = dict(asked)
        if (file := values.get("file")) and file.startswith(SCHEME):
            values["file"] = str(HubReference.parse(file))
        elif file:
            # Here, news/3 is a path, too.
            parsed = parse_reference(file if file[0] in "./~" else f"./{file}")
            assert isinstance(parsed, ByPath)
            values["file"] = str(replace(parsed, path=Path(os.path.abspath(parsed.path))))
        evaluation = tuple(map(EVALUATION.absolute, values.get("evaluation") or ()))
        evaluation_sources(evaluation)  # raises if they cannot be read
        rules = values.get("rules")
        return {
            **values,
            "evaluation": evaluation,
            "baselines": normalized(values.get("baselines") or ()),
            "rules": os.path.abspath(rules) if rules else None,
        }

    @model_validator(mode="after")
    def _accepted(self) -> ImportRequest:
        validate_name(self.name)
        declared_roles(self.roles)
        if not self.file:
            raise InvalidOption(
                "no tokenizer file was given",
                "expected a tokenizer file or its folder",
                "type `bpeline import tokenizer.json --name llama3`",
            )
        return self

    def as_config(self) -> dict[str, Any]:
        """The request as JSON values, from which the flow can be repeated."""
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
        """Options for reading evaluation sources: each text file is one document.

        Independent of the tokenizer's pattern and special tokens, so that the evaluation set does
        not depend on which tokenizer is imported first.
        """
        from bpeline.tokenizer_core.corpus import ReadOptions
        from bpeline.tokenizer_core.splitting import SplitPattern

        return ReadOptions(SplitPattern.named("gpt2"), text_field=self.text_field)
