"""Requests of the flows for drift, token shards, garbage collection and export checks."""

from __future__ import annotations

import os
from typing import Literal

from pydantic import Field, model_validator

from bpeline.flows.requests.request import Maybe, Request
from bpeline.registry.records import CHAMPION
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import LEAST_WATCHED_BYTES, LEAST_WATCHED_DOCUMENTS


class DriftRequest(Request):
    """The parameters of one drift measurement."""

    name: str = Field(description="name of the tokenizer")
    paths: tuple[str, ...] = Field(
        default=(),
        description='files, directories and globs of new text; "python:stdlib" is the source of '
        "the Python standard library",
    )
    alias: str = Field(default=CHAMPION, description="alias of the watched version")
    sources: tuple[str, ...] = Field(
        default=(),
        description="named sources of new text, spelt as for an evaluation; each is a slice, "
        "compared with the evaluation slice of the same name if there is one",
    )
    rules: Maybe[str] = Field(
        default=None,
        description="file of drift rules (.toml), spelt like promotion rules; default: the "
        "default rules",
    )
    separator: Maybe[str] = Field(
        default=None,
        description="separator of documents in text files; default: the special tokens of the "
        "version; none: one document per file",
    )
    least_documents: int = Field(
        default=LEAST_WATCHED_DOCUMENTS,
        description="minimum number of documents in each slice and in the version's own text; "
        "with fewer, drift is not judged",
    )
    least_bytes: int = Field(
        default=LEAST_WATCHED_BYTES, description="minimum number of bytes of each text"
    )
    workers: Maybe[int] = Field(
        default=None, description="number of threads; default: one per core"
    )

    @model_validator(mode="after")
    def _accepted(self) -> DriftRequest:
        if min(self.least_documents, self.least_bytes) < 0 or (self.workers or 1) < 1:
            raise InvalidOption(
                f"least_documents is {self.least_documents}, least_bytes is {self.least_bytes}, "
                f"workers is {self.workers}",
                "expected numbers from 0, and at least 1 worker",
                "leave them out",
            )
        return self


class DatasetRequest(Request):
    """The parameters of encoding a dataset."""

    reference: str = Field(
        description="version: news@champion, news/3 or a digest; news/3:8000 is its size 8,000"
    )
    paths: tuple[str, ...] = Field(
        description='files, directories and globs of text, as for training; "python:stdlib" is '
        "the source of the Python standard library"
    )
    output: Maybe[str] = Field(
        default=None,
        description="directory or URL of a store, in which the version gets its own directory, "
        'such as news-3; default: "tokens" in the workspace',
    )
    format: Literal["bin", "npy", "megatron", "parquet"] = Field(
        default="bin",
        description="bin: raw integers; npy: NumPy arrays; megatron: the format of Megatron-LM "
        "and NeMo; parquet: one row for each document",
    )
    separator: Maybe[str] = Field(
        default=None,
        description="separator of documents in text files; default: the special tokens of the "
        "version; none: one document per file",
    )
    end_of_text: Maybe[str] = Field(
        default=None, description="special token to append to each document; default: none"
    )
    invalid_utf8: Literal["strict", "replace", "ignore"] = Field(
        default="strict",
        description="invalid UTF-8: strict raises an error, replace inserts U+FFFD, ignore drops "
        "the bytes",
    )
    text_field: str = Field(
        default="text", description="field of .jsonl lines, or column, that holds the text"
    )
    include: tuple[str, ...] = Field(
        default=(),
        description="also read matching files as text, such as '*.rst' or 'notes/*.log'",
    )
    strict: bool = Field(
        default=False, description="fail if a directory or glob contains files of unknown types"
    )
    id_field: str = Field(
        default="id", description="field with the document's id, stored in the document index"
    )
    shard_megabytes: int = Field(
        default=256, description="MiB of text in a shard; documents are not split"
    )
    pack: Maybe[int] = Field(
        default=None,
        description="also write shuffled, concatenated documents as sequences of this many ids; "
        "default: no packing",
    )
    seed: int = Field(default=0, description="with pack: random seed for the order of documents")
    threads: Maybe[int] = Field(
        default=None, description="number of threads; default: one per core"
    )
    engine: str = Field(
        default="local",
        description="where to encode and pack: local (threads), dask (processes of this machine), "
        "or the Dask cluster at tcp://HOST:PORT",
    )

    @model_validator(mode="after")
    def _accepted(self) -> DatasetRequest:
        if not self.paths or self.shard_megabytes < 1:
            raise InvalidOption(
                f"paths are {list(self.paths)}, shard_megabytes is {self.shard_megabytes}",
                "expected at least one path, and shards of 1 MiB or more",
                "name the files of the dataset",
            )
        if (self.pack is not None and self.pack < 1) or not 0 <= self.seed < 1 << 64:
            raise InvalidOption(
                f"pack is {self.pack}, seed is {self.seed}",
                "expected sequences of 1 id or more, and a seed from 0 to 2**64 - 1",
                "leave pack empty to keep the documents as they are",
            )
        return self


class GarbageRequest(Request):
    """The parameters of removing files that no version needs."""

    days: float = Field(default=30.0, description="keep files that are younger than this many days")
    counts_of: Maybe[int] = Field(
        default=None,
        description="keep word counts only for this many newest versions of each name and for "
        "versions with an alias; default: for all",
    )
    remove: bool = Field(default=False, description="remove the files; otherwise only list them")

    @model_validator(mode="after")
    def _accepted(self) -> GarbageRequest:
        if self.days < 0 or (self.counts_of is not None and self.counts_of < 0):
            raise InvalidOption(
                f"days is {self.days}, counts_of is {self.counts_of}",
                "expected numbers from 0",
                "leave them out for 30 days and the counts of all versions",
            )
        return self


class RecertifyRequest(Request):
    """The parameters of checking exports."""

    versions: tuple[str, ...] = Field(
        default=(),
        description="versions such as news/3, and names, which stand for their versions with an "
        "alias; default: all names",
    )
    library: Maybe[str] = Field(
        default=None,
        description="folder with packages to use instead of the installed ones, made by "
        "`pip install --target FOLDER`",
    )

    @model_validator(mode="after")
    def _accepted(self) -> RecertifyRequest:
        if self.library is not None and not os.path.isdir(self.library):
            raise InvalidOption(
                f"there is no folder {self.library}",
                "expected a folder with packages installed by pip",
                f"type `pip install --target {self.library} --no-deps tokenizers`",
            )
        return self
