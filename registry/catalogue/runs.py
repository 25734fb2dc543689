"""The catalogue's memory of runs: who works on what, how far it came, and how it ended.

Prefect's own record of a killed run says RUNNING for ever; this one knows the process.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from bpeline.registry.catalogue.records import Run, RunState, utc_now
from bpeline.registry.catalogue.tables import Database, RunRow, Session, as_record, select
from bpeline.registry.workspace import Process, this_process
from bpeline.tokenizer_core.errors import RegistryError

_ENDED = ("finished", "refused", "dismissed")
SILENCE_SECONDS = 60.0  # of a run that says every few seconds that it lives
_ID_BYTES = 6


class RunRecords:
    """The part of `registry.catalogue.catalogue.Catalogue` that knows runs."""

    _database: Database
    _workspace: str

    def start_run(self, name: str, config: Mapping[str, Any], left_out_rule: int = 1) -> Run:
        """Record that this process begins a run.

        Args:
            name: the tokenizer's name.
            config: what was asked for, as JSON values.
            left_out_rule: see `Run`.
        """
        process, now = this_process(), utc_now()

        def work(session: Session) -> Run:
            row = RunRow(
                id=secrets.token_hex(_ID_BYTES),
                name=name,
                config={**config, "left_out_rule": left_out_rule},
                state="running",
                workspace=self._workspace,
                pid=process.pid,
                host=process.host,
                birth=process.birth,
                started_at=now,
                heartbeat_at=now,
                finished_at="",
                corpus_digest="",
                counts_digest="",
                step="",
                error="",
            )
            session.add(row)
            return _run(row)

        return self._database.writing(work)

    def continue_run(self, run_id: str) -> Run:
        """Take over a run that was interrupted, failed or was not published: it is running again.

        Raises:
            RegistryError: no such run, it still runs in another living process, or it belongs to
                another workspace.
        """
        process = this_process()

        def work(session: Session) -> Run:
            row = _row(session, run_id)
            if row.workspace != self._workspace:
                raise _of_another_workspace(row)
            owner = Process(row.pid, row.host, row.birth)
            if _state(row) == "running" and owner != process:
                raise _still_running(row)
            row.state, row.error, row.finished_at = "running", "", ""
            row.pid, row.host, row.birth = process.pid, process.host, process.birth
            row.heartbeat_at = utc_now()
            return _run(row)

        return self._database.writing(work)

    def heartbeat(self, run_id: str) -> None:
        """Record that a run is alive."""
        self._change(run_id)

    def step_reached(
        self,
        run_id: str,
        step: str,
        corpus_digest: str | None = None,
        counts_digest: str | None = None,
    ) -> None:
        """Record how far a run came, and what is known since."""
        known = {"corpus_digest": corpus_digest, "counts_digest": counts_digest}
        self._change(run_id, step=step, **{k: v for k, v in known.items() if v is not None})

    def finish_run(self, run_id: str) -> None:
        """Record that a run is done and its version published."""
        self._change(run_id, state="finished", error="", finished_at=utc_now())

    def fail_run(self, run_id: str, error: str) -> None:
        """Record why a run failed; it may be continued."""
        self._change(run_id, state="failed", error=error, finished_at=utc_now())

    def refuse_run(self, run_id: str, error: str) -> None:
        """Record that what was asked of a run could not be begun; nobody will continue it."""
        self._change(run_id, state="refused", error=error, finished_at=utc_now())

    def dismiss_run(self, run_id: str) -> Run:
        """Record that nobody will continue a run that did not finish.

        Raises:
            RegistryError: no such run, it is at work, has ended, or is another workspace's.
        """

        def work(session: Session) -> Run:
            row = _row(session, run_id)
            if row.workspace != self._workspace:
                raise _of_another_workspace(row)
            state = _state(row)
            if state == "running":
                raise _still_running(row)
            if state in _ENDED and state != "dismissed":
                raise RegistryError(
                    f"run {run_id} ({row.name}) is {state}",
                    "runs that were interrupted, failed or wait to be published can be dismissed",
                    "type `bpeline resume --list` to see them",
                )
            row.state, row.finished_at = "dismissed", row.finished_at or utc_now()
            return _run(row)

        return self._database.writing(work)

    def interrupt_run(self, run_id: str) -> None:
        """Record that somebody stopped a run; it may be continued."""
        self._change(run_id, state="interrupted", error="", finished_at=utc_now())

    def leave_unpublished(self, run_id: str, error: str) -> None:
        """Record that a run is done and its tokenizer waits in the outbox."""
        self._change(run_id, state="unpublished", error=error, finished_at=utc_now())

    def run(self, prefix: str) -> Run:
        """The run whose id begins so.

        Raises:
            RegistryError: there is none, or there are several.
        """
        query = select(RunRow).where(RunRow.id.startswith(prefix, autoescape=True)).limit(2)
        with self._database.reading() as session:
            found = [_run(row) for row in session.scalars(query)] if prefix else []
        if len(found) != 1:
            raise RegistryError(
                f"{'several runs have' if found else 'no run has'} an id that begins {prefix!r}",
                "accepted is a run's id, or enough of its beginning",
                "type `bpeline resume --list` to see the runs that can be continued",
            )
        return found[0]

    def find_run(self, run_id: str) -> Run | None:
        """The run with exactly this id, if this catalogue has it."""
        with self._database.reading() as session:
            row = session.scalars(select(RunRow).filter_by(id=run_id)).one_or_none()
            return None if row is None else _run(row)

    def runs(self, limit: int | None = None) -> list[Run]:
        """All runs of all workspaces, newest first."""
        with self._database.reading() as session:
            query = select(RunRow).order_by(RunRow.number.desc()).limit(limit)
            return [_run(row) for row in session.scalars(query)]

    def unfinished_runs(self) -> list[Run]:
        """This workspace's runs that run, were interrupted, failed or wait to be published.

        Newest first.
        """
        with self._database.reading() as session:
            query = select(RunRow).where(
                RunRow.state.not_in(_ENDED), RunRow.workspace == self._workspace
            )
            return [_run(row) for row in session.scalars(query.order_by(RunRow.number.desc()))]

    def running_elsewhere(self, name: str) -> list[Run]:
        """Runs of a name in other workspaces that say they run and did so a moment ago.

        A process that was killed on another machine stops saying so.
        """
        asked = select(RunRow).where(
            RunRow.name == name, RunRow.state == "running", RunRow.workspace != self._workspace
        )
        moment = utc_now(-SILENCE_SECONDS)
        with self._database.reading() as session:
            runs = [_run(row) for row in session.scalars(asked.order_by(RunRow.number))]
        return [run for run in runs if run.state == "running" and run.heartbeat_at > moment]

    def _change(self, run_id: str, **values: Any) -> None:
        def work(session: Session) -> None:
            row = _row(session, run_id)
            row.heartbeat_at = utc_now()
            for column, value in values.items():
                setattr(row, column, value)

        self._database.writing(work)


def _row(session: Session, run_id: str) -> RunRow:
    row = session.scalars(select(RunRow).filter_by(id=run_id).with_for_update()).one_or_none()
    if row is None:
        raise RegistryError(
            f"there is no run {run_id!r}",
            "accepted is the id of a run in this catalogue",
            "type `bpeline resume --list` to see the runs that can be continued",
        )
    return row


def _of_another_workspace(row: RunRow) -> RegistryError:
    return RegistryError(
        f"run {row.id} belongs to another workspace, on {row.host}",
        "a run is continued, or dismissed, where its counts and checkpoints lie",
        "type `bpeline resume --list` there",
    )


def _still_running(row: RunRow) -> RegistryError:
    return RegistryError(
        f"run {row.id} still runs in process {row.pid} on {row.host}",
        "a run can be continued, or dismissed, when its process has ended",
        f"wait for it, or stop it: kill {row.pid}",
    )


def _state(row: RunRow) -> RunState:
    if row.state == "running" and Process(row.pid, row.host, row.birth).is_dead():
        return "interrupted"
    return cast(RunState, row.state)


def _run(row: RunRow) -> Run:
    config = {name: value for name, value in row.config.items() if name != "left_out_rule"}
    return replace(as_record(Run, row), state=_state(row), config=as_asked(config))


def as_asked(config: Mapping[str, Any]) -> dict[str, Any]:
    """A stored request, with what it means where it has no value for a later option.

    Frequency BPE counted the words of the whole text before it counted those of sentences.
    """
    options = config.get("options") or {}
    of_sentences = options.get("sentences", "punkt") == "punkt"
    if config.get("algorithm") != "frequency-bpe" or not of_sentences:
        return dict(config)
    return {**config, "options": {"word_sentences": "text", **options}}
