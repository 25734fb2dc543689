"""Requests of every flow but the training."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from bpeline.flows.requests.baselines import normalized
from bpeline.flows.requests.corpus_files import EVALUATION, evaluation_sources
from bpeline.flows.requests.request import Request
from bpeline.flows.requests.source_spelling import NamedSource
from bpeline.flows.requests.training_request import LARGEST_SIZE, TrainingRequest
from bpeline.registry.records import CHAMPION
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import LEAST_WATCHED_BYTES, LEAST_WATCHED_DOCUMENTS
from bpeline.tokenizer_core.formats import declared_roles
from bpeline.tokenizer_core.training import Cuts


class ImportRequest(Request):
    """The parameters of one import; a run's configuration has ``file``, which no training has."""

    file: str = Field(
        description="the tokenizer: a file or the folder it was downloaded to, perhaps with what "
        "it does not say: ranks.tiktoken,pattern=cl100k; or hf://ORG/REPO@REVISION"
    )
    name: str = Field(description="the name to register under: a-z, 0-9, '.', '_' and '-'")
    algorithm: Literal["", "greedy"] = Field(
        "", description="greedy: the file is a list of tokens, one a line, see docs/algorithms.md"
    )
    end_of_word: str = Field(
        "", description="with --algorithm greedy: what tokens end with at the end of a word"
    )
    licence: str = Field("", description="under which terms its makers give it, for the record")
    roles: tuple[str, ...] = Field(
        (), description=str(TrainingRequest.model_fields["roles"].description)
    )
    evaluation: tuple[str, ...] = Field(
        (),
        description="texts to evaluate on where the name has no evaluation set, which they become: "
        "'english=heldout/*.txt', or a .toml file of such sources",
    )
    baselines: tuple[str, ...] = Field(
        (),
        description="tokenizers to measure on the same documents: files or registered versions, "
        "each perhaps named: 'gpt2=gpt2/tokenizer.json'; the champion is always measured",
    )
    rules: str | None = Field(
        None,
        description="a .toml file of rules; the imported version becomes champion if all hold",
    )
    text_field: str = Field("text", description="the field of .jsonl lines, or column, of the text")

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
        from bpeline.registry.exports import SCHEME, HubReference
        from bpeline.registry.records import ByPath, parse_reference

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
        from bpeline.registry.records import validate_name

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
        from bpeline.tokenizer_core.corpus import Reading
        from bpeline.tokenizer_core.splitting import SplitPattern

        return Reading(SplitPattern.named("gpt2"), text_field=self.text_field)


class DerivedRequest(Request):
    """The parameter that all of them have."""

    reference: str = Field(description="the version: news@champion, news/3, a digest")


class ExtensionRequest(DerivedRequest):
    """The parameters of continuing a version to more ids."""

    vocab_size: int | str = Field(
        description="number of ids of the new version; auto for the one at which text costs a "
        "model least"
    )
    paths: tuple[str, ...] = Field((), description="the corpus; that of the version when empty")
    name: str | None = Field(
        None, description="the name to register under; that of the version when empty"
    )
    reserve: int = Field(0, description="slots after the new ids")
    round_to: int = Field(1, description="more slots, until the number of ids is a multiple")
    largest_size: int | None = Field(None, description="with auto, the largest that is asked about")
    model_shape: str | None = Field(None, description="with auto, the model that text costs least")

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

    transition_size: int | None = Field(
        None, description="how many of its ids the version gives; all of them when empty"
    )
    cuts: Cuts = Field("punctuation", description="where superwords end, see `superword_lines`")


class PruneRequest(DerivedRequest):
    """The parameters of a plan for pruning."""

    output: str = Field(description="the plan, JSON")
    paths: tuple[str, ...] = Field(
        (),
        description="files to count tokens in; the words that the version was trained on when "
        "empty",
    )
    min_count: int = Field(0, description="tokens go that occur less often")
    drop_unreachable: bool = Field(False, description="tokens go that no text leads to")
    save_to: str | None = Field(
        None, description="where to save the tokenizer that is left, in the ``bpeline`` format"
    )


class RenameRequest(DerivedRequest):
    """The parameters of giving special tokens other names."""

    names: Mapping[str, str] = Field(description="old name → new name")


class DriftRequest(Request):
    """The parameters of one look at new text."""

    name: str = Field(description="the tokenizer's")
    paths: tuple[str, ...] = Field(
        (),
        description='files, directories and globs of new text; "python:stdlib" is the Python '
        "standard library's own source text",
    )
    alias: str = Field(CHAMPION, description="which of its versions is watched")
    sources: tuple[str, ...] = Field(
        (),
        description="more of it with names and labels, spelt as for an evaluation; each is a "
        "slice. One that the version was evaluated on under the same name is compared with that",
    )
    rules: str | None = Field(
        None,
        description="a .toml file of rules in the spelling of those of promotion; "
        "`registry.drift_rules.DEFAULT_RULES` when empty",
    )
    separator: str | None = Field(
        None,
        description="what stands between the documents of a text file; the version's special "
        "tokens when empty; none: each file is one document",
    )
    least_documents: int = Field(
        LEAST_WATCHED_DOCUMENTS,
        description="of each slice, and of the version's own text; from fewer nothing is concluded",
    )
    least_bytes: int = Field(LEAST_WATCHED_BYTES, description="likewise")
    workers: int | None = Field(None, description="threads for counting; all cores when empty")

    @model_validator(mode="after")
    def _accepted(self) -> DriftRequest:
        if min(self.least_documents, self.least_bytes) < 0 or (self.workers or 1) < 1:
            raise InvalidOption(
                f"least_documents is {self.least_documents}, least_bytes is {self.least_bytes}, "
                f"workers is {self.workers}",
                "numbers from 0 on, and 1 worker or more",
                "leave them out",
            )
        return self


class DatasetRequest(Request):
    """The parameters of encoding a dataset."""

    reference: str = Field(
        description="the version: news@champion, news/3, a digest; news/3:8000 is its size 8,000"
    )
    paths: tuple[str, ...] = Field(
        description='files, directories and globs of text, as for training; "python:stdlib" is '
        "the Python standard library's own source text"
    )
    output: str | None = Field(
        None,
        description="the directory, or URL of a store, in which the version gets its own: news-3; "
        '"tokens" in the workspace when empty',
    )
    format: Literal["bin", "npy", "megatron", "parquet"] = Field(
        "bin",
        description="bin: raw numbers; npy: NumPy arrays; megatron: what Megatron-LM and NeMo "
        "read; parquet: a row for each document",
    )
    separator: str | None = Field(
        None,
        description="what stands between the documents of a text file; the version's special "
        "tokens when empty; none: each file is one document",
    )
    end_of_text: str | None = Field(
        None, description="the special token to put behind each document; none when empty"
    )
    invalid_utf8: Literal["strict", "replace", "ignore"] = Field(
        "strict",
        description="bytes that are not UTF-8: strict (an error), replace (U+FFFD) or ignore (they "
        "are left out)",
    )
    text_field: str = Field("text", description="the field of .jsonl lines, or column, of the text")
    include: tuple[str, ...] = Field(
        (),
        description="read files of these names as text as well, '*.rst' or 'notes/*.log', where "
        "directories and globs are searched",
    )
    strict: bool = Field(
        False, description="an error where the search meets files that are not read"
    )
    id_field: str = Field(
        "id", description="the one that names the document, kept in the index of documents"
    )
    shard_megabytes: int = Field(
        256, description="MiB of text in a shard; documents are never divided"
    )
    pack: int | None = Field(
        None,
        description="write the documents once more, shuffled and end to end, as sequences of so "
        "many ids; not when empty",
    )
    seed: int = Field(0, description="with pack: decides the order of documents")
    threads: int | None = Field(None, description="for encoding; one per processor when empty")
    engine: str = Field(
        "local",
        description="who encodes and packs: local (threads), dask (processes of this machine), or "
        "the Dask cluster at tcp://HOST:PORT",
    )

    @model_validator(mode="after")
    def _accepted(self) -> DatasetRequest:
        if not self.paths or self.shard_megabytes < 1:
            raise InvalidOption(
                f"paths are {list(self.paths)}, shard_megabytes is {self.shard_megabytes}",
                "at least one path, and shards of 1 MiB or more",
                "name the files of the dataset",
            )
        if (self.pack is not None and self.pack < 1) or not 0 <= self.seed < 1 << 64:
            raise InvalidOption(
                f"pack is {self.pack}, seed is {self.seed}",
                "sequences of 1 id or more, and a seed from 0 to 2**64 - 1",
                "leave pack empty to keep the documents as they are",
            )
        return self


class GarbageRequest(Request):
    """The parameters of removing what no version needs."""

    days: float = Field(30.0, description="what was written less than so many days ago stays")
    counts_of: int | None = Field(
        None,
        description="keep word counts for so many of the newest versions of each name, and for "
        "those with an alias; for all versions when empty",
    )
    remove: bool = Field(
        False, description="remove what is found; without, the run only says what there is"
    )

    @model_validator(mode="after")
    def _accepted(self) -> GarbageRequest:
        if self.days < 0 or (self.counts_of is not None and self.counts_of < 0):
            raise InvalidOption(
                f"days are {self.days}, counts are kept of {self.counts_of} versions",
                "numbers from 0 on",
                "leave them out for 30 days, and the counts of all versions",
            )
        return self


class RecertifyRequest(Request):
    """The parameters of reading exports again."""

    versions: tuple[str, ...] = Field(
        (),
        description="names, for the versions their aliases point to, and references such as "
        "news/3; every name when empty",
    )
    library: str | None = Field(
        None,
        description="a folder whose packages are asked instead of those installed, as "
        "`pip install --target FOLDER` makes it",
    )

    @model_validator(mode="after")
    def _accepted(self) -> RecertifyRequest:
        if self.library is not None and not os.path.isdir(self.library):
            raise InvalidOption(
                f"there is no folder {self.library}",
                "a folder with packages, as pip makes it",
                f"type `pip install --target {self.library} --no-deps tokenizers`",
            )
        return self
