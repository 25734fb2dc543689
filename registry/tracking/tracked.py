"""The values that stand for MLflow's things: settings, runs, versions, tags.

They let the rest of this room speak of MLflow without importing it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from typing import Any, TypeVar

from bpeline.registry.environment import UI_PORT
from bpeline.registry.records import CURVE_METRIC, LIBRARY, SUSPICIOUS_METRIC, Publication
from bpeline.registry.tracking.core_wheel import CORE_PACKAGES
from bpeline.registry.tracking.ui_links import ui_base, ui_command
from bpeline.tokenizer_core.errors import (
    ArtifactsRefused,
    DiskFull,
    RegistryError,
    RegistryUnreachable,
)
from bpeline.tokenizer_core.evaluation import ALL, NEW_TEXT, depends_on_text
from bpeline.tokenizer_core.redaction import without_secrets
from bpeline.tokenizer_core.splitting import SEGMENTERS

Answer = TypeVar("Answer")

# A reserved experiment, whose name no tokenizer can have, tells one MLflow from all others.
IDENTITY_EXPERIMENT = ".bpeline"
IDENTITY_TAG = "bpeline.store"
OWNER_TAG = "bpeline.workspace"  # the workspace that shows a run or stored a model

# All versions in one answer: pages are of different moments, and a version that is registered or
# tagged between two of them is in both or in neither. MLflow allows 200,000.
VERSIONS_AT_ONCE = 100_000

_FIRST_SENTENCE = "Tokenizers that bpeline trained and registered."
_LINKED_PAGE = "[All versions: cost over time, figures, who was champion when, drift]"
COMPARED = "compared_with."  # begins the tags that say which versions it was compared with
_SLICES_SAID = 4  # in the first line of a version's description
LONGEST_DESCRIPTION = 5000  # characters of a version's description, as MLflow allows
STEP_IS_IDS = "In charts of metrics, *Step* is a number of ids: the size of the vocabulary."
LONGEST_TEXT = 500  # characters of a parameter or tag; MLflow itself refuses more than 6,000
_LISTING_SECONDS = 60.0
_LONGEST_REASON = 10_000  # characters: an answer of 64 MB may be quoted in it
_ATTEMPTS = 5
_OF_A_SET = re.compile(r"\.(?:set(\d+)|own_text)$")  # what `shown_metric` appends
_LOST_RACE = ("IntegrityError", "UniqueViolation")


@dataclass(frozen=True, slots=True)
class TrackingSettings:
    """Where MLflow is and how long to wait for it.

    Attributes:
        uri: ``sqlite:////abs/mlflow.db``, a PostgreSQL URL or an ``http(s)://`` server.
        artifact_location: absolute ``file:///`` or object-store URI under which new experiments
            keep their files; None lets an HTTP server decide.
        timeout_seconds: per HTTP request.
        retries: how often MLflow repeats a failed HTTP request.
        ui_port: where this machine serves the UI of a SQLite file.
        ui_is_served: whether it does so now.
        owner: the workspace that writes; see `Workspace.id`.
    """

    uri: str = field(repr=False)  # may hold a password
    artifact_location: str | None = None
    timeout_seconds: int = 10
    retries: int = 2
    ui_port: int = UI_PORT
    ui_is_served: bool = False
    owner: str = ""

    @property
    def place(self) -> str:
        """The URI as people may see it: without a password."""
        return without_secrets(self.uri)

    @property
    def ui(self) -> str:
        """The address of MLflow's pages, which links begin with."""
        return ui_base(self.uri, self.ui_port)

    @property
    def ui_command(self) -> str:
        """What to type so that they are served; empty where they are."""
        return "" if self.ui_is_served else ui_command(self.uri, self.ui_port)


@dataclass(frozen=True, slots=True)
class UnendedRun:
    """A run that has not ended in MLflow, or a model that no version has.

    Attributes:
        id: MLflow's.
        title: what it is called there.
        run_id: our run that made it; empty for those of no training.
        begun_ms: when, in milliseconds since 1970.
    """

    id: str
    title: str
    run_id: str
    begun_ms: int


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What MLflow says of a version that was deleted.

    Attributes:
        name, number, digest: which it was.
        by, reason, at: who deleted it, why, and when (UTC, ISO 8601).
    """

    name: str
    number: int
    digest: str
    by: str
    reason: str
    at: str


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """One MLflow run."""

    run_id: str
    experiment_id: str


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A training that has begun.

    Attributes:
        name: of the tokenizer.
        run_id: our run.
        started_at: UTC, ISO 8601.
        started_by: who started it.
        params: what was asked for.
    """

    name: str
    run_id: str
    started_at: str
    started_by: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrackedModel:
    """One model stored by MLflow: what a registered version is made from."""

    model_id: str
    location: str


@dataclass(frozen=True, slots=True)
class TrackedVersion:
    """One version in MLflow's model registry; ``digest`` is empty when it is not one of ours.

    ``created_ms`` is when MLflow made it, in milliseconds since 1970.
    """

    name: str
    number: int
    digest: str
    mlflow_run_id: str
    tags: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = 0

    @classmethod
    def of(cls, version: Any) -> TrackedVersion:
        """From MLflow's own value."""
        tags = {str(key): str(value) for key, value in (version.tags or {}).items()}
        number, digest = int(version.version), tags.get("digest", "")
        made = int(version.creation_timestamp or 0)
        return cls(version.name, number, digest, version.run_id or "", tags, made)

    @property
    def run_id(self) -> str:
        """Our run that made it; empty when it is not one of ours."""
        return self.tags.get("run_id", "")


def version_tags(publication: Publication) -> dict[str, str]:
    """The tags by which a version is found and told apart, in MLflow's registry and on its run."""
    by = {"trained_by": in_utf8(publication.started_by)} if publication.started_by else {}
    return {  # in the order of MLflow's pages, where narrow columns end soon
        "vocab_size": str(publication.vocab_size),
        "pattern": shortened(publication.pattern),
        "evaluation_set": shown_set(publication.evaluation_set),
        **{key: in_utf8(one) for key, one in publication.tags.items() if key.startswith(COMPARED)},
        **by,
        "trained_at": publication.created_at,
        "digest": publication.digest,
        "corpus_digest": publication.corpus_digest,
        "counts_digest": publication.counts_digest,
        "run_id": publication.run_id,
    }


def shown_set(digest: str) -> str:
    """An evaluation set as runs and versions name it; ``none`` for texts of a training's own."""
    return digest[:8] or "none"


def shown_metric(name: str, set_number: int) -> str:
    """What a metric is called in MLflow, where figures of different texts share no column.

    Those of the first evaluation set of a name have their plain names, those of the second end in
    ``.set2``; those of a training that had no set in ``.own_text``.
    """
    if set_number == 1 or not depends_on_text(name) or name.startswith(NEW_TEXT):
        return name
    return f"{name}.set{set_number}" if set_number else f"{name}.own_text"


def plain_metrics(shown: Mapping[str, float]) -> dict[str, float]:
    """Metrics by their plain names, those of the latest set."""

    def set_number(name: str) -> int:
        found = _OF_A_SET.search(name)
        return int(found[1] or 0) if found else 1

    ordered = sorted(shown.items(), key=lambda one: set_number(one[0]))
    return {_OF_A_SET.sub("", name): value for name, value in ordered}


def requirements_of(publication: Publication) -> list[str]:
    """The packages, as they are installed, that a model loaded elsewhere needs."""
    segmenter = SEGMENTERS.get(publication.pattern)
    # What runs an imported tokenizer that has no encoder of ours.
    libraries = [publication.params[LIBRARY]] if LIBRARY in publication.params else []
    packages = (*CORE_PACKAGES, *(segmenter.packages if segmenter else ()), *libraries)
    return [f"{package}=={version(package)}" for package in packages]


def description_of(publication: Publication, report: str = "") -> str:
    """What the pages of a run and of a version say, in Markdown; lists show its first line.

    Args:
        report: a link to the version's page of figures.
    """
    metrics = publication.metrics
    ratio, suspicious = metrics.get(CURVE_METRIC), metrics.get(SUSPICIOUS_METRIC)
    sources = [one.name for one in publication.inputs if one.context == "training"]
    said = [
        _against_champion(publication),  # first: MLflow's lists show some thirty characters
        f"{ratio:.3f} bytes per token{_measured_on(publication)}" if ratio is not None else "",
        f"{publication.vocab_size:,} ids",
        "" if suspicious is None else f"{suspicious:,.0f} tokens look like personal data",
        f"pattern {publication.pattern}" if len(publication.pattern) < 40 else "",
        f"trained on {', '.join(sources[:3])}{' …' if sources[3:] else ''}" if sources else "",
    ]
    line = ", ".join(filter(None, said))
    linked = f"\n\n[Report: figures, vocabulary, playground]({report})" if report else ""
    return shortened_page(f"{line}{linked}\n\n{STEP_IS_IDS}\n\n{publication.report}", "report.md")


def _against_champion(publication: Publication) -> str:
    """``-1.2 % tokens against news/3 (-1.5 … -0.9)``, and slices; empty without a champion."""
    name = "vs_champion_percent/all"
    change = publication.metrics.get(name)
    if change is None:
        return ""
    champion = publication.tags.get(f"{COMPARED}champion", "the champion")
    ends = [publication.metrics.get(f"{name}_{end}") for end in ("low", "high")]
    said = f"{change:+.2f} % tokens against {champion}"
    low, high = ends
    if low is not None and high is not None:
        chance = ", may be chance" if low <= 0 <= high else ""
        said = f"{said} ({low:+.2f} … {high:+.2f}{chance})"
    slices = _beyond_chance(publication.metrics)
    more = f" and {len(slices) - _SLICES_SAID} more" if len(slices) > _SLICES_SAID else ""
    return ", ".join([said, *slices[:_SLICES_SAID]]) + more


def _beyond_chance(metrics: Mapping[str, float]) -> list[str]:
    """``german +8.5 %``: slices whose tokens differ from the champion's by more than chance."""
    judged = "vs_champion_beyond_chance/"
    names = [one.removeprefix(judged) for one in metrics if one.startswith(judged) and metrics[one]]
    changes = {one: metrics[f"vs_champion_percent/{one}"] for one in names if one != ALL}
    ordered = sorted(changes.items(), key=lambda one: -abs(one[1]))
    return [f"{name} {change:+.2f} %" for name, change in ordered]


def description_of_name(name: str, measured_on: str, page: str = "") -> str:
    """What the page of a registered model says, in Markdown: its versions, how to load one.

    Args:
        page: a link to the page with all versions.
    """
    linked = f"{_LINKED_PAGE}({page})\n\n" if page else ""
    return (
        f"{_FIRST_SENTENCE}\n\n{linked}All versions of {name} are measured on {measured_on}: their "
        "figures compare; texts and when they changed: `bpeline evaluate --sets`.\n\n"
        f'Load one with `bpeline.load_tokenizer("{name}@champion")`, or without bpeline with '
        f'`mlflow.pyfunc.load_model("models:/{name}@champion")`; the same by `@candidate`, or by '
        "number. Both read a special token in text as ordinary text unless `allowed_special` "
        "allows it (`params` of `predict`); `tokenizers` and `transformers` read it as one id. "
        f"The first line of a version says how it compares to the champion it met; "
        f"its page, to the earlier ones; `bpeline compare {name}@champion {name}@candidate` "
        "compares any two.\n\n"
        "Better is more of `bytes_per_token`, and less of tokens, `vs_champion_percent` (against "
        "the version that the parameter `champion` of the run names), `words/fertility`, "
        "`robustness/…_inflation`, `training/rare_tokens` (met fewer than 100 times) and "
        "`privacy/`; `vs_champion_beyond_chance` is -1 where fewer tokens are no chance, 1 where "
        "more are none, 0 where it may be. Speeds compare on one machine (`speed_of`). "
        f"{STEP_IS_IDS}\n\n"
        "`champion` is what is in use, `candidate` what was published last."
    )


def description_of_experiment(name: str) -> str:
    """What the list of experiments says of that of a name: one line."""
    return (
        f"Trainings of {name}: a run for each, one for its drift, and its sweeps and datasets. "
        f"{STEP_IS_IDS} Of drift, it is the number of the observation."
    )


def linked_page(description: str) -> str:
    """The link to the page with all versions that such a description has; empty without one."""
    found = re.search(rf"{re.escape(_LINKED_PAGE)}\((\S+)\)", description)
    return found[1] if found else ""


def is_ours(description: str) -> bool:
    """Whether nobody else described a registered model."""
    return not description or description.startswith(_FIRST_SENTENCE)


def _measured_on(publication: Publication) -> str:
    if not publication.evaluation_set:
        return " of its own text"
    return f" on evaluation set {publication.evaluation_set[:8]}"


def milliseconds(time: str) -> int:
    """A time as MLflow counts it, from UTC in ISO 8601."""
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """``text``, cut visibly where MLflow would refuse it or people would stop reading."""
    text = in_utf8(text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def shortened_page(text: str, rest: str) -> str:
    """Markdown as long as MLflow allows, cut between sections or, in a long one, between lines.

    Args:
        rest: the artifact of the run that has all of it.
    """
    text = in_utf8(text).rstrip()
    if len(text) <= LONGEST_DESCRIPTION:
        return text
    more = f"\n\nThe rest is in the artifact `{rest}`."
    room = LONGEST_DESCRIPTION - len(more)
    ends = (text.rfind(mark, 1, room) for mark in ("\n## ", "\n"))
    return text[: next((end for end in ends if end > 0), room)].rstrip() + more


def in_utf8(text: str) -> str:
    r"""``text`` as MLflow may keep it: without secrets; names that are no UTF-8 show ``\udce9``."""
    return without_secrets(text).encode(errors="backslashreplace").decode()


_CLIENT_SAYS = re.compile(r"^API request to \S+ failed with (timeout )?exception ")
_STORE_SAYS = "An error occurred ("  # S3, at the end of what MLflow says of a file
_DISK_IS_FULL = ("No space left on device", "database or disk is full", "Disk quota exceeded")
_LATER = {408, 425, 429, 502, 503, 504}  # HTTP's statuses of servers that may answer later
_REFUSALS = {
    "BAD_REQUEST", "INVALID_PARAMETER_VALUE", "RESOURCE_ALREADY_EXISTS", "RESOURCE_DOES_NOT_EXIST",
    "PERMISSION_DENIED", "UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "INVALID_STATE",
}  # fmt: skip


def insisting(ask: Callable[[], Answer]) -> Answer:
    """Ask, and ask again after losing a race inside MLflow's database.

    MLflow looks whether a row is there and then inserts it; when two processes do so at once, the
    slower one gets an error although asking again would find the row. Only for requests that may
    be repeated.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return ask()
        except Exception as error:
            if not any(sign in str(error) for sign in _LOST_RACE):
                raise
    return ask()


# What MLflow says of a thing that is not there; of an alias, that it is an invalid parameter.
MISSING = {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}


def all_pages(ask: Callable[[str], tuple[Iterable[Answer], str | None]]) -> Iterator[Answer]:
    """All of a listing: ``ask`` gets the token of a page and gives what is on it, and the next.

    Raises:
        ValueError: the pages do not end, neither by themselves nor in time.
    """
    token, deadline = "", time.monotonic() + _LISTING_SECONDS
    while True:
        found, following = ask(token)
        yield from found
        if not following:
            return
        if following == token or time.monotonic() > deadline:
            raise ValueError("it lists pages without end")
        token = following


def says_missing(error: Any) -> bool:
    """Whether MLflow's answer is that there is no such thing."""
    return error.error_code in MISSING


def _status(error: Exception) -> int:
    """HTTP's status, of what the client of files raises; 0 of other errors."""
    return int(getattr(getattr(error, "response", None), "status_code", 0))


def as_registry_error(error: Exception, doing: str, uri: str) -> RegistryError | DiskFull:
    """An error of MLflow, the network or the disk, as one of ours."""
    code = getattr(error, "error_code", None)
    # Before it is cut: of half an address, nothing tells where its secret ends.
    said = _CLIENT_SAYS.sub("", without_secrets(" ".join(str(error)[:_LONGEST_REASON].split())))
    reason = said.rpartition("(Caused by ")[2][:200]
    if _STORE_SAYS in said:
        refusal = said[said.rindex(_STORE_SAYS) :][:200]
        return ArtifactsRefused(
            f"the store of MLflow's files refuses ({doing}): {refusal}",
            "accepted is a bucket that is there, and credentials that may read and write in it",
            "make the bucket, or look at BPELINE_ARTIFACTS_URL and at the store's credentials",
        )
    if any(sign in reason for sign in _DISK_IS_FULL):
        return DiskFull(
            f"no space left for MLflow's files ({doing}): {reason}",
            "what was finished before is kept",
            f"free some space on the disk of {uri.removeprefix('sqlite:///')}",
        )
    if isinstance(error, OSError) and error.filename is not None:  # those of a network name none
        return ArtifactsRefused(
            f"the system refuses MLflow's files ({doing}): {reason}",
            "accepted are directories that are there, and that this user may read and write",
            f"look at what is named above, and at the artifacts of {uri}",
        )
    if _status(error) >= 400 and _status(error) not in _LATER:
        return ArtifactsRefused(
            f"MLflow at {uri} refuses a file ({doing}): {reason}",
            "accepted are credentials that may read and write artifacts, and files it has room for",
            "look at the server's log, then type the same command again",
        )
    if code in _REFUSALS:
        return RegistryError(
            f"MLflow at {uri} refused while {doing}: {reason}",
            "accepted are credentials that may write runs, artifacts and registered models",
            "look at the server's log, or at MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
        )
    return RegistryUnreachable(
        f"MLflow at {uri} does not answer ({doing}): {reason}",
        "accepted is the URI of a running MLflow server, or of a database it can open",
        "start it, or set MLFLOW_TRACKING_URI to another",
    )
