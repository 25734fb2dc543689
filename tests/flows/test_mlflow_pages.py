"""What people see in MLflow's real UI, in a real browser: the figures, drawn."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from browser import browsing, installed_browser
from click.testing import Result
from loopback import free_ports

from bpeline.registry.opening import open_registry
from bpeline.registry.tracking.tracked import model_link, run_link

pytestmark = pytest.mark.night

ROOT = Path(__file__).parents[2]
BROWSER = installed_browser()
VIEW = "workflowType=machine_learning"


@pytest.fixture
def base(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of ``bpeline serve --mlflow-only``, and the one that lets a browser in."""
    (port,) = free_ports(1)
    program = "from bpeline.flows.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", "--mlflow-only", "--mlflow-port", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            said = []
            for line in server.stdout:
                said.append(line)
                if "Ctrl-C" in line:
                    break
            pages = [line.split()[1] for line in said if f":{port}/?token=" in line]
            yield f"http://127.0.0.1:{port}", pages[0]
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


@pytest.mark.skipif(BROWSER is None, reason="no browser of the Chromium family is installed")
def test_the_pages_show_slices_curves_and_the_champion(
    request: pytest.FixtureRequest,
    bpeline: Callable[..., Result],
    corpus: Path,
    english_and_code: str,
    tmp_path: Path,
) -> None:
    assert BROWSER is not None
    pieces = [english_and_code[at : at + 800] for at in range(200_000, 220_000, 800)]
    (tmp_path / "fresh.txt").write_text("<|end|>".join(pieces), encoding="utf-8")
    options = ["--name", "news", "--special-token", "<|end|>"]
    sources = ["--eval", "docs=fresh.txt", "--eval", "part=corpus/part-0.txt"]
    for size in (500, 700):
        ended = bpeline("train", corpus, "--vocab-size", size, *options, *sources, "--json")
        assert ended.exit_code == 0, ended.output
        bpeline("promote", "news@candidate")
    metrics = json.loads(ended.stdout)["metrics"]
    assert bpeline("sweep", corpus, "--sizes", "400,600", *options, *sources).exit_code == 0

    tracker = open_registry().tracker
    runs = [tracker.version("news", number).mlflow_run_id for number in (1, 2)]  # type: ignore[union-attr]
    experiment = tracker._client.get_run(runs[0]).info.experiment_id
    found = tracker._client.search_runs([experiment], "tags.kind = 'sweep'")
    (sweep,) = [run for run in found if "mlflow.parentRunId" not in run.data.tags]
    served, sign_in = request.getfixturevalue("base")
    with browsing(BROWSER, tmp_path / "profile") as page:
        page.shows(sign_in, "news")
        page.shows(
            f"{served}/#/experiments/{experiment}/runs?compareRunsMode=CHART&{VIEW}",
            "news/1", "news/2", "bytes_per_token/docs", "bytes_per_token/part",
            "compression/bytes_per_token",
        )  # fmt: skip
        change = f"{metrics['vs_champion_percent/docs']:+.2f} %"
        page.shows(
            run_link(served, experiment, runs[1]),
            "news/2", "Training", "champion", "compression/bytes_per_token",
            str(metrics["compression/bytes_per_token"])[:8],
        )  # fmt: skip
        shown = page.shows(model_link(served, "news", 2), "champion", "By slice", change)
        assert "tokens against champion" in shown
        several = f"runs={quote(json.dumps(runs))}&experiments={quote(json.dumps([experiment]))}"
        compared = f"{served}/#/compare-runs?{several}&{VIEW}"
        page.shows(compared, "Comparing 2 Runs", "news/1", "news/2")
        page.shows(run_link(served, experiment, sweep.info.run_id), "sweep", "gpt2-600")
        place = run_link(served, experiment, runs[1]).replace("?", "/artifacts/comparison?")
        page.shows(place, "comparison.html", "comparison.json")
        # The pages themselves, drawn inside of MLflow's.
        for folder, name, expected in (
            ("comparison", "comparison.html", ["news/1 → news/2", "bytes/token"]),
            ("report", "report.html", ["bytes per token, evaluated", "From one document alone"]),
        ):
            page.shows(place.replace("artifacts/comparison", f"artifacts/{folder}/{name}"), name)
            page.within(*expected)
