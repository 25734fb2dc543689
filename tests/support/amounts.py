"""How many random and numbered cases a run of the tests makes: few for each change, many at night.

The one table of these numbers. Which cases they are follows from the seed: always the same one, so
that a change passes tomorrow if it passes today; at night the day's date, printed at the end.
``--seed`` says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True)
class Amounts:
    """What one run does.

    Fields whose names begin with ``one_of`` say of how many numbered cases one is taken, and 1
    takes them all; every other field is a number of random cases.

    Attributes:
        one_of_crash_points: kills before and after each durable operation.
        one_of_disk_faults: durable operations at which the disk fails.
        disk_errors: errors that such an operation meets, by turns.
        one_of_damages: ways to damage each stored file.
        one_of_limits: limits on memory and on the size of files.
        one_of_requests: requests to MLflow at which it or the network fails.
        one_of_combinations: commands in odd surroundings, before nonsense, ended by signals.
        server_kills: kills and standstills of an MLflow server while it registers.
        kills: kills at random moments, of each kind of work.
        signals: Ctrl-C and SIGTERM at random moments, of each kind of work.
        races: rounds of each kind of several processes at once.
        moves: moves of an alias while others load, and writes of each to one catalogue.
        power_losses: states of the disk after a power loss, for each protocol.
        clocks: wrong clocks, for each kind of work.
        cells: surroundings that must not change a digest, beside the plain ones.
        cell_patterns: split patterns in each of these surroundings.
        processors: processors without vector instructions, beside this one.
        split_texts: texts cut by every split pattern, beside `regex`.
        encoded_texts: texts encoded, shared by all vocabularies that went from one tool to another.
        corpora: corpora learned by the engine and by the reference.
        mutations: changes of each kind of file that others may have written.
        laws: random corpora and texts for each law.
        pipelines: random files of HuggingFace's format, beside the library that reads them.
    """

    one_of_crash_points: int
    one_of_disk_faults: int
    disk_errors: int
    one_of_damages: int
    one_of_limits: int
    one_of_requests: int
    one_of_combinations: int
    server_kills: int
    kills: Mapping[str, int]
    signals: Mapping[str, int]
    races: int
    moves: int
    power_losses: int
    clocks: int
    cells: int
    cell_patterns: int
    processors: int
    split_texts: int
    encoded_texts: int
    corpora: int
    mutations: int
    laws: int
    pipelines: int


EVERY_RUN = Amounts(
    one_of_crash_points=40,
    one_of_disk_faults=40,
    disk_errors=1,
    one_of_damages=40,
    one_of_limits=6,
    one_of_requests=160,
    one_of_combinations=4,
    server_kills=2,
    kills={
        "training": 6,
        "other training": 3,
        "publication": 4,
        "encoding": 3,
        "first publication": 6,
        "upgrade": 2,
    },
    signals={"training": 3, "publication": 2, "encoding": 2},
    races=1,
    moves=10,
    power_losses=200,
    clocks=1,
    cells=2,
    cell_patterns=1,
    processors=0,
    split_texts=12_000,
    encoded_texts=60_000,
    corpora=4_000,
    mutations=40,
    laws=60,
    pipelines=300,
)
NIGHT = Amounts(
    one_of_crash_points=1,
    one_of_disk_faults=1,
    disk_errors=2,
    one_of_damages=1,
    one_of_limits=1,
    one_of_requests=1,
    one_of_combinations=4,
    server_kills=100,
    kills={
        "training": 1_000,
        "other training": 100,
        "publication": 200,
        "encoding": 200,
        "first publication": 300,
        "upgrade": 12,
    },
    signals={"training": 80, "publication": 40, "encoding": 20},
    races=12,
    moves=200,
    power_losses=2_000,
    clocks=6,
    cells=12,
    cell_patterns=2,
    processors=1,
    split_texts=500_000,
    encoded_texts=500_000,
    corpora=100_000,
    mutations=2_000,
    laws=1_000,
    pipelines=5_000,
)


FIXED_SEED = 1
_DESCRIBED = re.compile(r"^        (\w+): (.+)\.$", re.MULTILINE)  # the attributes of `Amounts`


def day_seed() -> int:
    """Today's date as a number such as 20261122."""
    return int(f"{date.today():%Y%m%d}")


def numbers(seed: int, many: int, point: int) -> range:
    """Of so many random cases, each made from its number alone: other ones for every seed.

    Args:
        seed: of the run.
        many: how many.
        point: the number of the one case to do again; 0: all.
    """
    first = point or seed * 10_000_000
    return range(first, first + (1 if point else many))


def table() -> str:
    """Both, as a table in Markdown."""
    rows = ["| | `make test` | `make test-nightly` |", "| --- | ---: | ---: |"]
    for name, what in _DESCRIBED.findall(Amounts.__doc__ or ""):
        every, night = (_said(name, getattr(one, name)) for one in (EVERY_RUN, NIGHT))
        rows.append(f"| {what} | {every} | {night} |")
    return "\n".join(rows) + "\n"


def _said(name: str, number: int | Mapping[str, int]) -> str:
    if isinstance(number, Mapping):
        return ", ".join(f"{kind} {one:,}" for kind, one in number.items())
    if name.startswith("one_of"):
        return "all" if number == 1 else f"1 of {number}"
    return f"{number:,}"
