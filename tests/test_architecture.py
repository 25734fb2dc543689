"""The rules of the house that a reader should not have to police: floors, imports, writers."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import ismodule
from pathlib import Path

import pytest
from house import (
    FILES,
    MODULES,
    PACKAGES,
    ROOT,
    circles,
    homes_of,
    imports,
    is_package,
    picture,
    room_of,
    text_of,
    tree_of,
)  # fmt: skip

# The floors of each package, from the ground up: a room imports only rooms of lower floors. A room
# is a folder, or a file at the top level of its package.
FLOORS = {
    "tokenizer_core": (
        ("redaction",),
        ("errors",),
        ("cache_directory", "checks"),
        ("another_python", "machine", "records"),
        ("kernels",),
        ("bounded_files", "durable_files", "tables", "text", "urls"),
        ("digests",),
        ("remote_files", "worker_processes"),
        ("splitting",),
        ("reference", "vocabulary"),
        ("pipeline",),
        ("tokenizer_spec",),
        ("plugins",),
        ("encoding",),
        ("corpus",),
        ("counting",),
        ("merging", "shards", "word_encoding"),
        ("display", "formats"),
        ("charts", "tokenizer"),
        ("derived", "training"),
        ("algorithms", "evaluation"),
        ("continuation",),
        ("warm_up",),
    ),
    "registry": (
        ("certify", "closed_duckdb", "environment", "figures"),
        ("hub",),
        ("records", "workspace"),
        ("serving",),
        ("catalogue", "tracking"),
        ("opening", "word_counts"),
        ("loading",),
        ("evaluation_sets",),
        ("versions",),
        ("evaluation", "exports", "tokens"),
        ("aliases", "querying"),
        ("publishing",),
        ("upkeep",),
    ),
    "flows": (
        ("wording",),
        ("running",),
        ("engines",),
        ("requests",),
        ("serving",),
        ("pages",),
        ("counting",),
        ("learning",),
        ("evaluation",),
        ("trainings",),
        ("publishing",),
        ("importing",),
        ("deriving", "drift", "encoding", "sweep_record", "versions"),
        ("train_tokenizer",),
        ("collect_garbage", "encode_dataset", "import_tokenizer", "prefect_flows", "recertify",
         "resume", "watch_drift"),
        ("sweep", "train_languages", "verify_version"),
        ("python_api",),
        ("cli",),
    ),
}  # fmt: skip
# Who may import what comes from outside (a room's own modules are checked separately).
CORE_LIBRARIES = {"numpy", "numba", "llvmlite", "regex", "zstandard"}
CORE_ARROW = {
    "tokenizer_core/counting/word_counts.py",  # word counts of other programs
    "tokenizer_core/shards/shard_formats.py",
}
# A service is spoken to in one file, or in one room.
DOORS = {
    "duckdb": ("registry/closed_duckdb.py",),
    "sqlalchemy": ("registry/catalogue/", "registry/tracking/mlflow_client.py"),
    "mlflow": ("registry/tracking/",),
}
# Logged with every version and run by MLflow's own loader, far from this package.
SHIPPED_TO_MLFLOW = "registry/tracking/mlflow_model.py"
# Imported when asked for, and in workers.
CLUSTER = ("flows/engines/dask_engine.py", "flows/engines/errands.py")
# Libraries that a user may leave out: imported when asked for, each behind one door.
OPTIONAL: dict[str, str | tuple[str, ...]] = {
    "nltk": "tokenizer_core/splitting/segmenters.py",
    "jieba": "tokenizer_core/splitting/segmenters.py",
    "sudachipy": "tokenizer_core/splitting/segmenters.py",
    "fsspec": "tokenizer_core/remote_files.py",
    "aiohttp": "tokenizer_core/remote_files.py",
    "huggingface_hub": "registry/hub.py",
    "distributed": CLUSTER,
    "dask": "flows/engines/dask_engine.py",
    # The programs that exports are made for, to compare what they make of them.
    **dict.fromkeys(
        ("transformers", "tiktoken", "subword_nmt", "gguf", "cyllama"),
        "registry/certify/reader_program.py",
    ),
    # These two run imported tokenizers that have no encoder of ours, too.
    "sentencepiece": (
        "registry/certify/reader_program.py"
    ),
    "tokenizers": (
        "registry/certify/reader_program.py", SHIPPED_TO_MLFLOW,
    ),
}  # fmt: skip
# Other packages bring these; ours do without.
NOT_OURS = ("matplotlib", "pandas", "scipy", "sklearn")
# What the core runs in processes with limits alone.
IN_A_PROCESS_OF_ITS_OWN = {"tokenizer_core/corpus/column_worker.py": {"pyarrow"}}
# A program of its own: MLflow's server.
SERVES_MLFLOW = "registry/tracking/mlflow_server.py"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


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


@cache
def calls_in(path: Path) -> tuple[ast.Call, ...]:
    """Calls of something that has a name."""
    return tuple(
        node
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    )


def modules_importing(package: str) -> list[str]:
    return [name_of(path) for path in FILES if package in imports_by(path)]


def test_the_packages_under_test_are_this_checkout() -> None:
    from bpeline import flows, registry, tokenizer_core

    for package in (tokenizer_core, registry, flows):
        assert package.__file__ is not None
        assert Path(package.__file__).is_relative_to(ROOT)


@pytest.mark.night
def test_packages_import_downward() -> None:
    upward = [
        one
        for one in imports()
        if PACKAGES.index(one.importer.split(".")[1]) < PACKAGES.index(one.home.split(".")[1])
    ]
    assert upward == []


def test_every_room_has_its_floor() -> None:
    rooms = {room_of(module) for module in MODULES if room_of(module) not in PACKAGES}
    listed = [
        f"{package}.{room}" for package in FLOORS for floor in FLOORS[package] for room in floor
    ]
    assert sorted(listed) == sorted(rooms)


@pytest.mark.night
def test_a_room_imports_only_rooms_of_lower_floors() -> None:
    floor_of = {
        f"{package}.{room}": number
        for package, floors in FLOORS.items()
        for number, floor in enumerate(floors)
        for room in floor
    }
    found: dict[str, set[str]] = {}
    for one in imports():
        here, there = one.rooms
        within = here.split(".")[0] == there.split(".")[0]
        if within and here != there and floor_of[here] <= floor_of[there]:
            found.setdefault(there, set()).add(one.importer.removeprefix("bpeline."))
    assert found == {}


def test_no_file_needs_one_that_needs_it() -> None:
    found = circles({(one.importer, one.home) for one in imports() if one.importer != one.home})
    assert found == []


def test_rooms_take_each_others_public_names() -> None:
    """``from bpeline.registry.catalogue import Catalogue``, never of a file inside of a room."""
    deep = [
        one
        for one in imports()
        if one.rooms[0] != one.rooms[1]
        and one.named.count(".") > 2
        and not (
            one.name == ""
            and one.named.rpartition(".")[2] in homes_of(one.named.rpartition(".")[0])
        )
        and not one.named.startswith("bpeline.tokenizer_core.kernels.")
    ]
    assert deep == []


@pytest.mark.night
@pytest.mark.parametrize("package", [module for module in MODULES if is_package(module)])
def test_what_a_package_offers_is_there_and_shadows_no_file(package: str) -> None:
    offered = homes_of(package)
    module = import_module(package)
    for name in offered:
        # Who imports a file gives its package that file under the file's name.
        value = getattr(module, name)
        is_file = ismodule(value) and value.__name__.startswith("bpeline.")
        assert is_file == (f"{package}.{name}" in MODULES), name
    assert set(offered) <= set(dir(module))


def test_the_core_knows_only_its_few_libraries() -> None:
    for path in (path for path in FILES if "tokenizer_core" in path.parts):
        outside = imports_by(path) - sys.stdlib_module_names - {"bpeline"}
        optional = {package for package in OPTIONAL if name_of(path) in doors_of(package)}
        arrow = {"pyarrow"} if name_of(path) in CORE_ARROW else set()
        apart = IN_A_PROCESS_OF_ITS_OWN.get(name_of(path), set())
        assert outside <= CORE_LIBRARIES | optional | arrow | apart, name_of(path)
        at_once = {one.split(".")[0] for one in imported_packages(path, top_level_only=True)}
        assert "pyarrow" not in at_once or apart, name_of(path)


def doors_of(package: str) -> tuple[str, ...]:
    doors = OPTIONAL[package]
    return (doors,) if isinstance(doors, str) else doors


@pytest.mark.parametrize("package", sorted(OPTIONAL))
def test_an_optional_library_is_imported_behind_its_door_when_asked_for(package: str) -> None:
    assert modules_importing(package) == list(doors_of(package))
    for door in doors_of(package):
        if door in CLUSTER:
            continue
        at_once = imported_packages(ROOT / door, top_level_only=True)
        assert package not in {name.split(".")[0] for name in at_once}


def test_what_speaks_to_a_cluster_is_imported_when_asked_for() -> None:
    inside = {f"bpeline.{door.removesuffix('.py').replace('/', '.')}" for door in CLUSTER}
    at_once = [
        name_of(path)
        for path in FILES
        if not inside.isdisjoint(imported_packages(path, top_level_only=True))
    ]
    assert at_once == ["flows/engines/dask_engine.py"]


@pytest.mark.parametrize("package", NOT_OURS)
def test_what_other_packages_bring_is_imported_by_nothing(package: str) -> None:
    assert modules_importing(package) == []


@pytest.mark.parametrize("package", sorted(DOORS))
def test_each_service_has_its_door(package: str) -> None:
    doors = modules_importing(package)
    assert [door for door in doors if not door.startswith(DOORS[package])] == []
    assert all(any(door.startswith(one) for door in doors) for one in DOORS[package])


def test_of_mlflow_only_its_client_is_used() -> None:
    """What has an underscore is MLflow's own: it changes with any release."""
    private = [
        f"{name_of(path)}: {name}"
        for path in FILES
        for name in imported_packages(path)
        if name.split(".")[0] == "mlflow" and "._" in name
    ]
    assert private == []


def test_only_flows_know_prefect() -> None:
    assert {door.split("/")[0] for door in modules_importing("prefect")} == {"flows"}


def test_the_reference_is_an_oracle_and_never_a_fallback() -> None:
    users = [
        name_of(path)
        for path in FILES
        if any(re.search(r"\.reference(_characters)?$", name) for name in imported_packages(path))
        and not path.stem.startswith("reference")
    ]
    # Steps are shown by the reference's own formulas, for people.
    assert users == ["tokenizer_core/algorithms/visible_training.py"]


def test_files_say_what_they_hold() -> None:
    silent = [name_of(path) for path in FILES if not ast.get_docstring(tree_of(path))]
    assert silent == [], "a module opens with one sentence: what lives here"
    vague = {"utils", "common", "misc", "helpers"}
    assert [name_of(path) for path in FILES if path.stem in vague] == []


def test_the_environment_is_read_in_named_places_only() -> None:
    readers = {
        name_of(path)
        for path in FILES
        if "os.environ" in text_of(path) or "os.getenv" in text_of(path)
    }
    assert readers <= {
        "flows/running/settings.py",
        "flows/wording/typed_commands.py",  # whether uvx runs this program
        "registry/environment.py",
        "registry/certify/asking.py",  # hands it on to a child process
        "registry/tracking/server_alias.py",  # what MLflow's client would read, too
        "registry/serving/lifeline.py",  # what a service's parent says
        "registry/serving/gate.py",  # the same of the password
        SERVES_MLFLOW,  # hands it on to MLflow's application
        "tokenizer_core/machine.py",  # sets it for libraries and child processes
        "tokenizer_core/cache_directory.py",
        "tokenizer_core/kernels/compiling/compilation.py",
        "tokenizer_core/redaction.py",  # the secrets among it, to hide them
    }


def test_where_a_python_is_says_one_file() -> None:
    users = {name_of(path) for path in FILES if "sys.executable" in text_of(path)}
    assert users == {"tokenizer_core/another_python.py"}


def test_what_is_private_to_numba_is_used_in_one_file() -> None:
    public = {"numba", "numba.types", "numba.extending"}
    private = {
        name_of(path)
        for path in FILES
        if {name for name in imported_packages(path) if name.split(".")[0] == "numba"} - public
        or any(
            isinstance(node, ast.keyword) and node.arg == "_nrt" for node in ast.walk(tree_of(path))
        )
    }
    assert private == {"tokenizer_core/kernels/compiling/private_numba.py"}


FORBIDDEN_CALLS = {"eval", "exec", "__import__"}
FORBIDDEN_METHODS = {"extractall", "unpack_archive", "write_text", "write_bytes", "rename", "move"}
FORBIDDEN_MODULES = {
    *("pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"),  # run what they read
    *("zipfile", "tarfile", "runpy", "code", "codeop", "yaml"),
}
MAY_USE = {
    "flows/serving/project_deployments.py": {"yaml"},  # `safe_load` of our own prefect.yaml
    # As `cache_directory.read_file` trusts:
    "tokenizer_core/kernels/compiling/private_numba.py": {"pickle"},
}
# Writers that are not durable state: the durable path itself, and files a user asked for by name.
WRITERS = {"tokenizer_core/durable_files.py", "tokenizer_core/cache_directory.py"}


def test_nothing_executes_data_and_one_path_writes() -> None:
    used = {name_of(path): imports_by(path) & FORBIDDEN_MODULES for path in FILES}
    assert {name: modules for name, modules in used.items() if modules} == MAY_USE
    for path in FILES:
        for call in calls_in(path):
            forbid_executing_and_writing(path, call)


def forbid_executing_and_writing(path: Path, node: ast.Call) -> None:
    """Fail at a call that executes data, or opens a file to write to it."""
    said = f"{name_of(path)}: {ast.unparse(node.func)}"
    if isinstance(node.func, ast.Name):
        assert node.func.id not in FORBIDDEN_CALLS, said
        opens = node.func.id == "open"
    else:
        assert isinstance(node.func, ast.Attribute)
        assert node.func.attr not in FORBIDDEN_METHODS or name_of(path) in WRITERS, said
        opens = node.func.attr in {"open", "fdopen"}
    if opens and name_of(path) not in WRITERS:
        modes = [a.value for a in node.args[1:2] if isinstance(a, ast.Constant)] + [
            k.value.value
            for k in node.keywords
            if k.arg == "mode" and isinstance(k.value, ast.Constant)
        ]
        writing = [mode for mode in modes if isinstance(mode, str) and set(mode) & set("wax+")]
        assert not writing, f"durable files only: {said}"


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
    "tokenizer_core/shards/shard_places.py": "removes copies of what a store holds",
    "tokenizer_core/cache_directory.py": "compiled code, made again when damaged",
    "tokenizer_core/kernels/compiling/machine_code.py": "removes compiled code that nobody uses",
    "registry/workspace/lock.py": "the lock is on the very file that names its holder",
    "registry/workspace/servers.py": "a password is private from its first byte",
    "registry/workspace/workspace.py": "sweeps what was never published",
    "registry/querying/answers.py": "removes what a killed process left aside",
    "registry/querying/words_making.py": "copies aside; the durable writer publishes it",
    "registry/word_counts/tables.py": "removes the log of a database that is written aside",
    "registry/tracking/mlflow_database.py": "puts a database in place only where there is none",
    "registry/tracking/mlflow_models.py": "lays out a temporary directory for MLflow to read",
    "flows/encoding.py": "removes the copy of a tokenizer that workers read",
    "flows/engines/errands.py": "removes the mark that somebody waits",
    "flows/cli/main.py": "the null device",
    "flows/running/moving_line.py": "a terminal",
    "flows/running/termination.py": "a pipe to itself, and standard error",
}
OPENS_FOR_WRITING = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}


def changes_in(path: Path) -> Iterator[str]:
    """Calls that change what a disk holds."""
    for node in calls_in(path):
        if not isinstance(node.func, ast.Attribute):
            continue
        called = ast.unparse(node.func)
        flags = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
        opens = called == "os.open" and flags & OPENS_FOR_WRITING
        if called in CHANGES or node.func.attr in CHANGING_METHODS or opens:
            yield ast.unparse(node)


def test_what_changes_a_disk_goes_through_the_durable_writer() -> None:
    found = {name_of(path): list(changes_in(path)) for path in FILES}
    assert {name: calls for name, calls in found.items() if calls and name not in MAY_CHANGE} == {}


def test_no_exception_outlives_its_reason() -> None:
    assert [name for name in MAY_CHANGE if not list(changes_in(ROOT / name))] == []


ONE_OF_EACH = {  # what only one file of flows calls
    "Publication": "flows/publishing/publications.py",
    "sharing": "flows/learning/checkpoints.py",
    "tokenizer.encode_files": "flows/encoding.py",
    "Evaluated": "flows/evaluation/new_versions.py",
}


@pytest.mark.parametrize("called", ONE_OF_EACH)
def test_one_file_does_what_several_did(called: str) -> None:
    callers = [
        name_of(path)
        for path in FILES
        if name_of(path).startswith("flows/")
        and any(ast.unparse(call.func) == called for call in calls_in(path))
    ]
    assert callers == [ONE_OF_EACH[called]]


@pytest.mark.parametrize("alias", ["champion", "candidate"])
def test_an_alias_is_spelt_in_one_file(alias: str) -> None:
    assigned = [
        name_of(path)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and node.value.value == alias
    ]
    assert assigned == ["registry/records/references.py"]


# Commands import after their arguments were parsed, requests what loads Numba: `--help` is quick.
IMPORT_LATE = ("flows/cli/", "flows/requests/", "flows/python_api.py")
HEAVY = {"dask", "distributed", "httpx", "prefect", "rich"}


def test_imports_of_flows_stand_at_the_top_but_for_heavy_libraries() -> None:
    late = [
        (name_of(path), name)
        for path in FILES
        if name_of(path).startswith("flows/") and not name_of(path).startswith(IMPORT_LATE)
        for function in ast.walk(tree_of(path))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [node.module if isinstance(node, ast.ImportFrom) else node.names[0].name]
        if str(name).split(".")[0] not in HEAVY
    ]
    assert late == [
        ("flows/engines/engine.py", "bpeline.flows.engines.dask_engine"),
        ("flows/serving/prefect_worker.py", "bpeline.flows.serving.prefect_listener"),
    ]


# What reads a file without a limit or waits for a pipe, and what parses without a limit of depth.
READS = {"json.load", "json.loads", "json.JSONDecoder", "tomllib.load", "tomllib.loads"}
READS |= {"open", "gzip.open", "np.load", "np.fromfile"}
READING_METHODS = {"read_text", "read_bytes"}
MAY_READ = {
    "tokenizer_core/bounded_files.py": "it is the one",
    # Files of the system about this process and this machine.
    **dict.fromkeys(
        ("tokenizer_core/machine.py",
         "registry/workspace/lock.py", "registry/workspace/processes.py",
         "registry/serving/lifeline.py"), "/proc and /sys"),
    # Files that are installed with a package.
    **dict.fromkeys(
        ("tokenizer_core/kernels/compiling/machine_code.py",
         "tokenizer_core/splitting/segmenters.py", "registry/tracking/mlflow_model.py",
         "flows/cli/diagnosis.py", "flows/engines/errands.py", "flows/pages/rendering.py",
         "flows/wording/typed_commands.py",
         "flows/serving/project_deployments.py"), "a package's"),
    # Messages between a process and the one that it started.
    **dict.fromkeys(
        ("tokenizer_core/corpus/column_files.py", "tokenizer_core/worker_processes.py",
         "registry/certify/asking.py", "registry/certify/reader_program.py"), "its own process"),
    # Documents of a corpus, whose reader limits a record, and values that it has parsed.
    **dict.fromkeys(
        ("tokenizer_core/corpus/documents.py", "tokenizer_core/corpus/first_look.py",
         "tokenizer_core/corpus/text_records.py"),
        "a stream"),
    "tokenizer_core/shards/shard_formats.py": "maps arrays whose sizes were compared, and a stream",
    "tokenizer_core/shards/token_shards.py": "maps an array whose size was compared",
    "tokenizer_core/durable_files.py": "opens to write",
    "tokenizer_core/digests.py": "parses what it has written",
    "registry/catalogue/models.py": "parses what it has written",
    "registry/querying/statements.py": "a statement as DuckDB parses it, which may nest deeply",
}  # fmt: skip


def reads_in(path: Path) -> list[str]:
    """Calls that read a file or JSON without the limits of `bounded_files`."""
    found = []
    for node in calls_in(path):
        called = ast.unparse(node.func)
        is_method = isinstance(node.func, ast.Attribute)
        name = node.func.attr if is_method else ""  # type: ignore[union-attr]
        opens = name == "open" and [ast.unparse(mode) for mode in node.args[:1]] == ["'rb'"]
        if called in READS or name in READING_METHODS or opens:
            found.append(ast.unparse(node))
    return found


def test_files_and_json_of_others_are_read_with_limits() -> None:
    readers = {name_of(path) for path in FILES if reads_in(path)}
    assert readers == set(MAY_READ)


def test_nobody_but_a_test_puts_another_disk_under_the_durable_writer() -> None:
    users = [name_of(path) for path in FILES if "DURABLE.on(" in text_of(path)]
    assert users == []


def test_importing_the_core_loads_no_service() -> None:
    program = (
        "import sys, bpeline.tokenizer_core; "
        "print(*[m for m in ('duckdb', 'sqlalchemy', 'mlflow', 'prefect', 'pyarrow', 'fsspec', "
        "'numba', 'bpeline.registry', 'bpeline.flows') if m in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []


@pytest.mark.parametrize("room", ["registry", "flows"])
def test_heavy_libraries_are_imported_when_needed_and_not_before(room: str) -> None:
    program = (
        f"import sys, bpeline.{room}; "
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


def test_the_page_on_architecture_lists_every_room() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    listed = page.partition("## Rooms")[2].partition("```text")[2].partition("```")[0]
    named = set(re.findall(r"\b([a-z_]+)/", listed)) - {*PACKAGES, "bpeline", "tests", "docs"}
    rooms = {one.name for package in PACKAGES for one in (ROOT / package).iterdir() if one.is_dir()}
    assert named - {"benchmarks"} == rooms - {"__pycache__"}


def test_the_picture_of_the_architecture_is_that_of_the_code() -> None:
    drawn = (ROOT / "docs/architecture.svg").read_text(encoding="utf-8")
    assert drawn == picture(FLOORS), "python tests/support/house.py docs/architecture.svg"


def test_what_the_page_on_architecture_names_is_there() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    folders = "|".join([*PACKAGES, "tests", "benchmarks", "docs"])
    named = set(re.findall(rf"`((?:{folders})/[\w./]+)`", page))
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []
