"""Bits per byte of models that somebody trained: which vocabulary, how many FLOPs; reads files."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.bounded_files import parse_json, read_file
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation.scaling_curve import (
    FlopEquated,
    Points,
    flop_equated,
    middle_budget,
)

LARGEST_FILE = 1 << 20  # bytes
COLUMNS = ("tokenizer", "training_flops", "bits_per_byte")
_SHORTEST_DIGEST = 8
_ACCEPTED = (
    f"a .csv file with the columns {', '.join(COLUMNS)}, a row for each model that was trained; or "
    'a .json file of the same, {"news/3": [[3.9e17, 1.38], [9.2e17, 1.24], [2.1e18, 1.15]]}'
)


@dataclass(frozen=True, slots=True)
class MeasuredModels:
    """Points of models by the tokenizer they were trained with.

    Attributes:
        place: the file, for people.
        points: name of a tokenizer → (training FLOPs, bits per byte), by FLOPs.
    """

    place: str
    points: Mapping[str, tuple[tuple[float, float], ...]]

    def of(self, names: Iterable[str], digest: str = "") -> tuple[tuple[float, float], ...]:
        """The points of one tokenizer; none where the file does not name it.

        Args:
            names: what it may be called there: ``news/3``, a path.
            digest: its own, of which eight digits or more will do.

        Raises:
            InvalidOption: the file names it twice.
        """
        known = set(names)
        found = [
            name
            for name in self.points
            if name in known or (len(name) >= _SHORTEST_DIGEST and digest.startswith(name))
        ]
        if len(found) > 1:
            raise InvalidOption(
                f"{self.place} names one tokenizer twice, as {' and as '.join(found)}",
                "each tokenizer has one name",
                "put its points under one of these",
            )
        return self.points[found[0]] if found else ()


@dataclass(frozen=True, slots=True)
class Quality:
    """What is asked of measured models: how good they are where serving is paid in training.

    Attributes:
        models: their points.
        budget: training FLOPs of the reference; the middle one of its points when None.
        serving_ratio: FLOPs served in a model's life for each one of its training.

    Raises:
        InvalidOption: a budget or a ratio that there cannot be.
    """

    models: MeasuredModels
    budget: float | None = None
    serving_ratio: float = 1.0

    def __post_init__(self) -> None:
        if self.budget is not None and not 0 < self.budget < math.inf:
            raise InvalidOption(
                f"the training budget is {self.budget}",
                "FLOPs, more than 0",
                "type `--training-budget 1e21`, or leave it out",
            )
        if not 0 <= self.serving_ratio < math.inf:
            raise InvalidOption(
                f"the serving ratio is {self.serving_ratio}",
                "FLOPs served for each one of training, from 0 on",
                "type `--serving-ratio 1`, or leave it out",
            )

    def budget_for(self, reference: str, points: Points) -> float:
        """The training FLOPs of the reference.

        Raises:
            InvalidOption: nobody said, and the reference has no points.
        """
        budget = middle_budget(points) if self.budget is None else self.budget
        if budget is None:
            raise InvalidOption(
                f"{self.models.place} has no points of {reference}, which serving cost is "
                "relative to, and no training budget was given",
                f"its names are {', '.join(self.models.points)}",
                f"add points of {reference}, or type `--training-budget 1e21`",
            )
        return budget

    def equated(self, points: Points, relative_cost: float, budget: float) -> FlopEquated:
        """See `flop_equated`."""
        return flop_equated(points, relative_cost, budget, self.serving_ratio)


def read_measured_models(path: Path) -> MeasuredModels:
    """Read the points of a file.

    Raises:
        InvalidOption: no such file, or one that holds anything else.
    """
    try:
        text = read_file(path, LARGEST_FILE, pipes=True).decode("utf-8-sig")
        rows = _of_json(parse_json(text)) if path.suffix == ".json" else _of_csv(text)
        points: dict[str, list[tuple[float, float]]] = {}
        for name, flops, reached in rows:
            points.setdefault(name, []).append((_positive(flops), _positive(reached)))
    except (OSError, ValueError, OverflowError, csv.Error) as error:
        raise InvalidOption(
            f"the bits per byte in {path} cannot be read: {error}", _ACCEPTED, f"mend {path}"
        ) from error
    return MeasuredModels(str(path), {name: tuple(sorted(one)) for name, one in points.items()})


def _of_csv(text: str) -> list[tuple[str, Any, Any]]:
    table = csv.DictReader(io.StringIO(text), strict=True)
    if not set(COLUMNS) <= set(table.fieldnames or ()):
        raise ValueError(f"its first line is {', '.join(table.fieldnames or ()) or 'empty'}")
    rows = list(table)
    if not rows:
        raise ValueError("it holds no model")
    for number, row in enumerate(rows, 2):
        if any(not row[column] for column in COLUMNS):
            raise ValueError(f"row {number} is not whole")
    return [(row[COLUMNS[0]], row[COLUMNS[1]], row[COLUMNS[2]]) for row in rows]


def _of_json(content: Any) -> list[tuple[str, Any, Any]]:
    if not isinstance(content, dict) or not content:
        raise ValueError("it holds no tokenizers by name")
    rows = []
    for name, points in content.items():
        if not isinstance(points, list):
            raise ValueError(f"{name} has {points!r}")
        for point in points:
            if not isinstance(point, list) or len(point) != len(COLUMNS) - 1:
                raise ValueError(f"{name} has the point {point!r}")
            rows.append((name, *point))
    return rows


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} is no number")
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{value!r} is no positive number")
    return number
