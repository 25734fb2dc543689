"""Vocabularies of languages and their comparison, stored with a version.

The files are in the version's directory and in its MLflow run; its digest does not cover them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.registry.loading import load_tokenizer
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import validate_name
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.digests import canonical_json, sealed, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption

if TYPE_CHECKING:
    from bpeline.registry.workspace import Workspace
    from bpeline.tokenizer_core.tokenizer import Tokenizer

COMPARISON = "languages.json"
FOLDER = "languages"
_COUNTS = re.compile(r"language\.(.+)\.json")


def keep_languages(
    registry: Registry,
    name: str,
    tokenizer: Tokenizer,
    comparison: Mapping[str, Any],
    counts: Mapping[str, NDArray[np.int64]],
    vocabularies: Mapping[str, str],
) -> list[Path]:
    """Store the vocabularies of languages with a registered version.

    Args:
        counts: language → how often each id occurs in its words, int64.

    Raises:
        RegistryUnreachable: MLflow does not answer; the files are in the workspace.
    """
    directory = registry.workspace.version_directory(tokenizer.digest)
    contents = {COMPARISON: json.dumps(comparison, indent=2, ensure_ascii=False).encode()}
    for language, times in counts.items():
        used_ids = np.flatnonzero(times)
        listed = np.stack((used_ids, times[used_ids]), axis=1).tolist()
        contents[f"language.{language}.json"] = canonical_json(sealed({"counts": listed}))
        contents[f"vocabulary.{language}.txt"] = vocabularies[language].encode()
    for file_name, content in contents.items():
        DURABLE.write(directory / file_name, content)
    files = [directory / file_name for file_name in contents]
    for version in registry.tracker.find_versions(name, tokenizer.digest)[:1]:
        shown = {f"{FOLDER}/{path.name}": path for path in files}
        registry.tracker.runs.add_files(version.mlflow_run_id, shown)
    return files


def language_counts(
    reference: str | Path, language: str, workspace: Workspace | Path | str | None = None
) -> tuple[Tokenizer, NDArray[np.int64]]:
    """Load a tokenizer and the count of each id in the words of a language (int64).

    Args:
        reference: as for `load_tokenizer`.
        language: a language of `bpeline train --joint` or ``--separate``.
    """
    validate_name(language)
    tokenizer = load_tokenizer(reference, workspace)
    directory = open_registry(workspace, make=False).workspace.version_directory(tokenizer.digest)
    path = directory / f"language.{language}.json"
    if not path.is_file():
        paths = sorted(directory.glob("language.*.json"))
        languages = [match[1] for file in paths if (match := _COUNTS.fullmatch(file.name))]
        raise InvalidOption(
            f"{reference} has no vocabulary of the language {language!r}",
            f"expected one of {', '.join(languages)}"
            if languages
            else "it was trained without languages",
            "train with --joint LANGUAGE=FILES, or leave --language out",
        )
    counts = np.zeros(tokenizer.spec.largest_id + 1, np.int64)
    try:
        record = unsealed(read_json(path))
        listed = np.array(record["counts"], np.int64).reshape(-1, 2)
        counts[listed[:, 0]] = listed[:, 1]
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        raise CorruptFile(
            f"{path} cannot be read: {error}",
            "expected a file written by `bpeline train --joint`",
            "run the same training command again, which rewrites it",
        ) from error
    return tokenizer, counts
