"""The project file ``bpeline.toml``: what to train, and when.

    [train]
    name = "news"
    paths = ["corpus/"]                # relative to this file
    vocab_size = 32000
    special_tokens = ["<|endoftext|>"]

    [sweep]
    sizes = [8000, 16000, 32000]

    [[rule]]
    metric = "compression/bytes_per_token"
    direction = "higher"

    [roles]
    eos = "<|endoftext|>"              # also bos, pad, model_max_length

    [schedule]
    retrain = "0 3 * * *"

``[train]`` has the parameters of `TrainingRequest`. Tables ``[[source]]`` replace ``paths``, as in
a corpus file, and ``[[evaluation]]`` holds evaluation sources. ``[drift]`` has the parameters of
`DriftRequest`, with tables ``[[drift.source]]`` and ``[[drift.rule]]``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from bpeline.flows.requests.algorithm_options import VARIANTS
from bpeline.flows.requests.corpus_files import CORPUS, EVALUATION
from bpeline.flows.requests.flow_requests import DatasetRequest, DriftRequest
from bpeline.flows.requests.source_spelling import NamedSource, SourceKind
from bpeline.flows.requests.training_request import TrainingRequest
from bpeline.registry.environment import PROJECT_FILE as PROJECT_FILE
from bpeline.registry.environment import PROJECT_TABLE as TRAIN
from bpeline.registry.environment import find_project as find_project
from bpeline.registry.environment import read_settings
from bpeline.registry.evaluation import ABOVE_RULES, read_drift_rules, read_rules
from bpeline.registry.records import CHAMPION
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption, MissingSource, likely
from bpeline.tokenizer_core.evaluation import model_shape
from bpeline.tokenizer_core.urls import absolute_name, is_url

SWEEP, DRIFT, SCHEDULE, ROLES, RULE = "sweep", "drift", "schedule", "roles", "rule"
RETRAIN = "retrain"
JOBS = (RETRAIN, "watch-drift", "encode-dataset", "sweep-garbage", "recertify")
_TIMEZONE = "timezone"
_ABOVE = ("temperature", "parallel", *ABOVE_RULES)  # top-level keys
_TABLES = {
    **{name: f"[{name}]" for name in (TRAIN, SWEEP, DRIFT, SCHEDULE, ROLES)},
    **{name: f"[[{name}]]" for name in (CORPUS.table, EVALUATION.table, RULE)},
}
_CORPUS = ("paths", "sources", "counts")
_FILES = ("paths", "counts")  # parameters that are lists of files
_NOT_HERE = (
    "extends", "continued_ids", "transition_size", "text_form", "sources", "evaluation", "roles",
)  # fmt: skip
PARAMETERS = tuple(name for name in TrainingRequest.model_fields if name not in _NOT_HERE)
OF_SWEEP = ("sizes", "patterns", "variants", "model_shape")
_SPELT = ("source", "rule")  # tables of [drift]
OF_DRIFT = tuple(name for name in DriftRequest.model_fields if name not in ("name", "sources"))


@dataclass(frozen=True, slots=True)
class Project:
    """The content of a project file.

    Attributes:
        parameters: of `TrainingRequest`, with absolute paths.
        sweep: ``sizes``, ``patterns``, ``variants`` and ``model_shape`` to compare.
        drift: of `DriftRequest` without the name, with absolute paths.
        schedules: job of `JOBS` → five cron fields.
        timezone: of the schedules.
    """

    path: Path
    parameters: Mapping[str, Any]
    sweep: Mapping[str, Any] = field(default_factory=dict)
    drift: Mapping[str, Any] = field(default_factory=dict)
    schedules: Mapping[str, str] = field(default_factory=dict)
    timezone: str = "UTC"

    @property
    def name(self) -> str:
        return str(self.parameters["name"])

    def with_typed(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        """Merge typed parameters of `TrainingRequest` over those of the project.

        A typed corpus replaces the whole corpus of the project.
        """
        own = dict(self.parameters)
        typed = {key: value for key, value in typed.items() if value not in (None, (), {})}
        if any(typed.get(key_) for key_ in _CORPUS):
            own = {key: own[key] for key in own if key not in (*_CORPUS, "temperature")}
        if typed.get("counts"):
            own.pop("deduplicate", None)  # only for text
        if {"vocab_size", "largest_size"} & typed.keys():  # a typed size replaces auto
            own.pop("vocab_size", None)
            own.pop("largest_size", None)
            if isinstance(typed.get("vocab_size"), int):
                own.pop("model_shape", None)
        if roles := (*own.get("roles", ()), *typed.get("roles", ())):  # the last one wins
            typed["roles"] = roles
        options = {**own.pop("options", {}), **typed.get("options", {})}
        merged = {"paths": (), **own, **typed}
        return {**merged, "options": options} if options else merged

    @property
    def sources(self) -> tuple[NamedSource, ...]:
        """The named sources of the corpus; empty if it has paths."""
        return CORPUS.joined(map(CORPUS.from_text, self.parameters.get("sources", ())))

    @property
    def watched(self) -> dict[str, Any]:
        """The parameters of `DriftRequest`: ``[drift]``, or else the corpus as new text."""
        if self.drift.get("paths") or self.drift.get("sources"):
            return {"name": self.name, "paths": [], **self.drift}
        for source in self.sources:
            if source.text_field is not None:
                raise InvalidOption(
                    f"the source {source.name} of {self.path} has the text field "
                    f"{source.text_field!r}",
                    "expected sources without a text field: drift uses that of the version",
                    "name the new text: `bpeline drift NAME@champion FILES`",
                )
        spellings = [
            text for source in self.sources for text in replace(source, weight=1.0).spelt()
        ]
        corpus = {
            "paths": list(self.parameters["paths"]),
            **({"sources": spellings} if spellings else {}),
        }
        return {"name": self.name, **corpus, **self.drift}

    @property
    def dataset(self) -> dict[str, Any]:
        """The parameters of `DatasetRequest`: the corpus, encoded by the champion."""
        sources = self.sources
        default_field = self.parameters.get("text_field", "text")
        fields = {source.text_field or default_field for source in sources} or {default_field}
        if len(fields) > 1:
            raise InvalidOption(
                f"{self.path} schedules encode-dataset, and its sources have the text fields "
                f"{', '.join(sorted(fields))}",
                "expected one text field for a dataset",
                "remove encode-dataset from [schedule], and encode each source: "
                "`bpeline encode NAME@champion FILES -o tokens --text-field FIELD`",
            )
        paths = [*self.parameters["paths"], *(file for source in sources for file in source.files)]
        if not paths:
            raise InvalidOption(
                f"{self.path} schedules encode-dataset, and its corpus is word counts",
                "expected paths or tables [[source]], whose files are encoded",
                "remove encode-dataset from [schedule]",
            )
        shared = ("include", "strict", "invalid_utf8")
        shared_values = {name: self.parameters[name] for name in shared if name in self.parameters}
        request = {"reference": f"{self.name}@{CHAMPION}", "paths": paths, **shared_values}
        if fields != {DatasetRequest.model_fields["text_field"].default}:
            request["text_field"] = fields.pop()
        return request


def this_project() -> Project:
    """The project of ``--project``, or of this or a parent directory.

    Raises:
        MissingSource: there is none.
        InvalidOption: its file is invalid.
    """
    path = find_project()
    if path is None:
        raise MissingSource(
            f"no text was named, and there is no {PROJECT_FILE} in this or a parent directory",
            f"expected files, directories or globs, or a {PROJECT_FILE}",
            "name them, or type `bpeline init corpus/ --name news` first",
        )
    return read_project(path)


def read_project(path: Path) -> Project:
    """Read a project file.

    Raises:
        MissingSource: there is no such file.
        InvalidOption: it is not TOML, has unknown keys, or lacks a name or a corpus.
    """
    if not path.is_file():
        raise MissingSource(
            f"there is no file {path}",
            "expected a project file",
            f"type `bpeline init corpus/ --name news --project {quote(str(path))}`",
        )
    content = read_settings(path, partial(_unusable, path))
    _refuse_strange(path, "it", content, (*_TABLES, *_ABOVE))
    for table in (TRAIN, SWEEP, DRIFT, SCHEDULE, ROLES):
        if not isinstance(content.get(table, {}), dict):
            raise _unusable(path, f"{table} is {content[table]!r}, not a table [{table}]")
    parameters = _training(path, content)
    times, timezone = _schedule(path, content.get(SCHEDULE, {}))
    return Project(
        path,
        parameters,
        _sweep(path, content.get(SWEEP, {})),
        _drift(path, content.get(DRIFT, {}), parameters["name"]),
        times,
        timezone,
    )


def _training(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    train = content.get(TRAIN, {})
    _refuse_strange(path, f"[{TRAIN}]", train, PARAMETERS)
    parameters = {name: _with_files(path, name, value) for name, value in train.items()}
    if roles := content.get(ROLES):
        parameters["roles"] = tuple(f"{role}={token}" for role, token in roles.items())
    if CORPUS.table in content:
        parameters["sources"] = _spelt(CORPUS, path, content[CORPUS.table])
    if "temperature" in content:
        if "temperature" in train:
            raise _unusable(path, f"temperature is both at the top and below [{TRAIN}]")
        parameters["temperature"] = content["temperature"]
    if EVALUATION.table in content:
        parameters["evaluation"] = _spelt(EVALUATION, path, content[EVALUATION.table])
    if parallel := content.get("parallel", False):
        if parallel is not True or EVALUATION.table not in content:
            raise _unusable(path, f"parallel is {parallel!r}", "expected true, with [[evaluation]]")
        parameters["evaluation"] = [str(path)]  # only a file can set `parallel`
    if RULE in content:
        if "rules" in train:
            raise _unusable(path, f"it has [[{RULE}]], and rules below [{TRAIN}]")
        read_rules(path)
        parameters["rules"] = str(path)
    elif above := [name for name in ABOVE_RULES if name in content]:
        raise _unusable(path, f"it has {' and '.join(above)}, and no [[{RULE}]]")
    parameters.setdefault("paths", ())
    if not isinstance(parameters.get("name"), str):
        raise _unusable(path, f"[{TRAIN}] has no name")
    if not any(parameters.get(corpus_key) for corpus_key in _CORPUS):
        raise _unusable(
            path,
            "it names no corpus",
            f"expected paths below [{TRAIN}], or tables [[{CORPUS.table}]]; those that `bpeline "
            "init` found are in comments",
        )
    _check(path, TrainingRequest, parameters)
    return parameters


def _sweep(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_strange(path, f"[{SWEEP}]", table, OF_SWEEP)
    for name, value in table.items():
        kind: type = int if name == "sizes" else str
        values = [value] if name == "model_shape" else value
        if not isinstance(values, list) or not all(type(item) is kind for item in values):
            expected = {
                "sizes": "expected a list of whole numbers",
                "model_shape": "expected a name or a file",
            }
            raise _unusable(
                path, f"{name} is {value!r}", expected.get(name, "expected a list of names")
            )
    _refuse_strange(path, "variants", table.get("variants", ()), tuple(VARIANTS))
    swept = dict(table)
    if "model_shape" in swept:
        beside = path.parent / swept["model_shape"]
        swept["model_shape"] = str(beside) if beside.is_file() else swept["model_shape"]
        try:
            model_shape(swept["model_shape"])
        except BpelineError as error:
            raise _unusable(path, error.happened, error.accepted) from error
    return swept


def _drift(path: Path, table: Mapping[str, Any], name: str) -> dict[str, Any]:
    _refuse_strange(path, f"[{DRIFT}]", table, (*OF_DRIFT, *_SPELT))
    parameters = {key: _with_files(path, key, value) for key, value in table.items()}
    parameters.pop(RULE, None)
    if CORPUS.table in table:
        parameters["sources"] = _spelt(EVALUATION, path, parameters.pop(CORPUS.table))
    if RULE in table:
        if "rules" in table:
            raise _unusable(path, f"it has [[{DRIFT}.{RULE}]], and rules below [{DRIFT}]")
        read_drift_rules(path)
        parameters["rules"] = str(path)
    _check(path, DriftRequest, {"name": name, **parameters})
    return parameters


def _schedule(path: Path, table: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    times = {}
    for name, when in table.items():
        job = name.replace("_", "-")
        if name == _TIMEZONE:
            continue
        if job not in JOBS:  # quoted as in the file
            _refuse_strange(path, f"[{SCHEDULE}]", [name], (*JOBS, _TIMEZONE))
        if not isinstance(when, str) or len(when.split()) != 5:
            raise _unusable(path, f"{name} is {when!r}, not five cron fields")
        times[job] = when
    return times, str(table.get(_TIMEZONE, "UTC"))


def _check(path: Path, request: type[Any], parameters: Mapping[str, Any]) -> None:
    try:
        request.checked(**parameters)
    except BpelineError as error:
        raise _unusable(path, error.happened, error.accepted) from error


def _spelt(kind: SourceKind, path: Path, tables: Any) -> list[str]:
    sources = kind.joined(kind.from_tables(tables, path))
    return [spelling for source in sources for spelling in source.spelt()]


def _with_files(path: Path, name: str, value: Any) -> Any:
    """A parameter, with paths relative to the project file made absolute."""
    if name in _FILES:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
            raise _unusable(path, f"{name} is {value!r}, not a list of files")
        return [_beside(path, item) for item in names]
    if name == "rules":
        if not isinstance(value, str):
            raise _unusable(
                path, f"rules is {value!r}", f"expected a .toml file, or tables [[{RULE}]]"
            )
        return _beside(path, value)
    if name == "model_shape" and isinstance(value, str) and (path.parent / value).exists():
        return _beside(path, value)
    if name == "parity_dev" and isinstance(value, list):
        parted = (str(item).partition("=") for item in value)
        return [f"{source}={_beside(path, files)}" for source, _, files in parted]
    if name == "baselines" and isinstance(value, list):
        return [_baseline(path, str(item)) for item in value]
    return value


def _baseline(path: Path, spelt: str) -> str:
    """A baseline; made absolute if it is a file relative to the project file."""
    name, equals, reference = spelt.rpartition("=")
    beside = path.parent / reference.split(",")[0]
    return f"{name}{equals}{path.parent / reference}" if beside.exists() else spelt


def _beside(path: Path, name: str) -> str:
    if is_url(name) or name.startswith("python:"):
        return name
    return absolute_name(os.path.join(path.parent, name))


def _refuse_strange(path: Path, what: str, given: Iterable[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            reason = f"{what} has {name!r}{likely(name, known)}"
            raise _unusable(path, reason, f"expected one of {', '.join(known)}")


def _unusable(path: Path, reason: str, accepted: str = "") -> InvalidOption:
    return InvalidOption(
        f"{path} cannot be used: {reason}",
        accepted or f"expected tables {', '.join(_TABLES.values())}",
        f"edit {path}",
    )
