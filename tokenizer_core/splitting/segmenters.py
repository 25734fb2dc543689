"""Split patterns that are programs with dictionaries, for languages without spaces: which, whose.

Knows their names, versions and dictionaries; runs none of them (`segmenting` does). They belong to
optional packages, of which nothing is imported here.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import SegmenterUnavailable


@dataclass(frozen=True, slots=True)
class Segmenter:
    """One way of cutting text by a dictionary.

    Attributes:
        name: of the split pattern.
        blocks: a regex; what it matches is segmented without a look at what lies outside. So text
            may be cut wherever this pattern always cuts (`cut_pairs`).
        packages: the distributions it needs; the first one's version people know.
        data: files that decide what it does, as (module, path in the module's directory).
        extra: what installs it: ``bpeline[extra]``.
        parts_at_spaces: whether a single space between two other characters is a segment.
    """

    name: str
    blocks: str
    packages: tuple[str, ...]
    data: tuple[tuple[str, str], ...]
    extra: str
    parts_at_spaces: bool

    @property
    def identity(self) -> str:
        """What decides its segments: name, versions of the packages, digest of the dictionary.

        Raises:
            SegmenterUnavailable: it is not installed.
        """
        return _identity(self)

    @property
    def shown(self) -> str:
        """Package and version, for people.

        Raises:
            SegmenterUnavailable: it is not installed.
        """
        return self.identity.split(", ")[1]


# What `jieba.cut` looks at together: it has this expression, and gives every other character by
# itself, but a line end of two.
JIEBA_BLOCKS = "[\u4e00-\u9fd5a-zA-Z0-9+#&._%\\-]+|\\r\\n|[\\s\\S]"
# As `jieba.cut` does: words that are not in the dictionary by its HMM.
_JIEBA = Segmenter(
    name="jieba",
    blocks=JIEBA_BLOCKS,
    packages=("jieba",),
    data=(
        ("jieba", "dict.txt"),
        ("jieba", "finalseg/prob_start.py"),
        ("jieba", "finalseg/prob_trans.py"),
        ("jieba", "finalseg/prob_emit.py"),
    ),
    extra="chinese",
    parts_at_spaces=True,
)
# Sudachi looks at all it is given, so it is given lines.
LINES = "[^\\r\\n]+|\\r\\n|[\\r\\n]"
# Split mode C, the longest units; mode A, the shortest, has a name of its own.
_SUDACHI = Segmenter(
    name="sudachi",
    blocks=LINES,
    packages=("SudachiPy", "SudachiDict-core"),
    data=(
        ("sudachidict_core", "resources/system.dic"),
        ("sudachipy", "resources/sudachi.json"),
        ("sudachipy", "resources/char.def"),
        ("sudachipy", "resources/rewrite.def"),
        ("sudachipy", "resources/unk.def"),
    ),
    extra="japanese",
    parts_at_spaces=False,
)
SEGMENTERS = {
    "jieba": _JIEBA,
    "jieba-no-hmm": replace(_JIEBA, name="jieba-no-hmm"),
    "sudachi": _SUDACHI,
    "sudachi-a": replace(_SUDACHI, name="sudachi-a"),
}


@functools.lru_cache(maxsize=len(SEGMENTERS))
def _identity(segmenter: Segmenter) -> str:
    try:
        versions = [f"{package} {version(package)}" for package in segmenter.packages]
        dictionary = _digest_of_files(segmenter.data)
    except (PackageNotFoundError, OSError) as error:
        raise SegmenterUnavailable(
            f"the split pattern {segmenter.name!r} needs {' and '.join(segmenter.packages)}, "
            "which cannot be found",
            "it is optional, and brings its dictionary along",
            f"type: pip install 'bpeline[{segmenter.extra}]'",
        ) from error
    return f"{segmenter.name}, {' with '.join(versions)}, dictionary {dictionary}"


@functools.lru_cache(maxsize=len(SEGMENTERS))
def _digest_of_files(data: tuple[tuple[str, str], ...]) -> str:
    digests = []
    for module, place in data:
        spec = find_spec(module)
        if spec is None or not spec.submodule_search_locations:
            raise FileNotFoundError(module)
        with (Path(spec.submodule_search_locations[0]) / place).open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return digest_of(digests)
