"""Versions whose files somebody else wrote: nothing is executed, and their digest must be right."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from audited import events_outside
from kept_registry import KeptRegistry
from small_publications import publication_of

from bpeline.registry import load_tokenizer, publish_version
from bpeline.registry.opening import Registry
from bpeline.registry.records.publication import Publication
from bpeline.tokenizer_core.digests import sealed
from bpeline.tokenizer_core.errors import BpelineError, CorruptFile, InvalidOption, UnknownVersion

pytestmark = pytest.mark.fake_mlflow

EVIL = "open(__file__ + '.executed', 'w'); raise SystemExit('executed')\n"
BESIDE = {
    "MLmodel": "flavors:\n  python_function:\n    loader_module: evil\n    code: .\n",
    "evil.py": EVIL, "sitecustomize.py": EVIL, "__init__.py": EVIL, "mlflow_model.py": EVIL,
    "conda.yaml": "!!python/object/apply:os.system [touch executed]",
    "python_model.pkl": "\x80\x04cposix\nsystem\n(S'touch executed'\ntR.",
}  # fmt: skip
PREPARE = """
from pathlib import Path
from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core.errors import BpelineError
good, hostile = map(Path, arguments)
load_tokenizer(good).encode("the é")
loaded = refused = 0
"""
ACT = """
global loaded, refused
for folder in sorted(hostile.iterdir()):
    try:
        load_tokenizer(folder).encode("the é")
        loaded += 1
    except BpelineError:
        refused += 1
assert refused > 20 and loaded > 0, (loaded, refused)
"""
Made = Callable[..., Publication]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Path) -> KeptRegistry:
    """news/1; its publication."""
    root = tmp_path_factory.mktemp("kept")

    def fill(registry: Registry) -> Publication:
        publication = publication_of(root / "made", b"the")
        publish_version(registry, publication)
        return publication

    return KeptRegistry(root, empty_mlflow, fill)


@pytest.mark.night
def test_loading_a_folder_executes_nothing_and_opens_nothing_else(
    made: Made, tmp_path: Path
) -> None:
    good = made(b"the").tokenizer_directory
    contents = {path.name: path.read_bytes() for path in good.iterdir()}
    hostile = tmp_path / "hostile"
    for seed in range(40):
        folder = hostile / str(seed)
        folder.mkdir(parents=True)
        for name, content in {**contents, **{k: v.encode() for k, v in BESIDE.items()}}.items():
            (folder / name).write_bytes(content)
        random_ = random.Random(seed)
        manifest = json.loads(contents["manifest.json"])
        match seed % 4:
            case 1:  # files by other names, and a seal that is right
                manifest["files"] = {"../../../etc/passwd": "0" * 64, "/etc/passwd": "0" * 64}
                (folder / "manifest.json").write_text(json.dumps(sealed(manifest)))
            case 2:
                manifest["pattern"] = {"name": "evil", "regex": "(a+)+$", "module": "evil"}
                manifest["algorithm"] = {"kind": "evil.Evil", "__class__": "os.system"}
                (folder / "manifest.json").write_text(json.dumps(sealed(manifest)))
            case 3:
                victim = folder / random_.choice(sorted(contents))
                content = bytearray(victim.read_bytes())
                content[random_.randrange(len(content))] ^= 1 << random_.randrange(8)
                victim.write_bytes(content)
    assert events_outside(PREPARE, ACT, [hostile], str(good), str(hostile)) == []
    assert list(tmp_path.rglob("*executed*")) == []


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def as_link_to_a_secret(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def as_tables_of_a_gigabyte(path: Path) -> None:
    os.truncate(path, 1 << 30)


def as_nothing(path: Path) -> None:
    os.truncate(path, 0)


CHANGES = (as_pipe, as_device, as_folder, as_loop, as_link_to_a_secret, as_tables_of_a_gigabyte,
           as_nothing)  # fmt: skip


@pytest.mark.parametrize("name", ["manifest.json", "tokenizer.bin"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_registered_version_is_told_from_whatever_stands_in_its_place(
    registry: Registry, kept: KeptRegistry, change: Callable[[Path], None], name: str
) -> None:
    publication = kept.filled
    files = registry.workspace.version_directory(publication.digest)
    change(files / name)
    if name == "manifest.json" and not (files / name).is_file():
        # Without its manifest nothing is kept there: what MLflow has is fetched.
        assert load_tokenizer("news/1").digest == publication.digest
        return
    with pytest.raises(BpelineError) as refusal:
        load_tokenizer("news/1")
    assert name in refusal.value.happened or publication.digest in refusal.value.happened
    assert "root:" not in str(refusal.value), "what a link leads to is not shown"
    os.rename(files, files.with_name("moved"))  # its files are elsewhere, too
    assert load_tokenizer("news/1").digest == publication.digest


def test_another_tokenizer_sound_in_itself_is_not_that_version(
    registry: Registry, kept: KeptRegistry, made: Made
) -> None:
    publication, other = kept.filled, made(b"evil")
    files = registry.workspace.version_directory(publication.digest)
    for path in other.tokenizer_directory.iterdir():
        (files / path.name).write_bytes(path.read_bytes())
    with pytest.raises(CorruptFile, match=publication.digest):
        load_tokenizer("news/1")
    assert load_tokenizer(files).digest == other.digest
    with pytest.raises(BpelineError):
        load_tokenizer(files, expect_digest=publication.digest)


@pytest.mark.parametrize(
    "name",
    ["../x/1", "news/../1", "/1", "news/%2e%2e", "C:\\x/1", "news\0/1", "n" * 65 + "/1", "news/-1",
     "NEWS/1", "news@../x", "news@\n", "é/1", "news/1/../../x", "models:/../x", "models:/news/1/x",
     "news/99999999999999999999", "news/٣", ".news/1", "-rf/1"],
)  # fmt: skip
def test_no_name_leads_out_of_its_place(registry: Registry, name: str) -> None:
    with pytest.raises((InvalidOption, UnknownVersion)):
        load_tokenizer(name)
    assert not list(registry.workspace.root.parent.glob("x"))
