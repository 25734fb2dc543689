"""The model card of a version: how to load it, its origin and its figures.

It contains no paths, because these concern only the owners of the corpus.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bpeline.flows.wording import counted, megabytes
from bpeline.tokenizer_core.evaluation import ALL, BYTES_PER_TOKEN
from bpeline.tokenizer_core.tables import Table
from bpeline.tokenizer_core.tokenizer import Tokenizer

OURS = "<!-- This card was written by bpeline. -->"
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_MEASURED = {
    BYTES_PER_TOKEN: "bytes/token",
    "compression/chars_per_token": "characters/token",
    "compression/unigram_bits_per_byte": "unigram bits/byte",
    "distribution/renyi_efficiency_2.5": "Rényi efficiency (2.5)",
}


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
