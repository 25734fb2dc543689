"""A real PostgreSQL server for tests: a cluster of its own, on a loopback port, gone afterwards.

Where there are no binaries the tests that ask are skipped, but not in CI, which sets
``BPELINE_TESTS_NEED_POSTGRES``.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from loopback import free_ports

START_SECONDS = 180.0
# Nothing here has to survive a crash of the machine, but that of the server.
FAST = ("fsync=off", "full_page_writes=off", "autovacuum=off",
        "shared_buffers=32MB", "max_connections=100", "timezone=UTC")  # fmt: skip


@dataclass(slots=True)
class PostgresServer:
    """A server that can be stopped and started again.

    Attributes:
        binaries: where ``postgres`` and ``initdb`` are.
        folder: of the cluster.
        port: on 127.0.0.1.
        password: of the superuser ``tester``; to be seen nowhere.
    """

    binaries: Path
    folder: Path
    port: int
    password: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        settings = [part for one in FAST for part in ("-c", one)]
        self.process = subprocess.Popen(
            [str(self.binaries / "postgres"), "-D", str(self.folder / "data"), *settings,
             "-h", "127.0.0.1", "-p", str(self.port), "-k", str(self.folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **as_somebody(),
        )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.ask("SELECT 1")
            except Exception:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.05)

    def stop(self) -> None:
        """At once, as in a crash: whoever is connected loses the connection."""
        if self.process is not None:
            self.process.send_signal(3)  # SIGQUIT: without waiting for anybody
            self.process.wait(60)
            self.process = None

    def ask(self, statement: str) -> None:
        """Run a statement in the database that is always there."""
        import psycopg

        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def address(self, database: str) -> str:
        return f"postgresql://tester:{self.password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The name of an empty database."""
        name = f"test_{secrets.token_hex(6)}"
        self.ask(f"CREATE DATABASE {name} TEMPLATE template0")
        return name

    def new_url(self, driver: str = "psycopg") -> str:
        """The URL of an empty database."""
        return self.address(self.new_database()).replace("://", f"+{driver}://", 1)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Make a cluster, start it, stop and remove it."""
    binaries = find_binaries()
    if binaries is None:
        reason = "no PostgreSQL: apt-get install postgresql"
        if os.environ.get("BPELINE_TESTS_NEED_POSTGRES"):
            pytest.fail(reason)
        pytest.skip(reason)
    # Not below pytest's folders: those are for this user alone, and the path of a socket is short.
    folder = Path(tempfile.mkdtemp(prefix="bpeline-pg-"))
    try:
        (port,) = free_ports(1)
        server = PostgresServer(binaries, folder, port, f"pw-{secrets.token_hex(8)}")
        secret = folder / "password"
        secret.write_text(server.password)
        somebody = as_somebody()
        if somebody:
            for path in (folder, secret):
                os.chown(path, somebody["user"], somebody["group"])
        subprocess.run(
            [str(binaries / "initdb"), "-D", str(folder / "data"), "--no-sync", "-U", "tester",
             "--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8", "--locale=C.UTF-8"],
            check=True, capture_output=True, cwd=folder, **somebody,
        )  # fmt: skip
        server.start()
        try:
            yield server
        finally:
            with suppress(subprocess.TimeoutExpired):
                server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def as_somebody() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: whom to be instead, for `subprocess`."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL does not run as root, and there is nobody else")


def find_binaries() -> Path | None:
    """Where ``initdb`` and ``postgres`` are: Debian's newest, else those on the path."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found and shutil.which("postgres") else None
