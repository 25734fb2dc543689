"""Every stored file damaged in every way: found by name, or made again; never believed.

The files are those that a finished workspace holds, found by walking through it. Each is cut, has
bits flipped and blocks zeroed, is swapped with another of its kind, grows, or is gone; then the
commands that read it run. They may say, with a typed error, which file is damaged, and they may
give the result of the undisturbed run. Nothing else.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from zygote import Ended, Zygote

from .conftest import Golden, Record, difference

BLOCK = 512


def ways_of(path: Path, others: list[Path], chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """What may become of a file's content: what was done, and the content."""
    content = path.read_bytes()
    size = len(content)
    if not size:
        yield "garbage in an empty file", b"\x00\xff{"
        return
    yield "emptied", b""
    cut = chance.randrange(1, size) if size > 1 else 0
    yield f"cut to {cut} bytes", content[:cut]
    for _ in range(3):
        place, bit = chance.randrange(size), chance.randrange(8)
        flipped = bytearray(content)
        flipped[place] ^= 1 << bit
        yield f"bit {bit} of byte {place} flipped", bytes(flipped)
    block = chance.randrange(0, size, BLOCK)
    zeroed = bytearray(content)
    zeroed[block : block + BLOCK] = bytes(len(zeroed[block : block + BLOCK]))
    if zeroed != content:
        yield f"block at {block} zeroed", bytes(zeroed)
    yield "garbage behind it", content + chance.randbytes(chance.randrange(1, 40))
    for other in others:
        if other != path and other.read_bytes() != content:
            yield f"swapped with {other.name}", other.read_bytes()
            break


def files_in(root: Path, accepted: Callable[[str], bool]) -> list[Path]:
    """Names of the files of a workspace, relative to it."""
    names = (path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file())
    return [name for name in names if accepted(str(name))]


def require_no_belief(
    record: Record,
    source: str,
    place: Path,
    accepted: Callable[[str], bool],
    attempts: Callable[[Path], Iterator[tuple[Callable[[], Ended], dict[str, Any]]]],
    *,
    one_of: int,
    mends: bool,
    harmless: dict[str, Any] | None = None,
) -> None:
    """Damage each file in each way and run what reads it.

    Args:
        record: of this suite.
        source: the workspace (or directory) before it is damaged.
        place: for the damaged copy.
        accepted: which of its files are meant.
        attempts: given the copy, the commands and the state each must give.
        one_of: of so many ways one is taken.
        mends: whether the same commands, typed again, must succeed.
        harmless: a state that a file's absence may lead to.
    """
    copy = place / "damaged"
    names = files_in(Path(source), accepted)
    assert names, "nothing to damage"
    record.add("files", len(names))
    case = 0
    for name in names:
        chance = random.Random(f"{record.seed}/{name.name[:2]}{name.suffix}")
        here = Path(source) / name
        others = [one for one in here.parent.rglob(f"*{name.suffix}") if one.is_file()]
        for what, content in [*ways_of(here, others, chance), ("deleted", None)]:
            case += 1
            if not record.wants(case, one_of):
                continue
            shutil.copytree(source, copy)
            (copy / name).unlink()
            if content is not None:
                (copy / name).write_bytes(content)
            record.add("mutations")
            said = f"{record.suite} --point {case} --seed {record.seed} ({name}: {what})"
            for attempt, expected in attempts(copy):
                _judge(record, said, attempt, (expected, harmless), name, mends=mends)
            shutil.rmtree(copy)
    record.require_none()


def _judge(
    record: Record,
    said: str,
    attempt: Callable[[], Ended],
    allowed: tuple[dict[str, Any], dict[str, Any] | None],
    name: Path,
    *,
    mends: bool,
) -> None:
    expected, harmless = allowed
    ended = attempt()
    if ended.signal:
        record.fail(said, f"signal {ended.signal}")
    elif ended.error and not ended.typed:
        record.fail(said, ended.error)
    elif ended.error:
        record.add("typed errors")
        # A file among many is named, or the directory that holds it where only it makes sense.
        if name.name not in ended.error and name.parent.name not in ended.error:
            record.fail(said, f"the error names another file: {ended.error}")
        again = attempt()
        if mends and (again.error or difference(again.result["state"], expected)):
            record.fail(said, f"typed again: {again.error or 'another result'}")
        elif not mends and again.error and not again.typed:
            record.fail(said, f"typed again: {again.error}")
    elif harmless is not None and ended.result["state"] == harmless:
        record.add("nothing done")
    elif ended.result["state"] == expected:
        record.add("the undisturbed result")
    elif {**ended.result["state"], str(name): expected.get(str(name))} == expected:
        record.add("the undisturbed result, the damaged file unread")
    else:
        record.fail(said, f"believed: {difference(ended.result['state'], expected)}")


@pytest.mark.night
def test_counts_tables_and_checkpoints_are_made_again(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """What training keeps for the next one: shards, held-out documents, tables, records, merges."""

    def attempts(copy: Path) -> Iterator[tuple[Callable[[], Ended], dict[str, Any]]]:
        arguments = {"workspace": copy, "corpus": golden.corpus}
        yield lambda: zygote.run("train", **arguments), golden.waiting

    require_no_belief(
        record, golden.outbox, place,
        lambda name: name.split("/")[0] in {"shards", "tables", "runs", "lock"}, attempts,
        one_of=record.amounts.one_of_damages, mends=True,
    )  # fmt: skip


@pytest.mark.night
def test_files_of_a_version_are_refused_or_fetched_again(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """Everything a version is read from: loading by name, number and digest, figures, exports."""
    source = str(place / "registered")
    shutil.copytree(golden.registered, source)
    zygote.run("read_version", workspace=source).returned()  # which remembers references
    expected = zygote.run("read_version", workspace=source).returned()["state"]

    def attempts(copy: Path) -> Iterator[tuple[Callable[[], Ended], dict[str, Any]]]:
        yield lambda: zygote.run("read_version", workspace=copy), expected

    require_no_belief(
        record, source, place,
        lambda name: name.startswith("versions/") or name == "workspace.json", attempts,
        one_of=record.amounts.one_of_damages, mends=False,
    )  # fmt: skip


@pytest.mark.night
def test_what_waits_in_the_outbox_is_published_as_it_was_or_not_at_all(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    without = {name: one for name, one in golden.waiting.items() if not name.startswith("outbox")}

    def attempts(copy: Path) -> Iterator[tuple[Callable[[], Ended], dict[str, Any]]]:
        yield lambda: zygote.run("publish_waiting", workspace=copy), golden.finished

    require_no_belief(
        record, golden.outbox, place,
        lambda name: name.startswith(("outbox/", "versions/")) and "certificate" not in name,
        attempts, one_of=record.amounts.one_of_damages, mends=False, harmless=without,
    )  # fmt: skip


@pytest.mark.night
def test_token_shards_are_made_again(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    out = place / "tokens"
    arguments = {"workspace": golden.registered, "corpus": golden.corpus}
    expected = zygote.run("encode", out=out, **arguments).returned()["state"]
    read = zygote.run("read_tokens", out=out).returned()["state"]

    def attempts(copy: Path) -> Iterator[tuple[Callable[[], Ended], dict[str, Any]]]:
        yield lambda: zygote.run("read_tokens", out=copy), read
        yield lambda: zygote.run("encode", out=copy, **arguments), expected

    require_no_belief(
        record,
        str(out),
        place,
        lambda _: True,
        attempts,
        one_of=record.amounts.one_of_damages,
        mends=False,
    )


@pytest.mark.night
def test_a_damaged_database_is_named(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """SQLite has no checksums of its own: what it notices, it names; what is read still agrees.

    Headers, cut files, files that are none, another program's database: those SQLite notices. A bit
    flipped inside of a row it cannot notice, and nor can we; what decides which tokenizer is loaded
    and what is counted is checked against digests outside of it.
    """

    def attempts(copy: Path) -> list[tuple[str, Ended]]:
        return [
            ("train", zygote.run("train", workspace=copy, corpus=golden.corpus, looks=False)),
            ("load", zygote.run("load", workspace=copy)),
        ]

    version = golden.finished["rows"]["versions"][0][1]
    chance = random.Random(record.seed)
    case = 0
    for name in ("catalogue.sqlite", "mlflow.sqlite"):
        content = (Path(golden.registered) / name).read_bytes()
        ways = [("emptied", b""), ("another file", b"this is no database" * 300)]
        ways += [(f"cut to {size}", content[:size]) for size in (50, 4096, len(content) // 2)]
        for _ in range(8):
            page = chance.randrange(0, len(content), 4096)
            damaged = bytearray(content)
            damaged[page : page + 100] = chance.randbytes(100)
            ways.append((f"page at {page} overwritten", bytes(damaged)))
        for what, damage in ways:
            case += 1
            if not record.wants(case, one_of=min(4, record.amounts.one_of_damages)):
                continue
            copy = place / "damaged"
            shutil.copytree(golden.registered, copy)
            (copy / name).write_bytes(damage)
            record.add("mutations")
            for job, ended in attempts(copy):
                repeated = (
                    f"{record.suite} --point {case} --seed {record.seed} ({name} {what}; {job})"
                )
                if ended.signal or (ended.error and not ended.typed):
                    record.fail(repeated, ended.error or f"signal {ended.signal}")
                elif ended.error:
                    record.add("typed errors")
                    if name not in ended.error and "workspace" not in ended.error:
                        record.fail(repeated, f"names no file: {ended.error}")
                elif job == "load" and ended.result != version:
                    record.fail(repeated, f"loaded {ended.result}")
            shutil.rmtree(copy)
    record.require_none()
