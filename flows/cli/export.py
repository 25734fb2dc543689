"""``bpeline export``: to files, to the Hugging Face Hub, and checked again later."""

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
_LONGEST_SHOWN = 2000  # an alphabet of many languages fills the screen


@command(
    "bpeline export news@candidate --format hf --output tokenizer.json",
    "bpeline export news/3 --format transformers --output news-tokenizer/",
    "bpeline export news/3:8000 --format gguf --output news-8k.gguf",
    "bpeline export news/3 --format tiktoken --output news.tiktoken --eval held-out.txt",
    "bpeline export news@champion --output hf://acme/news-tokenizer --licence apache-2.0",
    "bpeline export --check                  # all exports of versions with an alias",
    "bpeline export --check news llama3/2 --json",
    "pip install --target recent --pre --no-deps tokenizers; "
    "bpeline export --check --library recent/",
)
@click.argument("references", nargs=-1, metavar="REF")
@click.option(
    "--format",
    "format_name",
    help="hf (tokenizer.json), transformers (a directory for AutoTokenizer, with its card), "
    "gpt2 (vocab.json + merges.txt), tiktoken, gguf (metadata for llama.cpp) or bpeline; of other "
    "algorithms subword-nmt, sentencepiece, wordpiece (vocab.txt) or frequency-bpe.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH|hf://ORG/REPO",
    help="What to write. A repository of the Hugging Face Hub receives the transformers format and "
    "a card as one commit, which is read back; `hf auth login` or HF_TOKEN signs in.",
)
@click.option(
    "--eval",
    "texts",
    multiple=True,
    type=PATH,
    help="Compare on the lines of this file too; may be repeated.",
)
@click.option(
    "--chat-template",
    type=FILE,
    help="A file of Jinja, for the format transformers; an imported version's own when left out.",
)
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE=TOKEN",
    help="What a special token is for, over what the version declares: eos, bos, pad, or "
    "model_max_length=8192. Repeat for more.",
)
@click.option(
    "--licence", default="", help="For the card of the format transformers, such as apache-2.0."
)
@click.option("--revision", help="Of hf://: the branch, created if missing.  [default: main]")
@click.option("--private", is_flag=True, help="Of hf://: a created repository is private.")
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; read existing exports again in the libraries installed now. REF may be a "
    "NAME, several of both, or missing: all versions with an alias.",
)
@click.option("--library", metavar="FOLDER", help="With --check: a folder with another release.")
def export(
    references: tuple[str, ...],
    output: str | None,
    check: bool,
    library: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Write a version in the format of another tool, and compare what that tool makes of it.

    An export whose ids would differ there is refused. OUTPUT.certificate.json says what was
    compared, or that the tool's library is not installed here.

    With --check, the exit code is 0 if all exports give the same ids, 3 if one differs, and 4 if
    one could not be checked.

    REF is name@alias, name/number, a digest or a path; news@champion:8000 is its size 8,000.
    """
    spelled = {
        "format_name": "--format", "roles": "--role", "chat_template": "--chat-template",
        "texts": "--eval",
    }  # fmt: skip
    given = [spelled.get(name, f"--{name}") for name, value in asked.items() if value]
    if check:
        if given or output is not None:
            raise InvalidOption(
                f"--check was given together with {(given or ['--output'])[0]}",
                "--check reads existing exports and writes nothing",
                "type `bpeline export --check NAME`",
            )
        _check(references, library, as_json)
        return
    if len(references) != 1 or output is None or library is not None:
        raise InvalidOption(
            f"{len(references)} versions, and {output or 'no'} output, were given",
            "expected one REF and --output; --library belongs to --check",
            "type `bpeline export REF --format hf --output tokenizer.json`",
        )
    format_name, template = asked.pop("format_name"), asked.pop("chat_template")
    to_hub = output.startswith(_HUB)
    wrong = {"--eval", "--role"} if to_hub else {"--revision", "--private"}
    if wrong & {*given} or (to_hub and format_name not in (None, "transformers")):
        raise InvalidOption(
            f"{min(wrong & {*given}, default='--format')} was given with --output {output}",
            "--revision and --private belong to hf://, --format, --eval and --role to files",
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
        written = write_hub_folder(
            reference, output, compared, template, licence, roles=roles
        ).export
    else:
        if licence:
            raise InvalidOption(
                f"the format {format_name} has no card that could name a licence",
                "the format transformers has",
                "choose --format transformers, or leave --licence out",
            )
        written = export_version(
            reference, output, format_name, texts=compared, chat_template=template, roles=roles
        )
    lines = [f"wrote {written.path}", f"certificate: {written.certificate}"]
    if written.remark:
        lines.append(written.remark)
    lines += [f"read otherwise there: {text}" for text in written.certificate.differences]
    for argument, value in written.left_out.items():
        shown = repr(value)
        if len(shown) > _LONGEST_SHOWN:
            shown = f"{shown[:_LONGEST_SHOWN]}… (all of it with --json)"
        lines.append(f"not in it, so tell its reader: {argument} = {shown}")
    if format_name == "tiktoken":
        digest = hashlib.sha256(read_file(written.path)).hexdigest()
        lines.append(
            "tiktoken reads a path once and a copy of its own from then on, unless it is given the "
            f"hash: load_tiktoken_bpe({str(written.path)!r}, expected_hash={digest!r})"
        )
    answer(as_json, written.as_dict(), lines)


def _push(reference: str, repository: str, asked: dict[str, Any], as_json: bool) -> None:
    from bpeline.flows.versions import push_version

    made = push_version(
        reference,
        repository,
        asked["revision"] or "main",
        private=asked["private"],
        chat_template=asked["chat_template"],
        licence=asked["licence"],
    )
    place = made.pushed.reference
    lines = [
        f"pushed {made.folder.reference} as {place}: {', '.join(made.pushed.files)}",
        f"certificate: {made.folder.export.certificate}",
        *made.remarks,
        f"load it:  AutoTokenizer.from_pretrained({place.repository!r}, "
        f"revision={place.revision!r})",
    ]
    answer(as_json, made.as_dict(), lines)


def _check(versions: tuple[str, ...], library: str | None, as_json: bool) -> None:
    from bpeline.flows import recertify as recertifying
    from bpeline.flows.running import progress

    with progress.listening(progress.for_stream(sys.stderr)):
        made = recertifying.recertify.fn(versions, library)
    lines = [
        f"{one.version!s:<16} {one.format:<12} {one.outcome:<12} {one.said}" for one in made.exports
    ]
    answer(as_json, made.as_dict(), [*lines, *made.remarks(), made.outcome])
    if made.having("changed"):
        raise SystemExit(CHANGED)
    if made.having("not checked"):
        raise SystemExit(NOT_CHECKED)
