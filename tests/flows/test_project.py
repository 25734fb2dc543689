"""A project of one's own: ``bpeline init``, and what reads its bpeline.toml."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from bpeline.flows.requests import (
    DriftRequest,
    TrainingRequest,
    find_project,
    project_text,
    read_project,
)
from bpeline.flows.requests.project import PARAMETERS, Project
from bpeline.flows.serving.local_server import INSTALLED
from bpeline.flows.serving.project_deployments import project_deployments, write_deployments
from bpeline.registry import environment
from bpeline.tokenizer_core.errors import InvalidOption

Command = Callable[..., Result]
TRAIN = '[train]\nname = "news"\npaths = ["corpus/"]\nvocab_size = 600\n'


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bpeline.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.slow
def test_init_writes_what_train_then_does_from_every_directory_below(
    corpus: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bpeline("init", corpus.name, "--name", "news", "--vocab-size", 600, "--json")
    path = Path(json.loads(made.stdout)["written"])
    assert tomllib.loads(path.read_text())["train"]["paths"] == [corpus.name]
    below = corpus / "deep" / "deeper"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    planned = bpeline("train", "--plan")
    assert "3 files" in planned.stdout
    trained = bpeline("train", "--json")
    assert json.loads(trained.stdout)["reference"] == "news/1"
    assert (path.parent / ".bpeline/versions").is_dir(), "the workspace lies beside the file"
    assert not (below / ".bpeline").exists()
    smaller = json.loads(bpeline("train", "--vocab-size", 400, "--json").stdout)
    assert smaller["reference"] == "news/2", "what was typed has the last word"
    swept = bpeline("sweep", "--sizes", "300,400")
    assert "register:  bpeline train --vocab-size N --pattern P" in swept.stdout


def test_init_never_overwrites_and_needs_files(corpus: Path, bpeline: Command) -> None:
    assert bpeline("init", "nowhere/*.txt", "--name", "news").exit_code == 2
    assert not Path("bpeline.toml").exists()
    assert bpeline("init", corpus, "--name", "news").exit_code == 0
    before = Path("bpeline.toml").read_bytes()
    again = bpeline("init", corpus, "--name", "other")
    assert again.exit_code == 2
    assert "already" in again.stderr
    assert Path("bpeline.toml").read_bytes() == before


def test_without_a_project_train_says_how_to_make_one(bpeline: Command) -> None:
    refused = bpeline("train")
    assert refused.exit_code == 2
    assert "bpeline init corpus/ --name news" in refused.stderr


def test_every_parameter_of_a_training_is_accepted_and_no_other() -> None:
    hidden = {"extends", "continued_ids", "transition_size", "text_form", "sources", "evaluation"}
    assert {*PARAMETERS} == TrainingRequest.model_fields.keys() - hidden


def test_the_text_that_is_written_reads_as_it_was_asked(tmp_path: Path) -> None:
    given = {"name": "news", "paths": ['a "b"/*.txt'], "special_tokens": ["<|字|>", "a\\b"]}
    project = read_project(written(tmp_path, project_text(given)))
    assert project.parameters["special_tokens"] == given["special_tokens"]
    assert project.parameters["paths"] == [str(tmp_path / 'a "b"' / "*.txt")]
    assert not project.schedules


def test_files_are_relative_to_the_project(tmp_path: Path) -> None:
    (tmp_path / "gpt2.json").write_text("{}")
    text = TRAIN + 'rules = "rules.toml"\nbaselines = ["gpt2=gpt2.json", "news@champion"]\n'
    text += '[[evaluation]]\nname = "de"\nfiles = ["held/*.txt"]\nlanguage = "de"\n'
    parameters = read_project(written(tmp_path, text)).parameters
    assert parameters["paths"] == [str(tmp_path / "corpus")]
    assert parameters["rules"] == str(tmp_path / "rules.toml")
    assert parameters["baselines"] == [f"gpt2={tmp_path / 'gpt2.json'}", "news@champion"]
    assert parameters["evaluation"] == [f"de:language=de={tmp_path / 'held/*.txt'}"]


def test_development_texts_are_relative_to_the_project(tmp_path: Path) -> None:
    text = (
        '[train]\nname = "two"\nparity = "base"\nparity_dev = ["en=dev/en.txt", "de=dev/de.txt"]\n'
    )
    for name in ("en", "de"):
        text += f'[[source]]\nname = "{name}"\nfiles = ["{name}/*.txt"]\n'
    parameters = read_project(written(tmp_path, text)).parameters
    assert parameters["parity_dev"] == [
        f"{name}={tmp_path / 'dev' / name}.txt" for name in ("en", "de")
    ]


def test_sources_take_the_place_of_paths(tmp_path: Path) -> None:
    text = 'temperature = 3.3\n[train]\nname = "two"\n'
    for name in ("en", "de"):
        text += f'[[source]]\nname = "{name}"\nfiles = ["{name}/*.txt"]\nlanguage = "{name}"\n'
    parameters = read_project(written(tmp_path, text)).parameters
    assert parameters["temperature"] == 3.3
    assert parameters["sources"] == [
        f"{name}:language={name}={tmp_path / name / '*.txt'}" for name in ("en", "de")
    ]
    assert TrainingRequest.checked(**parameters).paths == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[train", "cannot be used"),
        ("[train]\npaths = ['x']\n", "no name"),
        (TRAIN + "vocabsize = 1\n", "vocab_size is meant?"),
        (TRAIN + "[trian]\n", "train is meant?"),
        (TRAIN.replace("600", "-1"), "a vocabulary of -1"),
        (TRAIN + "[schedule]\nretrain = 'daily'\n", "five fields of cron"),
        (TRAIN + "[schedule]\nretain = '0 3 * * *'\n", "retrain is meant?"),
        (TRAIN + "[[source]]\nname = 'a'\n", "lacks its name or its files"),
        (TRAIN.replace('["corpus/"]', "7"), "not a list of files"),
        ("train = 7\n", "are tables"),
        ("temperature = 2.0\n" + TRAIN, "no two named sources"),
        ("temperature = 2.0\n" + TRAIN + "temperature = 3.0\n", "above the tables and below"),
    ],
)
def test_what_is_not_accepted_is_said_with_the_file(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidOption, match=f"(?s){re.escape(str(path))}.*{re.escape(said)}"):
        read_project(path)


def test_a_project_and_a_workspace_are_found_upward_but_not_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "one" / "two"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    monkeypatch.delenv("BPELINE_HOME", raising=False)
    assert environment.read_environment().home == Path(".bpeline")
    (tmp_path / ".bpeline").mkdir()
    assert environment.read_environment().home == tmp_path / ".bpeline"
    path = written(tmp_path / "one", TRAIN)
    assert find_project() == path
    assert environment.read_environment().home == tmp_path / "one" / ".bpeline", "nearer"
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert find_project() is None
    assert environment.read_environment().home == Path(".bpeline")
    (below / ".bpeline").mkdir()
    monkeypatch.chdir(below)
    assert environment.read_environment().home == Path(".bpeline"), "here it is anybody's"


def scheduled(tmp_path: Path, **times: str) -> Project:
    lines = "".join(f"{job} = '{when}'\n" for job, when in times.items())
    return read_project(
        written(tmp_path, f"{TRAIN}[schedule]\n{lines}timezone = 'Europe/Berlin'\n")
    )


def test_deployments_are_those_of_prefect_yaml_with_the_projects_parameters(tmp_path: Path) -> None:
    project = scheduled(tmp_path, retrain="0 3 * * *", watch_drift="0 */6 * * *")
    made = project_deployments(project, INSTALLED / "prefect.yaml")
    retrain, watch = made["deployments"]
    assert retrain["name"] == "retrain-news"
    assert retrain["parameters"] == dict(project.parameters)
    TrainingRequest.checked(**retrain["parameters"])
    (schedule,) = retrain["schedules"]
    assert (schedule["cron"], schedule["timezone"]) == ("0 3 * * *", "Europe/Berlin")
    (trigger,) = retrain["triggers"]
    assert trigger["match"] == {"prefect.resource.id": "bpeline.tokenizer.news"}
    assert trigger["expect"] == ["bpeline.drift.detected"]
    assert watch["parameters"] == {"name": "news", "paths": project.parameters["paths"]}
    usual = yaml.safe_load((INSTALLED / "prefect.yaml").read_text())["deployments"]
    assert retrain["entrypoint"] == usual[0]["entrypoint"]
    assert watch["concurrency_limit"] == usual[1]["concurrency_limit"]
    path = write_deployments(project, INSTALLED / "prefect.yaml", tmp_path)
    assert yaml.safe_load(path.read_text()) == made


def test_what_is_watched_has_the_labels_of_slices_alone(tmp_path: Path) -> None:
    table = '[[source]]\nname = "de"\nfiles = ["de/*.txt"]\nlanguage = "de"\nweight = 2\n'
    text = '[train]\nname = "two"\n[schedule]\nwatch-drift = "0 * * * *"\n' + table
    project = read_project(written(tmp_path, text))
    watched = {"paths": [], "sources": [f"de:language=de={tmp_path / 'de/*.txt'}"]}
    assert project.watched == watched
    (made,) = project_deployments(project, INSTALLED / "prefect.yaml")["deployments"]
    assert made["parameters"] == {"name": "two", **watched}
    assert DriftRequest.checked(**made["parameters"]).sources == tuple(watched["sources"])
    other = read_project(written(tmp_path, text + 'text_field = "body"\n'))
    with pytest.raises(InvalidOption, match="text field 'body'"):
        _ = other.watched


def test_a_project_that_schedules_nothing_is_not_deployed(tmp_path: Path) -> None:
    project = read_project(written(tmp_path, TRAIN))
    with pytest.raises(InvalidOption, match="schedules nothing"):
        project_deployments(project, INSTALLED / "prefect.yaml")


@pytest.mark.slow
def test_flags_that_nobody_typed_leave_what_the_file_says(
    corpus: Path, tmp_path: Path, bpeline: Command
) -> None:
    written(tmp_path, TRAIN + "deduplicate = true\nheld_out = 0\n")
    (corpus / "copy.txt").write_bytes((corpus / "part-0.txt").read_bytes())
    (corpus / "notes.rst").write_text("not read")
    assert bpeline("train", "--plan", "--strict").exit_code != 0
    (corpus / "notes.rst").unlink()
    trained = bpeline("train")
    assert trained.exit_code == 0, trained.stderr
    assert json.loads(bpeline("show", "news/1", "--json").stdout)["parameters"]["deduplicate"]
    trained = bpeline("train", "--no-deduplicate")
    assert trained.exit_code == 0, trained.stderr
    shown = json.loads(bpeline("show", "news/2", "--json").stdout)
    assert not shown["parameters"].get("deduplicate")
    assert "news" in bpeline("evaluate").stderr, "so little text has no evaluation set"


def test_evaluate_without_a_project_and_a_version_says_what_it_needs(bpeline: Command) -> None:
    refused = bpeline("evaluate")
    assert refused.exit_code == 2
    assert "no bpeline.toml here" in refused.stderr


@pytest.mark.parametrize(
    ("made", "said"),
    [("bpeline.toml", "beside"), (".bpeline/x", "holds none"), ("", "BPELINE_HOME is not set")],
)
def test_what_was_looked_for_is_said_where_there_is_no_workspace(
    tmp_path: Path, bpeline: Command, made: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if made:
        (tmp_path / made).parent.mkdir(exist_ok=True)
        (tmp_path / made).write_text("")
    asked = bpeline("versions")
    assert asked.exit_code == 1
    assert said in asked.stderr
    assert "bpeline.configure(" in asked.stderr
    monkeypatch.setenv("BPELINE_HOME", str(tmp_path / "other"))
    assert "which BPELINE_HOME names" in bpeline("versions").stderr


def test_a_path_that_is_not_there_is_said_before_the_training_is_imported(tmp_path: Path) -> None:
    program = (
        "import sys; from bpeline.flows.cli.main import cli\n"
        "try: cli(['train', 'nowhere.txt', '--name', 'news'], standalone_mode=False)\n"
        "except SystemExit: pass\n"
        "print('bpeline.flows.train_tokenizer' in sys.modules, 'sqlalchemy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "nowhere.txt" in done.stderr
    assert done.stdout.split() == ["False", "False"]


def test_what_prefect_would_take_for_a_template_is_not_deployed(tmp_path: Path) -> None:
    text = TRAIN + 'special_tokens = ["{{x}}"]\n[schedule]\nretrain = "0 3 * * *"\n'
    with pytest.raises(InvalidOption, match="template"):
        project_deployments(read_project(written(tmp_path, text)), INSTALLED / "prefect.yaml")
