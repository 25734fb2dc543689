"""Requests of the flows that make no version: drift, token shards, garbage, certificates."""

from __future__ import annotations

import os
from typing import Literal

from pydantic import Field, model_validator

from bpeline.flows.requests.request import Maybe, Request
from bpeline.registry.records import CHAMPION
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import LEAST_WATCHED_BYTES, LEAST_WATCHED_DOCUMENTS


class DriftRequest(Request):
    """The parameters of one look at new text."""

    name: str = Field(description="the tokenizer's")
    paths: tuple[str, ...] = Field(
        default=(),
        description='files, directories and globs of new text; "python:stdlib" is the Python '
        "standard library's own source text",
    )
    alias: str = Field(default=CHAMPION, description="which of its versions is watched")
    sources: tuple[str, ...] = Field(
        default=(),
        description="more of it with names and labels, spelt as for an evaluation; each is a "
        "slice. One that the version was evaluated on under the same name is compared with that",
    )
    rules: Maybe[str] = Field(
        default=None,
        description="a .toml file of rules in the spelling of those of promotion; "
        "`registry.drift_rules.DEFAULT_RULES` when empty",
    )
    separator: Maybe[str] = Field(
        default=None,
        description="what stands between the documents of a text file; the version's special "
        "tokens when empty; none: each file is one document",
    )
    least_documents: int = Field(
        default=LEAST_WATCHED_DOCUMENTS,
        description="of each slice, and of the version's own text; from fewer nothing is concluded",
    )
    least_bytes: int = Field(default=LEAST_WATCHED_BYTES, description="likewise")
    workers: Maybe[int] = Field(
        default=None, description="threads for counting; all cores when empty"
    )

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
    output: Maybe[str] = Field(
        default=None,
        description="the directory, or URL of a store, in which the version gets its own: news-3; "
        '"tokens" in the workspace when empty',
    )
    format: Literal["bin", "npy", "megatron", "parquet"] = Field(
        default="bin",
        description="bin: raw numbers; npy: NumPy arrays; megatron: what Megatron-LM and NeMo "
        "read; parquet: a row for each document",
    )
    separator: Maybe[str] = Field(
        default=None,
        description="what stands between the documents of a text file; the version's special "
        "tokens when empty; none: each file is one document",
    )
    end_of_text: Maybe[str] = Field(
        default=None, description="the special token to put behind each document; none when empty"
    )
    invalid_utf8: Literal["strict", "replace", "ignore"] = Field(
        default="strict",
        description="bytes that are not UTF-8: strict (an error), replace (U+FFFD) or ignore (they "
        "are left out)",
    )
    text_field: str = Field(
        default="text", description="the field of .jsonl lines, or column, of the text"
    )
    include: tuple[str, ...] = Field(
        default=(),
        description="read files of these names as text as well, '*.rst' or 'notes/*.log', where "
        "directories and globs are searched",
    )
    strict: bool = Field(
        default=False, description="an error where the search meets files that are not read"
    )
    id_field: str = Field(
        default="id", description="the one that names the document, kept in the index of documents"
    )
    shard_megabytes: int = Field(
        default=256, description="MiB of text in a shard; documents are never divided"
    )
    pack: Maybe[int] = Field(
        default=None,
        description="write the documents once more, shuffled and end to end, as sequences of so "
        "many ids; not when empty",
    )
    seed: int = Field(default=0, description="with pack: decides the order of documents")
    threads: Maybe[int] = Field(
        default=None, description="for encoding; one per processor when empty"
    )
    engine: str = Field(
        default="local",
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

    days: float = Field(
        default=30.0, description="what was written less than so many days ago stays"
    )
    counts_of: Maybe[int] = Field(
        default=None,
        description="keep word counts for so many of the newest versions of each name, and for "
        "those with an alias; for all versions when empty",
    )
    remove: bool = Field(
        default=False, description="remove what is found; without, the run only says what there is"
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
        default=(),
        description="names, for the versions their aliases point to, and references such as "
        "news/3; every name when empty",
    )
    library: Maybe[str] = Field(
        default=None,
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
