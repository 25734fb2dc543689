"""``bpeline export --check``: exports read again, by libraries that are not what they were."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from event_server import Prefect

from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core.digests import sealed, unsealed

Command = Callable[..., Result]
pytestmark = [pytest.mark.night, pytest.mark.fake_mlflow]

# A release of tokenizers that reads one word of ours otherwise; like 1.0, it has no models to make.
DOCTORED = """
import sys
folder, me = sys.path.pop(0), sys.modules.pop("tokenizers")
import tokenizers as installed
sys.modules["tokenizers"] = me
sys.path.insert(0, folder)

class Encoding:
    def __init__(self, ids):
        self.ids = ids

class Tokenizer:
    @staticmethod
    def from_file(path):
        made = Tokenizer()
        made.theirs = installed.Tokenizer.from_file(path)
        return made

    def encode_batch(self, texts, encode_special_tokens, **how):
        self.theirs.encode_special_tokens = encode_special_tokens
        found = [self.theirs.encode(text, add_special_tokens=False).ids for text in texts]
        return [
            Encoding([*ids[:-1], ids[-1] + 1] if "WRONG" in text and len(ids) < 9 else ids)
            for text, ids in zip(texts, found)
        ]
"""


@pytest.fixture(scope="module")
def _few_texts() -> None:
    """Here exports are compared on all texts: which of them is read otherwise is the question."""


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path]) -> Path:
    """A folder with ``news/1``, an older ``news`` that no alias names, and the import ``ext/1``."""
    train = ("train", "corpus.txt", "--name", "news", "--vocab-size")
    export = ("export", "news/2", "--format", "gpt2", "--output", "gpt2")
    return folder_after(commands=[(*train, 300), (*train, 400), export], begin="imported")


@pytest.fixture
def doctored(tmp_path: Path) -> Path:
    package = tmp_path / "recent" / "tokenizers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(DOCTORED)
    about = package.with_name("tokenizers-9.9.dist-info")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tokenizers\nVersion: 9.9\n")
    return package.parent


def recertified(bpeline: Command, *arguments: object, code: int) -> Any:
    answer = bpeline("export", "--check", *arguments, "--json")
    assert answer.exit_code == code, answer.output
    return json.loads(answer.stdout)


def outcomes(found: Any) -> dict[tuple[str, str], str]:
    return {(one["reference"], one["format"]): one["outcome"] for one in found["exports"]}


def tags(name: str, number: int) -> dict[str, str]:
    client = open_registry().tracker._client
    shown: dict[str, str] = client.get_model_version(name, str(number)).tags
    return {key: value for key, value in shown.items() if key.startswith("certificate.")}


def test_exports_of_promoted_versions_are_read_again(here: Path, bpeline: Command) -> None:
    found = recertified(bpeline, code=0)
    assert outcomes(found) == {
        ("ext/1", "hf"): "equal",
        ("ext/1", "original"): "equal",
        ("news/2", "gpt2"): "equal",
        ("news/2", "hf"): "equal",
        ("news/2", "tiktoken"): "equal",
    }
    assert (found["equal"], found["changed"], found["not_checked"]) == (5, 0, 0)
    assert all(one["certificate"]["equal"] > 1_000 for one in found["exports"])
    assert not any(one["spelled_otherwise"] for one in found["exports"])
    assert "texts alike" in tags("ext", 1)["certificate.original.tokenizers"]
    assert outcomes(recertified(bpeline, "news/1", code=0)).keys() == {
        ("news/1", "hf"), ("news/1", "tiktoken")
    }  # fmt: skip
    said = bpeline("export", "--check", "news")
    assert said.stdout.splitlines()[-1].startswith("3 exports ")


def test_a_library_that_reads_otherwise_is_caught(
    here: Path,
    bpeline: Command,
    doctored: Path,
    prefect: Prefect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", prefect.url)
    found = recertified(bpeline, "news", "--library", doctored, code=3)
    assert outcomes(found) == {
        ("news/2", "gpt2"): "not checked",
        ("news/2", "hf"): "changed",
        ("news/2", "tiktoken"): "not checked",
    }
    changed, why = found["exports"][1], found["exports"][2]["certificate"]["not_checked"]
    first = changed["certificate"]["difference"]
    assert "WRONG" in first["what"]
    assert first["ours"] != first["theirs"]
    assert re.match(rf"tiktoken\b.*{doctored}$", why)
    (event,) = prefect.events
    assert event["event"] == "bpeline.export.changed"
    assert event["resource"]["prefect.resource.id"] == "bpeline.tokenizer.news"
    assert event["resource"]["bpeline.format"] == "hf"
    assert event["payload"]["reference"] == "news/2"
    assert (event["payload"]["library"], event["payload"]["version"]) == ("tokenizers", "9.9")
    assert event["payload"]["first"] == first["what"]
    shown = tags("news", 2)["certificate.hf.tokenizers"]
    assert shown.startswith("tokenizers 9.9 ")
    kept = json.loads(bpeline("show", "news/2", "--json").stdout)["certificates"]["hf"]
    assert "9.9" not in kept, "what is installed reads it as before"
    said = bpeline("export", "--check", "news/2", "--library", doctored)
    assert said.exit_code == 3
    assert re.search(r"^1 export .*\b2 exports not checked$", said.stdout, re.MULTILINE)


def test_what_is_not_checked_is_not_fine(here: Path, bpeline: Command) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bpeline.registry.certify.native_readers.find_spec", lambda name: None)
        found = recertified(bpeline, "news", code=4)
    assert set(outcomes(found).values()) == {"not checked"}
    kept = json.loads(bpeline("show", "news/2", "--json").stdout)["certificates"]
    assert "alike" in kept["hf"], "what was seen once stays"


def test_a_file_that_is_only_spelled_otherwise_is_named(here: Path, bpeline: Command) -> None:
    (path,) = (
        one
        for one in (here / ".bpeline" / "versions").glob("*/tokenizer.json")
        if len(json.loads(one.read_bytes())["model"]["merges"]) == 400 - 256
        and not one.with_name("imported.json").exists()
    )
    content = path.read_bytes()
    try:
        path.write_text(json.dumps(json.loads(content), indent=7))
        found = recertified(bpeline, "news", code=0)
        assert [one["spelled_otherwise"] for one in found["exports"]] == [
            [], ["tokenizer.json"], []
        ]  # fmt: skip
        said = bpeline("verify", "news/2", "--json")
        assert said.exit_code == 0
        checks = {one["what"]: one for one in json.loads(said.stdout)["checks"]}
        assert checks["tokenizer.json"]["means_the_same"]
        document = json.loads(content)
        document["model"]["merges"].pop()
        path.write_text(json.dumps(document))
        assert outcomes(recertified(bpeline, "news", code=3))["news/2", "hf"] == "changed"
        verified = bpeline("verify", "news/2", "--json")
        assert verified.exit_code == 1
        checks = json.loads(verified.stdout)["checks"]
        assert [one["what"] for one in checks if not one["holds"]] == ["tokenizer.json"]
    finally:
        path.write_bytes(content)
    assert recertified(bpeline, "news", code=0)["changed"] == 0


def test_a_damaged_certificate_hides_no_export(here: Path, bpeline: Command) -> None:
    (path,) = (here / ".bpeline" / "versions").glob("*/certificate-gpt2.json")
    content = path.read_bytes()
    try:
        path.write_bytes(content[:100])
        found = {one["format"]: one for one in recertified(bpeline, "news", code=0)["exports"]}
        assert "alike" in found["hf"]["before"]
        assert "alike" not in found["gpt2"]["before"]
        assert found["gpt2"]["outcome"] == "equal"
    finally:
        path.write_bytes(content)


def test_what_cannot_be_asked_is_said(here: Path, bpeline: Command, tmp_path: Path) -> None:
    for arguments, said in (
        (("nobody",), "'nobody'"),
        (("news/7",), "news/7"),
        (("--library", tmp_path / "none"), str(tmp_path / "none")),
    ):
        answer = bpeline("export", "--check", *arguments)
        assert answer.exit_code in (1, 2), answer.output
        assert said in answer.stderr


def test_what_no_library_has_read_is_said_with_what_to_type(
    here: Path, bpeline: Command, tmp_path: Path
) -> None:
    advice = "pip install 'bpeline[certify]'"
    train = ("train", "corpus.txt", "--name", "news", "--vocab-size", 310)
    with pytest.MonkeyPatch.context() as patch:
        for room in ("certify.native_readers", "loading.version_files"):
            patch.setattr(f"bpeline.registry.{room}.find_spec", lambda name: None)
        assert advice in bpeline(*train).stdout.splitlines()[-1]
        assert advice in bpeline("promote", "news@candidate").stdout.splitlines()[-1]
        assert json.loads(bpeline("promote", "news/2", "--json").stdout)["uncertified"] == ""
    advice = "`bpeline export --check news/3`"
    assert advice in bpeline(*train).stdout.splitlines()[-1]
    assert advice in bpeline("show", "news/3").stdout
    assert recertified(bpeline, "news/3", code=0)["equal"] == 2
    for command in (train, ("promote", "news/3")):
        assert "bpeline export --check" not in bpeline(*command).stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bpeline.registry.certify.native_readers.find_spec", lambda name: None)
        assert bpeline(*train[:-1], 330).exit_code == 0
    shipped = ("export", "news/4", "--format", "transformers", "--output", tmp_path / "shipped")
    assert bpeline(*shipped).exit_code == 0
    card = (tmp_path / "shipped" / "README.md").read_text()
    assert "| hf | tokenizers 0." in card, "read by what is installed now"
    assert "| tiktoken | tiktoken 0." in card


def test_a_rule_asks_for_certificates(here: Path, bpeline: Command) -> None:
    """Exports that no library has read are not judged; one that is read otherwise is refused."""
    rule = '[[rule]]\nmetric = "vocabulary/unreachable_tokens"\ndirection = "lower"\nlimit = 9999\n'
    Path("rules.toml").write_text(f"gain = 0\ncertified = true\n{rule}", encoding="utf-8")
    asked = ("--rules", "rules.toml")
    train = ("train", "corpus.txt", "--name", "asked", "--vocab-size", 320, *asked)
    with pytest.MonkeyPatch.context() as patch:
        for room in ("certify.native_readers", "loading.version_files"):
            patch.setattr(f"bpeline.registry.{room}.find_spec", lambda name: None)
        not_judged = (bpeline(*train), bpeline("promote", "asked/1", *asked))
    for answer in not_judged:
        assert answer.exit_code == 4, answer.output
        said = " ".join(answer.output.split())
        assert "pip install 'bpeline[certify]'" in said
    recertified(bpeline, "asked/1", code=0)
    files = json.loads(bpeline("show", "asked/1", "--json").stdout)["files"]
    path = Path(files) / "certificate-hf.json"
    content = path.read_bytes()
    record = unsealed(json.loads(content))
    record["difference"] = {"what": "a", "at": 0, "ours": [1], "theirs": [2]}
    path.write_text(json.dumps(sealed(record)), encoding="utf-8")
    assert bpeline("promote", "asked/1", *asked).exit_code == 3
    path.unlink()  # what is not there certifies nothing
    assert bpeline("promote", "asked/1", *asked).exit_code == 4
    path.write_bytes(content)
    assert bpeline("promote", "asked/1", *asked).exit_code == 0
