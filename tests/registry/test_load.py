"""Loading what was registered, by every name it has, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kept_registry import KeptRegistry, with_two_versions
from own_time import own_time

from bpeline.registry import (
    compare_versions,
    configure,
    export,
    list_versions,
    load_tokenizer,
    promote,
    publish_version,
)
from bpeline.registry.evaluation.comparison import MetricPair
from bpeline.registry.loading.resolution import StaleAlias
from bpeline.registry.loading.version_files import write_exports
from bpeline.registry.opening import Registry
from bpeline.registry.records.publication import Publication
from bpeline.registry.records.references import ByAlias, ByDigest, ByNumber, ByPath, parse_reference
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    DiskFull,
    InvalidInput,
    InvalidOption,
    RegistryError,
    RegistryUnreachable,
    UnknownVersion,
)
from bpeline.tokenizer_core.tokenizer import Tokenizer

pytestmark = pytest.mark.fake_mlflow

ROOT = Path(__file__).parents[2]
Made = Callable[..., Publication]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Path) -> KeptRegistry:
    return with_two_versions(tmp_path_factory.mktemp("kept"), empty_mlflow)


@pytest.fixture
def news(kept: KeptRegistry, registry: Registry) -> list[str]:
    """The digests of its versions."""
    return list(kept.filled)


def forget_files(registry: Registry) -> None:
    shutil.rmtree(registry.workspace.versions)


@pytest.mark.night
@pytest.mark.parametrize("elsewhere", [False, True], ids=["kept files", "fetched files"])
def test_a_version_is_loaded_by_each_of_its_names(
    registry: Registry, news: list[str], elsewhere: bool
) -> None:
    for reference, digest in (
        ("news@champion", news[0]),
        ("news/1", news[0]),
        ("models:/news@candidate", news[1]),
        ("news/2", news[1]),
        (news[1], news[1]),
        (news[0][:8], news[0]),
    ):
        if elsewhere:
            forget_files(registry)
        assert load_tokenizer(reference).digest == digest
        assert load_tokenizer(reference, expect_digest=digest).digest == digest


@pytest.mark.night
def test_a_version_of_another_machine_is_found_through_mlflow(
    registry: Registry, news: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(workspace=tmp_path / "fresh", tracking_uri=registry.tracker.settings.uri)
    assert [one.digest for one in list_versions()] == news
    for reference in ("news@champion", "news/1", news[0][:12]):
        assert load_tokenizer(reference).digest == news[0]
    assert (tmp_path / "fresh" / "versions" / news[0] / "manifest.json").is_file()


def test_a_path_needs_no_registry(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication = made(b"the")
    monkeypatch.chdir(tmp_path)
    for path in (publication.tokenizer_directory, str(publication.tokenizer_directory)):
        assert load_tokenizer(path).digest == publication.digest
    assert not (tmp_path / ".bpeline").exists()
    with pytest.raises(RegistryError):
        load_tokenizer(publication.tokenizer_directory, expect_digest="0" * 64)
    with pytest.raises(UnknownVersion):
        load_tokenizer("./nowhere")


def test_the_alias_is_the_one_people_moved_in_mlflow(registry: Registry, news: list[str]) -> None:
    registry.tracker.move_alias("news", "champion", 2)
    assert load_tokenizer("news@champion").digest == news[1]


def test_without_mlflow_the_remembered_alias_is_used_with_a_warning(
    news: list[str], disconnected: Registry
) -> None:
    begin = own_time()
    with pytest.warns(StaleAlias, match="news/1"):
        assert load_tokenizer("news@champion").digest == news[0]
    assert own_time() - begin < 60
    with pytest.raises(RegistryUnreachable):
        load_tokenizer("news@nobody")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_tokenizer("news/1").digest == news[0]
        assert load_tokenizer(news[1][:9]).digest == news[1]


@pytest.mark.parametrize(
    ("reference", "listed"),
    [("news@nobody", "news@champion"), ("news/7", "news/2"), ("nwes@champion", "news"),
     ("00000000", "news/1")],
)  # fmt: skip
def test_unknown_versions_list_what_exists(news: list[str], reference: str, listed: str) -> None:
    with pytest.raises(UnknownVersion) as caught:
        load_tokenizer(reference)
    assert listed in caught.value.accepted
    assert "bpeline versions" in caught.value.next_step


def test_an_alias_that_points_nowhere_says_how_to_give_it_a_version(news: list[str]) -> None:
    with pytest.raises(UnknownVersion) as caught:
        load_tokenizer("news@staging")
    (typed,) = re.findall(r"`bpeline promote (\S+) --to staging`", caught.value.next_step)
    promote(typed, "staging")
    assert load_tokenizer("news@staging").digest == news[-1]


def test_an_empty_registry_says_so(tmp_path: Path, empty_mlflow: Path, home: Path) -> None:
    configure(workspace=tmp_path / "empty", tracking_uri=f"sqlite:///{empty_mlflow}")
    with pytest.raises(UnknownVersion, match="empty"):
        load_tokenizer("news@champion")


def tampered(directory: Path, other: Path) -> None:
    """Replace a tokenizer by one that is sound in itself, manifest and all."""
    for path in other.iterdir():
        (directory / path.name).write_bytes(path.read_bytes())


def test_tampered_files_are_refused_wherever_they_lie(
    registry: Registry, made: Made, news: list[str]
) -> None:
    other = made(b"evil").tokenizer_directory
    kept = registry.workspace.version_directory(news[0])
    tampered(kept, other)
    for reference in ("news@champion", "news/1", news[0]):
        with pytest.raises(CorruptFile, match=news[0]):
            load_tokenizer(reference)
    forget_files(registry)
    for stored in registry.workspace.mlflow_artifacts.rglob("artifacts/tokenizer"):
        tampered(stored, other)
    with pytest.raises(CorruptFile, match=news[0]):
        load_tokenizer("news@champion")
    assert not kept.exists(), "what was refused is not kept"


def test_a_disk_that_cannot_keep_a_download_does_not_prevent_loading(
    registry: Registry, news: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise DiskFull("no space left")

    forget_files(registry)
    monkeypatch.setattr(DURABLE, "write", full)
    assert load_tokenizer("news/1").digest == news[0]


def test_damaged_files_are_refused(registry: Registry, news: list[str]) -> None:
    path = registry.workspace.version_directory(news[0]) / "tokenizer.bin"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises((CorruptFile, InvalidInput)):
        load_tokenizer("news/1")


def test_a_pinned_digest_notices_a_moved_alias(registry: Registry, news: list[str]) -> None:
    load_tokenizer("news@champion", expect_digest=news[0])
    promote("news/2")
    with pytest.raises(RegistryError):
        load_tokenizer("news@champion", expect_digest=news[0])
    with pytest.raises(InvalidOption):
        load_tokenizer("news@champion", expect_digest=news[0][:12])


def test_promotion_moves_the_alias_and_remembers_why(registry: Registry, news: list[str]) -> None:
    promote("news@candidate", by="a person", reason="2 % shorter")
    assert registry.tracker.aliases("news").get("news", {}) == {"candidate": 2, "champion": 2}
    latest = registry.catalogue.alias_history("news", "champion")[0]
    assert (latest.from_number, latest.to_number) == (1, 2)
    assert (latest.by, latest.reason) == ("a person", "2 % shorter")
    assert load_tokenizer("news@champion").digest == news[1]


def test_versions_are_listed_as_last_seen_while_mlflow_does_not_answer(
    news: list[str], disconnected: Registry
) -> None:
    with pytest.warns(StaleAlias):
        first, second = list_versions("news")
    assert (first.reference, first.aliases) == ("news/1", ("champion",))
    assert (second.reference, second.aliases) == ("news/2", ("candidate",))
    assert first.metrics == {"compression/bytes_per_token": 2.5, "train/seconds": 0.25}
    assert first.vocab_size == 258
    with pytest.warns(StaleAlias):
        assert list_versions("code") == []


def test_versions_are_compared_by_metrics_and_vocab(
    registry: Registry, made: Made, news: list[str]
) -> None:
    metrics = {"compression/bytes_per_token": 2.75, "training/dead_tokens": 3.0}
    publish_version(registry, replace(made(b"there"), metrics=metrics))
    compared = compare_versions("news@champion", "news/3")
    page = compared._repr_html_()
    assert page.startswith("<table><tr><th")
    assert ">news/3</th>" in page
    assert page.count("<tr>") == 4 + len(compared.metrics)
    equal = MetricPair("corpus/bytes", 1_234_567.0, 1_234_567.0)
    with_equal = replace(compared, metrics=(*compared.metrics, equal))._repr_html_()
    assert "1 of 2 metrics" in with_equal
    assert "corpus/bytes" not in with_equal
    differing = replace(compared, metrics=(replace(equal, second=1_234_568.0),))._repr_html_()
    assert all(f">{said}</td>" in differing for said in ("1,234,567", "1,234,568", "+1"))
    assert repr(compared) == "<VersionComparison: news/1 and news/3>"
    named = replace(compared, first="<b>")
    assert "<b>" not in named._repr_html_()
    assert (compared.first, compared.second) == ("news/1", "news/3")
    assert (len(compared.vocab.added), len(compared.vocab.removed)) == (2, 0)
    assert (compared.vocab.shared, compared.vocab.moved) == (258, ())
    pairs = {one.key: (one.first, one.second, one.difference) for one in compared.metrics}
    # Nothing says that the others are of the same text.
    assert pairs == {"training/dead_tokens": (None, 3.0, None)}


def test_exports_are_what_the_tokenizer_writes(news: list[str], tmp_path: Path, made: Made) -> None:
    written = export("news@champion", tmp_path / "tokenizer.json", "hf")
    tokenizer = load_tokenizer("news/1")
    tokenizer.save(tmp_path / "direct.json", format="hf")
    assert written.read_bytes() == (tmp_path / "direct.json").read_bytes()
    export("news@champion", tmp_path / "copy", "bpeline")
    assert Tokenizer.load(tmp_path / "copy").digest == news[0]
    names = [one.name for one in write_exports(tokenizer, "news", tmp_path / "copy")]
    assert names == ["tokenizer.json", "news.tiktoken"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("news@champion", ByAlias("news", "champion")),
        ("models:/news@champion", ByAlias("news", "champion")),
        ("news/3", ByNumber("news", 3)),
        ("models:/news/3", ByNumber("news", 3)),
        ("a.b-c_d@x-1", ByAlias("a.b-c_d", "x-1")),
        ("deadbeef", ByDigest("deadbeef")),
        ("./news/3", ByPath(Path("news/3"))),
        ("/tmp/x@y", ByPath(Path("/tmp/x@y"))),
        ("some/dir/tokenizer.json", ByPath(Path("some/dir/tokenizer.json"))),
        (Path("news"), ByPath(Path("news"))),
        ("./r,x.tiktoken", ByPath(Path("r,x.tiktoken"))),
        ("./r.tiktoken,pattern=gpt2", ByPath(Path("r.tiktoken"), (("pattern", "gpt2"),))),
        ("./r.codes,characters=", ByPath(Path("r.codes"), (("characters", ""),))),
        (
            "./r.codes,characters=a,=b,pattern=spaces",
            ByPath(Path("r.codes"), (("characters", "a,=b"), ("pattern", "spaces"))),
        ),
        (
            r"./r,without_normalizer,pattern=\p{L}{1,3}|,without",
            ByPath(
                Path("r"),
                (
                    ("without_normalizer", True),
                    ("pattern", r"\p{L}{1,3}|,without"),
                ),
            ),
        ),
    ],
)
def test_references_are_understood(text: str, expected: object) -> None:
    assert parse_reference(text) == expected


def test_what_a_file_does_not_say_is_told_behind_its_path(
    news: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_tokenizer("news/1").save(tmp_path / "news.tiktoken", "tiktoken")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidOption, match="pattern"):
        load_tokenizer("./news.tiktoken")
    for spelling in ("./news.tiktoken", "news.tiktoken", str(tmp_path / "news.tiktoken")):
        loaded = load_tokenizer(f"{spelling},pattern=cl100k")
        assert loaded.pattern.name == "cl100k"
    with pytest.raises(InvalidOption, match="without_template"):
        load_tokenizer("./news.tiktoken,without_template,pattern=cl100k")
    (tmp_path / "odd,pattern=gpt2.json").write_bytes(b"{}")
    with pytest.raises(InvalidInput, match="odd,pattern=gpt2"):
        load_tokenizer("./odd,pattern=gpt2.json")
    compared = compare_versions("news/1", "news.tiktoken,pattern=cl100k")
    assert compared.patterns[1] == "cl100k"


@pytest.mark.parametrize(
    "text", ["", "news", "news@", "news@Champion", "news@latest", "news@v3", "@champion", "deadbee"]
)
def test_misspelt_references_say_what_is_accepted(text: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        parse_reference(text)
    assert caught.value.accepted
    assert caught.value.next_step


@pytest.mark.parametrize("text", ["tokenizer.json", "ranks.tiktoken,pattern=gpt2", "vocab.txt"])
def test_a_file_that_is_not_there_is_called_a_file(text: str) -> None:
    with pytest.raises(InvalidOption, match=text) as caught:
        parse_reference(text)
    assert "@champion" not in caught.value.next_step


@pytest.mark.night
def test_a_script_needs_nothing_but_the_environment(
    registry: Registry, home: Path, news: list[str], tmp_path: Path
) -> None:
    registry.tracker.keep_snapshot()
    program = (
        "import sys, bpeline.registry; "
        "heavy = {'mlflow', 'duckdb', 'sqlalchemy', 'numba'} & set(sys.modules); "
        "assert not heavy, heavy; "
        "from bpeline.registry import load_tokenizer; "
        "print(load_tokenizer('news/1').digest); "
        "assert 'mlflow' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={
            "BPELINE_HOME": str(home),
            "MLFLOW_TRACKING_URI": registry.tracker.settings.uri,
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == news[0]
