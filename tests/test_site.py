"""The documentation as a site: it builds without warnings, needs no network, is true."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from configparser import ConfigParser
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from browser import browsing, installed_browser
from every_command import command_in

from bpeline.flows import recertify
from bpeline.flows.cli.evaluate import evaluate
from bpeline.flows.publishing import promotion
from bpeline.flows.requests import CHOICES
from bpeline.flows.serving import prefect_listener
from bpeline.flows.wording import megabytes
from bpeline.registry.evaluation_sets import FEWEST_DOCUMENTS, LEAST_BYTES
from bpeline.tokenizer_core import errors

ROOT = Path(__file__).parent.parent
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md"))
CLASSES = {
    name
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.BpelineError)
}


def blocks(path: Path, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w+)\n(.*?)^```", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [body for language, body in found if language in languages]


def commands(path: Path) -> list[list[str]]:
    """The words of every `$ bpeline …`; one that is quoted over several lines is taken whole."""
    found = []
    for body in blocks(path, "console"):
        for said in re.findall(r"^\$ (bpeline .*(?:\n(?!\$ ).*)*)", body, re.MULTILINE):
            lines = said.replace("\\\n", " ").splitlines()
            words = next(
                words
                for end in range(1, len(lines) + 1)
                if (words := _words("\n".join(lines[:end]))) is not None
            )
            shell = [place for place, word in enumerate(words) if set(word) <= set(";<>|&")]
            found.append(words[1 : min(shell, default=len(words))])
    return found


def _words(said: str) -> list[str] | None:
    words = shlex.shlex(said, posix=True, punctuation_chars=";<>|&")
    words.whitespace_split = True
    try:
        return list(words)
    except ValueError:  # a quotation that goes on in the next line
        return None


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocstrings")
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    types = ROOT / "build/types/bpeline"
    if not types.exists():
        subprocess.run(["make", "types"], cwd=ROOT, check=True, capture_output=True)
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.night
def test_every_page_is_there_and_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}
    expected = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in PAGES}
    assert expected <= {*pages}
    for name, html in pages.items():
        loaded = re.findall(
            r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="([^"]*)"', html
        )
        assert loaded, name
        assert not [address for address in loaded if "//" in address], name


@pytest.mark.night
def test_the_notebook_is_a_page_with_what_its_cells_show(site: Path) -> None:
    page = (site / "notebook.html").read_text()
    cells = json.loads((ROOT / "docs/notebook.ipynb").read_text())["cells"]
    shown = [output for cell in cells for output in cell.get("outputs", ())]
    assert page.count('class="cell-output"') == len(shown) >= 10
    assert all("".join(one["data"]["text/html"]) in page for one in shown if _is_html(one))
    assert (site / "notebook.ipynb").read_text() == (ROOT / "docs/notebook.ipynb").read_text()


def _is_html(output: dict[str, Any]) -> bool:
    return "text/html" in output.get("data", {})


@pytest.mark.night
def test_pages_are_named_by_their_titles_and_commands_are_read_whole(site: Path) -> None:
    readme = (site / "overview.html").read_text()
    assert '<a href="benchmarks.html">Benchmarks</a>' in readme
    changes = (site / "changelog.html").read_text()
    assert '<a href="storage.html">' in changes, "a page that is named without a link is linked"
    prose = re.sub("<(pre|code).*?</\\1>", "", changes, flags=re.DOTALL)
    assert re.findall(r"docs/[\w/-]+\.md", prose) == []
    assert 'class="language-console' in readme
    assert '<code class="short">--strict</code>' in changes
    codes = re.findall(
        r"<strong>(\d+)</strong>", (site / "reference/command-line.html").read_text()
    )
    assert codes == ["0", "1", "2", "3", "4", "130", "143"]


@pytest.fixture
def browser() -> str:
    program = installed_browser()
    if program is None:
        pytest.skip("no browser of the Chromium family is installed")
    return program


@pytest.mark.night
def test_the_copy_button_copies_commands_without_prompts_and_output(
    site: Path, tmp_path: Path, browser: str
) -> None:
    """On pages with several commands, with what they print, with a continued line, of Python."""
    pages = ("index.html", "overview.html", "querying.html", "reference/api.html",
             "guides/compare-and-promote.html")  # fmt: skip
    copies_of = """new Promise(resolve => (function look() {
        const buttons = [...document.querySelectorAll('button[data-clipboard-target]')];
        if (!buttons.length) return setTimeout(look, 20);
        let copied = '';
        document.execCommand = () => { copied = document.activeElement.value; return true; };
        resolve(buttons.map(button => {
            button.click();
            return [document.querySelector(button.dataset.clipboardTarget).textContent, copied];
        }));
    })())"""
    with browsing(browser, tmp_path) as page:
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        for name in pages:
            page.open(site / name)
            for shown, copied in page.run(copies_of):
                typed = re.findall(r"^(?:\$|>>>|\.\.\.) (.*(?:(?<=\\)\n.*)*)", shown, re.MULTILINE)
                wanted = "\n".join(typed) or shown
                assert copied.split() == wanted.split(), name


@pytest.mark.night
def test_a_site_that_is_opened_from_a_disk_is_searched(
    site: Path, tmp_path: Path, browser: str
) -> None:
    typed = """
        const field = document.querySelector('.md-search__input');
        field.focus();
        field.value = 'evaluation set';
        field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
    """
    with browsing(browser, tmp_path) as page:
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        page.open(site / "guides/schedule.html")
        page.run(f"(() => {{{typed}}})()")
        page.within("matching documents")
        found = page.run("document.querySelector('.md-search-result__link').href")
        assert found.startswith(site.as_uri())
        assert page.complaints == []
        assert [one for one in page.requests if not one.startswith(("file:", "data:"))] == []


@pytest.mark.night
def test_the_reference_has_every_command_public_name_and_message(site: Path) -> None:
    import bpeline
    from bpeline.flows.cli.main import all_commands

    listed = (site / "reference/command-line.html").read_text()
    assert all(f'id="{name.replace(" ", "-")}"' in listed for name in all_commands())
    api = (site / "reference/api.html").read_text()
    assert all(re.search(rf'id="bpeline\.[\w.]*{name}"', api) for name in bpeline.__all__)
    said = (site / "reference/errors.html").read_text()
    assert all(f'id="{name.lower()}"' in said for name in CLASSES)


def test_the_pages_are_short_enough_to_be_read() -> None:
    """At most 20,000 words but for what is generated: results, and the night's tables."""
    written = 0
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"<!-- ([\w-]+):start -->.*?<!-- \1:end -->", "", text, flags=re.DOTALL)
        if path.name == "reliability.md":
            text = re.sub(r"^\|.*", "", text, flags=re.MULTILINE)
        written += len(text.split())
    assert written <= 20_000


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT / "docs").as_posix())
def test_commands_of_the_pages_exist_with_these_options(path: Path) -> None:
    for words in commands(path):
        name, command, rest = command_in(words)
        try:
            with command.make_context(name, rest, resilient_parsing=False):
                pass  # closed, so that no project or workspace of a page stays named
        except click.UsageError as error:
            pytest.fail(f"{shlex.join(words)}: {error.format_message()}")


def test_messages_that_troubleshooting_quotes_are_those_of_the_code() -> None:
    module: Any = _site_module("messages")
    known = {message.happened for message in module.messages(ROOT, CLASSES)}
    quoted = re.findall(r"^> (.*)$", (ROOT / "docs/troubleshooting.md").read_text(), re.MULTILINE)
    assert len(quoted) >= 10
    assert [message for message in quoted if message not in known] == []


def test_messages_are_read_from_every_way_of_writing_them() -> None:
    module: Any = _site_module("messages")
    found = module.messages(ROOT, CLASSES)
    assert len(found) > 400
    assert len({message.error for message in found}) > 15


def test_commands_that_messages_advise_are_there_with_these_options() -> None:
    module: Any = _site_module("messages")
    advised = {
        said
        for message in module.messages(ROOT, CLASSES)
        for said in re.findall(r"`bpeline ([^`]+)`", "\n".join(vars_of(message)))
    }
    assert len(advised) > 40
    for said in sorted(advised):
        name, command, words = command_in(
            [word for word in _words(said.split(" | ")[0]) or [] if word != "…"]
        )
        known = {one for option in command.params for one in (*option.opts, *option.secondary_opts)}
        options = {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)}
        assert options <= known, said
        if "…" in said or options >= {*words}:  # a part of a command
            continue
        shown = [word.replace("REF", "news/1").replace("SIZE", "300") for word in words]
        try:
            with command.make_context(name, shown):
                pass
        except click.MissingParameter:
            continue
        except click.UsageError as error:
            pytest.fail(f"{said}: {error.format_message()}")


def vars_of(message: Any) -> tuple[str, ...]:
    """The three parts of a message."""
    return message.happened, message.accepted, message.next_step


def _site_module(name: str) -> Any:
    spec = spec_from_file_location(f"site_{name}", ROOT / f"docs/_site/{name}.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_ten_guides_each_begin_with_a_command_and_what_it_prints() -> None:
    guides = [path for path in PAGES if path.parent.name == "guides" and path.stem != "index"]
    assert len(guides) == 10
    for path in guides:
        beginning = path.read_text("utf-8").partition("\n## ")[0]
        assert re.search(r"^\$ bpeline ", beginning, re.MULTILINE), path.name
        assert f"({path.name})" in page("guides/index.md")


def test_workflows_and_services_of_the_guide_are_valid() -> None:
    guide = ROOT / "docs/guides/schedule.md"
    workflow, hooks = map(yaml.safe_load, blocks(guide, "yaml"))
    (service,) = blocks(guide, "ini")
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(service)
    steps = [step["run"] for step in workflow["jobs"]["compare"]["steps"] if "run" in step]
    (hook,) = hooks["repos"][0]["hooks"]
    assert re.search(hook["files"], "tokenizer.json")
    shell, option, script = shlex.split(hook["entry"])
    assert (shell, option) == ("sh", "-c")
    run = [unit["Service"]["ExecStart"], *"\n".join(steps).splitlines(), *script.split(";")]
    named = [words for line in run if re.search(r"(^|/)bpeline$", (words := shlex.split(line))[0])]
    assert [words[1] for words in named] == ["serve", "compare", "compare"]
    for words in named:
        name, command, rest = command_in(words[1:])
        command.make_context(name, rest)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def test_the_page_on_algorithms_lists_what_can_be_chosen() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \|", page("algorithms.md"), re.M)[: len(CHOICES)] == [
        *CHOICES
    ]


def test_the_page_on_deployments_lists_every_event() -> None:
    sent = {promotion.ALIAS_MOVED, recertify.EXPORT_CHANGED, prefect_listener.DRIFT_DETECTED}
    assert {*re.findall(r"^\| `(bpeline\.[a-z.]+)` \|", page("deployments.md"), re.M)} == sent


def test_page_and_help_say_how_small_a_provisional_set_is() -> None:
    size = megabytes(LEAST_BYTES)
    assert f"{FEWEST_DOCUMENTS} documents or {size} is *provisional*" in page("evaluation.md")
    assert f"{FEWEST_DOCUMENTS} documents or {size}" in " ".join(evaluate.help.split())


def test_the_page_on_reliability_leads_with_no_failure() -> None:
    assert "failed" not in page("reliability.md").partition("\n## ")[0]
