"""The pages of a version and of a comparison: figures, charts, token lists, tokenizer."""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.flows.pages.rendering import render
from bpeline.flows.requests import ORDINARY
from bpeline.flows.wording import (
    SLICE_TITLES,
    compared_metrics,
    facts,
    language_costs,
    slice_rows,
    statistics_table,
    word_lists,
)
from bpeline.registry.evaluation import ROBUSTNESS_COLUMNS, VersionComparison
from bpeline.registry.tokens import FEWEST_DOCUMENTS, ONE_DOCUMENT
from bpeline.tokenizer_core.charts import Chart, Line
from bpeline.tokenizer_core.encoding import unreachable_tokens
from bpeline.tokenizer_core.evaluation import JUNK_SHARE
from bpeline.tokenizer_core.kernels.scanning.automaton import MOVE
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.tokenizer_spec import BYTE_BPE
from bpeline.tokenizer_core.vocabulary import KINDS, MEANINGS

if TYPE_CHECKING:
    from bpeline.registry.evaluation import VersionComparison
    from bpeline.registry.records import DevelopmentText
    from bpeline.registry.tokens import Screening
    from bpeline.tokenizer_core.evaluation import TokenUse


_CURVE_POINTS = 80
Curve = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class ReportContents:
    """Everything on the page.

    Attributes:
        title: ``news/3``, or the name if there is no number yet.
        facts: properties and origin of the version, in the order shown.
        use: counts of tokens in the training corpus; None if its word counts are gone.
        comparison: with another version, which comes first.
        chosen_size: see `registry.evaluation.measured`; None if the size was requested.
    """

    title: str
    tokenizer: Tokenizer
    screening: Screening
    facts: Mapping[str, str]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    notes: Sequence[str] = ()
    sources: Sequence[Mapping[str, Any]] = ()
    development: Sequence[DevelopmentText] = ()
    use: TokenUse | None = None
    comparison: VersionComparison | None = None
    comparison_remark: str = ""
    robustness: Sequence[tuple[Any, ...]] = ()
    chosen_size: Mapping[str, Any] | None = None

    @property
    def reference(self) -> str:
        """Reference to type for the version."""
        return self.title if "/" in self.title else f"{self.title}@candidate"


def merged_ids(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """Return ids that are neither special nor a single byte, ascending."""
    vocab = tokenizer.vocab
    ids = np.fromiter(vocab, np.int64, len(vocab))
    longer = ids[np.fromiter(map(len, vocab.values()), np.int64, len(vocab)) > 1]
    return np.setdiff1d(longer, list(tokenizer.special_tokens.values()))


def junk_ids(tokenizer: Tokenizer, use: TokenUse) -> NDArray[np.int64]:
    """Return merged tokens that are mostly parts of longer ones, highest share first."""
    junk = use.junk[np.argsort(-use.absorbed[use.junk], kind="stable")]
    return junk[np.isin(junk, merged_ids(tokenizer))]


def unreachable_ids(tokenizer: Tokenizer) -> dict[int, bytes]:
    """Return tokens that encoding never produces from their own text; empty for words."""
    if tokenizer.words is not None:
        return {}
    ordinary = {token: i for i, token in tokenizer.vocab.items() if not tokenizer.is_special(i)}
    unreachable = unreachable_tokens(tokenizer.encoder, ordinary)
    return {id_: token for token, id_ in sorted(unreachable.items(), key=lambda item: item[1])}


def training_curve(tokenizer: Tokenizer, use: TokenUse) -> list[tuple[int, float]]:
    """Return (vocab size, bytes per token) on the training words, if there are merges."""
    merges = len(use.gains)
    if not merges or not use.bytes:
        return []
    without = tokenizer.vocab_size - merges
    tokens_left = use.bytes - np.concatenate(([0], np.cumsum(use.gains)))
    sizes = np.unique(np.geomspace(without, tokenizer.vocab_size, _CURVE_POINTS).astype(np.int64))
    return [(int(size), use.bytes / int(tokens_left[size - without])) for size in sizes]


def saved_by_last(use: TokenUse) -> float:
    """Return the share of tokens that the last tenth of the merges saves."""
    last = int(len(use.gains) * 0.1)
    tokens = int(use.left.sum())
    saved = int(use.gains[len(use.gains) - last :].sum())
    return saved / (tokens + saved) if tokens else 0.0


_CURVE = "compression/bytes_per_token"
_SLICE = "bytes_per_token/"
_SECONDS = "seconds/"
_BOUNDS = ("_low", "_high")  # of an interval
_LONGEST_BAR = 24  # bytes; longer tokens share the last bar


def compression(contents: ReportContents) -> dict[str, Any]:
    """Return charts and tables; None for a chart without data."""
    return {
        "sizes": _sizes(contents),
        "choice": _choice(contents.chosen_size),
        "ranks": _ranks(contents),
        "gains": _gains(contents),
        "lengths": token_lengths(contents.tokenizer),
        "slices": _slices(contents.metrics),
        "costs": language_costs(contents.metrics, ORDINARY, contents.sources),
        "robustness": _robustness(contents),
        "metrics": [
            (key, value)
            for key, value in sorted(contents.metrics.items())
            if not key.startswith(_SECONDS) and not _of_slice(key, contents.metrics)[1]
        ],
    }


def _robustness(contents: ReportContents) -> dict[str, Any]:
    """Return the growth in tokens for each perturbation, with a column per language."""
    measured = [dict(zip(ROBUSTNESS_COLUMNS, row, strict=True)) for row in contents.robustness]
    languages = list(dict.fromkeys(item["language"] for item in measured))
    rows: dict[str, dict[str, str]] = {}
    for item in measured:
        text = f"{item['inflation']:+.1%}"
        if item["inflation_low"] is not None:
            text += f" ({item['inflation_low']:+.1%} … {item['inflation_high']:+.1%})"
        rows.setdefault(f"{item['family']}: {item['kind']}", {})[item["language"]] = text
    cells = {kind: [of.get(item, "") for item in languages] for kind, of in rows.items()}
    return {"languages": languages, "rows": cells}


def _sizes(contents: ReportContents) -> dict[str, Any] | None:
    """Draw bytes per token over the vocab size, in training and in evaluation."""
    use, series = contents.use, []
    trained = training_curve(contents.tokenizer, use) if use else []
    if trained:
        series.append(Line("training", trained))
    measured = {
        key: curve
        for key, curve in contents.curves.items()
        if len(curve) > 1 and "bytes_per_token" in key
    }
    for key in sorted(measured, key=lambda line: (line != _CURVE, line))[:4]:
        series.append(Line(_name_of(key), measured[key], dots=True))
    if not series:
        return None
    return {
        "chart": Chart(
            "Bytes per token over the vocabulary size", "vocabulary size", "bytes per token", series
        ),
        "saved_by_last": saved_by_last(use) if use is not None and len(use.gains) > 10 else None,
        "measured": [(line.name, *point) for line in series if line.dots for point in line.points],
    }


def _choice(chosen: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Draw the cost of each size for a model, if the size was chosen by cost."""
    if chosen is None:
        return None
    costs = [(size, cost / 1e6) for size, _, cost in chosen["curve"]]
    (least,) = (point for point in costs if point[0] == chosen["vocab_size"])
    return {
        "chart": Chart(
            "What a byte of text costs over the vocabulary size", "vocabulary size",
            "MFLOPs per byte", [Line("cost", costs), Line("chosen", [least], dots=True)],
        ),
        "said": chosen["said"],
        "model": chosen["model"]["title"],
        "measured_on": chosen["measured_on"],
        "figures": [(size, value, cost / 1e6) for size, value, cost in chosen["curve"]],
    }  # fmt: skip


def _name_of(key: str) -> str:
    if key == _CURVE:
        return "evaluated"
    return key.removeprefix(f"{_CURVE}.").removeprefix(_SLICE).removesuffix("/bytes_per_token")


def _ranks(contents: ReportContents) -> dict[str, Any] | None:
    """Draw the occurrences of tokens, most frequent first."""
    use = contents.use
    if use is None:
        return None
    counts = np.sort(use.left[list(contents.tokenizer.vocab)])[::-1]
    counts = counts[counts > 0]
    if len(counts) < 2:
        return None
    ranks = np.unique(np.geomspace(1, len(counts), 80).astype(np.int64))
    points = [(int(rank), int(counts[rank - 1])) for rank in ranks]
    return {
        "chart": Chart(
            "Occurrences of tokens by rank", "tokens, most frequent first", "occurrences",
            [Line("training text", points)], y_log=True,
        ),
        "rare": int((use.left[merged_ids(contents.tokenizer)] < 100).sum()),
    }  # fmt: skip


def _gains(contents: ReportContents) -> dict[str, Any] | None:
    """Draw the tokens that each merge saves, by rank."""
    gains = np.zeros(0, np.int64) if contents.use is None else contents.use.gains
    gains = gains[gains > 0]
    if len(gains) < 2:
        return None
    # Single merges are noisy, so neighbours are averaged.
    edges = np.unique(np.geomspace(1, len(gains) + 1, 60).astype(np.int64))
    sums = np.add.reduceat(gains, edges[:-1] - 1) / np.diff(edges)
    points = [(float(edge), float(average)) for edge, average in zip(edges[:-1], sums, strict=True)]
    return {
        "chart": Chart(
            "Tokens that each merge saves", "rank of the merge", "tokens saved",
            [Line("training text", points)], y_log=True,
        ),
        "last": int(gains[-1]),
    }  # fmt: skip


def token_lengths(tokenizer: Tokenizer) -> Chart:
    """Count tokens by length, without special tokens."""
    lengths = Counter(
        min(len(token), _LONGEST_BAR)
        for id_, token in tokenizer.vocab.items()
        if not tokenizer.is_special(id_)
    )
    shown = range(1, max(lengths, default=1) + 1)
    names = [f"{length}{'+' if length == _LONGEST_BAR else ''}" for length in shown]
    bars = [lengths[length] for length in shown]
    return Chart("Tokens by length", "bytes of a token", "tokens", bars=bars, names=names)


def _slices(metrics: Mapping[str, float]) -> dict[str, Any]:
    """Return a table of metrics by slice, with the bounds of their intervals."""
    slices: dict[str, dict[str, float]] = {}
    for key, value in metrics.items():
        metric, name = _of_slice(key, metrics)
        if name:
            slices.setdefault(name, {})[metric] = value
    every = sorted({metric for values in slices.values() for metric in values})
    columns = [metric for metric in every if not metric.endswith(_BOUNDS)]
    bounds = ("", *_BOUNDS)
    return {
        "titles": [metric.replace("_", " ") for metric in columns],
        "rows": [
            (name, [[values.get(metric + bound) for bound in bounds] for metric in columns])
            for name, values in sorted(slices.items())
        ],
    }


def _of_slice(key: str, metrics: Mapping[str, float]) -> tuple[str, str]:
    """Split a metric name into metric and slice; the slice is empty for all text."""
    metric, _, name = key.partition("/")
    for bound in ("", *_BOUNDS):
        if f"{_SLICE}{name.removesuffix(bound)}" in metrics and name.endswith(bound):
            return metric + bound, name.removesuffix(bound)
    return key, ""


# Names of the bits of ``signs`` in `report.js`.
SIGNS = ("special", "junk", "unreachable", "one document", "suspicious", "part of a character")
_SPECIAL, _JUNK, _UNREACHABLE, _ONE_DOCUMENT, _SUSPICIOUS, _PART = (1 << bit for bit in range(6))
_LISTED = 15
_MANY = 200  # limit for lists that should be empty


def by_id(
    contents: ReportContents, unreachable: Mapping[int, bytes]
) -> dict[str, NDArray[np.int64]]:
    """Return numbers for every id: signs, and counts if known."""
    tokenizer, use, screening = contents.tokenizer, contents.use, contents.screening
    signs = np.zeros(tokenizer.spec.largest_id + 1, np.int64)
    parts = [id_ for id_, token in tokenizer.vocab.items() if not _is_text(token)]
    for ids, sign in (
        (tokenizer.special_tokens.values(), _SPECIAL),
        ([] if use is None else junk_ids(tokenizer, use).tolist(), _JUNK),
        (unreachable, _UNREACHABLE),
        (screening.one_document, _ONE_DOCUMENT),
        ([suspicion.id for suspicion in screening.suspicions], _SUSPICIOUS),
        (parts, _PART),
    ):
        signs[list(ids)] |= sign
    if use is None:
        return {"signs": signs}
    return {"made": use.made, "used": use.left, "signs": signs}


def useful_and_idle(contents: ReportContents) -> dict[str, Any] | None:
    """Return rows of merged tokens by use in the training text; None if unknown."""
    use, vocab = contents.use, contents.tokenizer.vocab
    ids = merged_ids(contents.tokenizer)
    if use is None or not len(ids):
        return None
    lengths = np.fromiter((len(vocab[id_]) for id_ in ids.tolist()), np.int64, len(ids))
    left = use.left[ids]
    junk = junk_ids(contents.tokenizer, use)

    def rows(ids: NDArray[np.int64], figure: Callable[[int], str]) -> list[tuple[Any, ...]]:
        return [(vocab[i], i, int(use.left[i]), figure(i)) for i in ids[:_LISTED].tolist()]

    return {
        "carrying": rows(
            ids[np.argsort(-left * lengths, kind="stable")],
            lambda id_: f"{use.left[id_] * len(vocab[id_]) / use.bytes:.2%}",
        ),
        "never": int((left == 0).sum()),
        "idle": rows(ids[np.argsort(left, kind="stable")], lambda id_: f"{use.made[id_]:,}"),
        "steps": len(junk),
        "junk": rows(junk, lambda id_: f"{use.absorbed[id_]:.1%}"),
    }


def longest(contents: ReportContents) -> list[tuple[bytes, int]]:
    """Return the longest merged tokens, and their ids."""
    vocab = contents.tokenizer.vocab
    ids = sorted(merged_ids(contents.tokenizer).tolist(), key=lambda id_: (-len(vocab[id_]), id_))
    return [(vocab[id_], id_) for id_ in ids[:_LISTED]]


def some(ids: Iterable[int], vocab: Mapping[int, bytes]) -> list[bytes]:
    """Return the longest of the tokens, whose origin is easiest to recognise."""
    shown = sorted(ids, key=lambda id_: (-len(vocab[id_]), id_))[:_MANY]
    return [vocab[id_] for id_ in shown]


def _is_text(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


_MOST_BYTES_OF_ONE = 9  # for 63 bits
_LEVEL = 9


def packed_tokenizer(
    tokenizer: Tokenizer, by_id: Mapping[str, NDArray[np.int64]]
) -> dict[str, Any]:
    """Pack what `report.js` needs to encode text and to show the vocab.

    Args:
        by_id: non-negative numbers for every id, int64 ``[largest id + 1]``, under their names.

    Returns:
        ``about``, JSON values, and ``content``, the sections in base64.
    """
    over_bytes = tokenizer.algorithm == BYTE_BPE
    ids = np.array(sorted(tokenizer.vocab), np.int64)
    nothing = np.zeros(0, np.int64)
    left = right = results = byte_ids = nothing
    if over_bytes:
        left, right, results = tokenizer.merge_ids
        byte_ids = tokenizer.byte_pairs.byte_ids.astype(np.int64)
    others = np.setdiff1d(ids, np.concatenate([results, byte_ids]))
    tokens = [tokenizer.vocab[id_] for id_ in others.tolist()]
    sections = {
        "bytes": byte_ids,
        "left": left,
        "right": right,
        "results": _differences(results),
        "others": _differences(others),
        "otherLengths": np.fromiter(map(len, tokens), np.int64, len(tokens)),
        "otherBytes": np.frombuffer(b"".join(tokens), np.uint8).astype(np.int64),
        "ids": _differences(ids),
        **{name: values[ids] for name, values in by_id.items()},
    }
    automaton = tokenizer.pattern.automaton if over_bytes else None
    about: dict[str, Any] = {
        "special": {token: int(id_) for token, id_ in tokenizer.special_tokens.items()},
        "ignoreMerges": tokenizer.ignore_merges,
        "overBytes": over_bytes,
        "split": None,
    }
    if automaton is not None:
        columns = automaton.columns
        sections["classes"] = _runs(automaton.class_of_point)
        sections["rows"] = automaton.moves[..., 0].ravel().astype(np.int64) // (columns * MOVE)
        sections["flags"] = automaton.moves[..., 1].ravel().astype(np.int64)
        about["split"] = {
            "columns": int(columns),
            "lastLineFeed": int(automaton.last_line_feed),
            "end": int(automaton.end),
        }
    about["sections"] = {name: len(values) for name, values in sections.items()}
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    content = deflate.compress(b"".join(map(leb128, sections.values()))) + deflate.flush()
    return {"about": about, "content": base64.b64encode(content).decode()}


def leb128(values: NDArray[np.int64]) -> bytes:
    """Encode non-negative integers in LEB128: 7 bits per byte, lowest bits first."""
    shifts = np.arange(_MOST_BYTES_OF_ONE) * 7
    rest = values[:, None] >> shifts
    septets = (rest & 127).astype(np.uint8)
    more = rest >> 7 > 0
    septets[more] |= 128
    needed = np.ones_like(more)
    needed[:, 1:] = more[:, :-1]
    return septets[needed].tobytes()


def _differences(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the differences of neighbours, with the sign in the lowest bit."""
    steps = np.diff(values, prepend=0)
    return np.where(steps < 0, -2 * steps - 1, 2 * steps)


def _runs(classes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return class and length of each run, alternating."""
    edges = np.flatnonzero(np.diff(classes)) + 1
    begins = np.concatenate([[0], edges])
    lengths = np.diff(np.concatenate([begins, [len(classes)]]))
    return np.stack([classes[begins].astype(np.int64), lengths], axis=1).ravel()


LARGEST = 5 << 20  # bytes; limit for a page of 100,000 tokens
_WORDS = 12  # of each kind, in the difference


def report_page(contents: ReportContents) -> str:
    """Render the report page."""
    tokenizer, use, screening = contents.tokenizer, contents.use, contents.screening
    unreachable = unreachable_ids(tokenizer)
    values = {
        "contents": contents,
        "tokenizer": tokenizer,
        "pattern": tokenizer.pattern,
        "metrics": contents.metrics,
        "counted": use is not None,
        "plays": tokenizer.algorithm == BYTE_BPE,
        "typed_special": [t for t in tokenizer.special_tokens if t.isascii() and t.isprintable()],
        "junk": len(junk_ids(tokenizer, use)) if use is not None and len(use.gains) else None,
        "compression": compression(contents),
        "lists": useful_and_idle(contents),
        "junk_share": JUNK_SHARE,
        "longest": longest(contents),
        "unreachable": None if tokenizer.words is not None else list(unreachable.values()),
        "screening": screening,
        "documents_known": ONE_DOCUMENT in screening.metrics,
        "fewest_documents": FEWEST_DOCUMENTS,
        "looked_for": [MEANINGS[kind] for kind in KINDS],
        "one_document": some(screening.one_document, tokenizer.vocab),
        "unread": some(screening.unread, tokenizer.vocab),
        "difference": contents.comparison and difference(contents.comparison, _WORDS),
        "signs": SIGNS,
        "sources": statistics_table(contents.sources) if contents.sources else None,
        "development": [
            (
                text_read.name,
                text_read.digest,
                f"{text_read.documents:,}",
                f"{text_read.bytes:,}",
                ", ".join(text_read.files),
            )
            for text_read in contents.development
        ],
        "parameters": {
            key: value
            for key, value in contents.parameters.items()
            if value not in (None, [], {}, "") and key != "name"
        },
        "packed": packed_tokenizer(tokenizer, by_id(contents, unreachable)),
    }
    return render("report.html", values)


def comparison_page(compared: VersionComparison) -> str:
    """Render the page of a comparison."""
    vocab = {"came": compared.vocab.added, "went": compared.vocab.removed}
    spelt = {  # kinds without tokens have no search box
        kind: [base64.b64encode(token).decode() for token in tokens]
        for kind, tokens in vocab.items()
        if tokens
    }
    values = {
        "difference": difference(compared),
        "passages": compared.passages,
        "vocab": spelt,
        "newline": b"\n",
    }
    return render("comparison.html", values)


def difference(compared: VersionComparison, words: int | None = None) -> dict[str, Any]:
    """Return the values for ``templates/difference.html``."""
    lists = word_lists(compared.documents.segmentation) if compared.documents else []
    return {
        "first": compared.first,
        "second": compared.second,
        "documents": compared.documents,
        # Added and removed tokens have their own lists.
        "facts": {
            subject: statement
            for subject, statement in facts(compared)
            if subject not in ("added", "removed")
        },
        "vocab": compared.vocab,
        "words": [(title, changes[:words]) for title, changes in lists if changes],
        "slice_titles": SLICE_TITLES,
        "slices": slice_rows(compared) if len(compared.slices) > 1 else [],
        "metrics": compared_metrics(compared.metrics),
    }
