"""The wheel, as somebody installs it: beside a project that has packages of our names itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
THEIRS = ("flows", "registry", "tokenizer_core")  # folders of ours, and of many projects
PROGRAM = """
import json, sys
import flows, registry, tokenizer_core
import bpeline
from bpeline import Tokenizer, count_words, load_tokenizer, train_bpe
from bpeline.flows.cli import diagnosis
from bpeline.flows.serving import local_server
from bpeline.registry import list_versions

counts = count_words(["words.txt"])
folder = local_server.INSTALLED
tokenizer = train_bpe(counts, 260)
print(json.dumps({
    "theirs": [flows.WHOSE, registry.WHOSE, tokenizer_core.WHOSE],
    "ours": bpeline.__file__,
    "parts": [diagnosis.__file__, sys.modules["bpeline.registry"].__file__],
    "deployments": (folder / "prefect.yaml").read_text().count("entrypoint: bpeline."),
    "rules": (folder / "promotion.toml").is_file(),
    "tested": "numpy" in diagnosis.versions_tested(),
    "ids": tokenizer.encode("low lower"),
}))
"""


BUILD = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a source distribution, which is built from a copy of this checkout."""
    folder = tmp_path_factory.mktemp("built")
    copy = folder / "checkout"
    left_out = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "tests", "docs")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=left_out)
    for package in THEIRS:  # links where a copy of the checkout is tried
        (copy / "bpeline" / package).unlink(missing_ok=True)
    done(sys.executable, "-c", BUILD, str(folder), folder=copy)
    (source,) = folder.glob("bpeline-*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    done(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "--wheel-dir", str(folder), str(unpacked), folder=folder)  # fmt: skip
    (path,) = folder.glob("bpeline-*.whl")
    return path


def done(*command: str, folder: Path) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert ran.returncode == 0, ran.stderr


def test_what_certifies_exports_is_installed_where_the_first_steps_are() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert {"tokenizers", "tiktoken"} == {name.split(">=")[0] for name in extras["certify"]}
    assert set(extras["certify"]) <= set(extras["test"])
    for page in ("README.md", "Makefile", "Containerfile", "docs/tutorial.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert re.search(r"install.*\[certify|INSTALL.*\[certify|source\[certify", text), page


@pytest.mark.night
def test_it_holds_one_name_and_everything_below_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in names} == {"bpeline"}
    sources = {
        f"bpeline/{path.relative_to(ROOT)}"
        for package in THEIRS
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", ".css", ".js", ".html"}
    }
    data = {f"bpeline/{name}" for name in ("py.typed", "prefect.yaml", "promotion.toml")}
    assert sources | data <= names


@pytest.mark.night
def test_it_works_beside_a_project_with_packages_of_the_same_names(
    wheel: Path, tmp_path: Path
) -> None:
    installed, project = tmp_path / "installed", tmp_path / "project"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    for name in THEIRS:
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text(f"WHOSE = 'the project: {name}'\n")
    (project / "words.txt").write_text("low low lower lowest")
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(installed), "PREFECT_HOME": str(tmp_path / "prefect")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["theirs"] == [
        f"the project: {one}" for one in ("flows", "registry", "tokenizer_core")
    ]
    assert Path(said["ours"]).is_relative_to(installed)
    assert all(Path(part).is_relative_to(installed) for part in said["parts"])
    assert said["deployments"] == 5
    assert said["rules"]
    assert said["tested"]
    assert said["ids"]


def test_the_version_stands_in_one_place_and_the_others_follow() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    newest = re.search(r"^## \[(\S+)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == version
    cited = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {version}\ndate-released: {newest[2]}\n" in cited
