"""A version on the Hugging Face Hub: its folder, its model card and the upload.

The card contains no paths, because these concern only the owners of the corpus.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bpeline.flows.versions.details import version_details
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.evaluation import read_evaluation
from bpeline.registry.exports import Export, export_version, recertified
from bpeline.registry.hub import CARD, HubReference, Pushed, push
from bpeline.registry.loading import load_tokenizer, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import ByPath, parse_reference, parse_registered, split_size
from bpeline.registry.versions import Lineage
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption, RegistryError
from bpeline.tokenizer_core.evaluation import ALL, BYTES_PER_TOKEN
from bpeline.tokenizer_core.tables import Table
from bpeline.tokenizer_core.tokenizer import Tokenizer

FORMAT: Final = "transformers"
OURS = "<!-- This card was written by bpeline. -->"
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_MEASURED = {
    BYTES_PER_TOKEN: "bytes/token",
    "compression/chars_per_token": "characters/token",
    "compression/unigram_bits_per_byte": "unigram bits/byte",
    "distribution/renyi_efficiency_2.5": "Rényi efficiency (2.5)",
}


@dataclass(frozen=True, slots=True)
class HubFolder:
    """A folder written for the Hub."""

    export: Export
    reference: str
    digest: str


def write_hub_folder(
    reference: str,
    path: Path,
    texts: Sequence[str] = (),
    chat_template: str = "",
    licence: str = "",
    repository: str = "",
    roles: Sequence[str] = (),
) -> HubFolder:
    """Write a version like `export_version`, with a model card as README.md.

    A README.md that bpeline did not write is kept. Tokenizers from a path and smaller sizes of a
    version get no card. ``repository`` is the future place of the folder.
    """
    written = export_version(
        reference, path, FORMAT, texts=texts, chat_template=chat_template, roles=roles
    )
    named, size = split_size(reference)
    if isinstance(parse_reference(named), ByPath) or size is not None:
        return HubFolder(written, str(reference), written.certificate.tokenizer)
    registry = open_registry(make=False)
    version = resolve(registry, parse_registered(str(named)))
    card = path / CARD
    if card.exists() and OURS not in read_file(card).decode(errors="replace"):
        remark = f"{card} was not created by bpeline; kept"
        noted = replace(written, remark="; ".join(filter(None, (written.remark, remark))))
        return HubFolder(noted, str(version), version.digest)
    directory = registry.workspace.version_directory(version.digest)
    for _ in recertified(registry, version, unchecked_only=True):
        pass  # checks by libraries installed since
    details = version_details(str(named))
    imported = Lineage.of(registry, version).imported  # names may share its digest
    certificates = {**details["certificates"], FORMAT: str(written.certificate)}
    text = model_card(
        details,
        read_evaluation(directory),
        certificates,
        licence or ("" if imported is None else imported.licence),
        load_tokenizer(reference),
        written.roles,
        repository or path.name,
    )
    DURABLE.write(card, text.encode(errors="backslashreplace"))
    return HubFolder(written, str(version), version.digest)


@dataclass(frozen=True, slots=True)
class PushedVersion:
    """The result of a push: the local folder, the commit with its files, and remarks."""

    folder: HubFolder
    pushed: Pushed
    remarks: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "reference": self.folder.reference,
            "digest": self.folder.digest,
            "repository": self.pushed.reference.repository,
            "commit": self.pushed.reference.revision,
            "files": list(self.pushed.files),
            "certificate": str(self.folder.export.certificate),
            "remarks": list(self.remarks),
        }


def push_version(
    reference: str,
    repository: str,
    revision: str = "main",
    *,
    private: bool = False,
    chat_template: str = "",
    licence: str = "",
) -> PushedVersion:
    """Write a version's folder and push it; tag the version with the commit in MLflow.

    Args:
        repository: ``ORG/REPO``, created if missing.
        revision: the branch, created if missing.
        private: whether a new repository is private.
    """
    target = HubReference.parse(f"{repository}@{revision}")
    named = split_size(reference)[0]
    parsed = parse_registered(str(named))
    if named != reference:
        raise InvalidOption(
            f"{reference} is a smaller size of a version, which has no lineage of its own",
            "expected a registered version",
            f"train it, or type `bpeline export {reference} --format transformers --output FOLDER`",
        )
    registry = open_registry(make=False)
    version = resolve(registry, parsed)
    with tempfile.TemporaryDirectory(prefix="bpeline-") as aside:
        path = Path(aside) / "folder"
        folder = write_hub_folder(str(version), path, (), chat_template, licence, target.repository)
        message = f"{folder.reference}, digest {folder.digest}"
        pushed = push(path, target, message, private=private, ours=OURS)
    remarks = [*filter(None, (folder.export.remark,)), *pushed.remarks]
    try:
        tag = f"hub.{target.repository}"
        registry.tracker.tag_version(version.name, version.number, {tag: pushed.reference.revision})
    except RegistryError as error:
        remarks.append(f"the commit is not in MLflow: {error.happened}")
    return PushedVersion(folder, pushed, tuple(remarks))


def model_card(
    details: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None,
    certificates: Mapping[str, str],
    licence: str,
    tokenizer: Tokenizer,
    roles: Mapping[str, str],
    place: str,
) -> str:
    """Return the text of a README.md.

    Args:
        certificates: format → result of reading the export with its library.
        licence: as the Hub spells it, such as ``apache-2.0``; empty for none stated.
        place: repository or folder that it is loaded from.
    """
    unchecked = any(certificate.startswith("not checked") for certificate in certificates.values())
    parts = [
        _front_matter(details, licence),
        f"# {details['reference']}\n",
        f"A tokenizer of {details.get('vocab_size', 0):,} ids"
        f" ({_algorithm(details)}), made with bpeline.\n",
        "## Loading\n",
        "```python\nfrom transformers import AutoTokenizer\n\n"
        f"tokenizer = AutoTokenizer.from_pretrained({json.dumps(place)})\n```\n",
        *_special_tokens_in_text(tokenizer),
        "## Properties\n",
        _table(("", ""), _facts(details, tokenizer, roles)),
        "## Origin\n",
        *_lineage(details),
        "## Evaluation\n",
        *_evaluation(details, evaluation),
        "## Certificates\n",
        _table(("format", "certificate"), sorted(certificates.items())),
        *(["Formats that are not checked were read by bpeline only.\n"] * unchecked),
        "## Licence\n",
        f"{licence or 'No licence was stated.'}\n",
        OURS,
    ]
    return "\n".join(parts) + "\n"


def _front_matter(details: Mapping[str, Any], licence: str) -> str:
    """Return the Hub's metadata; JSON strings are YAML."""
    languages = sorted({item["language"] for item in details["sources"]})
    codes = [item for item in languages if _LANGUAGE.fullmatch(item)]
    lines = ["---"]
    if licence:
        lines.append(f"license: {json.dumps(licence)}")
    if codes:
        lines.append(f"language: {json.dumps(codes)}")
    lines += ["library_name: transformers", 'tags: ["tokenizer", "bpeline"]', "---", ""]
    return "\n".join(lines)


def _algorithm(details: Mapping[str, Any]) -> str:
    algorithm = str(details.get("parameters", {}).get("algorithm") or "imported")
    return {"byte-bpe": "byte-level BPE"}.get(algorithm, algorithm)


def _special_tokens_in_text(tokenizer: Tokenizer) -> Iterator[str]:
    if tokenizer.special_tokens and tokenizer.spec.allowed_special == "none":
        yield (
            "A special token in text is one id here and in `tokenizers`. bpeline, its command line"
            " and its MLflow model read it as ordinary text unless `allowed_special` allows it.\n"
        )


def _facts(
    details: Mapping[str, Any], tokenizer: Tokenizer, roles: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    yield "registered as", str(details["reference"])
    yield "digest", f"`{details['digest']}`"
    yield "split pattern", f"`{details.get('pattern', '')}`"
    ids = tokenizer.special_tokens
    ordered = sorted(ids, key=ids.__getitem__)
    yield "special tokens", ", ".join(f"`{token}`" for token in ordered) or "none"
    for role, token in roles.items():
        yield role, f"`{token}`"
    if "created_at" in details:
        yield "made", str(details["created_at"])


def _lineage(details: Mapping[str, Any]) -> Iterator[str]:
    imported = details.get("imported") or {}
    if imported:
        origin = str(imported["imported from"])
        rows = [
            ("imported from", origin if origin.startswith("hf://") else origin.rpartition("/")[2])
        ]
        rows += [(key, str(value)) for key, value in imported.items() if key != "imported from"]
        yield _table(("", ""), rows)
        return
    lineage, metrics = details.get("lineage", {}), details.get("metrics", {})
    if details["sources"]:
        yield _table(
            ("source", "language", "documents", "text", "share", "weight"),
            (
                (one["source"], one["language"], f"{one['documents']:,}", megabytes(one["bytes"]),
                 f"{one['share']:.1%}", f"{one['weight']:g}")
                for one in details["sources"]
            ),
        )  # fmt: skip
    rows = []
    if "corpus/bytes" in metrics:
        text = megabytes(int(metrics["corpus/bytes"]))
        documents = counted(int(metrics.get("corpus/documents", 0)), "document")
        rows.append(("text", f"{text} in {documents}"))
        rows.append(("distinct words", f"{int(metrics['corpus/distinct_words']):,}"))
    rows += [
        (title, f"`{lineage[key]}`")
        for key, title in (
            ("corpus_digest", "digest of the corpus"),
            ("counts_digest", "digest of the word counts"),
            ("extends", "extends"),
        )
        if lineage.get(key)
    ]
    yield _table(("", ""), rows) if rows else "Its training is not known here.\n"


def _evaluation(details: Mapping[str, Any], evaluation: Mapping[str, Any] | None) -> Iterator[str]:
    slices = (evaluation or {}).get("slices", {})
    if not slices:
        yield "Not measured.\n"
        return
    yield f"On {details.get('measured_on', 'text held out')}.\n"
    rows = []
    for name, part in sorted(slices.items(), key=lambda item: (item[0] != ALL, item[0])):
        values = part["metrics"]
        figures = (f"{values[key]:.4f}" if key in values else "" for key in _MEASURED)
        documents = f"{int(values.get('evaluated/documents', 0)):,}"
        rows.append((name, documents, *figures))
    yield _table(("texts", "documents", *_MEASURED.values()), rows)


def _table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return f"{Table(titles, list(rows), left=range(len(titles))).markdown()}\n"
