"""Generated pages of the site: the README, the notebook and the reference.

A hook of MkDocs (`mkdocs.yml`). Commands, public names, errors and metrics come from the code.
"""

from __future__ import annotations

import html
import inspect
import json
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))  # a hook is no package

from messages import messages

ROOT = Path(__file__).parents[2]
_COPIED = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
_PAGE_OF = {**_COPIED, "docs/notebook.ipynb": "notebook.md"}
_LINK = re.compile(r"(\[[^\]\n]*\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_MENTION = re.compile(r"(?<![\w/\[])(?<!\]\()docs/[\w/-]+\.md\b(?!\])")  # of a page, without a link
_SHORT = re.compile(r"<code>([^<\n]{1,32})</code>")
_API = {
    "bpeline": "For most programs.",
    "bpeline.registry": "List, compare, promote and export versions.",
}
_METRICS = (
    "metrics.CompressionReport",
    "metrics.TokenDistribution",
    "tokens_in_use.TokenUsage",
    "suite.Parity",
    "serving_cost.ServingCost",
    "robustness.Effect",
)


_TRAINING_METRICS = {
    "training/dead_tokens": "TokenUsage.dead",
    "training/rare_tokens": "TokenUsage.rare",
    "training/junk_tokens": "TokenUsage.junk",
    "training/f95": "TokenUsage.f95_by_size",
    "suggested/vocab_size_well_used": "TokenUsage.largest_well_used",
    "parity/gini": "Parity.gini",
    "parity/max_over_min": "Parity.max_over_min",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and the files of the repository that pages link to."""
    made = {
        "notebook.md": notebook(),
        "reference/command-line.md": command_line(),
        "reference/api.md": api(),
        "reference/metrics.md": metrics(),
        "reference/errors.md": errors(),
        **{name: (ROOT / source).read_text("utf-8") for source, name in _COPIED.items()},
    }
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    for name in sorted(_linked(files, made)):
        files.append(File.generated(config, f"files/{name}", abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between files of the site.

    A page that is named by its file, with or without a link, is named by its title here.
    """
    home = _home(page.file.src_uri)
    for mark, written in _INSERTED.items():
        if mark in markdown:
            markdown = markdown.replace(mark, written())

    def turned(link: re.Match[str]) -> str:
        target = _target(home, link[2])
        if target is None:
            return link[0]
        place = _PAGE_OF.get(target) or _of_docs(target) or f"files/{target}"
        text = f"[{_title(target)}](" if link[1] == f"[{target}](" else link[1]
        return text + os.path.relpath(place, Path(page.file.src_uri).parent) + link[3]

    def linked(mention: re.Match[str]) -> str:
        place = os.path.relpath(ROOT / mention[0], ROOT / home)
        return f"[{mention[0]}]({place})"

    parts = _CODE.split(markdown)
    parts[::2] = [_MENTION.sub(linked, text) for text in parts[::2]]
    return _LINK.sub(turned, "".join(parts))


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Mark code that is short enough to stand in one line: an option is not cut behind its `--`."""
    return _SHORT.sub(r'<code class="short">\1</code>', content)


def _title(target: str) -> str:
    """What the first heading of a page says."""
    first = (ROOT / target).read_text("utf-8").partition("\n")[0]
    return first.removeprefix("# ") if first.startswith("# ") else target


def _home(uri: str) -> Path:
    """The folder of the repository that links of a page start from."""
    copied = uri in _COPIED.values()
    return Path() if copied else Path("docs", uri).parent


def _target(home: Path, link: str) -> str | None:
    """The file of the repository that a link names, or None: an address, a page that is made."""
    if "://" in link or link.startswith("mailto:"):
        return None
    target = os.path.normpath(home / link)
    return target if (ROOT / target).is_file() else None


def _of_docs(target: str) -> str | None:
    path = Path(target)
    return path.relative_to("docs").as_posix() if path.parts[0] == "docs" else None


def _linked(files: Files, made: dict[str, str]) -> set[str]:
    """Files of the repository, neither pages nor below ``docs``, that any page links to."""
    texts = {**made, **{one.src_uri: one.content_string for one in files.documentation_pages()}}
    return {
        target
        for uri, text in texts.items()
        for link in _LINK.finditer(text)
        if (target := _target(_home(uri), link[2]))
        and target not in _COPIED
        and not target.startswith("docs/")
    }


def demo() -> str:
    """Return README's first two blocks: the commands of the demo and their output."""
    blocks = re.findall(r"^```.*?^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    return re.sub(" {2,}#", "  #", "\n\n".join(blocks[:2]))


def parameters() -> str:
    """Return the keys of `bpeline.toml` that are parameters, by table."""
    project = import_module("bpeline.flows.requests.project")
    requests = import_module("bpeline.flows.requests")
    parts = []
    for table, keys, request in (
        ("[train]", project.PARAMETERS, requests.TrainingRequest),
        ("[drift]", project.OF_DRIFT, requests.DriftRequest),
    ):
        rows = [_parameter(key, request.model_fields[key]) for key in keys]
        parts += [
            f"### `{table}`",
            "\n".join(["| key | meaning | default |", "|---|---|---|", *rows]),
        ]
    return "\n\n".join(parts)


def _parameter(name: str, field: Any) -> str:
    default = "" if field.is_required() or field.default in (None, (), "") else field.default
    if isinstance(default, bool):
        default = str(default).lower()
    meaning = re.sub(r"([*_|])", r"\\\1", html.escape(field.description or "", quote=False))
    return f"| `{name}` | {meaning} | {f'`{default}`' if default != '' else ''} |"


# Comments of pages → what the site shows in their place.
_INSERTED = {"<!-- README: demo -->": demo, "<!-- CODE: parameters -->": parameters}


def notebook() -> str:
    """docs/notebook.ipynb as a page: its text, its code, and what each cell showed."""
    parts = []
    for cell in json.loads((ROOT / "docs/notebook.ipynb").read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        shown = [_output(output) for output in cell["outputs"]]
        parts += [f"```python\n{source}\n```", *shown]
    parts.insert(1, '<a href="notebook.ipynb" download>Download the notebook</a>')
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    """What a cell showed, as a notebook would choose it."""
    data = output.get("data", {})
    if "text/html" in data:
        shown = "".join(data["text/html"])
    else:
        text = "".join(output["text"] if "text" in output else data["text/plain"])
        shown = f"<pre>{html.escape(text)}</pre>"
    return f'<div class="cell-output">{shown}</div>'


def command_line() -> str:
    """Every command with its help, as ``--help`` prints it, and the exit codes."""
    main = import_module("bpeline.flows.cli.main")
    context = click.Context(main.cli, info_name="bpeline")
    parts = ["# Command line", "`bpeline COMMAND --help` prints the same text.", "## Exit codes"]
    codes = inspect.cleandoc(main.__doc__).split("\n\n")[1].removeprefix("Exit codes: ")
    said = [one.partition(" ") for one in re.split(r",\s+(?=\d+ )", " ".join(codes.split()))]
    parts.append("\n".join(f"- **{code}**: {meaning.rstrip('.')}" for code, _, meaning in said))
    for name, command in sorted(main.all_commands().items()):
        inner = click.Context(command, info_name=name, parent=context, max_content_width=96)
        inner.meta[import_module("bpeline.flows.cli.commands").HELP_ALL] = True
        parts += [f"## {name}", f"```text\n{command.get_help(inner)}\n```"]
    return "\n\n".join(parts) + "\n"


def api() -> str:
    """Every public name, by the package it is imported from."""
    parts = ["# Python API"]
    seen: set[str] = set()
    for package, said in _API.items():
        parts += [f"## `{package}`", said]
        for name in import_module(package).__all__:
            value = getattr(import_module(package), name)
            place = f"{value.__module__}.{value.__qualname__}"
            if place not in seen:
                seen.add(place)
                parts.append(f"::: {place}")
    return "\n\n".join(parts) + "\n"


def metrics() -> str:
    """Names of the metrics, and the classes whose attributes define them."""
    home = "bpeline.tokenizer_core.evaluation"
    names = import_module(f"{home}.metric_names")
    drift = import_module(f"{home}.drift").DRIFT_DEFINITIONS
    defined = {
        **{metric: f"CompressionReport.{attribute}" for attribute, metric in names.NAMES.items()},
        **_TRAINING_METRICS,
        **{metric: f"ServingCost.{attribute}" for metric, attribute in names.SERVING.items()},
    }
    rows = [f"| `{metric}` | `{attribute}` |" for metric, attribute in defined.items()]
    of_drift = [f"| `{metric}` | {definition} |" for metric, definition in drift.items()]
    parts = [
        "# Metrics",
        "Metrics have the same names in MLflow, in rules and in `evaluation.json`. For a slice, "
        "the name is the part after the `/`, then the slice: `compression/bytes_per_token` of "
        "`german` is `bytes_per_token/german`. The texts that are measured are described in "
        "[Evaluation and gates](../evaluation.md).",
        "## Names",
        "\n".join(["| metric | attribute |", "|---|---|", *rows]),
        "## Drift",
        "B, T, W: bytes, tokens and words (occurrences of pre-tokens) of the new text.",
        "\n".join(["| metric | definition |", "|---|---|", *of_drift]),
        "## Formulas",
    ]
    parts += [f"::: {home}.{name}" for name in _METRICS]
    return "\n\n".join(parts) + "\n"


def errors() -> str:
    """Every error that is raised on purpose: what it means, its exit code, its messages."""
    module = import_module("bpeline.tokenizer_core.errors")
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, module.BpelineError)
    ]
    found = messages(ROOT, {error.__name__ for error in classes})
    parts = [
        "# Errors",
        "Every message has three parts: what failed, what was expected, and the command to run "
        "next. "
        "`…` is a value such as a path. All classes are in `bpeline.tokenizer_core.errors`; "
        "`BpelineError` catches every one. Search this page for words of a message. Common "
        "errors are explained in [Troubleshooting](../troubleshooting.md).",
    ]
    for error in classes:
        parts += [
            f"## {error.__name__}",
            f"{_first_paragraph(error)} Exit code {error.exit_code}; a subclass of "
            f"`{error.__mro__[1].__name__}`.",
        ]
        parts += [
            f"``` {{ .text .wrapped }}\n{one.happened}\n"
            f"  expected: {_EXPECTED.sub('', one.accepted)}\n  next: {one.next_step}\n```"
            for one in found
            if one.error == error.__name__
        ]
    return "\n\n".join(parts) + "\n"


_EXPECTED = re.compile("^(?:expected|accepted(?: is| are)?):? ")


def _first_paragraph(value: Any) -> str:
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
