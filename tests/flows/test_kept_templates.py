"""Compiled templates that are kept: loaded where they are the same, compiled anew where not."""

from __future__ import annotations

import ast
from pathlib import Path

import jinja2
import pytest
from jinja2 import DictLoader, Environment

from bpeline.flows.pages import rendering
from bpeline.flows.pages.rendering import KeptTemplates

SOURCE = "{{ 'a'|shout }} {{ name }} {{ 'b' ~ 'c' }}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BPELINE_KERNEL_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of templates that jinja2 compiles."""
    names: list[str] = []
    generate = Environment._generate

    def counted(self: Environment, source: object, name: str, *given: object, **more: object):  # type: ignore[no-untyped-def]
        names.append(name)
        return generate(self, source, name, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Environment, "_generate", counted)
    return names


def render(source: str = SOURCE, settings: bytes = b"1", shout: str = "!") -> str:
    made = Environment(
        autoescape=True,
        loader=DictLoader({"page.html": source}),
        optimized=False,
        finalize=rendering._shown,
        bytecode_cache=KeptTemplates(settings),
    )
    made.filters["shout"] = lambda text: text + shout
    return made.get_template("page.html").render(name="<x>")


def test_what_was_compiled_is_loaded_and_filters_are_those_of_now(
    home: Path, compiled: list[str]
) -> None:
    assert render() == "a! &lt;x&gt; bc"
    assert render() == "a! &lt;x&gt; bc"
    assert render(shout="?") == "a? &lt;x&gt; bc"
    assert compiled == ["page.html"]
    assert [one.name for one in home.iterdir()] == ["template-page.html"]


def test_another_source_setting_or_jinja2_is_compiled(
    home: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert render() == "a! &lt;x&gt; bc"
    assert render("{{ name }}") == "&lt;x&gt;"
    assert render("{{ name }}", b"2") == "&lt;x&gt;"
    monkeypatch.setattr(jinja2, "__version__", "0")
    assert render("{{ name }}", b"2") == "&lt;x&gt;"
    assert len(compiled) == 4


def test_damaged_and_foreign_files_are_compiled_anew(home: Path, compiled: list[str]) -> None:
    render()
    (file,) = home.iterdir()
    whole = file.read_bytes()
    for content in (b"", whole[:8], whole[:-5], whole[:30] + b"\xff" * 9 + whole[39:], b"x"):
        file.write_bytes(content)
        compiled.clear()
        assert render() == "a! &lt;x&gt; bc"
        assert compiled == ["page.html"]
        assert file.read_bytes() == whole
    file.chmod(0o666)  # others could write code into it
    compiled.clear()
    assert render() == "a! &lt;x&gt; bc"
    assert compiled == ["page.html"]
    home.chmod(0o777)
    assert render() == "a! &lt;x&gt; bc"
    assert len(compiled) == 2


def test_no_filter_has_a_part_in_what_is_compiled() -> None:
    environment = rendering._environment()
    environment.filters["loud"] = lambda text: f"{text}!"
    try:
        code = environment.compile("{{ 'a'|loud }}{% set x = 'b'|loud %}{{ x }}", raw=True)
    finally:
        del environment.filters["loud"]
    constants = {one.value for one in ast.walk(ast.parse(code)) if isinstance(one, ast.Constant)}
    assert {"a", "b"} <= constants
    assert not {"a!", "b!"} & constants
