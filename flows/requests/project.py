"""A project's own file, ``bpeline.toml``: what it trains, and when; knows no flow and runs nothing.

    [train]
    name = "news"
    paths = ["corpus/"]                # relative to this file
    vocab_size = 32000
    special_tokens = ["<|endoftext|>"]

    [schedule]
    retrain = "0 3 * * *"

``[train]`` has the parameters of `TrainingRequest`, under their names. Instead of ``paths`` there
may be tables ``[[source]]``, as in a corpus file, and ``[[evaluation]]`` for what is evaluated on.
"""

from __future__ import annotations

import difflib
import json
import os
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bpeline.flows.requests.corpus_files import CORPUS
from bpeline.flows.requests.evaluation_texts import EVALUATION
from bpeline.flows.requests.source_spelling import LARGEST_FILE, SourceKind
from bpeline.flows.requests.training_request import AUTO, LARGEST_SIZE, TrainingRequest
from bpeline.registry.environment import PROJECT_FILE as PROJECT_FILE
from bpeline.registry.environment import folders_upward
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption, MissingSource
from bpeline.tokenizer_core.urls import absolute_name, is_url

TRAIN, SCHEDULE = "train", "schedule"
RETRAIN = "retrain"
JOBS = (RETRAIN, "watch-drift", "encode-dataset", "sweep-garbage", "recertify")
_TIMEZONE = "timezone"
_FILES = ("paths", "counts")  # parameters that are lists of files
_NOT_HERE = ("extends", "continued_ids", "transition_size", "text_form", "sources", "evaluation")
PARAMETERS = tuple(name for name in TrainingRequest.model_fields if name not in _NOT_HERE)


@dataclass(frozen=True, slots=True)
class Project:
    """What a project's file says.

    Attributes:
        path: the file.
        parameters: of `TrainingRequest`, files with absolute names.
        schedules: for each of `JOBS` that is to run by itself, when: five fields of cron.
        timezone: of the schedules.
    """

    path: Path
    parameters: Mapping[str, Any]
    schedules: Mapping[str, str] = field(default_factory=dict)
    timezone: str = "UTC"

    @property
    def name(self) -> str:
        """The name it registers under."""
        return str(self.parameters["name"])

    @property
    def watched(self) -> dict[str, Any]:
        """Its corpus as new text for drift: paths, and sources with the labels that mean slices.

        Raises:
            InvalidOption: a source has a text field of its own, which drift does not know.
        """
        corpus: dict[str, Any] = {"paths": list(self.parameters["paths"])}
        spelt = []
        for one in map(CORPUS.from_text, self.parameters.get("sources", ())):
            if one.text_field is not None:
                raise InvalidOption(
                    f"the source {one.name} of {self.path} has the text field {one.text_field!r}",
                    "drift is measured on text and on the text field that the version was given",
                    "name what is to be watched: `bpeline drift NAME@champion FILES`",
                )
            spelt += replace(one, weight=1.0).spelt()
        return {**corpus, "sources": spelt} if spelt else corpus


def find_project() -> Path | None:
    """The file of the project that the current directory belongs to: there, or in one above it."""
    for folder in folders_upward():
        if (folder / PROJECT_FILE).is_file():
            return folder / PROJECT_FILE
    return None


def this_project() -> Project:
    """The project that the current directory belongs to.

    Raises:
        MissingSource: there is none.
        InvalidOption: its file cannot be used.
    """
    path = find_project()
    if path is None:
        raise MissingSource(
            f"there is no {PROJECT_FILE} in {Path.cwd()} or above it",
            f"a project's file {PROJECT_FILE}",
            "type `bpeline init corpus/ --name news`, which writes one",
        )
    return read_project(path)


def read_project(path: Path) -> Project:
    """Read a project's file.

    Raises:
        InvalidOption: it is no TOML, has what is not accepted, or lacks a name.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"it is larger than {LARGEST_FILE} bytes")
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # TOML's and UTF-8's errors are ValueErrors
        raise _unusable(path, str(error)) from error
    tables = (TRAIN, SCHEDULE, CORPUS.table, EVALUATION.table, "temperature")
    _refuse_strange(path, "it", content, tables)
    train, schedule = (content.get(table, {}) for table in (TRAIN, SCHEDULE))
    if not isinstance(train, dict) or not isinstance(schedule, dict):
        raise _unusable(path, f"[{TRAIN}] and [{SCHEDULE}] are tables")
    _refuse_strange(path, f"[{TRAIN}]", train, PARAMETERS)
    parameters = {name: _with_files(path, name, value) for name, value in train.items()}
    if parameters.get("vocab_size") == AUTO:  # as flows take it, whose forms want a number
        del parameters["vocab_size"]
        parameters.setdefault("largest_size", LARGEST_SIZE)
    if CORPUS.table in content:
        parameters["sources"] = _spelt(CORPUS, path, content)
    if "temperature" in content:
        if "temperature" in train:
            raise _unusable(path, f"temperature stands above the tables and below [{TRAIN}]")
        parameters["temperature"] = content["temperature"]
    if EVALUATION.table in content:
        parameters["evaluation"] = _spelt(EVALUATION, path, content)
    parameters.setdefault("paths", ())
    if not isinstance(parameters.get("name"), str):
        raise _unusable(path, f"[{TRAIN}] has no name")
    try:
        TrainingRequest.checked(**parameters)
    except BpelineError as error:
        raise _unusable(path, error.happened, error.accepted) from error
    times = {name.replace("_", "-"): when for name, when in schedule.items() if name != _TIMEZONE}
    _refuse_strange(path, f"[{SCHEDULE}]", times, JOBS)
    for job, when in times.items():
        if not isinstance(when, str) or len(when.split()) != 5:
            raise _unusable(path, f"{job} is {when!r}, and not five fields of cron")
    return Project(path, parameters, times, str(schedule.get(_TIMEZONE, "UTC")))


def _spelt(kind: SourceKind, path: Path, content: Mapping[str, Any]) -> list[str]:
    """The tables of one kind as one would type them."""
    sources, _ = kind.from_file(path, content.keys())
    return [one for source in kind.joined(sources) for one in source.spelt()]


def _with_files(path: Path, name: str, value: Any) -> Any:
    """A parameter; names of files become absolute, for they are relative to the project's file."""
    if name in _FILES:
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise _unusable(path, f"{name} is {value!r}, and not a list of files")
        return [_beside(path, one) for one in listed]
    if name == "rules" and isinstance(value, str):
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


def _refuse_strange(path: Path, what: str, given: Iterable[str], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"; {near[0]} is meant?" if near else ""
            raise _unusable(path, f"{what} has {name!r}{meant}", f"accepted: {', '.join(known)}")


def _unusable(path: Path, reason: str, accepted: str = "") -> InvalidOption:
    return InvalidOption(
        f"{path} cannot be used: {reason}",
        accepted or f"tables [{TRAIN}], [{SCHEDULE}], [[source]] and [[evaluation]]",
        f"mend {path}",
    )


def project_text(given: Mapping[str, Any]) -> str:
    """A project's file with comments: what is given, and the other usual parameters commented out.

    Args:
        given: parameters of `TrainingRequest`, files as they are to stand there.
    """
    lines = [
        "# What this project trains, and when: `bpeline train` does it, `bpeline train --plan`",
        "# says what it would do, `bpeline deploy` schedules it. Files are relative to this one.",
        "",
        f"[{TRAIN}]",
    ]
    for name in _WRITTEN:
        described = TrainingRequest.model_fields[name]
        lines += [f"# {line}" for line in _wrapped(str(described.description))]
        if name in given:
            lines += [f"{name} = {_toml(given[name])}", ""]
        else:
            lines += [f"# {name} = {_toml(_USUAL.get(name, described.default))}", ""]
    return "\n".join([*lines, *_TABLES, ""])


_WRITTEN = (
    *("name", "paths", "vocab_size", "pattern", "special_tokens", "held_out", "text_field"),
    *("include", "forbid", "rules", "baselines"),
)
_USUAL = {"pattern": "gpt2", "rules": "rules.toml", "baselines": (), "forbid": (), "paths": ()}
_TABLES = (
    "# Named sources instead of paths, each with a weight and labels:",
    "# [[source]]",
    '# name = "german"',
    '# files = ["de/*.txt"]',
    '# language = "de"',
    "# weight = 2",
    "",
    "# What all versions are measured on, instead of text that is held out:",
    "# [[evaluation]]",
    '# name = "german"',
    '# files = ["heldout/de/*.txt"]',
    '# language = "de"',
    "",
    f"[{SCHEDULE}]",
    "# For `bpeline deploy`: minute, hour, day of the month, month, day of the week.",
    '# retrain = "0 3 * * *"',
    '# watch-drift = "0 */6 * * *"',
    '# sweep-garbage = "0 5 * * 0"',
    '# timezone = "UTC"',
)


def _wrapped(text: str, width: int = 96) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


def _toml(value: Any) -> str:
    """A string, number, truth or list as TOML; JSON's strings are TOML's."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
