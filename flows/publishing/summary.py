"""The summary of a training or an import, as text, JSON or Markdown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from bpeline.flows.counting import SourceStatistics, as_json
from bpeline.flows.publishing.promotion import Promotion
from bpeline.flows.requests import ORDINARY, UNRESTRICTED, WORDS_ALONE
from bpeline.flows.wording import (
    as_typed,
    change_text,
    counted,
    from_here,
    language_costs,
    megabytes,
    number_text,
    program,
    statistics_table,
)
from bpeline.registry.loading import uncertified
from bpeline.registry.records import CANDIDATE, CHAMPION, PublishedVersion
from bpeline.tokenizer_core.charts import curves_in_notebook
from bpeline.tokenizer_core.evaluation import ALL, GINI_OF_TEXTS, NEW_TEXT, RARE, SPEEDS
from bpeline.tokenizer_core.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(ABC):
    """The result of a run that registers a version.

    Attributes:
        measured_on: the evaluation set of the figures, or why there is none.
        curve: (vocab size, bytes per token); empty without merges.
        curves: other values over the vocab size, by name.
        version: number, 0 before publishing.
        newly_registered: False if the same spec was registered before.
        link: of its page in the MLflow UI.
        ui_command: command that starts the UI for the link; empty if it runs.
    """

    name: str
    run_id: str
    vocab_size: int
    measured_on: str = ""
    metrics: Mapping[str, float]
    curve: tuple[tuple[int, float], ...]
    curves: Mapping[str, tuple[tuple[int, float], ...]]
    seconds: Mapping[str, float]
    notes: tuple[str, ...]
    version: int = 0
    digest: str = ""
    newly_registered: bool = False
    candidate: bool = False
    directory: str = ""
    link: str = ""
    ui_command: str = ""
    promotion: Promotion | None = None

    def published(
        self, version: PublishedVersion, seconds: Mapping[str, float], promotion: Promotion | None
    ) -> Self:
        """Return the summary with the results of publishing."""
        return replace(
            self,
            version=version.number,
            digest=version.digest,
            newly_registered=version.newly_registered,
            candidate=version.candidate,
            directory=str(version.directory),
            link=version.link,
            ui_command=version.ui_command,
            promotion=promotion,
            seconds=dict(seconds),
        )

    @property
    def reference(self) -> str:
        """``news/3``, or the name before publishing."""
        return f"{self.name}/{self.version}" if self.version else self.name

    @property
    @abstractmethod
    def title(self) -> str:
        """The reference and a remark."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values, with ``reference``."""
        return {"reference": self.reference, **asdict(self)}

    @abstractmethod
    def figures(self) -> list[tuple[str, str]]:
        """Return what is known before publishing, as (title, value)."""

    def rows(self) -> list[tuple[str, str]]:
        """Return the rows of text and Markdown, as (title, value)."""
        rows = self.figures()
        if not self.version:
            return rows
        if self.promotion is not None:
            rows.append(("promotion", self.promotion.outcome))
        promoted = self.promotion is not None and self.promotion.promoted
        aliases = [CANDIDATE] * self.candidate + [CHAMPION] * promoted
        called = f", alias {' and '.join(aliases)}" if aliases else ""
        hint = f"  (after `{self.ui_command}`)" if self.ui_command else ""
        new = "newly registered" if self.newly_registered else "registered before"
        return [
            ("tokenizer", f"{self.reference} ({new}){called}"),
            *rows,
            ("digest", self.digest),
            ("files", self.directory),
            ("MLflow", self.link + hint),
        ]

    def rows_from_here(self) -> dict[str, str]:
        """Return `rows` with the directory relative to the working directory."""
        rows = dict(self.rows())
        return rows | {"files": from_here(self.directory)} if "files" in rows else rows

    def text_tables(self) -> list[str]:
        """Return the lines after the rows on a terminal."""
        return []

    def as_text(self) -> str:
        """Return a few lines for a terminal."""
        rows = self.rows_from_here()
        width = max(map(len, rows))
        lines = [f"{title:<{width}}  {value}" for title, value in rows.items()]
        reference = f"{self.name}@{CANDIDATE}" if self.candidate else self.reference
        lines += [*self.text_tables(), "", f'try it:  {program()} encode {reference} "Hello world"']
        lines += [f"see it:  {program()} show {self.reference}"]
        return as_typed("\n".join(["", *lines]))

    def rows_and_links(self) -> list[tuple[str, str]]:
        """Return `rows` with links, for Markdown."""
        return self.rows()

    def sections(self) -> list[str]:
        """Return the Markdown between the rows and the durations of the steps."""
        return []

    def as_markdown(self) -> str:
        """Return the summary with steps and metrics, for Prefect and MLflow."""
        heading = [f"# {self.reference}", ""] if self.version else []
        lines = [*heading, Table(("", ""), self.rows_and_links(), left=(0, 1)).markdown()]
        lines += self.sections()
        durations = [(step, f"{seconds:.2f}") for step, seconds in self.seconds.items()]
        lines += ["", "## Duration", "", Table(("step", "seconds"), durations).markdown()]
        measured = f"Measured on {self.measured_on}"
        if any(name.startswith(NEW_TEXT) for name in self.metrics):
            measured += f", except `{NEW_TEXT}`"
        lines += ["", "## All metrics", "", f"{measured}.", ""]
        figures = [(key, number_text(value)) for key, value in sorted(self.metrics.items())]
        lines += [Table(("metric", "value"), figures).markdown()]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSummary(Summary):
    """The result of one run of ``train_tokenizer``.

    Attributes:
        files, chunks, chunks_reused: of the corpus; reused ones were counted by an earlier run.
        corpus_bytes: of decompressed text; for word counts, of the words.
        history: link to the page with all versions of the name in MLflow.
        left_out: amount of text left out for the evaluation set; empty if not searched for.
        uncertified: command to certify the exports if no library has read them; else empty.
        against_others: a table: tokens by slice, against earlier versions on the same texts.
    """

    merges: int
    files: int
    chunks: int
    chunks_reused: int
    corpus_bytes: int
    words: int
    word_occurrences: int
    evaluated_bytes: int
    evaluated_on: str
    held_out: bool
    sources: tuple[SourceStatistics, ...] = ()
    against_others: tuple[tuple[str, ...], ...] = ()
    of_counts: bool = False
    chosen_size: Mapping[str, Any] | None = None
    history: str = ""
    left_out: str = ""
    uncertified: str = ""

    def published(
        self, version: PublishedVersion, seconds: Mapping[str, float], promotion: Promotion | None
    ) -> TrainingSummary:
        """Return the summary with the results of publishing."""
        return replace(
            Summary.published(self, version, seconds, promotion),
            history=version.history,
            uncertified=uncertified(version.directory, version.reference),
        )

    @property
    def title(self) -> str:
        """``news/3, measured on evaluation set 3f2a91c0 (1,992 documents, 8.2 MB)``."""
        return f"{self.reference}, measured on {self.measured_on}"

    @property
    def bytes_per_token(self) -> float:
        return self.metrics["compression/bytes_per_token"]

    def __repr__(self) -> str:
        return f"<TrainingSummary: {self.title}, {self.bytes_per_token:.4f} bytes/token>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the rows, and compression by vocabulary size."""
        facts = Table((), list(self.rows_from_here().items()))
        return f"{facts.html()}{curves_in_notebook({'': self.curve})}"

    def figures(self) -> list[tuple[str, str]]:
        """Return what is known before publishing, as (title, value)."""
        return [
            ("vocabulary", f"{self.vocab_size:,} ids, {self.merges:,} of them merges"),
            *([("size", self.chosen_size["said"])] if self.chosen_size else []),
            (
                "corpus",
                f"{megabytes(self.corpus_bytes)} in {counted(self.files, 'file')}"
                f"{' of word counts (documents unknown)' * self.of_counts}, "
                f"{counted(self.words, 'distinct word')} of {self.word_occurrences:,}"
                f"{self._held_out()}",
            ),
            *([("left out", self.left_out)] if self.left_out else []),
            (
                "compression",
                f"{self.bytes_per_token:.4f} bytes/token on {megabytes(self.evaluated_bytes)} of "
                f"{self.evaluated_on} text",
            ),
            ("measured on", self.measured_on),
            *self._changes(),
            *self._between_sources(),
            ("costs", self._costs()),
        ]

    def _held_out(self) -> str:
        """Return the held-out size, as rare but important words may be in that text."""
        held_out = int(self.metrics.get("corpus/held_out_bytes", 0))
        return f"; {megabytes(held_out)} held out, not learned from" if held_out else ""

    def _changes(self) -> list[tuple[str, str]]:
        """Return the change in tokens against the champion, and the effect of options."""
        rows = []
        for title, label, otherwise in (
            ("champion", CHAMPION, ""),
            ("token rules", UNRESTRICTED, "without token rules"),
            ("superwords", WORDS_ALONE, "with words alone"),
        ):
            text = logged_change(self.metrics, label, ALL, "tokens on the same text")
            if not text:
                continue
            if otherwise:
                change = self.metrics[f"vs_{label}_percent/{ALL}"]
                other = self.bytes_per_token * (1 + change / 100)
                text += f": {other:.4f} bytes/token {otherwise}"
            rows.append((title, text))
        return rows

    def _between_sources(self) -> list[tuple[str, str]]:
        """Return the Gini coefficient of sources, without and with ``--parity``."""
        before, now = (
            self.metrics.get(f"vs_{ORDINARY}/gini_of_texts"),
            self.metrics.get(GINI_OF_TEXTS),
        )
        if before is None or now is None:
            return []
        return [("parity", f"Gini of tokens per byte {before:.4f} to {now:.4f}")]

    def _language_costs(self) -> Table | None:
        """Return the cost of each source, without and with ``--parity``, if measured."""
        return language_costs(self.metrics, ORDINARY, as_json(self.sources))

    def _costs(self) -> str:
        """Return rare, junk and suspicious tokens, and the speed."""
        parts = [
            f"{self.metrics[name]:,.0f} {description}"
            for name, description in (
                ("training/rare_tokens", f"tokens seen fewer than {RARE} times in training"),
                ("training/junk_tokens", "mostly parts of longer tokens"),
                ("privacy/suspicious_tokens", "look like personal data"),
            )
            if name in self.metrics
        ]
        encoding, decoding = (self.metrics[name] for name in SPEEDS)
        parts.append(f"encodes {encoding:,.0f} MB/s, decodes {decoding:,.0f} (one thread)")
        return ", ".join(parts)

    def _slice_table(self) -> list[str]:
        """Return the compression of each slice, with changes, as Markdown."""
        group = "bytes_per_token/"
        slices = [key.removeprefix(group) for key in self.metrics if key.startswith(group)]
        if not slices:
            return []
        groups = [key for key in self.metrics if key.endswith(f"_percent/{slices[0]}")]
        others = [key.removeprefix("vs_").removesuffix(f"_percent/{slices[0]}") for key in groups]
        against = (f"tokens against {other} (95 % interval)" for other in others)
        rows = []
        for part in slices:
            changes = (logged_change(self.metrics, other, part) for other in others)
            rows.append((part, f"{self.metrics[group + part]:.4f}", *changes))
        table = Table(("slice", "bytes/token", *against), rows)
        return ["", "## By slice", "", table.markdown()]

    def text_tables(self) -> list[str]:
        """Return the lines after the rows on a terminal."""
        lines = []
        if self.sources:
            lines += ["", *statistics_table(as_json(self.sources)).lines()]
        if costs := self._language_costs():
            lines += ["", *costs.lines()]
        return lines

    def as_text(self) -> str:
        """Return a few lines for a terminal."""
        return "\n".join([Summary.as_text(self), *filter(None, [as_typed(self.uncertified)])])

    def rows_and_links(self) -> list[tuple[str, str]]:
        """Return `rows` with a link to the page of the name."""
        if not self.history:
            return self.rows()
        return [*self.rows(), ("all versions", f"[cost over time, aliases, drift]({self.history})")]

    def sections(self) -> list[str]:
        """Return notes, sources, languages, slices, other versions and sizes as Markdown."""
        lines = []
        if notes := [*self.notes, *filter(None, [self.uncertified])]:
            lines += ["", *(f"- {note}" for note in notes)]
        if self.sources:
            lines += ["", "## Sources", "", statistics_table(as_json(self.sources)).markdown()]
        if costs := self._language_costs():
            text = "Compared with the same training without --parity."
            lines += ["", "## Parity", "", text, "", costs.markdown()]
        lines += self._slice_table()
        if self.against_others:
            others = Table.of(self.against_others).markdown()
            text = f"Tokens, with the 95 % interval, on {self.measured_on}; fewer are better."
            lines += ["", "## Against other versions", "", text, "", others]
        sizes = [(f"{size:,}", f"{value:.4f}") for size, value in self.curve]
        table = Table(("ids", "bytes/token"), sizes, left=())
        lines += ["", "## By vocabulary size", "", table.markdown()]
        if self.chosen_size:
            text = "Cost of each size, on the same texts:"
            titles = ("ids", "bytes/token", "MFLOPs/byte")
            rows = [
                (f"{size:,}", f"{value:.4f}", f"{cost / 1e6:,.1f}")
                for size, value, cost in self.chosen_size["curve"]
            ]
            lines += ["", "## Size", "", self.chosen_size["said"] + ".", "", text, ""]
            lines += [Table(titles, rows).markdown()]
        return lines


def logged_change(metrics: Mapping[str, float], label: str, part: str, of: str = "") -> str:
    """Return a slice's change in tokens as text, see `change_text`; empty if unknown."""
    name = f"vs_{label}_percent/{part}"
    if name not in metrics:
        return ""
    return change_text(metrics[name], metrics.get(f"{name}_low"), metrics.get(f"{name}_high"), of)
