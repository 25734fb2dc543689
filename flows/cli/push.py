"""``bpeline push``."""

from __future__ import annotations

from pathlib import Path

import click

from bpeline.flows.cli.options import FILE, answer, command
from bpeline.flows.cli.text_arguments import text_of


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
    from bpeline.flows.hub import push_version

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
