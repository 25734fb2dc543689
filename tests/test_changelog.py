"""CHANGELOG.md is in the form of Keep a Changelog, with the kinds of this project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

CHANGELOG = (Path(__file__).parents[1] / "CHANGELOG.md").read_text("utf-8")
OURS = ("Merges change", "Ids change")
KINDS = ("Upgrading from", *OURS, "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def kinds() -> Iterator[tuple[str, str, str]]:
    """Each kind of each release: the release's title, the kind, and what stands below."""
    for release in re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]:
        title, _, below = release.partition("\n")
        for part in re.split(r"^### ", below, flags=re.MULTILINE)[1:]:
            kind, _, entries = part.partition("\n")
            yield title, kind, entries


def test_releases_have_a_version_and_a_date_and_kinds_that_are_known() -> None:
    releases = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    releases = releases[releases[0] == "[Unreleased]" :]
    dates = []
    for title in releases:
        dated = re.fullmatch(r"\[\d+\.\d+\.\d+\] - (\d{4}-\d\d-\d\d)", title)
        assert dated, title
        dates.append(date.fromisoformat(dated[1]))
    assert dates == sorted(dates, reverse=True), "the newest stands first"
    for title, kind, entries in kinds():
        assert kind.startswith(KINDS), (title, kind)
        assert re.search(r"^- ", entries, re.MULTILINE), f"{kind} of {title} is empty"
    named = [(title, kind) for title, kind, _ in kinds()]
    assert len({*named}) == len(named), "a kind stands twice in a release"


def test_what_changes_merges_or_ids_stands_below_these_kinds_and_says_so() -> None:
    for _, kind, entries in kinds():
        for entry in re.split(r"^- ", entries, flags=re.MULTILINE)[1:]:
            marked = [one for one in OURS if f"*{one}" in " ".join(entry.split())]
            assert bool(marked) == (kind in OURS), entry
            assert not marked or kind in marked, entry


def test_subjects_stand_in_the_same_order_below_each_kind() -> None:
    subjects = [re.findall(r"^#### (.*)$", entries, re.MULTILINE) for _, _, entries in kinds()]
    order = list(dict.fromkeys(subject for some in subjects for subject in some))
    for some in subjects:
        assert some == sorted(some, key=order.index)
