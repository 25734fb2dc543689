"""A workspace of the release in an archive, what was said of it then, and what must be said of it.

Made in ``/srv/texts`` by `make`, which drives the command line: three versions of weighted sources,
aliases that moved, an evaluation set, a training that was killed, one that waits in the outbox.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import workspace_0_2
from contract_texts import contract_text

ARCHIVE = Path(__file__).parent / "workspace.tar.xz"
PLACE = (".bpeline",)
SOURCES = ("--source", "a:weight=2=one.txt", "--source", "b=two.txt", "--held-out", "0.3")
KILLED = ("train", "one.txt", "--name", "killed", "--vocab-size", "330")
WAITING = ("train", "two.txt", "--name", "waiting", "--vocab-size", "300")
_NO_MLFLOW = {
    "MLFLOW_TRACKING_URI": "http://127.0.0.1:9",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
}


def write() -> None:
    """Make the workspace and its archive anew."""
    root = workspace_0_2.MADE_IN
    shutil.rmtree(root, ignore_errors=True)
    (root / "home").mkdir(parents=True)
    (root / "one.txt").write_text(contract_text(("english", "code"), 3_000), "utf-8")
    (root / "two.txt").write_text(contract_text(("russian", "german"), 3_000, 5), "utf-8")
    bpeline = workspace_0_2.Commands(root)
    for size in ("300", "320", "340"):
        bpeline("train", *SOURCES, "--name", "news", "--vocab-size", size)
    bpeline("promote", "news/1", "--reason", "the first")
    bpeline("promote", "news/3", "--reason", "more ids")
    bpeline("rollback", "news")
    bpeline.killed_after(20, *KILLED)
    workspace_0_2.Commands(root, **_NO_MLFLOW)(*WAITING, exits=1)
    said = _said(bpeline)
    (root / "expected.json").write_text(json.dumps(said, indent=1, sort_keys=True), "utf-8")
    workspace_0_2.keep(root, ARCHIVE, PLACE)
    shutil.rmtree(root)


def _said(bpeline: workspace_0_2.Commands) -> dict[str, Any]:
    def asked(*typed: str) -> Any:
        return json.loads(bpeline(*typed, "--json"))

    elsewhere = "--workspace", "elsewhere"
    made = {name: asked(*typed, *elsewhere)["digest"] for name, typed in UNFINISHED.items()}
    shutil.rmtree(bpeline.root / "elsewhere")
    return {
        "versions": asked("versions"),
        "history": asked("history", "news"),
        "sets": asked("evaluate", "--sets"),
        "unfinished": made,
    }


UNFINISHED = {"killed": KILLED, "waiting": WAITING}
