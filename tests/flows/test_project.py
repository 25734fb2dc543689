"""A project of one's own: ``bpeline init``, and what reads its bpeline.toml."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import Result

from bpeline import train_from_iterator
from bpeline.flows.requests import (
    DEMO_HELD_OUT,
    DatasetRequest,
    DriftRequest,
    TrainingRequest,
    evaluation_sources,
    find_project,
    project_text,
    read_project,
)
from bpeline.flows.requests.corpus_files import CORPUS
from bpeline.flows.requests.project import PARAMETERS, Project
from bpeline.flows.running import settings
from bpeline.flows.serving.local_server import INSTALLED
from bpeline.flows.serving.project_deployments import (
    project_deployments,
    read_deployments,
    write_deployments,
)
from bpeline.registry import environment
from bpeline.registry.evaluation.drift_rules import read_drift_rules
from bpeline.registry.evaluation.gates import Rule, read_rules
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.errors import InvalidOption, NotTrusted

Command = Callable[..., Result]
TRAIN = '[train]\nname = "news"\npaths = ["corpus/"]\nvocab_size = 600\n'


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bpeline.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.night
def test_init_writes_what_train_then_does_from_every_directory_below(
    corpus: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bpeline("init", corpus.name, "--name", "news", "--vocab-size", 600, "--json")
    path = Path(json.loads(made.stdout)["written"])
    assert tomllib.loads(path.read_text())["train"]["paths"] == [corpus.name]
    below = corpus / "deep" / "deeper"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    planned = bpeline("train", "--dry-run")
    assert "3 files" in planned.stdout
    trained = bpeline("train", "--json")
    assert json.loads(trained.stdout)["reference"] == "news/1"
    assert (path.parent / ".bpeline/versions").is_dir(), "the workspace lies beside the file"
    assert not (below / ".bpeline").exists()
    smaller = json.loads(bpeline("train", "--vocab-size", 400, "--json").stdout)
    assert smaller["reference"] == "news/2", "what was typed has the last word"
    swept = bpeline("sweep", "--sizes", "300,400")
    assert "bpeline train --vocab-size N --pattern P" in swept.stdout


def test_init_writes_named_sources_that_train_reads(tmp_path: Path, bpeline: Command) -> None:
    for name in ("en", "de"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    sources = ("--source", "en=en/*.txt", "--source", "de:language=de:weight=2=de/a.txt")
    assert bpeline("init", *sources, "--name", "two").exit_code == 0
    expected = [f"en={tmp_path}/en/*.txt", f"de:language=de:weight=2={tmp_path}/de/a.txt"]
    assert read_project(tmp_path / "bpeline.toml").parameters["sources"] == expected
    (tmp_path / "below").mkdir()
    assert bpeline("init", *sources, "--name", "two", "--project", "below/b.toml").exit_code == 0
    assert read_project(tmp_path / "below" / "b.toml").parameters["sources"] == expected
    for wrong in (
        ("de", *sources),
        ("--source", "en=no/*.txt"),
        (*sources, "--source", "en:weight=2=de"),
    ):
        refused = bpeline("init", *wrong, "--name", "two", "--project", "c.toml")
        assert refused.exit_code == 2
        assert not Path("c.toml").exists()


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
    hidden |= {"roles"}  # the table [roles]
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
        ("[train", "bpeline.toml"),
        ("[train]\npaths = ['x']\n", "name"),
        (TRAIN + "vocabsize = 1\n", "vocab_size"),
        (TRAIN + "[trian]\n", "trian"),
        (TRAIN.replace("600", "-1"), "-1"),
        (TRAIN + "[schedule]\nretrain = 'daily'\n", "daily"),
        (TRAIN + "[schedule]\nwatch_drift = 'daily'\n", "daily"),
        (TRAIN + "[schedule]\nwatch_drifts = '0 3 * * *'\n", "watch_drifts"),
        (TRAIN + "[schedule]\nretain = '0 3 * * *'\n", "retrain"),
        (TRAIN + "[[source]]\nname = 'a'\n", "files"),
        (TRAIN.replace('["corpus/"]', "7"), "paths"),
        ("train = 7\n", "train"),
        ("temperature = 2.0\n" + TRAIN, "temperature"),
        ("temperature = 2.0\n" + TRAIN + "temperature = 3.0\n", "temperature"),
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


gives_away = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files to another user")
STRANGER = 65534
FOUND = {"bpeline.toml": find_project, ".bpeline": environment.read_environment}


def given_away(path: Path) -> None:
    for each in (path, *path.rglob("*")):
        os.chown(each, STRANGER, STRANGER, follow_symlinks=False)


@gives_away
@pytest.mark.parametrize("kind", ["theirs", "their link", "link to theirs"])
@pytest.mark.parametrize(
    ("name", "below"), [*product(FOUND, ("", "below")), *product(environment.PREFECT_FILES, [""])]
)
def test_what_another_user_planted_is_refused_until_its_directory_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str, below: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "a home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    team = tmp_path / "their team"
    (team / "below").mkdir(parents=True)
    target = team / name if kind == "theirs" else tmp_path / "target"
    target.mkdir() if name == ".bpeline" else target.touch()
    if kind != "theirs":
        (team / name).symlink_to(target)
    given_away(team / name if kind != "link to theirs" else target)
    monkeypatch.chdir(team / below)
    find = FOUND.get(name, settings.prepare_prefect)
    with pytest.raises(NotTrusted, match=f"{team / name}.*65534") as error:
        find()
    for variable, value, accepted in (
        *(("BPELINE_TRUST", path, False) for path in (".", "/", str(tmp_path), f"{team}/below")),
        *(("BPELINE_TRUST", path, True) for path in ("*", f"/srv:{team}/")),
        *(("SUDO_UID", uid, uid == str(STRANGER)) for uid in ("1", "", str(STRANGER))),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            with nullcontext() if accepted else pytest.raises(NotTrusted):
                find()
    subprocess.run(error.value.next_step.split("`")[1], shell=True, check=True)
    find()
    given_away(tmp_path / "a home" / ".config" / "bpeline" / "trusted")
    with pytest.raises(NotTrusted):
        find()


@gives_away
@pytest.mark.parametrize(
    "command",
    ["train", "sweep --sizes 300", "evaluate", "drift", "promote news/1", "versions",
     "gc --dry-run", "encode news/1 text", "sql 'SELECT 1'", "resume",
     "train text.txt --name news", "doctor"],
)  # fmt: skip
def test_a_planted_project_and_its_links_reach_no_file_of_this_user(
    tmp_path: Path, bpeline: Command, command: str
) -> None:
    precious = {tmp_path / name: name.encode() for name in ("one", "two", "dir/three")}
    for path, content in precious.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "text.txt").write_text("low lower lowest")
    home = Workspace.open(tmp_path / ".bpeline").root
    (home / "lock").unlink()
    (home / "temporary").rmdir()
    for name, target in (("lock", "one"), ("catalogue.sqlite.moves", "two"), ("temporary", "dir")):
        (home / name).symlink_to(tmp_path / target)
    given_away(home)
    given_away(written(tmp_path, TRAIN.replace("corpus/", "one")))
    before = sorted(home.rglob("*"))
    done = bpeline(*shlex.split(command))
    assert done.exit_code == 1
    assert "65534" in done.output
    assert {path: path.read_bytes() for path in precious} == precious
    assert sorted(home.rglob("*")) == before
    named = bpeline("versions", "--workspace", tmp_path / "own")
    assert str(tmp_path / "own") in named.stderr, "what is named is used"


@gives_away
def test_a_named_project_of_another_user_is_read_with_the_workspace_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "theirs", TRAIN)
    (tmp_path / "theirs" / ".bpeline").mkdir()
    given_away(tmp_path / "theirs")
    monkeypatch.setattr(environment, "_project", path)
    assert read_project(environment.find_project() or Path()).name == "news"
    assert environment.addresses().home == tmp_path / "theirs" / ".bpeline"
    os.chown(path, 65533, 65533)
    with pytest.raises(NotTrusted):
        environment.addresses()


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
    assert retrain["parameters"] == {"request": dict(project.parameters)}
    TrainingRequest.checked(**retrain["parameters"]["request"])
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
    assert project.watched == {"name": "two", **watched}
    (made,) = project_deployments(project, INSTALLED / "prefect.yaml")["deployments"]
    assert made["parameters"] == {"name": "two", **watched}
    assert DriftRequest.checked(**made["parameters"]).sources == tuple(watched["sources"])
    other = read_project(written(tmp_path, text + 'text_field = "body"\n'))
    with pytest.raises(InvalidOption, match="body"):
        _ = other.watched


def test_a_project_that_schedules_nothing_has_no_deployments(tmp_path: Path) -> None:
    project = read_project(written(tmp_path, TRAIN))
    assert project_deployments(project, INSTALLED / "prefect.yaml")["deployments"] == []
    path = write_deployments(project, INSTALLED / "prefect.yaml", tmp_path)
    assert read_deployments(path)["deployments"] == []


ENTRY = "name: a\n    entrypoint: f\n    work_pool: {name: p}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("deployments: [", "YAML"),
        ("name: x", "deployments"),
        (f"deployments:\n  - {ENTRY}  - entrypoint: g\n", "name, work_pool"),
        (f"deployments:\n  - {ENTRY}  - {ENTRY}", r"\ba\b"),
    ],
)
def test_a_file_of_which_prefect_would_deploy_less_is_refused(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "prefect.yaml"
    path.write_text(text)
    with pytest.raises(InvalidOption, match=said):
        read_deployments(path)


def test_deployments_are_read_however_yaml_spells_them(tmp_path: Path) -> None:
    path = tmp_path / "prefect.yaml"
    path.write_text(
        "deployments:\n"
        "    - entrypoint: f\n      work_pool: {name: p}\n      name: first\n"
        "    - {'name': \"quoted\", entrypoint: f, work_pool: {name: p}}\n"
    )
    names = [entry["name"] for entry in read_deployments(path)["deployments"]]
    assert names == ["first", "quoted"]


@pytest.mark.parametrize(
    ("when", "zone", "said"),
    [
        ("0 3 * * *", "Europe/Berln", "time zone 'Europe/Berln'; did you mean Europe/Berlin"),
        ("0 25 * * *", "UTC", "'0 25 \\* \\* \\*', which is not a cron value"),
        ("R 3 * * *", "UTC", "which is not a cron value"),
        ("0 3 31 2 *", "UTC", "'0 3 31 2 \\*', never fires"),
        ("0 3 29 2 *", "Europe/Berlin", ""),
    ],
)
def test_a_schedule_that_prefect_refuses_or_that_never_fires_is_not_deployed(
    tmp_path: Path, bpeline: Command, when: str, zone: str, said: str
) -> None:
    written(tmp_path, f'{TRAIN}[schedule]\nretrain = "{when}"\ntimezone = "{zone}"\n')
    refused = bpeline("deploy")
    if said:
        assert refused.exit_code == 2
        assert re.search(f"bpeline.toml.*retrain-news.*{said}", refused.stderr)
    else:
        assert "PREFECT_API_URL" in refused.stderr


@pytest.mark.night
def test_flags_that_nobody_typed_leave_what_the_file_says(
    corpus: Path, tmp_path: Path, bpeline: Command
) -> None:
    written(tmp_path, TRAIN + "deduplicate = true\nheld_out = 0\n")
    (corpus / "copy.txt").write_bytes((corpus / "part-0.txt").read_bytes())
    (corpus / "notes.rst").write_text("not read")
    assert bpeline("train", "--dry-run", "--strict").exit_code != 0
    (corpus / "notes.rst").unlink()
    trained = bpeline("train")
    assert trained.exit_code == 0, trained.stderr
    assert json.loads(bpeline("show", "news/1", "--json").stdout)["parameters"]["deduplicate"]
    trained = bpeline("train", "--no-deduplicate")
    assert trained.exit_code == 0, trained.stderr
    shown = json.loads(bpeline("show", "news/2", "--json").stdout)
    assert not shown["parameters"].get("deduplicate")
    assert "news" in bpeline("evaluate").stderr, "so little text has no evaluation set"


@pytest.mark.night
def test_the_file_holds_for_its_own_name_below_files_and_options_that_are_typed(
    corpus: Path, tmp_path: Path, bpeline: Command
) -> None:
    fields = 'special_tokens = ["<|x|>"]\ntext_field = "body"\nheld_out = 0\ndeduplicate = true\n'
    path = written(tmp_path, TRAIN + fields)
    part, not_read = str(corpus / "part-0.txt"), rf"note: {path} .*"
    counts = pa.table({"word": ["low", " lower"], "count": [5, 2]})
    pq.write_table(counts, tmp_path / "words.parquet")
    (tmp_path / "set.jsonl").write_text('{"body": "low lower lowest"}\n')
    for typed, name, read in (
        ((part,), "news", True),
        ((part, "--name", "news", "--pattern", "cl100k"), "news", True),
        (("--source", f"en={part}", "--name", "news"), "news", True),
        (("--counts", "words.parquet", "--eval", "t=set.jsonl"), "news", True),
        ((part, "--name", "other", "--vocab-size", "400"), "other", False),
    ):
        done = bpeline("train", *typed, "--json")
        assert done.exit_code == 0, done.stderr
        notes = re.findall(rf"^note: .*{path}.*", done.stderr, re.MULTILINE)
        assert len(notes) == 1, "it is read, or it is said why not"
        assert bool(re.match(rf"{not_read}\bother\b.*\bnews$", notes[0])) is not read
        summary = json.loads(done.stdout)
        assert summary["name"] == name
        shown = json.loads(bpeline("show", summary["reference"], "--json").stdout)["parameters"]
        assert (shown.get("special_tokens") == ["<|x|>"]) is read
        assert str(tmp_path / "corpus") not in shown.get("paths", [])
        assert shown["pattern"] == ("cl100k" if "cl100k" in typed else "gpt2")
    demo = bpeline("train", "--demo", "--dry-run")
    assert re.search(rf"{not_read}\bdemo\b", demo.stderr)
    joint = ("--joint", f"a={part}", "--joint", f"b={part}", "--name", "news", "--merges", "5")
    assert "--joint" in bpeline("train", *joint, "--vocab-size", "9").stderr
    for words in ((), ("--name", "news")):
        swept = bpeline("sweep", part, *words, "--sizes", "400")
        typed_again = shlex.join(["bpeline", "train", part, *words])
        assert f"register:  {typed_again} --vocab-size N" in swept.stdout, swept.stderr
        assert str(path) in swept.stderr
    sources = "".join(
        f'[[source]]\nname = "{n}"\nfiles = ["corpus/part-{n}.txt"]\n' for n in (0, 1)
    )
    (tmp_path / "two.toml").write_text(sources)
    mixed = ("sweep", "two.toml", "--weights", "0=2", "--sizes", "400", "--json")
    for name, is_read in (("news", True), ("other", False)):
        done = bpeline(*mixed, "--name", name)
        assert done.exit_code == 0, done.stderr
        assert bool(re.search(rf"{not_read}\bother\b.*\bnews\b", done.stderr)) is not is_read
        assert json.loads(done.stdout)["combinations"][0]["mixture"] == "as it is"
    assert bpeline("evaluate", "news", "--set-from", "set.jsonl").exit_code == 0


def test_a_project_that_is_not_there_is_named_once_and_as_a_shell_takes_it(
    corpus: Path, bpeline: Command
) -> None:
    refused = bpeline("train", "--project", "of us/b.toml")
    assert refused.exit_code == 2
    assert "as " not in refused.stderr, "nobody has read it"
    (advised,) = re.findall(r"`bpeline (.*)`", refused.stderr)
    words = shlex.split(advised)
    assert words[-1] == str(Path("of us/b.toml").absolute())
    Path("of us").mkdir()
    made = bpeline(words[0], corpus, *words[2:])
    assert made.exit_code == 0, made.output
    typed = re.findall(r": +bpeline (.*)", made.stdout)
    assert [shlex.split(one)[-1] for one in typed] == [words[-1]] * 2
    again = bpeline(words[0], corpus, *words[2:])
    assert f"mv {shlex.quote(words[-1])} " in again.stderr


def test_sets_are_listed_and_nothing_else_is_done_beside(bpeline: Command) -> None:
    for beside in (("--set-from", "a.txt"), ("--model-shape", "llama-3.2-1b"), ("--sizes",)):
        refused = bpeline("evaluate", "--sets", *beside)
        assert refused.exit_code == 2
        assert "--sets" in refused.stderr


def test_evaluate_without_a_project_and_a_version_says_what_it_needs(bpeline: Command) -> None:
    refused = bpeline("evaluate")
    assert refused.exit_code == 2
    assert "bpeline.toml" in refused.stderr


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
    assert "BPELINE_HOME" in bpeline("versions").stderr


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


ALL = """
[train]
name = "news"
vocab_size = 600
held_out = 0
special_tokens = ["<|endoftext|>"]
text_field = "body"

[[source]]
name = "en"
files = ["corpus/part-0.txt", "corpus/part-1.txt"]
language = "en"

[[source]]
name = "rest"
files = ["corpus/part-2.txt"]

[[rule]]
metric = "compression/bytes_per_token"
direction = "higher"
tolerance = 0.02

[sweep]
sizes = [300, 400]
patterns = ["gpt2", "cl100k"]
variants = ["plain"]

[drift]
paths = ["incoming/"]
least_documents = 5

[[drift.rule]]
metric = "compression/bytes_per_token"
direction = "higher"
tolerance = 0.3

[[evaluation]]
name = "english"
files = ["held/*.txt"]
"""


def test_each_table_is_what_its_command_asks(tmp_path: Path) -> None:
    path = written(tmp_path, ALL)
    project = read_project(path)
    assert project.parameters["rules"] == str(path)
    assert read_rules(path).rules == (Rule("compression/bytes_per_token", "higher", 0.02),)
    assert read_drift_rules(path) == (Rule("compression/bytes_per_token", "higher", 0.3),)
    assert project.sweep == {
        "sizes": [300, 400], "patterns": ["gpt2", "cl100k"], "variants": ["plain"],
    }  # fmt: skip
    assert project.watched == {
        "name": "news", "paths": [str(tmp_path / "incoming")], "least_documents": 5,
        "rules": str(path),
    }  # fmt: skip
    assert DriftRequest.checked(**project.watched).least_documents == 5
    (asked,) = evaluation_sources([str(path)]).sources
    assert (asked.name, asked.files) == ("english", (str(tmp_path / "held/*.txt"),))
    assert not evaluation_sources([str(path)]).parallel
    path.write_text(f"parallel = true\n{ALL}")
    (spelt,) = read_project(path).parameters["evaluation"]
    assert evaluation_sources([spelt]).parallel


def test_deployments_have_what_all_tables_say(tmp_path: Path) -> None:
    jobs = ("retrain", "watch-drift", "encode-dataset")
    times = "".join(f"{job} = '0 3 * * *'\n" for job in jobs)
    project = read_project(written(tmp_path, f"{ALL}[schedule]\n{times}"))
    retrain, watch, encode = project_deployments(project, INSTALLED / "prefect.yaml")["deployments"]
    assert retrain["parameters"]["request"]["rules"] == str(project.path)
    assert watch["parameters"] == project.watched
    files = [str(tmp_path / f"corpus/part-{number}.txt") for number in range(3)]
    assert encode["parameters"] == {
        "reference": "news@champion", "paths": files, "text_field": "body",
    }  # fmt: skip
    DatasetRequest.checked(**encode["parameters"])


def test_a_dataset_of_sources_with_several_text_fields_is_not_scheduled(tmp_path: Path) -> None:
    text = ALL.replace('name = "rest"\n', 'name = "rest"\ntext_field = "content"\n')
    project = read_project(written(tmp_path, text + "[schedule]\nencode-dataset = '0 5 * * *'\n"))
    with pytest.raises(InvalidOption, match=r"body.*content"):
        project_deployments(project, INSTALLED / "prefect.yaml")


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("sizes =", "size =", "sizes"),
        ("[300, 400]", '["300"]', "sizes"),
        ('["plain"]', '["plian"]', "plain"),
        ("least_documents", "least_document", "least_documents"),
        ("[[drift.rule]]", "[[drift.rules]]", "rules"),
        ('language = "en"', 'langauge = "en"', "language"),
        ("tolerance = 0.02", "tolerence = 0.02", "tolerance"),
        ("tolerance = 0.3", "tolerence = 0.3", "tolerance"),
        ("[[evaluation]]", "[[evaluatoin]]", "evaluation"),
        ("text_field", "rules = 'rules.toml'\ntext_field", "[[rule]]"),
        ("least_documents", "rules = 'rules.toml'\nleast_documents", "[[drift.rule]]"),
        ("[train]", "parallel = 3\n[train]", "parallel"),
        ("[drift]", "[drift]\nname = 'x'", "'name'"),
        ("[sweep]", "[sweep]\nmodel_shape = 'lama-3.1-8b'", "lama-3.1-8b"),
    ],
)
def test_what_is_misspelt_in_a_table_is_said(
    tmp_path: Path, right: str, wrong: str, said: str
) -> None:
    assert right in ALL
    path = written(tmp_path, ALL.replace(right, wrong, 1))
    with pytest.raises(InvalidOption, match=f"(?s){re.escape(str(path))}.*{re.escape(said)}"):
        read_project(path)


def test_texts_that_are_found_are_proposed_and_never_guessed(
    corpus: Path, tmp_path: Path, bpeline: Command
) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "x.jsonl").write_text('{"text": "x"}\n')
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "x.png").write_bytes(b"\x89PNG")
    (tmp_path / ".hidden.txt").write_text("x")
    (tmp_path / "README.md").write_text("about the project")
    tokenizer = train_from_iterator(["low lower"], 260, pattern="gpt2")
    tokenizer.encode_files([str(corpus)], out=str(tmp_path / "tokens"))
    made = json.loads(bpeline("init", "--name", "news", "--json").stdout)
    assert [one["path"] for one in made["found"]] == [f"{corpus.name}/", "a b/"]
    text = (tmp_path / "bpeline.toml").read_text()
    assert "paths" not in tomllib.loads(text)["train"]
    refused = bpeline("train", "--dry-run")
    assert refused.exit_code == 2
    assert "names no corpus" in refused.stderr
    begin = text.index("# paths = [")
    end = text.index("# ]", begin) + 3
    uncommented = text[begin:end].replace("\n# ", "\n").removeprefix("# ")
    (tmp_path / "bpeline.toml").write_text(text[:begin] + uncommented + text[end:])
    assert read_project(tmp_path / "bpeline.toml").parameters["paths"] == [
        str(corpus), str(tmp_path / "a b"),
    ]  # fmt: skip
    assert bpeline("train", "--dry-run").exit_code == 0


def test_where_no_text_is_init_asks_for_the_corpus(tmp_path: Path, bpeline: Command) -> None:
    refused = bpeline("init", "--name", "news")
    assert refused.exit_code == 2
    assert str(tmp_path) in refused.stderr
    assert not (tmp_path / "bpeline.toml").exists()


@pytest.mark.night
def test_a_file_that_is_named_is_read_from_anywhere_and_what_is_typed_wins(
    corpus: Path,
    tmp_path: Path,
    bpeline: Command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.delenv("BPELINE_HOME", raising=False)
    made = bpeline(
        "init", corpus.name, "--name", "news", "--vocab-size", 600, "--project", "a.toml"
    )
    assert made.exit_code == 0, made.stderr
    path = tmp_path / "a.toml"
    path.write_text(path.read_text().replace("# [sweep]", "[sweep]").replace("# sizes", "sizes"))
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    named = ("--project", path)
    assert "b.toml" in bpeline("train", "--project", "b.toml").stderr
    trained = bpeline("train", *named, "--vocab-size", 300, "--json")
    assert trained.exit_code == 0, trained.stderr
    monkeypatch.chdir(tmp_path)
    shown = json.loads(bpeline("show", "news/1", "--json").stdout)
    monkeypatch.chdir(elsewhere)
    assert shown["parameters"]["vocab_size"] == 300
    assert shown["parameters"]["pattern"] == "gpt2"
    assert not (elsewhere / ".bpeline").exists(), "the workspace is beside the file"
    (elsewhere / "other.txt").write_text("another text " * 500)
    other = json.loads(bpeline("train", "other.txt", *named, "--dry-run", "--json").stdout)
    assert other["bytes"] < 10_000, "a corpus that is typed takes the whole place"
    swept = bpeline("sweep", *named, "--sizes", "280", "--json")
    assert [one["vocab_size"] for one in json.loads(swept.stdout)["combinations"]] == [280]
    assert bpeline("versions").exit_code != 0, "the next command knows nothing of it"


@pytest.mark.night
def test_a_version_of_the_projects_name_is_promoted_by_its_rules(
    corpus: Path, tmp_path: Path, bpeline: Command
) -> None:
    (tmp_path / "held").mkdir()
    text = (corpus / "part-1.txt").read_text()
    pieces = [text[at : at + 2_000] for at in range(0, len(text), 2_000)]
    (tmp_path / "held" / "x.txt").write_text("<|endoftext|>".join(pieces))
    written(tmp_path, ALL.replace('text_field = "body"\n', ""))
    first = bpeline("train")
    assert first.exit_code == 0, first.stderr
    second = bpeline("train", "--vocab-size", 300)
    assert second.exit_code == 3, second.stderr
    refused = bpeline("promote", "news/2")
    assert refused.exit_code == 3
    assert str(tmp_path / "bpeline.toml") in refused.stderr
    assert bpeline("promote", "news/2", "--no-rules", "--rules", "bpeline.toml").exit_code == 2
    assert bpeline("promote", "news/2", "--no-rules").exit_code == 0
    changed = bpeline("evaluate", "--set-from", "bpeline.toml")
    assert changed.exit_code == 0, changed.stderr
    assert "english" in changed.stdout


def test_init_writes_how_much_is_to_be_held_out_for_drift_to_be_judged(
    tmp_path: Path, bpeline: Command
) -> None:
    text = "low lower lowest, and so on.\n" * 1_000
    for name, copies, share in (("large", 200, 0.106), ("small", 3, None)):
        path = tmp_path / f"{name}.txt"
        path.write_text("".join(f"{number} {text}" for number in range(copies)))
        made = bpeline("init", path, "--name", name, "--project", f"{name}.toml")
        assert read_project(tmp_path / f"{name}.toml").parameters.get("held_out") == share
        assert ("add 1.3 MB of text" in made.stderr) is (share is None)
    assert bpeline("init", "python:stdlib", "--name", "d").exit_code == 0
    shipped = yaml.safe_load((INSTALLED / "prefect.yaml").read_text())["deployments"]
    for parameters in (
        read_project(tmp_path / "bpeline.toml").parameters,
        shipped[0]["parameters"]["request"],
    ):
        assert parameters["held_out"] == DEMO_HELD_OUT


@pytest.mark.parametrize(
    ("folder", "home", "typed", "said"),
    [
        ("below", "", ("gc", "--dry-run"), "/.bpeline, found above this directory"),
        ("below", "", ("export", "--check"), "/.bpeline, found above this directory"),
        ("below", "", ("versions",), ""),
        ("below", "", ("gc", "--dry-run", "--workspace", "../.bpeline"), ""),
        ("", "", ("gc", "--dry-run"), ""),
        ("", ".bpeline", ("gc", "--dry-run"), ""),
        ("", "other", ("gc", "--dry-run"), "/other, which BPELINE_HOME names"),
    ],
)
def test_commands_that_write_say_which_workspace_unless_it_is_here_or_typed(
    tmp_path: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch,
    folder: str, home: str, typed: tuple[str, ...], said: str,
) -> None:  # fmt: skip
    for name in (".bpeline", "other"):
        Workspace.open(tmp_path / name)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / folder)
    if home:
        monkeypatch.setenv("BPELINE_HOME", str(tmp_path / home))
    notes = [one for one in bpeline(*typed).stderr.splitlines() if one.startswith("note: ")]
    assert [one.endswith(f" {tmp_path}{said}") for one in notes] == [True] * bool(said)


@pytest.mark.parametrize("content", ["name = ", "a = " + "[" * 2000, "# " + "x" * (1 << 20)])
@pytest.mark.parametrize(
    "read",
    [read_project, read_rules, read_drift_rules, lambda path: CORPUS.from_file(path, ())],
    ids=["project", "rules", "drift rules", "sources"],
)
def test_each_file_of_settings_is_read_with_the_same_limits(
    read: Callable[[Path], object], content: str, tmp_path: Path
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(content)
    with pytest.raises(InvalidOption, match=r"settings\.toml"):
        read(path)
