"""A comparison of two versions as lines, Markdown and JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from bpeline.flows.wording.values import (
    SHOWN_CONFIDENCE,
    ids_text,
    megabytes,
    number_text,
    token_text,
    tokens_text,
)
from bpeline.registry.evaluation import MetricPair, VersionComparison
from bpeline.registry.records import changed_development
from bpeline.tokenizer_core.corpus import SkippedFiles
from bpeline.tokenizer_core.evaluation import (
    BYTES_PER_TOKEN,
    FEWEST_RESAMPLED,
    SPEEDS,
    TOO_FEW_DOCUMENTS,
    DivergingMerge,
    DocumentComparison,
    Passage,
    Segmentation,
    VocabDifference,
    WordChange,
)
from bpeline.tokenizer_core.formats import printable_tokens
from bpeline.tokenizer_core.tables import Table

_OF_SLICES = (BYTES_PER_TOKEN, "words/fertility")
SLICE_TITLES = (
    "slice", "text", "tokens", f"{SHOWN_CONFIDENCE:.0%} interval", "bytes/token", "tokens/word",
)  # fmt: skip
_TOKENS_SHOWN = 12
# Metrics of the run instead of the tokenizer.
_NOT_COMPARED = ("seconds/", *SPEEDS)


def comparison_lines(compared: VersionComparison, words: int = 10) -> list[str]:
    """Return the whole comparison as lines."""
    lines = [f"{compared.first} → {compared.second}", ""]
    lines += _metric_lines(compared)
    lines += [f"{title:<10} {value}" for title, value in facts(compared)]
    if compared.documents is None:
        return lines
    if len(compared.slices) > 1:
        lines += ["", *_slices(compared).lines()]
    for title, changes in word_lists(compared.documents.segmentation):
        if changes:
            lines += ["", title, *_change_lines(changes[:words])]
    return lines


def facts(compared: VersionComparison) -> list[tuple[str, str]]:
    """Return the comparison as (subject, statement)."""
    statements = [
        ("vocab", _vocab(compared.vocab)),
        ("added", _some(compared.vocab.added)),
        ("removed", _some(compared.vocab.removed)),
        ("ids", ids_text(compared.vocab.changed_ids, compared.first, compared.second)),
        ("merges", _merges(compared.diverging)),
    ]
    statements.append(("patterns", _both(*compared.patterns)))
    statements.append(("normalizer", _both(*compared.normalizers)))
    statements.append(("special", _special_tokens(compared)))
    for title, remarks in zip((compared.first, compared.second), compared.remarks, strict=True):
        statements.append(("note", f"{title}: {'; '.join(remarks)}" if remarks else ""))
    statements.append(("parity", _development(compared)))
    if compared.skipped is not None:
        statements.append(("note", compared.skipped.remark))
    if compared.measured_on:
        statements.append(("on", compared.measured_on))
    if compared.documents is not None:
        statements.append(("text", verdict(compared.documents)))
        statements.append(("words", _words(compared.documents.segmentation)))
    return [(subject, statement) for subject, statement in statements if statement]


def _development(compared: VersionComparison) -> str:
    """Compare the texts of ``--parity-dev`` of both trainings."""
    if not any(compared.development):
        return ""
    changed = changed_development(*compared.development)
    if not changed:
        return "the same development texts in both"
    pairs = (f"{earlier or 'none'} → {later or 'none'}" for earlier, later in changed)
    return f"different development texts, which alone can change merges: {'; '.join(pairs)}"


def _special_tokens(compared: VersionComparison) -> str:
    """Return the special tokens of both, and those that one version lacks."""
    first, second = ([token.encode() for token in tokens] for tokens in compared.special_tokens)
    both = _some([token for token in first if token in second])
    parts = [f"{both} in both"] * bool(both)
    for title, own, other in ((compared.second, second, first), (compared.first, first, second)):
        if missing := _some([token for token in other if token not in own]):
            parts.append(f"{title} lacks {missing}")
    return "; ".join(parts) or "none in both"


def _both(first: str, second: str) -> str:
    return f"{first} in both" if first == second else f"{first} → {second}"


def comparison_markdown(compared: VersionComparison) -> str:
    """Return the whole comparison as Markdown, for Prefect and reports."""
    # Markdown removes backslashes, which tokens may contain.
    rows = [(subject, statement.replace("\\", "\\\\")) for subject, statement in facts(compared)]
    tables = [Table(("", ""), rows, left=(0, 1))]
    if len(compared.slices) > 1:
        tables.append(_slices(compared))
    tables.append(_metrics(compared))
    parts = [f"# {compared.first} → {compared.second}", *(table.markdown() for table in tables)]
    return "\n\n".join(parts) + "\n"


def _slices(compared: VersionComparison) -> Table:
    return Table(SLICE_TITLES, slice_rows(compared))


def slice_rows(compared: VersionComparison) -> list[tuple[str, ...]]:
    """Return rows for `SLICE_TITLES`: the change in tokens, and two figures of both."""
    rows = []
    for slice_of_text in compared.slices:
        interval = slice_of_text.change.intervals.get(SHOWN_CONFIDENCE)
        interval_text = (
            "too few documents" if interval is None else "{:+.2%} … {:+.2%}".format(*interval)
        )
        figures = {pair.key: pair for pair in slice_of_text.metrics}
        both = (_before_and_after(figures.get(key)) for key in _OF_SLICES)
        rows.append(
            (
                slice_of_text.name,
                megabytes(slice_of_text.bytes),
                f"{slice_of_text.change.value:+.2%}",
                interval_text,
                *both,
            )
        )
    return rows


def _before_and_after(pair: MetricPair | None) -> str:
    if pair is None or pair.first is None or pair.second is None:
        return ""
    return f"{pair.first:.4g} → {pair.second:.4g}"


def verdict(documents: DocumentComparison) -> str:
    """Return the change in tokens, and whether it is significant."""
    change = documents.change
    text = (
        f"{documents.documents:,} documents, {megabytes(documents.bytes)}: "
        f"{documents.first_tokens:,} → {documents.second_tokens:,} tokens, {change.value:+.2%}"
    )
    if change.documents < FEWEST_RESAMPLED:
        return f"{text}; {TOO_FEW_DOCUMENTS}"
    interval = f"{change.confidence:.0%} interval {change.low:+.2%} … {change.high:+.2%}"
    text = f"{text} ({interval})"
    if change.excludes_zero:
        return f"{text}: the {'first' if change.value > 0 else 'second'} compresses better"
    return f"{text}: no difference beyond chance"


def word_lists(segmentation: Segmentation) -> list[tuple[str, tuple[WordChange, ...]]]:
    """Return the words that are tokenized differently, under their headings."""
    return [
        ("words that cost more tokens", segmentation.worse),
        ("words that cost fewer tokens", segmentation.better),
        ("words cut elsewhere at the same cost", segmentation.same_cost),
    ]


def compared_metrics(metrics: Iterable[MetricPair]) -> list[MetricPair]:
    """Return the metrics of the tokenizers, without those of their runs."""
    return [pair for pair in metrics if not pair.key.startswith(_NOT_COMPARED)]


def _metric_lines(compared: VersionComparison) -> list[str]:
    table = _metrics(compared)
    return [*table.lines(), ""] if table.rows else []


def _metrics(compared: VersionComparison) -> Table:
    rows = []
    for pair in compared_metrics(compared.metrics):
        difference = number_text(pair.difference, "+")
        rows.append((pair.key, number_text(pair.first), number_text(pair.second), difference))
    return Table(("metric", compared.first, compared.second, "difference"), rows)


def _change_lines(changes: Sequence[WordChange]) -> Iterator[str]:
    for one in changes:
        cost = f"{one.cost:+,}" if one.cost else "±0"
        yield f"{cost:>10}  {one.count:>9,} ×  {tokens_text(one.first)} → {tokens_text(one.second)}"


def _vocab(difference: VocabDifference) -> str:
    return (
        f"{difference.shared:,} tokens in both, {len(difference.moved):,} of them with another "
        f"id; {len(difference.added):,} added, {len(difference.removed):,} removed"
    )


def _some(tokens: Sequence[bytes]) -> str:
    more = f" … and {len(tokens) - _TOKENS_SHOWN:,} more" if len(tokens) > _TOKENS_SHOWN else ""
    return tokens_text(tuple(tokens[:_TOKENS_SHOWN])) + more


def _merges(diverging: DivergingMerge | None) -> str:
    if diverging is None:
        return "the same"
    first, second = (_merge(merge) for merge in (diverging.first, diverging.second))
    same = "no merge is the same" if not diverging.rank else f"the first {diverging.rank:,} equal"
    return f"{same}; then {first} against {second}"


def _merge(merge: tuple[bytes, bytes] | None) -> str:
    return "the end" if merge is None else " + ".join(map(token_text, merge))


def _words(segmentation: Segmentation) -> str:
    return (
        f"{segmentation.changed_words:,} of {segmentation.words:,} distinct words are cut "
        f"differently, {segmentation.changed_occurrences:,} of "
        f"{segmentation.occurrences:,} occurrences; {segmentation.stability:.1%} of the places "
        "where either cuts inside words are the same"
    )


def comparison_json(compared: VersionComparison) -> dict[str, Any]:
    """Return the comparison as JSON values, with tokens in the notation of vocab.json."""
    values: dict[str, Any] = _spelt(compared)
    return values


def _spelt(value: Any) -> Any:
    if isinstance(value, bytes):
        return printable_tokens([value])[0]
    if isinstance(value, SkippedFiles):
        return value.as_dict()
    if is_dataclass(value):
        shown = {item.name: _spelt(getattr(value, item.name)) for item in fields(value)}
        if isinstance(value, MetricPair):
            shown["difference"] = value.difference
        elif isinstance(value, (Passage, WordChange)):
            shown["cost"] = value.cost
        return shown
    if isinstance(value, dict):
        return {str(key): _spelt(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelt(item) for item in value]
    return value
