"""``export --output hf://…`` and ``import hf://…``: the same tokenizer comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hub_server import Hub, hub_server

from bpeline.flows.versions.hub import OURS

Command = Callable[..., Result]
pytestmark = pytest.mark.night
CHAT = "{% for message in messages %}<|user|>{{ message.content }}{% endfor %}"
REPOSITORY = "acme/news-tokenizer"


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path], english_and_code: str) -> Path:
    """A folder with ``news/1``, whose corpus has two sources and whose path is nobody's affair."""
    files = {
        "secret-project/a.txt": english_and_code[:30_000],
        "secret-project/b.txt": english_and_code[30_000:60_000],
        "chat.jinja": CHAT,
    }
    return folder_after(files, [
        ("train", "--source", "prose:language=en=secret-project/a.txt",
         "--source", "code=secret-project/b.txt", "--name", "news", "--vocab-size", 500,
         "--special-token", "<|endoftext|>", "--special-token", "<|user|>", "--held-out", 0.2),
    ])  # fmt: skip


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as server:
        yield server


@pytest.fixture
def run(hub: Hub, here: Path, tmp_path: Path, warm: Path) -> Callable[..., Any]:
    """A command in a process of its own, which imports the library: it reads its endpoint then."""

    def run(*arguments: str, code: int = 0) -> Any:
        ended = subprocess.run(
            [warm / "bpeline", *arguments],
            cwd=here,
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "HF_ENDPOINT": hub.url,
                "HF_HUB_DISABLE_XET": "1",
                "HF_HOME": str(tmp_path / "hf"),
                "HF_TOKEN": "hf_key_of_a_test",
            },
            timeout=300,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        assert "hf_key_of_a_test" not in ended.stdout + ended.stderr
        return json.loads(ended.stdout) if "--json" in arguments else ended.stdout + ended.stderr

    return run


def test_what_is_pushed_loads_and_can_be_imported_at_its_commit(
    hub: Hub, run: Callable[..., Any], tmp_path: Path
) -> None:
    options = ("--licence", "apache-2.0", "--chat-template", "chat.jinja", "--json")
    pushed = run("export", "news@candidate", "--output", f"hf://{REPOSITORY}", *options)
    repository = hub.repositories[REPOSITORY]
    assert repository.branches == {"main": pushed["commit"]}
    assert repository.messages[-1] == f"news/1, digest {pushed['digest']}"
    files = repository.commits[pushed["commit"]]
    assert files.keys() == {
        ".gitattributes", "README.md", "tokenizer.json", "tokenizer_config.json",
        "special_tokens_map.json", "chat_template.jinja",
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    from transformers import AutoTokenizer  # a second, which every worker would take to collect

    theirs = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    said = [{"role": "user", "content": "hello"}]
    assert theirs.apply_chat_template(said, tokenize=False) == "<|user|>hello"
    assert theirs.eos_token == "<|endoftext|>"

    card = files["README.md"].decode()
    assert card.startswith('---\nlicense: "apache-2.0"\nlanguage: ["en"]\n')
    assert "| prose | en |" in card
    assert "bytes/token" in card
    assert "`allowed_special`" in card
    assert "| transformers | transformers " in card
    assert pushed["digest"] in card
    assert "secret-project" not in card, "paths are for the owners of the corpus"

    hub.licence = "apache-2.0"
    run("import", f"hf://{REPOSITORY}", "--name", "again")
    shown = run("show", "again/1", "--json")
    assert shown["digest"] == pushed["digest"]
    assert shown["imported"]["imported from"] == f"hf://{REPOSITORY}@{pushed['commit']}"
    assert shown["imported"]["licence"] == "apache-2.0"
    assert "alike" in shown["certificates"]["original"]
    assert run("verify", "again/1", "--json")["identical"]
    exported = tmp_path / "exported"
    run("export", "again/1", "--format", "transformers", "--output", str(exported))
    config = json.loads((exported / "tokenizer_config.json").read_bytes())
    assert config["chat_template"] == CHAT, "what was imported comes out again"


def test_a_branch_is_made_and_what_others_wrote_stays(hub: Hub, run: Callable[..., Any]) -> None:
    run("export", "news/1", "--output", f"hf://{REPOSITORY}")
    repository = hub.repositories[REPOSITORY]
    before = dict(repository.branches)
    theirs = {"README.md": b"# Our model\n", "vocab.txt": b"a\n", "model.safetensors": b"x"}
    repository.commit("main", {**repository.commits[before["main"]], **theirs})
    pushed = run("export", "news/1", "--output", f"hf://{REPOSITORY}", "--revision", "v3", "--json")
    assert repository.branches["v3"] == pushed["commit"]
    now = repository.commits[pushed["commit"]]
    assert {name: now[name] for name in theirs} == theirs
    roles, *remarks = pushed["remarks"]
    assert "eos <|endoftext|>" in roles
    for file, remark in zip(("README.md", "vocab.txt"), remarks, strict=True):
        assert file in remark
        assert REPOSITORY in remark
    assert "README.md" not in pushed["files"]


def test_what_the_hub_refuses_or_changes_is_told(hub: Hub, run: Callable[..., Any]) -> None:
    hub.changed = {"tokenizer.json": b"{}"}
    assert REPOSITORY in run("export", "news/1", "--output", f"hf://{REPOSITORY}", code=1)
    hub.changed = {}
    assert "RepositoryNotFoundError" in run("import", "hf://acme/none", "--name", "x", code=2)
    said = run("import", f"hf://{REPOSITORY}@v9", "--name", "x", code=2)
    assert "RevisionNotFoundError" in said
    assert "hf auth login" in said
    run("export", "news/1", "--output", "hf://news", code=2)
    for other in (("--format", "gguf"), ("--eval", "x.txt"), ("--check",)):
        run("export", "news/1", "--output", f"hf://{REPOSITORY}", *other, code=2)
    run("export", "news/1", "--output", "x.json", "--revision", "v3", code=2)
    export = ("export", "news/1", "--format", "hf", "--output", "x")
    assert "chat template" in run(*export, "--chat-template", "chat.jinja", code=2)
    hub.readers = {"Bearer hf_key_of_a_test"}
    said = run("export", "news/1", "--output", f"hf://{REPOSITORY}", "--revision", "v4", code=1)
    assert "403" in said
    assert "HF_TOKEN" in said
    hub.shutdown()
    hub.server_close()
    said = run("export", "news/1", "--output", f"hf://{REPOSITORY}", code=1)
    assert hub.url in said
    assert "HF_ENDPOINT" in said


def test_an_export_has_a_card_and_leaves_that_of_others(
    here: Path, bpeline: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "shipped"
    export = ("export", "news/1", "--format", "transformers", "--output", folder)
    for _ in range(2):  # ours is replaced
        assert bpeline(*export, "--licence", "mit").exit_code == 0
    assert OURS in (folder / "README.md").read_text()
    assert bpeline(*export, "--chat-template", "chat.jinja").exit_code == 0
    assert "chat_template.jinja" in bpeline(*export).output
    (folder / "README.md").write_text("# Mine\n")
    said = bpeline(*export)
    assert said.exit_code == 0
    assert (folder / "README.md").read_text() == "# Mine\n"
    (tmp_path / "broken.jinja").write_text("{% for %}")
    refused = bpeline(*export, "--chat-template", tmp_path / "broken.jinja")
    assert refused.exit_code == 2
    assert "not Jinja" in refused.stderr
    assert bpeline(*export[:3], "hf", *export[4:], "--licence", "mit").exit_code == 2


def test_without_the_library_the_extra_is_named(here: Path, bpeline: Command) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "huggingface_hub", None)
        refused = bpeline("export", "news/1", "--output", f"hf://{REPOSITORY}")
    assert refused.exit_code == 1
    assert "pip install 'bpeline[hub]'" in refused.stderr
