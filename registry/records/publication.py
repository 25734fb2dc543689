"""The values that travel through publishing: what is to be registered, and what came of it.

Knows how to become JSON and back, for the outbox; neither MLflow nor the catalogue.
"""

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

# The metric that is drawn over the vocab size.
CURVE_METRIC = BYTES_PER_TOKEN
MEASURED_ON = "measured_on"  # the tag that says on which evaluation set, with its size
LIBRARY = "library"  # the parameter that names what runs an imported tokenizer
# What the personal-data screen found, which the first line of a description says.
SUSPICIOUS_METRIC = "privacy/suspicious_tokens"


@dataclass(frozen=True, slots=True)
class CorpusInput:
    """One source of the corpus, as the version's lineage shows it.

    Attributes:
        name: the source's name.
        source: where it was read from (path, glob or URL).
        digest: digest of its content.
        context: what it was read for: ``training``, ``development`` or ``evaluation``.
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
    """A finished tokenizer on its way into the registry.

    Attributes:
        name: the tokenizer's name (``news``).
        digest: the tokenizer's digest; the version's identity.
        tokenizer_directory: a directory in the ``bpeline`` format; every file directly in it
            (exports such as ``tokenizer.json`` too) is kept with the version.
        run_id: our run that made it.
        corpus_digest: digest of everything read.
        counts_digest: digest of the word counts trained on.
        vocab_size: number of ids, special tokens and bytes included.
        pattern: the split pattern's name, or its regex.
        params: what was asked for; values are shown as text.
        metrics: measured values, names grouped by ``/`` (``compression/bytes_per_token``). Those
            without a finite value are left out.
        curve: (vocab size, bytes per token), drawn as ``compression/bytes_per_token``.
        curves: name → (vocab size, value): whatever else varies with the size.
        inputs: the sources, for the lineage.
        tags: additional tags for the MLflow run.
        figures: picture files.
        pages: other files for people and programs, such as the comparison to the champion.
        report: text for people (Markdown).
        created_at: UTC time of the end of training, ISO 8601.
        started_at, started_by: when its run was started, likewise, and by whom.
        kept: file name → digest of the exports, once they are kept in the workspace.
        trained: its place in the order of this workspace's trainings, once it is kept.
        evaluation_set: digest of what was measured on; empty for texts of its own.
        set_number: of that set among those of the name.
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
                f"{self.digest!r} made by run {self.run_id!r} cannot be published",
                f"accepted are digests of {DIGEST_LENGTH} hexadecimal digits and run ids of "
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
        """The record for the outbox: canonical JSON.

        Args:
            root: the workspace, which may be moved: paths in it are written relative to it.
        """

        def written(path: Path) -> str:
            if root is None or not path.is_relative_to(root):
                return str(path)
            return str(path.relative_to(root))

        record = {one.name: getattr(self, one.name) for one in fields(self)}
        for name, value in record.items():
            if isinstance(value, Mapping):
                record[name] = dict(value)
        record |= {
            "format": RECORD_FORMAT,
            "tokenizer_directory": written(self.tokenizer_directory),
            "inputs": [astuple(one) for one in self.inputs],
            "figures": list(map(written, self.figures)),
            "pages": list(map(written, self.pages)),
        }
        return canonical_json(sealed(record))

    @classmethod
    def of_file(cls, path: Path) -> Publication:
        """Read an outbox record; errors as `from_json`."""
        try:
            content = read_file(path, links=False)
        except UnfitFile:
            content = b""
        return cls.from_json(content, path)

    @classmethod
    def from_json(cls, content: bytes, path: Path) -> Publication:
        """Read an outbox record back.

        Args:
            content: what :meth:`as_json` wrote.
            path: where it was read from: the outbox of a workspace, which paths are seen from.

        Raises:
            CorruptFile: not such a record.
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
            record["inputs"] = tuple(CorpusInput(*one) for one in record["inputs"])
            for files in ("figures", "pages"):
                record[files] = tuple(root / one for one in record.get(files, ()))
            return cls(**record)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise CorruptFile(
                f"the outbox record {path} cannot be read: {error}",
                f"accepted are records of format {RECORD_FORMAT} as `bpeline train` writes them",
                "type the training again: the tokenizer is kept, and the record is written again",
            ) from error


def _points(lists: Iterable[Iterable[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(point) for point in lists)


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """A version that the registry holds.

    Attributes:
        name: the tokenizer's name.
        number: the version's number under that name, the one the MLflow UI shows.
        digest: its digest.
        newly_registered: False when the same behaviour had been registered before; then the
            number is the earlier one.
        run_id: the run whose publication this was.
        mlflow_run_id: the MLflow run it was registered from.
        directory: its files in the workspace.
        link: the version in the MLflow UI.
        ui_command: what to type so that the link answers; empty where it does.
        remarks: what people should know although nothing failed.
        candidate: whether the alias of what was published last points to it now.
        history: the page of its name with all versions in the MLflow UI; empty where that could not
            be shown.
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
    """A parameter as people read it."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return ", ".join(as_text(one) for one in value)
    return str(value)
