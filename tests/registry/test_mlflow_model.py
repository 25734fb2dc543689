"""The model that MLflow loads: by bpeline where it is installed, else by `tokenizers` alone."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas
import pytest
from kept_registry import KeptRegistry
from small_publications import publication_of

from bpeline import Tokenizer, train_from_iterator
from bpeline.registry import publish_version
from bpeline.registry.loading.version_files import write_exports
from bpeline.registry.opening import Registry
from bpeline.tokenizer_core.digests import sealed, unsealed
from bpeline.tokenizer_core.errors import InvalidSpecialToken, InvalidTokenizer

# MLflow itself warns so when it first imports its models.
pytestmark = pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType")

TEXTS = ["the other theatre", "", " don't\n\n123 the", "日本語 the 🎉", "<|endoftext|>"]
SPECIAL = ("<|a|>", "<|b|>")
WITH_SPECIAL = ["x<|a|>y<|b|>", "<|a|><|a|> <|b|>", " the <|a |> <|b", "<|a|", "日本<|b|>語 the"]
PACKAGES = Path(sysconfig.get_path("purelib"))
EARLIER = Path(__file__).with_name("earlier_model.tar.xz")  # carries the core as source
OF_0_2 = Path(__file__).parents[1] / "workspace_0_2.tar.xz"  # its models carry it as a wheel

PROGRAM = """
import json, sys, warnings
sys.path += json.loads(sys.argv[1])
warnings.simplefilter("ignore")
import mlflow
mlflow.set_tracking_uri(sys.argv[2])
model = mlflow.pyfunc.load_model(sys.argv[3])
texts = json.loads(sys.argv[4])
newer = model.metadata.signature.params is not None  # those of 0.2 only encode
ids = {how: model.predict(texts, params={"allowed_special": how} if how else None)
       for how in (("", "all", "none") if newer else ("",))}
decoded = model.predict(ids[""]) if newer else []
try:
    model.predict([1, 2])
    refused = False
except mlflow.exceptions.MlflowException:
    refused = True
core = getattr(sys.modules.get("bpeline"), "__file__", None)
print(json.dumps({"ids": ids, "texts": decoded, "refused": refused, "core": core}))
"""


def load_elsewhere(
    place: Path, model: str | Path, uri: str = "", packages: Path = PACKAGES
) -> subprocess.CompletedProcess[str]:
    """Load a model in a process that knows MLflow but no bpeline, only a folder of that name."""
    (place / "bpeline").mkdir(parents=True)
    texts = [*TEXTS, *WITH_SPECIAL]
    arguments = [json.dumps([str(place), str(packages)]), uri, str(model), json.dumps(texts)]
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


def require_alike(answer: dict[str, Any], tokenizer: Tokenizer) -> None:
    for how, ids in answer["ids"].items():
        allowed = how or None
        assert ids == [tokenizer.encode(text, allowed) for text in (*TEXTS, *WITH_SPECIAL)], how
    if answer["texts"]:
        assert answer["texts"] == tokenizer.decode_batch(answer["ids"][""])
    assert answer["refused"]


@cache
def trained() -> Tokenizer:
    return train_from_iterator([" ".join(TEXTS) * 9], 290, special_tokens=SPECIAL)


@cache
def imported() -> Tokenizer:
    """A file of HuggingFace's: it puts a space before texts and finds special tokens in them."""
    import tokenizers

    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=None, byte_fallback=False))
    made.normalizer = tokenizers.normalizers.NFC()
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator([" ".join(TEXTS) * 9], trainer)
    with TemporaryDirectory() as place:
        made.save(f"{place}/tokenizer.json")
        return Tokenizer.load(f"{place}/tokenizer.json", format="hf")


def publish(
    registry: Registry, place: Path, name: str, tokenizer: Tokenizer, certified: bool = True
) -> Path:
    """Publish it, and give the directory of the model that MLflow stored."""
    publication = replace(
        publication_of(place, b"s"), name=name, digest=tokenizer.digest,
        tokenizer_directory=place / name, run_id=f"run-{name}",
    )  # fmt: skip
    tokenizer.save(publication.tokenizer_directory, format="bpeline")
    if certified:
        write_exports(tokenizer, name, publication.tokenizer_directory)
    publish_version(registry, publication)
    version = registry.tracker.version(name, 1)
    assert version is not None
    source = registry.tracker._client.get_model_version_download_uri(name, "1")
    return Path(source.removeprefix("file://"))


MAKERS: dict[str, Callable[[], Tokenizer]] = {"trained": trained, "imported": imported}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Path) -> KeptRegistry:
    root = tmp_path_factory.mktemp("kept")

    def fill(registry: Registry) -> dict[str, Path]:
        place = root / "made"
        stored = {one: publish(registry, place, one, make()) for one, make in MAKERS.items()}
        another = train_from_iterator(TEXTS, 280)
        stored["uncertified"] = publish(registry, place, "uncertified", another, certified=False)
        return stored

    return KeptRegistry(root, empty_mlflow, fill)


@pytest.fixture
def stored(kept: KeptRegistry, registry: Registry) -> dict[str, Path]:
    """The directories of published models, as MLflow keeps them."""
    return dict(kept.filled)


@pytest.fixture
def without_bpeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is loaded now finds no bpeline."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec",
        lambda name, *more: None if name == "bpeline" else find(name, *more),
    )  # fmt: skip


def loaded(path: Path) -> Any:
    import mlflow.pyfunc

    return mlflow.pyfunc.load_model(str(path))


@pytest.mark.usefixtures("without_bpeline")
@pytest.mark.parametrize("name", MAKERS)
def test_tokenizers_gives_the_ids_of_bpeline(name: str, stored: dict[str, Path]) -> None:
    model, tokenizer = loaded(stored[name]), MAKERS[name]()
    assert type(model.unwrap_python_model()._tokenizer).__name__ == "_ByTokenizers"
    for value, allowed in (
        (None, None), ("none", "none"), ("all", "all"), (json.dumps(SPECIAL), set(SPECIAL)),
        ("[]", ()),
    ):  # fmt: skip
        ids = model.predict([*TEXTS, *WITH_SPECIAL], params={"allowed_special": value})
        assert ids == [tokenizer.encode(one, allowed) for one in (*TEXTS, *WITH_SPECIAL)], value
        assert model.predict(ids) == tokenizer.decode_batch(ids)
    with pytest.raises(Exception, match="finds all special tokens or none") as refused:
        model.predict(["x"], params={"allowed_special": '["<|b|>"]'})
    assert refused.value.error_code == "INVALID_PARAMETER_VALUE"  # type: ignore[attr-defined]


@pytest.mark.usefixtures("without_bpeline")
def test_what_was_not_certified_is_loaded_by_bpeline_alone(
    stored: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ImportError, match=r"needs bpeline: .* not compared .* Install bpeline"):
        loaded(stored["uncertified"])
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    version = metadata.version("tokenizers")
    with pytest.raises(ImportError, match=f"pip install tokenizers=={version}"):
        loaded(stored["trained"])


@pytest.mark.night
@pytest.mark.parametrize("name", MAKERS)
def test_it_loads_where_bpeline_is_not_installed_with_the_same_ids(
    name: str, registry: Registry, stored: dict[str, Path], tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    absent = ("numba", "llvmlite", "regex", "zstandard", "duckdb", "prefect")
    for path in PACKAGES.iterdir():
        if not path.name.lower().startswith(absent):
            (packages / path.name).symlink_to(path)
    model, uri = f"models:/{name}@candidate", registry.tracker.settings.uri
    answer = answer_of(load_elsewhere(tmp_path / "elsewhere", model, uri, packages))
    require_alike(answer, MAKERS[name]())
    assert answer["core"] is None


@pytest.mark.night
@pytest.mark.parametrize("archive", [EARLIER, OF_0_2], ids=["source", "wheel"])
def test_models_of_earlier_releases_load_as_ever(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "all", filter="data")
    models = (tmp_path / "all").rglob("MLmodel")
    model = next(one.parent for one in models if archive == EARLIER or "/words/" in str(one))
    tokenizer = Tokenizer.load(model / "artifacts/tokenizer", format="bpeline")
    answer = answer_of(load_elsewhere(tmp_path / "elsewhere", model))
    require_alike(answer, tokenizer)
    assert str(model) in answer["core"]
    assert loaded(model).predict(TEXTS) == answer["ids"][""][: len(TEXTS)]  # by what is installed


@pytest.mark.night
def test_an_installed_bpeline_is_used(stored: dict[str, Path]) -> None:
    import mlflow

    model = loaded(stored["trained"])
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
    stored: dict[str, Path],
) -> None:
    import mlflow

    model, tokenizer, text = loaded(stored["trained"]), trained(), WITH_SPECIAL[0]
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
def test_an_installed_bpeline_that_is_too_old_says_so(stored: dict[str, Path]) -> None:
    manifest = stored["trained"] / "artifacts/tokenizer/manifest.json"
    newer = {**unsealed(json.loads(manifest.read_text())), "format_version": 99}
    manifest.write_text(json.dumps(sealed(newer)))
    with pytest.raises(InvalidTokenizer, match="99"):
        loaded(stored["trained"])


def test_a_version_is_few_files_and_names_what_reads_it(stored: dict[str, Path]) -> None:
    usual = {
        "MLmodel", "mlflow_model.py", "conda.yaml", "python_env.yaml", "requirements.txt",
        "artifacts/tokenizer/manifest.json", "artifacts/tokenizer/tokenizer.bin",
    }  # fmt: skip
    exports = {
        f"artifacts/tokenizer/{name}" for name in ("tokenizer.json", "vocab.json", "merges.txt")
    }
    for name, directory in stored.items():
        files = [path for path in directory.rglob("*") if path.is_file()]
        certified = name != "uncertified"
        expected = usual | (exports if certified else set())
        assert {path.relative_to(directory).as_posix() for path in files} == expected
        assert sum(path.stat().st_size for path in files) < 1 << 18
        library = "tokenizers" if certified else "bpeline"
        required = (directory / "requirements.txt").read_text().split()
        assert required[-1] == f"{library}=={metadata.version(library)}"
