"""The rules of the house that a reader should not have to police: imports, writers, sizes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("tokenizer_core", "registry", "flows")
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))

# Who may import what comes from outside (a room's own modules are checked separately).
CORE_LIBRARIES = {"numpy", "numba", "llvmlite", "regex", "zstandard"}
ONE_DOOR = {"duckdb": "registry", "sqlalchemy": "registry", "mlflow": "registry"}
# Libraries that a user may leave out: imported when asked for, each behind one door.
OPTIONAL = {
    "nltk": "tokenizer_core/corpus/sentences.py",
    "jieba": "tokenizer_core/splitting/segmenting.py",
    "sudachipy": "tokenizer_core/splitting/segmenting.py",
    "fsspec": "tokenizer_core/remote_files.py",
    "distributed": "flows/cluster/dask_engine.py",
    "dask": "flows/cluster/dask_engine.py",
    # The programs that exports are made for, to compare what they make of them.
    **dict.fromkeys(
        ("tokenizers", "transformers", "tiktoken", "subword_nmt", "sentencepiece", "gguf"),
        "registry/exports/native_readers.py",
    ),
    "cyllama": "registry/exports/llama_cpp_program.py",
}
# Logged with every version and run by MLflow's own loader, far from this package.
SHIPPED_TO_MLFLOW = "registry/tracking/mlflow_model.py"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    """Parsed once: every rule looks at every module."""
    return ast.parse(text_of(path))


def imported_packages(path: Path, *, top_level_only: bool = False) -> Iterator[str]:
    nodes = ast.iter_child_nodes if top_level_only else ast.walk
    for node in nodes(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


@cache
def imports_by(path: Path) -> frozenset[str]:
    return frozenset(name.split(".")[0] for name in imported_packages(path))


def modules_importing(package: str) -> list[str]:
    return [name_of(path) for path in MODULES if package in imports_by(path)]


def test_the_packages_under_test_are_this_checkout() -> None:
    import flows
    import registry
    import tokenizer_core

    for package in (tokenizer_core, registry, flows):
        assert package.__file__ is not None
        assert Path(package.__file__).is_relative_to(ROOT)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    above = set(ROOMS[ROOMS.index(room) + 1 :])
    assert not imports_by(path) & above


@pytest.mark.parametrize("path", [p for p in MODULES if "tokenizer_core" in p.parts], ids=name_of)
def test_the_core_knows_only_its_few_libraries(path: Path) -> None:
    outside = imports_by(path) - sys.stdlib_module_names - {"tokenizer_core"}
    optional = {package for package, door in OPTIONAL.items() if door == name_of(path)}
    assert outside <= CORE_LIBRARIES | optional


@pytest.mark.parametrize("package", sorted(OPTIONAL))
def test_an_optional_library_is_imported_behind_its_door_when_asked_for(package: str) -> None:
    door = ROOT / OPTIONAL[package]
    assert modules_importing(package) == [OPTIONAL[package]]
    at_once = imported_packages(door, top_level_only=True)
    assert package not in {name.split(".")[0] for name in at_once}


@pytest.mark.parametrize("package", sorted(ONE_DOOR))
def test_each_service_has_one_door(package: str) -> None:
    doors = [door for door in modules_importing(package) if door != SHIPPED_TO_MLFLOW]
    assert doors, f"nothing imports {package}; has its door moved?"
    assert {door.split("/")[0] for door in doors} == {ONE_DOOR[package]}
    assert len(doors) == 1, f"{package} is imported in {doors}"


def test_only_flows_know_prefect() -> None:
    assert {door.split("/")[0] for door in modules_importing("prefect")} == {"flows"}


def test_the_reference_is_an_oracle_and_never_a_fallback() -> None:
    users = [
        name_of(path)
        for path in MODULES
        if any(name.startswith("tokenizer_core.reference") for name in imported_packages(path))
        and not path.stem.startswith("reference")
    ]
    assert users == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_stay_small_and_say_what_they_hold(path: Path) -> None:
    assert len(text_of(path).splitlines()) <= 400, "one idea per file: split it"
    docstring = ast.get_docstring(tree_of(path))
    assert docstring, "a module opens with one sentence: what lives here"
    assert path.stem not in {"utils", "common", "misc", "helpers"}


def test_the_environment_is_read_in_named_places_only() -> None:
    readers = {
        name_of(path)
        for path in MODULES
        if "os.environ" in text_of(path) or "os.getenv" in text_of(path)
    }
    assert readers <= {
        "flows/settings.py",
        "registry/environment.py",
        "tokenizer_core/kernels/compilation.py",
    }


FORBIDDEN_CALLS = {"eval", "exec", "__import__"}
FORBIDDEN_METHODS = {"extractall", "unpack_archive", "write_text", "write_bytes", "rename", "move"}
FORBIDDEN_MODULES = {
    *("pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"),  # run what they read
    *("zipfile", "tarfile", "runpy", "code", "codeop", "yaml"),
}
# Writers that are not durable state: the durable path itself, and files a user asked for by name.
WRITERS = {"tokenizer_core/durable_files.py"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_executes_data_and_one_path_writes(path: Path) -> None:
    assert not imports_by(path) & FORBIDDEN_MODULES
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_CALLS
            opens = node.func.id == "open"
        elif isinstance(node.func, ast.Attribute):
            if name_of(path) not in WRITERS:
                assert node.func.attr not in FORBIDDEN_METHODS, ast.unparse(node)
            opens = node.func.attr in {"open", "fdopen"}
        else:
            continue
        if opens and name_of(path) not in WRITERS:
            modes = [a.value for a in node.args[1:2] if isinstance(a, ast.Constant)] + [
                k.value.value
                for k in node.keywords
                if k.arg == "mode" and isinstance(k.value, ast.Constant)
            ]
            writing = [mode for mode in modes if isinstance(mode, str) and set(mode) & set("wax+")]
            assert not writing, f"durable files only: {ast.unparse(node)}"


# What changes a disk behind the durable writer's back, and the files that may: each with a reason.
CHANGES = {
    *("os.write", "os.pwrite", "os.ftruncate", "os.truncate", "os.rename", "os.renames"),
    *("os.replace", "os.link", "os.symlink", "os.remove", "os.unlink", "os.makedirs", "os.mkdir"),
    *("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move"),
    *("shutil.rmtree", "json.dump", "np.save", "np.savez", "np.savetxt"),
}
CHANGING_METHODS = {"unlink", "touch", "symlink_to", "hardlink_to", "tofile", "to_parquet", "rmdir"}
MAY_CHANGE = {
    "tokenizer_core/durable_files.py": "it is the one",
    "tokenizer_core/shards/shard_formats.py": "writes aside, where the durable writer said",
    "tokenizer_core/kernels/compilation.py": "a cache of compiled code, made again when damaged",
    "registry/workspace/lock.py": "the lock is on the very file that names its holder",
    "registry/workspace/workspace.py": "sweeps what was never published",
    "registry/word_counts/tables.py": "removes the log of a database that is written aside",
    "registry/tracking/mlflow_models.py": "lays out a temporary directory for MLflow to read",
    "tokenizer_core/splitting/regex_processes.py": "pipes to processes, and the null device",
    "flows/cluster/encode_shards.py": "removes the copy of a tokenizer that workers read",
    "flows/cluster/errands.py": "removes the mark that somebody waits",
    "flows/cli/main.py": "the null device",
}
OPENS_FOR_WRITING = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}


def changes_in(path: Path) -> Iterator[str]:
    """Calls that change what a disk holds."""
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called = ast.unparse(node.func)
        flags = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
        opens = called == "os.open" and flags & OPENS_FOR_WRITING
        if called in CHANGES or node.func.attr in CHANGING_METHODS or opens:
            yield ast.unparse(node)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_what_changes_a_disk_goes_through_the_durable_writer(path: Path) -> None:
    if name_of(path) not in MAY_CHANGE:
        assert list(changes_in(path)) == []


def test_no_exception_outlives_its_reason() -> None:
    assert [name for name in MAY_CHANGE if not list(changes_in(ROOT / name))] == []


def test_nobody_but_a_test_puts_another_disk_under_the_durable_writer() -> None:
    users = [name_of(path) for path in MODULES if "DURABLE.on(" in text_of(path)]
    assert users == []


def test_importing_the_core_loads_no_service() -> None:
    program = (
        "import sys, tokenizer_core; "
        "print(*[m for m in ('duckdb', 'sqlalchemy', 'mlflow', 'prefect', 'pyarrow', 'fsspec', "
        "'registry', 'flows') if m in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []


@pytest.mark.parametrize("room", ["registry", "flows"])
def test_heavy_libraries_are_imported_when_needed_and_not_before(room: str) -> None:
    program = (
        f"import sys, {room}; "
        "print(*[m for m in ('duckdb', 'mlflow', 'prefect', 'pyarrow', 'matplotlib', 'fsspec') "
        "if m in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []


def test_the_index_of_what_tests_share_names_every_file() -> None:
    support = ROOT / "tests/support"
    named = set(re.findall(r"`(\w+\.py)`", (support / "README.md").read_text(encoding="utf-8")))
    assert named == {path.name for path in support.glob("*.py")}
