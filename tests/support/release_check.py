"""Before a release: the wheel, the demo, the tutorial and the fast tests on every Python found.

    python tests/support/release_check.py build/release

The wheel is built once. For each Python a virtual environment gets it, and then, in an empty
directory, the demo and the tutorial run; then the fast tests run on an editable installation of the
checkout in the same environment. Pythons that are not found are named as not run, and so is the
container where nothing builds one. Last, the newest Python gets the newest versions of all
dependencies instead of the tested ones.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name
from tutorial import environment, script

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
NEWER = ("3.14",)  # for the newest versions, where it is found
_COMPILE = "from bpeline.tokenizer_core.warm_up import compile_all; list(compile_all())"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one thing that was tried.

    Attributes:
        what: such as ``3.12: tutorial``.
        said: ``passed``, ``failed`` or ``not run``, and why.
        seconds: it took.
    """

    what: str
    said: str
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        return self.said.startswith("failed")


def found(version: str) -> str | None:
    """A Python of this version: on the PATH, or one of pyenv's."""
    pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python3"))
    for candidate in (shutil.which(f"python{version}"), *map(str, reversed(pyenv))):
        if candidate and _version(candidate) == version:
            return candidate
    return None


def _version(python: str) -> str:
    asked = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def tried(what: str, command: list[str], log: Path, **more: object) -> Outcome:
    """Run a command; all it prints goes to ``log``."""
    begin = time.monotonic()
    with log.open("w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False, **more)  # type: ignore[call-overload]
    said = "passed" if done.returncode == 0 else f"failed with exit code {done.returncode}: {log}"
    return Outcome(what, said, time.monotonic() - begin)


def wheel(folder: Path) -> Path:
    """The wheel of this checkout, built into ``folder``."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*command, str(folder), str(ROOT)], check=True)
    return max(folder.glob("bpeline-*.whl"), key=lambda path: path.stat().st_mtime)


def pinned(line: str) -> str:
    """The package that a line such as ``PyYAML==6.0.3`` pins, as all spellings of it."""
    return canonicalize_name(line.partition("==")[0].strip())


def newest_installed(python: str, constraints: Path) -> None:
    """Write constraints: the versions installed for this Python, and the tested ones of the rest.

    The packages of tests alone need these: without any, pip looks for hours.
    """
    listed = [python, "-m", "pip", "list", "--format", "freeze", "--exclude", "bpeline"]
    lines = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()
    installed = {pinned(line) for line in lines}
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    rest = [line for line in tested if "==" in line and pinned(line) not in installed]
    constraints.write_text("\n".join([*lines, *rest, ""]), encoding="utf-8")


def on(version: str, built: Path, folder: Path, *, newest: bool = False) -> Iterator[Outcome]:
    """All that is tried on one Python, in order; what follows a failed installation is not."""
    python = found(version)
    if python is None:
        yield Outcome(version, "not run: no such Python here")
        return
    label = f"{version}, newest" if newest else version
    home = folder / label.replace(", ", "-")
    shutil.rmtree(home, ignore_errors=True)
    (home / "empty").mkdir(parents=True)
    subprocess.run([python, "-m", "venv", str(home / "venv")], check=True)
    inside = str(home / "venv/bin/python")
    pip = [inside, "-m", "pip", "install", "--quiet"]
    constraints = home / "constraints.txt" if newest else ROOT / "constraints.txt"
    install = [*pip, "--constraint", str(constraints)]
    around = environment(home / "venv/bin")
    around["BPELINE_KERNEL_CACHE"] = str(home / "kernels")
    command = [*(pip if newest else install), str(built)]
    yield (installed := tried(f"{label}: install the wheel", command, home / "install.log"))
    if installed.failed:
        return
    steps = {"demo": ["bpeline", "train", "--demo"]}
    if newest:
        newest_installed(inside, constraints)
    else:
        steps["tutorial"] = ["bash", "-c", script()]
    for name, command in steps.items():
        at = {"cwd": home / "empty", "env": around}
        yield tried(f"{label}: {name}", command, home / f"{name}.log", **at)
    tests = [*install, "--editable", f"{ROOT}[test]"]
    yield (ready := tried(f"{label}: install for tests", tests, home / "install-tests.log"))
    if ready.failed:
        return
    subprocess.run([inside, "-c", _COMPILE], check=True, env=around, cwd=home)
    fast = [inside, "-m", "pytest", "--numprocesses", "2"]
    yield tried(f"{label}: fast tests", fast, home / "tests.log", cwd=ROOT, env=around)


def container(folder: Path) -> Outcome:
    """The container, where there is something that builds one."""
    for builder in ("podman", "docker"):
        answers = shutil.which(builder) and subprocess.run(
            [builder, "info"], capture_output=True, check=False
        )
        if answers and answers.returncode == 0:
            command = [builder, "build", "--file", "Containerfile", "--tag", "bpeline", "."]
            return tried("container", command, folder / "container.log", cwd=ROOT)
    return Outcome("container", "not run: neither podman nor docker answers here")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="where wheels, environments and logs go")
    parser.add_argument("--python", nargs="+", default=PYTHONS, help="which versions")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    built = wheel(folder)
    print(f"built {built.name}", flush=True)
    outcomes = []
    newest = next((one for one in (*NEWER, *reversed(options.python)) if found(one)), PYTHONS[-1])
    lanes = [(version, False) for version in options.python] + [(newest, True)]
    for version, newest_versions in lanes:
        for outcome in on(version, built, folder, newest=newest_versions):
            outcomes.append(outcome)
            print(f"{outcome.what:28} {outcome.seconds:6.0f} s  {outcome.said}", flush=True)
    outcomes.append(container(folder))
    print(f"{outcomes[-1].what:28} {outcomes[-1].seconds:6.0f} s  {outcomes[-1].said}")
    return any(outcome.failed for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(main())
