"""Text forms of numbers, sizes and tokens; tables of sources and languages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bpeline.tokenizer_core.display import megabytes as megabytes
from bpeline.tokenizer_core.display import number_text as number_text
from bpeline.tokenizer_core.evaluation import GINI_OF_TEXTS, TOO_FEW_DOCUMENTS
from bpeline.tokenizer_core.tables import Table


def left_out_text(metrics: Mapping[str, float]) -> str:
    """Describe the text left out for the evaluation set, from a training's metrics."""
    if "corpus/left_out_bytes" not in metrics:
        return "not known"
    size, share, documents = (
        metrics[f"corpus/left_out_{name}"] for name in ("bytes", "share", "documents")
    )
    return (
        f"{megabytes(int(size))}, {share:.2%} of the text, for "
        f"{counted(int(documents), 'document')} of the evaluation set"
    )


def counted(number: int, noun: str) -> str:
    """``1 file``, ``3 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


SHOWN_CONFIDENCE = 0.95


def change_text(percent: float, low: float | None, high: float | None, of: str = "") -> str:
    """Format a change with its interval, if any: ``-1.20 % tokens (-1.50 … -0.90)``."""
    text = f"{percent:+.2f} % {of}".rstrip()
    if low is None or high is None:
        return f"{text} ({TOO_FEW_DOCUMENTS})"
    chance = ", may be chance" if low <= 0 <= high else ""
    return f"{text} ({low:+.2f} … {high:+.2f}{chance})"


_LONGEST = 60  # characters


def token_text(token: bytes, longest: int = _LONGEST) -> str:
    """Format as ``"ing"``, ``" the"``, ``"\\n"``; invalid UTF-8 as ``b"\\xe2\\x80"``."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        quoted = f'b"{_escaped(repr(token)[2:-1])}"'
    else:
        quoted = f'"{_escaped(repr(text)[1:-1])}"'
    return quoted if len(quoted) <= longest else f"{quoted[: longest - 1]}…"


def tokens_text(tokens: tuple[bytes, ...]) -> str:
    """Format several tokens in a row."""
    return " ".join(map(token_text, tokens))


def ids_text(changed: int, first: str, second: str) -> str:
    """Describe how many ids differ in another version, and the consequence."""
    if not changed:
        return f"every id of {first} has the same meaning in {second}"
    return (
        f"{changed:,} ids of {first} mean another token, or none, in {second}: data that was "
        f"encoded with {first} must be encoded again"
    )


def _escaped(content: str) -> str:
    """Escape the content of `repr`'s quotes for double quotes."""
    return content.replace("\\'", "'").replace('"', '\\"')


COLUMNS = {
    "source": "source",
    "language": "language",
    "domain": "domain",
    "documents": "documents",
    "MB": "bytes",
    "words": "words",
    "distinct": "distinct_words",
    "share": "share",
    "weight": "weight",
    "weighted": "weighted_share",
}


def statistics_table(statistics: Sequence[Mapping[str, Any]]) -> Table:
    """Return a row for each source, without label columns that are empty."""
    shown = {
        title: name
        for title, name in COLUMNS.items()
        if name not in ("language", "domain") or any(source[name] for source in statistics)
    }
    rows = [tuple(_cell(name, source[name]) for name in shown.values()) for source in statistics]
    return Table(tuple(shown), rows)


def _cell(name: str, value: Any) -> str:
    if name == "bytes":
        return f"{value / 1e6:,.1f}"
    if name in ("share", "weighted_share"):
        return f"{value:.2%}"
    if name == "weight":
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


TITLES = ("tokens per 1,000 bytes", "before", "after", "change", "95 % interval")
NOT_MEASURED = "not measured"


def language_costs(
    metrics: Mapping[str, float], before: str, sources: Iterable[Mapping[str, Any]]
) -> Table | None:
    """Return the cost of each text and source in tokens; None if it was not compared.

    ``before`` is the label of the training compared with.
    """
    if f"vs_{before}_percent/all" not in metrics:
        return None
    rows: list[tuple[str, ...]] = []
    group, percent = "bytes_per_token/", f"vs_{before}_percent/"
    texts = [
        key.removeprefix(group)
        for key in metrics
        if key.startswith(group) and percent + key.removeprefix(group) in metrics
    ]
    for text in texts:
        cost, change = 1000 / metrics[group + text], metrics[percent + text]
        low, high = (metrics.get(f"{percent}{text}_{end}") for end in ("low", "high"))
        interval = "" if low is None or high is None else f"{low:+.2f} … {high:+.2f}"
        cost_before = cost / (1 + change / 100)
        rows.append((text, f"{cost_before:.1f}", f"{cost:.1f}", f"{change:+.2f} %", interval))
    for source in unmeasured(metrics, sources):
        rows.append((source, *[NOT_MEASURED] * 2, "", ""))
    gini = GINI_OF_TEXTS.partition("/")[2]
    both = [metrics.get(name) for name in (f"vs_{before}/{gini}", GINI_OF_TEXTS)]
    if None not in both:
        rows.append(("Gini coefficient", *(f"{value:.4f}" for value in both), "", ""))
    return Table(TITLES, rows)


def unmeasured(metrics: Mapping[str, float], sources: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the named sources without evaluation text of their name or language."""
    return [
        str(source["source"])
        for source in sources
        if not any(
            f"bytes_per_token/{name}" in metrics
            for name in (source["source"], f"language:{source['language']}")
        )
    ]
