"""Which test files take longest: two workers that begin with these end at about the same time.

A worker takes whole files, in the order in which they are collected. Seconds were measured on two
cores; only their order matters, and a file that is not named here is a short one.
"""

from __future__ import annotations

from pathlib import Path

LONGEST = (
    "reliability/test_random_kills.py",
    "tokenizer_core/test_split_differential.py",
    "reliability/test_crash_points_of_training.py",
    "registry/test_lost_replies.py",
    "benchmarks/test_nightly.py",
    "tokenizer_core/test_formats_fuzz.py",
    "tokenizer_core/test_training_differential.py",
    "reliability/test_crash_points.py",
    "tokenizer_core/test_pretokenization.py",
    "reliability/test_disk_faults.py",
    "reliability/test_corruption.py",
    "flows/test_prefect_flows.py",
    "tokenizer_core/test_split_automaton.py",
    "flows/test_evaluation_flow.py",
    "flows/test_commands.py",
    "flows/test_algorithms.py",
    "flows/test_cluster.py",
    "tokenizer_core/test_api_contract.py",
    "registry/test_exporting.py",
    "tokenizer_core/test_regex_processes.py",
    "flows/test_bad_input.py",
    "flows/test_sources.py",
    "registry/test_word_count_tables.py",
    "tokenizer_core/test_huggingface_files.py",
    "reliability/test_determinism.py",
    "registry/test_load.py",
)


def place_of(path: Path, tests: Path) -> int:
    """Where a file comes in a run: behind all that take longer."""
    name = path.relative_to(tests).as_posix()
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)
