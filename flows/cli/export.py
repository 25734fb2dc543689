"""Commands: export, push."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bpeline.flows.cli.commands import FILE, PATH, answer, command
from bpeline.flows.cli.text_arguments import text_of
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from bpeline.tokenizer_core.tokenizer import Format

_LONGEST_SHOWN = 2000  # an alphabet of many languages fills the screen


@command(
    "bpeline export news@candidate --format hf --output tokenizer.json",
    "bpeline export news/3 --format transformers --output news-tokenizer/",
    "bpeline export news/3:8000 --format gguf --output news-8k.gguf",
    "bpeline export news/3 --format tiktoken --output news.tiktoken --texts held-out.txt",
)
@click.argument("reference", metavar="REF")
@click.option(
    "--format",
    "format_name",
    default="hf",
    help="hf (tokenizer.json), transformers (a directory for AutoTokenizer, with its card), "
    "gpt2 (vocab.json + merges.txt), tiktoken, gguf (metadata for llama.cpp) or bpeline; of other "
    "algorithms subword-nmt, sentencepiece, wordpiece (vocab.txt) or frequency-bpe.",
)
@click.option("--output", required=True, type=PATH, help="What to write.")
@click.option(
    "--texts",
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
def export(
    reference: str,
    format_name: Format,
    output: Path,
    texts: tuple[Path, ...],
    chat_template: Path | None,
    licence: str,
    roles: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write a version in the format of another tool, and compare what that tool makes of it.

    Nothing is written that the other tool would read otherwise. OUTPUT.certificate.json says what
    was compared; where the tool's library is not installed here, it says that nothing was.

    REF is name@alias, name/number, a digest or a path; news@champion:8000 is its size 8,000.
    """
    from bpeline.flows.versions import write_hub_folder
    from bpeline.registry.exports import export_version

    template = "" if chat_template is None else text_of(None, chat_template)
    compared = [line for file in texts for line in text_of(None, file).splitlines(keepends=True)]
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


@command(
    "bpeline push news@champion acme/news-tokenizer --licence apache-2.0",
    "bpeline push news/3 acme/news-tokenizer --revision v3 --chat-template chat.jinja --private",
)
@click.argument("reference", metavar="REF")
@click.argument("repository", metavar="ORG/REPO")
@click.option("--revision", default="main", help="The branch, made if it is not there.")
@click.option("--private", is_flag=True, help="A repository that is made is private.")
@click.option(
    "--chat-template",
    type=FILE,
    help="A file of Jinja; an imported version's own when left out.",
)
@click.option("--licence", default="", help="For the card, such as apache-2.0.")
def push(
    reference: str,
    repository: str,
    revision: str,
    private: bool,
    chat_template: Path | None,
    licence: str,
    as_json: bool,
) -> None:
    """Push a version to the Hugging Face Hub, for `AutoTokenizer.from_pretrained`.

    tokenizer.json, tokenizer_config.json and a card with lineage, evaluation and certificates go
    there as one commit, and are read back. Who you are there says `hf auth login` or HF_TOKEN.

    REF is name@alias, name/number or a digest.
    """
    from bpeline.flows.versions import push_version

    made = push_version(
        reference,
        repository,
        revision,
        private=private,
        chat_template="" if chat_template is None else text_of(None, chat_template),
        licence=licence,
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
