"""The input and the result of publishing, with the JSON form stored in the outbox."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

from bpeline.registry.records.references import validate_name
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.bounded_files import UnfitFile, parse_json, read_file
from bpeline.tokenizer_core.digests import DIGEST_LENGTH, canonical_json, sealed, unsealed
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption
from bpeline.tokenizer_core.evaluation import BYTES_PER_TOKEN
from bpeline.tokenizer_core.records import check_fields

RECORD_FORMAT = 1

_DIGEST = re.compile(rf"[0-9a-f]{{{DIGEST_LENGTH}}}")
_RUN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")  # it becomes part of MLflow's search expressions

CURVE_METRIC = BYTES_PER_TOKEN  # plotted over the vocab size
MEASURED_ON = "measured_on"  # tag: the evaluation set and its size
LIBRARY = "library"  # parameter: the library that runs an imported tokenizer
SUSPICIOUS_METRIC = "privacy/suspicious_tokens"  # shown in a version's description


@dataclass(frozen=True, slots=True)
class CorpusInput:
    """One source of the corpus, as shown in the version's lineage.

    Attributes:
        source: path, glob or URL.
        context: ``training``, ``development`` or ``evaluation``.
    """

    name: str
    source: str
    digest: str
    context: str = "training"

    def __post_init__(self) -> None:
        check_fields(self)
        checks.text("digest", self.digest)


@dataclass(frozen=True, slots=True)
class Publication:
    """A finished tokenizer to be registered.

    Attributes:
        digest: digest of the tokenizer; identifies the version.
        tokenizer_directory: directory in the ``bpeline`` format; all files directly in it,
            exports such as ``tokenizer.json`` included, are stored with the version.
        vocab_size: number of ids, including special tokens and bytes.
        pattern: name of the split pattern, or its regex.
        params: the requested options; values become text.
        metrics: names grouped by ``/`` (``compression/bytes_per_token``); values that are not
            finite are dropped.
        curve: (vocab size, bytes per token), plotted as ``compression/bytes_per_token``.
        curves: name → (vocab size, value) for other metrics.
        tags: additional tags of the MLflow run.
        pages: further files, such as the comparison with the champion.
        report: Markdown.
        created_at: end of training, UTC, ISO 8601.
        kept: file name → digest of the exports, once they are stored in the workspace.
        trained: position among the trainings of this workspace, once stored.
        evaluation_set: digest of the evaluation set; empty if the run used its own texts.
        set_number: number of that set among the sets of this name.
    """

    name: str
    digest: str
    tokenizer_directory: Path
    run_id: str
    corpus_digest: str = ""
    counts_digest: str = ""
    vocab_size: int = 0
    pattern: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    curve: tuple[tuple[int, float], ...] = ()
    curves: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    inputs: tuple[CorpusInput, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    figures: tuple[Path, ...] = ()
    pages: tuple[Path, ...] = ()
    report: str = ""
    created_at: str = ""
    started_at: str = ""
    started_by: str = ""
    kept: Mapping[str, str] = field(default_factory=dict)
    trained: int = 0
    evaluation_set: str = ""
    set_number: int = 1

    def __post_init__(self) -> None:
        check_fields(self)
        validate_name(self.name)
        if not _DIGEST.fullmatch(self.digest) or not _RUN_ID.fullmatch(self.run_id):
            raise InvalidOption(
                f"{self.digest!r} of run {self.run_id!r} cannot be published",
                f"expected a digest of {DIGEST_LENGTH} hexadecimal digits and a run id of "
                "letters, digits, '.', '_' and '-'",
            )
        finite = {k: float(v) for k, v in self.metrics.items() if math.isfinite(v)}
        object.__setattr__(self, "metrics", finite)
        object.__setattr__(self, "curve", _finite(self.curve))
        curves = {name: _finite(curve) for name, curve in self.curves.items()}
        object.__setattr__(self, "curves", curves)
        shown = {key: as_text(value) for key, value in self.params.items()}
        object.__setattr__(self, "params", shown)

    def as_json(self, root: Path | None = None) -> bytes:
        """Return the outbox record as JSON; paths inside ``root`` are relative to it."""

        def written(path: Path) -> str:
            if root is None or not path.is_relative_to(root):
                return str(path)
            return str(path.relative_to(root))

        record = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name, value in record.items():
            if isinstance(value, Mapping):
                record[name] = dict(value)
        record |= {
            "format": RECORD_FORMAT,
            "tokenizer_directory": written(self.tokenizer_directory),
            "inputs": [astuple(entry) for entry in self.inputs],
            "figures": list(map(written, self.figures)),
            "pages": list(map(written, self.pages)),
        }
        return canonical_json(sealed(record))

    @classmethod
    def of_file(cls, path: Path) -> Publication:
        """Read an outbox record from a file."""
        try:
            content = read_file(path, links=False)
        except UnfitFile:
            content = b""
        return cls.from_json(content, path)

    @classmethod
    def from_json(cls, content: bytes, path: Path) -> Publication:
        """Read the output of :meth:`as_json`.

        Args:
            path: the record's file in the outbox; relative paths start at its workspace.
        """
        try:
            record = unsealed(parse_json(content))
            if record.pop("format") != RECORD_FORMAT:
                raise ValueError("unknown format version")
            root = path.parent.parent
            record["tokenizer_directory"] = root / record["tokenizer_directory"]
            record["curve"] = _points(record["curve"])
            curves = record.get("curves", {}).items()
            record["curves"] = {name: _points(curve) for name, curve in curves}
            record["inputs"] = tuple(CorpusInput(*entry) for entry in record["inputs"])
            for files in ("figures", "pages"):
                record[files] = tuple(root / entry for entry in record.get(files, ()))
            return cls(**record)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise CorruptFile(
                f"the outbox record {path} cannot be read: {error}",
                f"expected a record of format {RECORD_FORMAT} written by `bpeline train`",
                "run the training again: the tokenizer is kept, and the record is rewritten",
            ) from error


def _points(lists: Iterable[Iterable[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(point) for point in lists)


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """A registered version.

    Attributes:
        newly_registered: False if the same tokenizer was already registered; `number` is then
            that of the earlier version.
        run_id: the bpeline run that was published.
        mlflow_run_id: the MLflow run that the version was registered from.
        link: URL of the version in the MLflow UI.
        ui_command: command that starts the UI; empty if it is running.
        remarks: notes for the user about a successful publication.
        candidate: whether the ``candidate`` alias points to this version.
        history: URL of the page with all versions of the name; empty if unavailable.
    """

    name: str
    number: int
    digest: str
    newly_registered: bool
    run_id: str
    mlflow_run_id: str
    directory: Path
    link: str
    ui_command: str = ""
    remarks: tuple[str, ...] = ()
    candidate: bool = True
    history: str = ""

    @property
    def reference(self) -> str:
        """``news/3``."""
        return f"{self.name}/{self.number}"


def _finite(curve: Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    points = ((int(size), float(value)) for size, value in curve)
    return tuple(point for point in points if math.isfinite(point[1]))


def as_text(value: Any) -> str:
    """Format a parameter value for display."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return ", ".join(as_text(item) for item in value)
    return str(value)
