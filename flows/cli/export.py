"""``bpeline export``: write files, push to the Hugging Face Hub, and check exports."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bpeline.flows.cli.commands import FILE, PATH, answer, command
from bpeline.flows.cli.text_arguments import text_of
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from bpeline.tokenizer_core.tokenizer import Format

_HUB = "hf://"
CHANGED, NOT_CHECKED = 3, 4  # exit codes of --check
_LONGEST_SHOWN = 2000  # a long alphabet would fill the screen


@command(
    "bpeline export news@candidate --format hf --output tokenizer.json",
    "bpeline export news/3:8000 --format gguf --output news-8k.gguf",
    "bpeline export news/3 --format tiktoken --output news.tiktoken --eval held-out.txt",
    "bpeline export news@champion --output hf://acme/news-tokenizer --licence apache-2.0",
    "bpeline export --check                  # all exports of versions with an alias",
    "pip install --target recent --pre --no-deps tokenizers; "
    "bpeline export --check --library recent/",
)
@click.argument("references", nargs=-1, metavar="REF")
@click.option(
    "--format",
    "format_name",
    help="hf (tokenizer.json), transformers (directory with model card), gpt2 (vocab.json + "
    "merges.txt), tiktoken, gguf (for llama.cpp) or bpeline; for other algorithms subword-nmt, "
    "sentencepiece, wordpiece (vocab.txt) or frequency-bpe.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH|hf://ORG/REPO",
    help="Output path, or Hugging Face Hub repository: one commit of the transformers format, read "
    "back and compared. Log in with `hf auth login` or HF_TOKEN.",
)
@click.option(
    "--eval",
    "texts",
    multiple=True,
    type=PATH,
    help="Also compare on the lines of this file. Repeatable.",
)
@click.option(
    "--chat-template",
    type=FILE,
    help="Jinja file for the format transformers.  [default: that of an imported version]",
)
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE=TOKEN",
    help="Role of a special token (eos, bos, pad) or model_max_length=8192; overrides the version. "
    "Repeatable.",
)
@click.option("--licence", default="", help="Licence for the model card, such as apache-2.0.")
@click.option("--revision", help="With hf://: branch, created if missing.  [default: main]")
@click.option("--private", is_flag=True, help="With hf://: create a private repository.")
@click.option(
    "--check",
    is_flag=True,
    help="Check existing exports with the libraries installed now; write nothing. Give one or more "
    "REF or NAME; without any, all versions with an alias are checked.",
)
@click.option("--library", metavar="FOLDER", help="With --check: folder with other packages.")
def export(
    references: tuple[str, ...],
    output: str | None,
    check: bool,
    library: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Export a version for another tool and compare the ids.

    If the tool gives other ids, the export is refused. OUTPUT.certificate.json records what was
    compared, or that the tool's library is not installed.

    Exit codes of --check: 0 if all exports give the same ids, 3 if one differs, 4 if one could not
    be checked.

    REF is name@alias, name/number, a digest or a path; news@champion:8000 is its size 8,000.
    """
    spelled = {
        "format_name": "--format", "roles": "--role", "chat_template": "--chat-template",
        "texts": "--eval",
    }  # fmt: skip
    options = [spelled.get(name, f"--{name}") for name, value in asked.items() if value]
    if check:
        if options or output is not None:
            raise InvalidOption(
                f"--check was given together with {(options or ['--output'])[0]}",
                "expected one of them: --check writes nothing",
                "type `bpeline export --check NAME`",
            )
        _check(references, library, as_json)
        return
    if len(references) != 1 or output is None or library is not None:
        raise InvalidOption(
            f"{len(references)} versions and {output or 'no'} output were given",
            "expected one REF and --output; --library belongs to --check",
            "type `bpeline export REF --format hf --output tokenizer.json`",
        )
    format_name, template = asked.pop("format_name"), asked.pop("chat_template")
    to_hub = output.startswith(_HUB)
    conflicting = {"--eval", "--role"} if to_hub else {"--revision", "--private"}
    if conflicting & {*options} or (to_hub and format_name not in (None, "transformers")):
        raise InvalidOption(
            f"{min(conflicting & {*options}, default='--format')} was given with --output {output}",
            "expected --revision and --private with hf://, --format, --eval and --role with files",
            "type `bpeline export REF --output hf://ORG/REPO`, or name a file with --output",
        )
    asked["chat_template"] = "" if template is None else text_of(None, template)
    if to_hub:
        _push(references[0], output.removeprefix(_HUB), asked, as_json)
    else:
        _export(references[0], format_name or "hf", Path(output), asked, as_json)


def _export(
    reference: str, format_name: Format, output: Path, asked: dict[str, Any], as_json: bool
) -> None:
    from bpeline.flows.versions import write_hub_folder
    from bpeline.registry.exports import export_version

    template, licence, roles = (asked[name] for name in ("chat_template", "licence", "roles"))
    compared = [
        line for file in asked["texts"] for line in text_of(None, file).splitlines(keepends=True)
    ]
    if format_name == "transformers":
        exported = write_hub_folder(
            reference, output, compared, template, licence, roles=roles
        ).export
    else:
        if licence:
            raise InvalidOption(
                f"--licence was given with the format {format_name}, which has no model card",
                "expected the format transformers",
                "type --format transformers, or leave out --licence",
            )
        exported = export_version(
            reference, output, format_name, texts=compared, chat_template=template, roles=roles
        )
    lines = [f"wrote {exported.path}", f"certificate: {exported.certificate}"]
    if exported.remark:
        lines.append(exported.remark)
    lines += [f"ids differ for: {text}" for text in exported.certificate.differences]
    for argument, value in exported.left_out.items():
        value_text = repr(value)
        if len(value_text) > _LONGEST_SHOWN:
            value_text = f"{value_text[:_LONGEST_SHOWN]}… (all of it with --json)"
        lines.append(f"not in the file, so tell its reader: {argument} = {value_text}")
    if format_name == "tiktoken":
        digest = hashlib.sha256(read_file(exported.path)).hexdigest()
        lines.append(
            "tiktoken caches files by path. To read this one, pass its hash: "
            f"load_tiktoken_bpe({str(exported.path)!r}, expected_hash={digest!r})"
        )
    answer(as_json, exported.as_dict(), lines)


def _push(reference: str, repository: str, asked: dict[str, Any], as_json: bool) -> None:
    from bpeline.flows.versions import push_version

    push = push_version(
        reference,
        repository,
        asked["revision"] or "main",
        private=asked["private"],
        chat_template=asked["chat_template"],
        licence=asked["licence"],
    )
    place = push.pushed.reference
    lines = [
        f"pushed {push.folder.reference} as {place}: {', '.join(push.pushed.files)}",
        f"certificate: {push.folder.export.certificate}",
        *push.remarks,
        f"load it:  AutoTokenizer.from_pretrained({place.repository!r}, "
        f"revision={place.revision!r})",
    ]
    answer(as_json, push.as_dict(), lines)


def _check(versions: tuple[str, ...], library: str | None, as_json: bool) -> None:
    from bpeline.flows import recertify as recertifying
    from bpeline.flows.running import progress

    with progress.listening(progress.for_stream(sys.stderr)):
        report = recertifying.recertify.fn(versions, library)
    lines = [
        f"{check.version!s:<16} {check.format:<12} {check.outcome:<12} {check.said}"
        for check in report.exports
    ]
    answer(as_json, report.as_dict(), [*lines, *report.remarks(), report.outcome])
    if report.having("changed"):
        raise SystemExit(CHANGED)
    if report.having("not checked"):
        raise SystemExit(NOT_CHECKED)
