"""The model as MLflow loads it: with bpeline and without, from one file that carries the core."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas
import pytest
from kept_registry import KeptRegistry
from small_publications import publication_of

from bpeline import Tokenizer, train_from_iterator
from bpeline.registry import load_tokenizer, publish_version
from bpeline.registry.opening import Registry
from bpeline.registry.tracking.core_wheel import CORE_PACKAGES, core_wheel
from bpeline.tokenizer_core.digests import sealed, unsealed
from bpeline.tokenizer_core.errors import InvalidSpecialToken, InvalidTokenizer
from bpeline.tokenizer_core.kernels.compiling.machine_code import source_digest

TEXTS = ["the other theatre", "", " don't\n\n123 the", "日本語 the 🎉", "<|endoftext|>"]
PACKAGES = Path(sysconfig.get_path("purelib"))
# Stored by the code of November 2026, the core as source in `code`; what it does not import is
# left out, and paths of the machine.
EARLIER = Path(__file__).with_name("earlier_model.tar.xz")

PROGRAM = """
import json, sys, warnings
sys.path += json.loads(sys.argv[1])
warnings.simplefilter("ignore")
import mlflow
mlflow.set_tracking_uri(sys.argv[2])
model = mlflow.pyfunc.load_model(sys.argv[3])
ids = model.predict(json.loads(sys.argv[4]))
try:
    model.predict([1, 2])
    refused = False
except mlflow.exceptions.MlflowException:
    refused = True
import bpeline
from bpeline import SplitPattern, Tokenizer
(kernels,) = [one for name, one in sys.modules.items() if "source_digest" in vars(one)
              and name.endswith((".machine_code", ".compilation")) and name.startswith("bpeline.")]
vocab = {**{number: bytes([number]) for number in range(256)}, 256: b"aa"}
another = Tokenizer(vocab, [(b"a", b"a")], pattern=SplitPattern(r"(.)\\1|."))
print(json.dumps({
    "ids": ids, "refused": refused, "core": bpeline.__file__, "last": sys.path[-1],
    "kernels": kernels.source_digest(), "modules": [*sys.modules],
    "by a process of its own": another.encode("aab"),
}))
"""


def load_elsewhere(
    place: Path, model: str | Path, uri: str = "", packages: Path = PACKAGES
) -> subprocess.CompletedProcess[str]:
    """Load a model in a process that knows MLflow but no bpeline, only a folder of that name."""
    (place / "bpeline").mkdir(parents=True)
    arguments = [json.dumps([str(place), str(packages)]), uri, str(model), json.dumps(TEXTS)]
    return subprocess.run(
        # Without `site` nobody reads the .pth file by which bpeline is installed.
        [sys.executable, "-I", "-S", "-c", PROGRAM, *arguments],
        cwd=place,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": os.environ["HOME"],  # where compiled kernels are kept
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "true",
            "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def answer_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def packages_without(place: Path, *names: str) -> Path:
    """A folder of all that is installed but these."""
    place.mkdir()
    for path in PACKAGES.iterdir():
        if not path.name.lower().startswith(names):
            (place / path.name).symlink_to(path)
    return place


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Path) -> KeptRegistry:
    root = tmp_path_factory.mktemp("kept")

    def fill(registry: Registry) -> None:
        publish_version(registry, publication_of(root / "made", b"the", b" the"))

    return KeptRegistry(root, empty_mlflow, fill)


@pytest.fixture
def stored(registry: Registry) -> Path:
    """The files of a published model, as MLflow keeps them."""
    (model,) = registry.workspace.mlflow_artifacts.rglob("MLmodel")
    return model.parent


@pytest.fixture
def wheel(stored: Path) -> Path:
    return stored / "artifacts" / core_wheel().name


@pytest.mark.night
def test_it_loads_where_bpeline_is_not_installed_with_the_same_ids(
    registry: Registry, stored: Path, wheel: Path, tmp_path: Path
) -> None:
    packages = packages_without(tmp_path / "packages", "zstandard", "duckdb", "prefect", "pyarrow")
    uri = registry.tracker.settings.uri
    answer = answer_of(
        load_elsewhere(tmp_path / "elsewhere", "models:/news@candidate", uri, packages)
    )
    tokenizer = load_tokenizer("news@candidate")
    assert answer["ids"] == [tokenizer.encode(text) for text in TEXTS]
    assert answer["refused"]
    assert answer["core"] == str(wheel / "bpeline" / "__init__.py")
    assert answer["last"] == str(wheel), "whatever else is installed goes before it"
    assert answer["kernels"] == source_digest(), "what was compiled for us serves it, too"
    assert answer["by a process of its own"] == [256, 98]
    assert "bpeline.registry" not in answer["modules"]
    assert not list(wheel.parent.rglob("*.pyc"))


@pytest.mark.night
def test_an_installed_bpeline_is_used_instead(stored: Path, wheel: Path) -> None:
    import mlflow.pyfunc

    wheel.unlink()
    before = list(sys.path)
    model = mlflow.pyfunc.load_model(str(stored))
    assert sys.path == before
    tokenizer = model.unwrap_python_model()._tokenizer
    assert type(tokenizer) is Tokenizer
    ids = [tokenizer.encode(text) for text in TEXTS]
    assert model.predict(TEXTS) == ids
    numbers, others = range(len(TEXTS)), ["the"] * len(TEXTS)
    for columns in (
        {"body": TEXTS},
        {"text": TEXTS, "id": others},
        {"id": others, "text": TEXTS},  # the first column of strings was encoded
        {"id": numbers, "text": TEXTS},
    ):
        assert model.predict(pandas.DataFrame(columns)) == ids
    assert model.predict(ids) == model.predict(pandas.DataFrame({"ids": ids})) == TEXTS
    assert model.predict([[]]) == [""]
    twice = pandas.DataFrame(zip(TEXTS, TEXTS, strict=True), columns=["text", "text"])
    for frame, named in (
        (pandas.DataFrame({"id": others, "body": TEXTS}), r"columns \['id', 'body'\]"),
        (pandas.DataFrame({"n": numbers, "body": TEXTS}), r"columns \['n', 'body'\]"),
        (twice, r"columns \['text', 'text'\]"),
        (pandas.DataFrame({"text": numbers}), "Expected type str, but got int"),
        (pandas.DataFrame(), r"columns \[\]"),
    ):
        with pytest.raises(mlflow.exceptions.MlflowException, match=named) as refused:
            model.predict(frame)
        assert refused.value.error_code == "INVALID_PARAMETER_VALUE"
    for rows in ([1, 2], [[65], "a"]):
        with pytest.raises(mlflow.exceptions.MlflowException, match="Expected type str, but got"):
            model.predict(rows)
    signature = model.metadata.signature
    assert str(signature.inputs) == "[string (required)]"
    assert str(signature.params) == "['allowed_special': string (default: None)]"


@pytest.mark.night
def test_special_tokens_are_recognized_in_texts_where_params_allow_them(
    registry: Registry, tmp_path: Path
) -> None:
    import mlflow.pyfunc

    tokenizer = train_from_iterator(["ab"], 258, special_tokens=["<|a|>", "<|b|>"])
    publication = replace(publication_of(tmp_path, b"s"), name="special", digest=tokenizer.digest)
    tokenizer.save(publication.tokenizer_directory, format="bpeline")
    publish_version(registry, publication)
    stored = registry.workspace.mlflow_artifacts.rglob("MLmodel")
    (path,) = [one.parent for one in stored if tokenizer.digest in one.read_text()]
    model = mlflow.pyfunc.load_model(str(path))
    text = "x<|a|>y<|b|>"
    for value, allowed in (
        (None, None), ("none", "none"), ("all", "all"), ('["<|b|>"]', {"<|b|>"}), ("[]", ()),
    ):  # fmt: skip
        ids = model.predict([text], params={"allowed_special": value})
        assert ids == [tokenizer.encode(text, allowed_special=allowed)]
        assert model.predict(ids) == [text]
    for value in ("<|a|>", '"<|a|>"', "[1]", "{}", ["<|a|>"]):
        with pytest.raises(mlflow.exceptions.MlflowException, match="allowed_special"):
            model.predict([text], params={"allowed_special": value})
    with pytest.raises(InvalidSpecialToken, match=r"<\|c\|>"):
        model.predict([text], params={"allowed_special": '["<|c|>"]'})


@pytest.mark.night
def test_an_installed_bpeline_that_is_too_old_says_so(stored: Path) -> None:
    import mlflow.pyfunc

    manifest = stored / "artifacts/tokenizer/manifest.json"
    newer = {**unsealed(json.loads(manifest.read_text())), "format_version": 99}
    manifest.write_text(json.dumps(sealed(newer)))
    with pytest.raises(InvalidTokenizer, match="99"):
        mlflow.pyfunc.load_model(str(stored))


@pytest.mark.night
@pytest.mark.parametrize("missing", [("regex",), ("numba", "regex")], ids="+".join)
def test_what_is_missing_is_named_with_the_command_that_installs_it(
    stored: Path, tmp_path: Path, missing: tuple[str, ...]
) -> None:
    packages = packages_without(tmp_path / "packages", *missing)
    done = load_elsewhere(tmp_path / "elsewhere", stored, packages=packages)
    pins = " ".join(f"{name}=={metadata.version(name)}" for name in missing)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert last.endswith(f": pip install {pins}")
    assert done.stderr.count("Traceback") == 1, "none of an inner import"


@pytest.mark.night
@pytest.mark.parametrize("change", ["other", "gone"])
def test_a_core_that_is_not_the_one_that_was_stored_is_not_imported(
    stored: Path, wheel: Path, tmp_path: Path, change: str
) -> None:
    wheel.unlink()
    if change == "other":
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("bpeline/__init__.py", f"open({str(tmp_path / 'executed')!r}, 'w')")
    done = load_elsewhere(tmp_path / "elsewhere", stored)
    assert f"ImportError: {wheel} " in done.stderr
    assert core_wheel().digest in done.stderr
    assert not (tmp_path / "executed").exists()


@pytest.mark.night
def test_models_that_carry_the_core_as_source_load_as_ever(tmp_path: Path) -> None:
    model = tmp_path / "model"
    with tarfile.open(EARLIER) as archive:
        archive.extractall(model, filter="data")
    answer = answer_of(load_elsewhere(tmp_path / "elsewhere", model))
    tokenizer = Tokenizer.load(model / "artifacts/tokenizer", format="bpeline")
    assert answer["ids"] == [tokenizer.encode(text) for text in TEXTS]
    assert answer["core"] == str(model / "code/bpeline/__init__.py")


@pytest.mark.night
def test_a_version_is_few_files(stored: Path, wheel: Path) -> None:
    kept = [path for path in stored.rglob("*") if path.is_file()]
    assert {path.relative_to(stored).as_posix() for path in kept} == {
        "MLmodel", "mlflow_model.py", "conda.yaml", "python_env.yaml", "requirements.txt",
        "artifacts/tokenizer/manifest.json", "artifacts/tokenizer/vocab.json",
        "artifacts/tokenizer/merges.txt", f"artifacts/{wheel.name}",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in kept) < 1 << 20
    required = (stored / "requirements.txt").read_text().split()
    assert required[-3:] == [f"{name}=={metadata.version(name)}" for name in CORE_PACKAGES]


def test_the_wheel_is_a_wheel_of_the_core_alone_and_always_the_same_bytes() -> None:
    wheel = core_wheel()
    assert wheel is core_wheel(), "made once"
    assert wheel == core_wheel.__wrapped__(), "and the same if made again"
    assert wheel.digest == hashlib.sha256(wheel.content).hexdigest()
    with zipfile.ZipFile(io.BytesIO(wheel.content)) as archive:
        files = {one.filename: archive.read(one) for one in archive.infolist()}
        assert {one.date_time for one in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    about = f"bpeline_core-{metadata.version('bpeline')}.dist-info"
    assert {"/".join(name.split("/")[:2]) for name in files if not name.endswith(".py")} == {
        f"{about}/METADATA", f"{about}/WHEEL", f"{about}/RECORD",
    }  # fmt: skip
    assert {name.split("/")[1] for name in files if name.endswith(".py")} == {
        "__init__.py", "lazy_names.py", "tokenizer_core",
    }  # fmt: skip
    for line in files[f"{about}/RECORD"].decode().splitlines():
        name, digest, size = line.split(",")
        content = files.pop(name)
        if not name.endswith("RECORD"):
            hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
            assert (digest, int(size)) == (f"sha256={hashed.rstrip('=')}", len(content))
    assert files == {}, "all of it is recorded"
