"""What the files that a version was imported with say of it: read as they were, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bpeline.registry.versions.imported import (
    Imported,
    chat_template_of,
    files_of,
    keep_originals,
    roles_declared_by,
)
from bpeline.tokenizer_core.errors import CorruptFile

CONFIG = {"chat_template": "{{ messages }}", "eos_token": "<end>", "pad_token": {"content": "<p>"}}


def imported(tmp_path: Path, files: dict[str, bytes]) -> tuple[Imported, Path]:
    """A folder as if it had been imported, and where its files are kept."""
    source, kept = tmp_path / "source", tmp_path / "kept"
    source.mkdir()
    kept.mkdir()
    for name, content in {"tokenizer.json": b"{}", **files}.items():
        (source / name).write_bytes(content)
    found = files_of(source)
    said = Imported(str(source), {}, "hf", tuple(file for file, _ in found), is_folder=True)
    keep_originals(said, found, kept)
    return said, kept


def test_a_template_and_roles_are_those_of_the_files(tmp_path: Path) -> None:
    said = imported(tmp_path, {"tokenizer_config.json": json.dumps(CONFIG).encode()})
    assert chat_template_of(*said) == "{{ messages }}"
    assert roles_declared_by(*said) == {"eos": "<end>", "pad": "<p>"}


@pytest.mark.parametrize("name", ["tokenizer_config.json", "chat_template.jinja"])
def test_a_file_that_was_changed_later_is_refused(name: str, tmp_path: Path) -> None:
    files = {
        "tokenizer_config.json": json.dumps(CONFIG).encode(),
        "chat_template.jinja": b"{{ a }}",
    }
    said, kept = imported(tmp_path, files)
    (kept / f"original.{name}").write_bytes(b'{"eos_token": "<other>"}')
    with pytest.raises(CorruptFile, match="not the file that was imported"):
        chat_template_of(said, kept) if name.endswith("jinja") else roles_declared_by(said, kept)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"7", b"{", b'{"chat_template": [7]}', b'{"chat_template": [{}]}']
)
def test_what_was_broken_when_it_was_imported_is_told(content: bytes, tmp_path: Path) -> None:
    said = imported(tmp_path, {"tokenizer_config.json": content})
    assert roles_declared_by(*said) == {}
    with pytest.raises(CorruptFile) as refused:
        chat_template_of(*said)
    assert "--chat-template" in refused.value.next_step


def test_a_template_that_is_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match="no chat template"):
        chat_template_of(*imported(tmp_path, {"chat_template.jinja": b"\xff"}))
