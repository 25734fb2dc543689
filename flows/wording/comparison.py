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
# What says nothing about the tokenizer, only about the run that made it.
_NOT_COMPARED = ("seconds/", *SPEEDS)


def comparison_lines(compared: VersionComparison, words: int = 10) -> list[str]:
    """The whole comparison.

    Args:
        words: how many words of each kind are shown.
    """
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
    """The comparison in sentences: subject and statement."""
    said = [
        ("vocab", _vocab(compared.vocab)),
        ("added", _some(compared.vocab.added)),
        ("removed", _some(compared.vocab.removed)),
        ("ids", ids_text(compared.vocab.changed_ids, compared.first, compared.second)),
        ("merges", _merges(compared.diverging)),
    ]
    said.append(("patterns", _both(*compared.patterns)))
    said.append(("normalizer", _both(*compared.normalizers)))
    said.append(("special", _special_tokens(compared)))
    for title, remarks in zip((compared.first, compared.second), compared.remarks, strict=True):
        said.append(("note", f"{title}: {'; '.join(remarks)}" if remarks else ""))
    said.append(("served by", _development(compared)))
    if compared.skipped is not None:
        said.append(("note", compared.skipped.remark))
    if compared.measured_on:
        said.append(("on", compared.measured_on))
    if compared.documents is not None:
        said.append(("text", verdict(compared.documents)))
        said.append(("words", _words(compared.documents.segmentation)))
    return [(subject, statement) for subject, statement in said if statement]


def _development(compared: VersionComparison) -> str:
    """Whether the texts are the same that said which language the training of each served."""
    if not any(compared.development):
        return ""
    changed = changed_development(*compared.development)
    if not changed:
        return "the same development texts in both"
    pairs = (f"{one or 'none'} → {other or 'none'}" for one, other in changed)
    return f"other development texts, so merges may differ by these alone: {'; '.join(pairs)}"


def _special_tokens(compared: VersionComparison) -> str:
    """Those of both, and which version lacks which."""
    first, second = ([one.encode() for one in some] for some in compared.special_tokens)
    both = _some([one for one in first if one in second])
    said = [f"{both} in both"] * bool(both)
    for title, own, other in ((compared.second, second, first), (compared.first, first, second)):
        if missing := _some([one for one in other if one not in own]):
            said.append(f"{title} lacks {missing}")
    return "; ".join(said) or "none in both"


def _both(first: str, second: str) -> str:
    return f"{first} in both" if first == second else f"{first} → {second}"


def comparison_markdown(compared: VersionComparison) -> str:
    """The whole comparison for Prefect and for reports."""
    # Tokens may hold a backslash, which Markdown takes off.
    said = [(subject, statement.replace("\\", "\\\\")) for subject, statement in facts(compared)]
    tables = [Table(("", ""), said, left=(0, 1))]
    if len(compared.slices) > 1:
        tables.append(_slices(compared))
    tables.append(_metrics(compared))
    parts = [f"# {compared.first} → {compared.second}", *(one.markdown() for one in tables)]
    return "\n\n".join(parts) + "\n"


def _slices(compared: VersionComparison) -> Table:
    return Table(SLICE_TITLES, slice_rows(compared))


def slice_rows(compared: VersionComparison) -> list[tuple[str, ...]]:
    """Every slice under `SLICE_TITLES`: how many more tokens, and two figures of both."""
    rows = []
    for one in compared.slices:
        interval = one.change.intervals.get(SHOWN_CONFIDENCE)
        said = "too few documents" if interval is None else "{:+.2%} … {:+.2%}".format(*interval)
        figures = {pair.key: pair for pair in one.metrics}
        both = (_before_and_after(figures.get(key)) for key in _OF_SLICES)
        rows.append((one.name, megabytes(one.bytes), f"{one.change.value:+.2%}", said, *both))
    return rows


def _before_and_after(pair: MetricPair | None) -> str:
    if pair is None or pair.first is None or pair.second is None:
        return ""
    return f"{pair.first:.4g} → {pair.second:.4g}"


def verdict(documents: DocumentComparison) -> str:
    """How many more or fewer tokens, and whether that is chance."""
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
    """The words that are cut differently, under their headings."""
    return [
        ("words that cost more tokens", segmentation.worse),
        ("words that cost fewer tokens", segmentation.better),
        ("words cut elsewhere at the same cost", segmentation.same_cost),
    ]


def compared_metrics(metrics: Iterable[MetricPair]) -> list[MetricPair]:
    """The metrics that say something about the tokenizers."""
    return [one for one in metrics if not one.key.startswith(_NOT_COMPARED)]


def _metric_lines(compared: VersionComparison) -> list[str]:
    table = _metrics(compared)
    return [*table.lines(), ""] if table.rows else []


def _metrics(compared: VersionComparison) -> Table:
    rows = []
    for one in compared_metrics(compared.metrics):
        difference = number_text(one.difference, "+")
        rows.append((one.key, number_text(one.first), number_text(one.second), difference))
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
    first, second = (_merge(one) for one in (diverging.first, diverging.second))
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
    """All of it; tokens are spelt as in vocab.json, one printable character for each byte."""
    values: dict[str, Any] = _spelt(compared)
    return values


def _spelt(value: Any) -> Any:
    if isinstance(value, bytes):
        return printable_tokens([value])[0]
    if isinstance(value, SkippedFiles):
        return value.as_dict()
    if is_dataclass(value):
        shown = {one.name: _spelt(getattr(value, one.name)) for one in fields(value)}
        if isinstance(value, MetricPair):
            shown["difference"] = value.difference
        elif isinstance(value, (Passage, WordChange)):
            shown["cost"] = value.cost
        return shown
    if isinstance(value, dict):
        return {str(key): _spelt(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelt(one) for one in value]
    return value
