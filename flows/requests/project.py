"""A project's own file, ``bpeline.toml``: what it trains, and when; knows no flow and runs nothing.

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

``[train]`` has the parameters of `TrainingRequest`, under their names. Instead of ``paths`` there
may be tables ``[[source]]``, as in a corpus file, and ``[[evaluation]]`` for what is evaluated on.
``[drift]`` has those of `DriftRequest`, with tables ``[[drift.source]]`` and ``[[drift.rule]]``.
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
_ABOVE = ("temperature", "parallel", *ABOVE_RULES)  # said above the tables
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
    """What a project's file says.

    Attributes:
        path: the file.
        parameters: of `TrainingRequest`, files with absolute names.
        sweep: which of ``sizes``, ``patterns``, ``variants`` and ``model_shape`` are compared.
        drift: of `DriftRequest`, without the name: files with absolute names.
        schedules: for each of `JOBS` that is to run by itself, when: five fields of cron.
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
        """The name it registers under."""
        return str(self.parameters["name"])

    def with_typed(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters, and over them what was typed: a corpus takes the whole place of its own.

        Args:
            typed: parameters of `TrainingRequest` that somebody gave.
        """
        said = dict(self.parameters)
        typed = {key: value for key, value in typed.items() if value not in (None, (), {})}
        if any(typed.get(one) for one in _CORPUS):
            said = {key: said[key] for key in said if key not in (*_CORPUS, "temperature")}
        if typed.get("counts"):
            said.pop("deduplicate", None)  # of text
        if {"vocab_size", "largest_size"} & typed.keys():  # a typed size undoes its choice
            said.pop("vocab_size", None)
            said.pop("largest_size", None)
            if isinstance(typed.get("vocab_size"), int):
                said.pop("model_shape", None)
        if roles := (*said.get("roles", ()), *typed.get("roles", ())):  # the last one wins
            typed["roles"] = roles
        options = {**said.pop("options", {}), **typed.get("options", {})}
        merged = {"paths": (), **said, **typed}
        return {**merged, "options": options} if options else merged

    @property
    def sources(self) -> tuple[NamedSource, ...]:
        """The named sources of its corpus; none where it has paths."""
        return CORPUS.joined(map(CORPUS.from_text, self.parameters.get("sources", ())))

    @property
    def watched(self) -> dict[str, Any]:
        """What `DriftRequest` is asked: as ``[drift]`` says, else of its corpus as new text.

        Sources have the labels that mean slices.

        Raises:
            InvalidOption: a source has a text field of its own, which drift does not know.
        """
        if self.drift.get("paths") or self.drift.get("sources"):
            return {"name": self.name, "paths": [], **self.drift}
        for one in self.sources:
            if one.text_field is not None:
                raise InvalidOption(
                    f"the source {one.name} of {self.path} has the text field {one.text_field!r}",
                    "drift is measured on text and on the text field that the version was given",
                    "name what is to be watched: `bpeline drift NAME@champion FILES`",
                )
        spelt = [text for one in self.sources for text in replace(one, weight=1.0).spelt()]
        corpus = {"paths": list(self.parameters["paths"]), **({"sources": spelt} if spelt else {})}
        return {"name": self.name, **corpus, **self.drift}

    @property
    def dataset(self) -> dict[str, Any]:
        """What `DatasetRequest` is asked: its corpus, encoded by its champion.

        Raises:
            InvalidOption: the corpus is word counts, or its sources differ in their text fields.
        """
        sources = self.sources
        usual = self.parameters.get("text_field", "text")
        fields = {one.text_field or usual for one in sources} or {usual}
        if len(fields) > 1:
            raise InvalidOption(
                f"{self.path} schedules encode-dataset, and its sources have the text fields "
                f"{', '.join(sorted(fields))}",
                "a dataset has one text field",
                "leave encode-dataset out of [schedule], and encode each source: "
                "`bpeline encode NAME@champion FILES -o tokens --text-field FIELD`",
            )
        paths = [*self.parameters["paths"], *(file for one in sources for file in one.files)]
        if not paths:
            raise InvalidOption(
                f"{self.path} schedules encode-dataset, and its corpus is word counts",
                "paths or tables [[source]], whose files are encoded",
                "leave encode-dataset out of [schedule]",
            )
        shared = ("include", "strict", "invalid_utf8")
        told = {name: self.parameters[name] for name in shared if name in self.parameters}
        asked = {"reference": f"{self.name}@{CHAMPION}", "paths": paths, **told}
        if fields != {DatasetRequest.model_fields["text_field"].default}:
            asked["text_field"] = fields.pop()
        return asked


def this_project() -> Project:
    """The project that was named, or that the current directory belongs to.

    Raises:
        MissingSource: there is none.
        InvalidOption: its file cannot be used.
    """
    path = find_project()
    if path is None:
        raise MissingSource(
            f"no text was named, and there is no {PROJECT_FILE} here or in a directory above",
            f"files, directories or globs; or a project's {PROJECT_FILE}",
            "name them, or type `bpeline init corpus/ --name news` first",
        )
    return read_project(path)


def read_project(path: Path) -> Project:
    """Read a project's file.

    Raises:
        MissingSource: there is no such file.
        InvalidOption: it is no TOML, has what is not accepted, or lacks a name or a corpus.
    """
    if not path.is_file():
        raise MissingSource(
            f"there is no file {path}",
            "the name of a project's file that is there",
            f"type `bpeline init corpus/ --name news --project {quote(str(path))}`",
        )
    content = read_settings(path, partial(_unusable, path))
    _refuse_strange(path, "it", content, (*_TABLES, *_ABOVE))
    for table in (TRAIN, SWEEP, DRIFT, SCHEDULE, ROLES):
        if not isinstance(content.get(table, {}), dict):
            raise _unusable(path, f"{table} is {content[table]!r}, and [{table}] is a table")
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
            raise _unusable(path, f"temperature stands above the tables and below [{TRAIN}]")
        parameters["temperature"] = content["temperature"]
    if EVALUATION.table in content:
        parameters["evaluation"] = _spelt(EVALUATION, path, content[EVALUATION.table])
    if parallel := content.get("parallel", False):
        if parallel is not True or EVALUATION.table not in content:
            raise _unusable(path, f"parallel is {parallel!r}", "true, with [[evaluation]]")
        parameters["evaluation"] = [str(path)]  # only a file can say it
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
    if not any(parameters.get(given) for given in _CORPUS):
        raise _unusable(
            path,
            "it names no corpus",
            f"paths below [{TRAIN}], or tables [[{CORPUS.table}]]; those that `bpeline "
            "init` has found stand there behind comment signs",
        )
    _check(path, TrainingRequest, parameters)
    return parameters


def _sweep(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_strange(path, f"[{SWEEP}]", table, OF_SWEEP)
    for name, value in table.items():
        kind: type = int if name == "sizes" else str
        listed = [value] if name == "model_shape" else value
        if not isinstance(listed, list) or not all(type(one) is kind for one in listed):
            what = {"sizes": "a list of whole numbers", "model_shape": "a name or a file"}
            raise _unusable(path, f"{name} is {value!r}", what.get(name, "a list of names"))
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
    asked = {one: _with_files(path, one, value) for one, value in table.items()}
    asked.pop(RULE, None)
    if CORPUS.table in table:
        asked["sources"] = _spelt(EVALUATION, path, asked.pop(CORPUS.table))
    if RULE in table:
        if "rules" in table:
            raise _unusable(path, f"it has [[{DRIFT}.{RULE}]], and rules below [{DRIFT}]")
        read_drift_rules(path)
        asked["rules"] = str(path)
    _check(path, DriftRequest, {"name": name, **asked})
    return asked


def _schedule(path: Path, table: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    times = {}
    for name, when in table.items():
        job = name.replace("_", "-")
        if name == _TIMEZONE:
            continue
        if job not in JOBS:  # quoted as it stands in the file
            _refuse_strange(path, f"[{SCHEDULE}]", [name], (*JOBS, _TIMEZONE))
        if not isinstance(when, str) or len(when.split()) != 5:
            raise _unusable(path, f"{name} is {when!r}, and not five fields of cron")
        times[job] = when
    return times, str(table.get(_TIMEZONE, "UTC"))


def _check(path: Path, request: type[Any], parameters: Mapping[str, Any]) -> None:
    try:
        request.checked(**parameters)
    except BpelineError as error:
        raise _unusable(path, error.happened, error.accepted) from error


def _spelt(kind: SourceKind, path: Path, tables: Any) -> list[str]:
    """The tables of one kind as one would type them."""
    sources = kind.joined(kind.from_tables(tables, path))
    return [one for source in sources for one in source.spelt()]


def _with_files(path: Path, name: str, value: Any) -> Any:
    """A parameter; names of files become absolute, for they are relative to the project's file."""
    if name in _FILES:
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise _unusable(path, f"{name} is {value!r}, and not a list of files")
        return [_beside(path, one) for one in listed]
    if name == "rules":
        if not isinstance(value, str):
            raise _unusable(path, f"rules is {value!r}", f"a .toml file, or tables [[{RULE}]]")
        return _beside(path, value)
    if name == "model_shape" and isinstance(value, str) and (path.parent / value).exists():
        return _beside(path, value)
    if name == "parity_dev" and isinstance(value, list):
        parted = (str(one).partition("=") for one in value)
        return [f"{source}={_beside(path, files)}" for source, _, files in parted]
    if name == "baselines" and isinstance(value, list):
        return [_baseline(path, str(one)) for one in value]
    return value


def _baseline(path: Path, spelt: str) -> str:
    """A baseline that is a file beside the project's; else it is a version, and stays."""
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
            said = f"{what} has {name!r}{likely(name, known)}"
            raise _unusable(path, said, f"accepted: {', '.join(known)}")


def _unusable(path: Path, reason: str, accepted: str = "") -> InvalidOption:
    return InvalidOption(
        f"{path} cannot be used: {reason}",
        accepted or f"tables {', '.join(_TABLES.values())}",
        f"mend {path}",
    )
