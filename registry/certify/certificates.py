"""Certificates of exports: the result of reading an export with its own program.

A certificate records what was compared, with which version of which program, and the first
difference, so that a wrong id does not go unnoticed.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.tokenizer_core.bounded_files import read_file, read_json
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes, sealed, unsealed
from bpeline.tokenizer_core.errors import BpelineError, CorruptFile, InvalidTokenizer
from bpeline.tokenizer_core.formats import differences_of
from bpeline.tokenizer_core.records import check_fields
from bpeline.tokenizer_core.splitting import LETTERS_SINCE, unicode_version

if TYPE_CHECKING:
    from bpeline.registry.certify.native_readers import ReadOptions
    from bpeline.tokenizer_core.tokenizer import Tokenizer

SUFFIX = ".certificate.json"
ORIGINAL = "original"  # format name for the files that a version was imported from
_FORMAT = 1
_LARGEST = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Difference:
    """The first text that was encoded differently; ids from the first difference on."""

    what: str
    at: int
    ours: Any
    theirs: Any


@dataclass(frozen=True, slots=True)
class Certificate:
    """The result of checking an export.

    Attributes:
        tokenizer: digest of the exported tokenizer.
        files: name → digest.
        library, version: the program that read it; empty if none did.
        unit: of the comparison: texts, words or entries.
        compared_on: digest of the texts.
        unicode: the texts have no characters newer than this version.
        not_checked: why nothing was compared; else empty.
        differences: known differences outside the compared texts.
        pattern_unicode: newest Unicode version of our split patterns.
        library_unicode: the same of the program; empty if it has no regex engine or is unknown.
    """

    format: str
    tokenizer: str
    files: dict[str, str]
    library: str = ""
    version: str = ""
    unit: str = "texts"
    compared_on: str = ""
    unicode: str = ""
    equal: int = 0
    unequal: int = 0
    difference: Difference | None = None
    not_checked: str = ""
    differences: tuple[str, ...] = ()
    pattern_unicode: str = ""
    library_unicode: str = ""

    def __str__(self) -> str:
        if self.not_checked:
            return f"not checked: {self.not_checked}"
        total = self.equal + self.unequal
        return f"{self.library} {self.version} reads {self.equal:,} of {total:,} {self.unit} alike"

    def as_json(self) -> bytes:
        record = sealed({"certificate": _FORMAT, **asdict(self)})
        return (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode(errors="replace")

    def require_equal(self) -> None:
        """Raise InvalidTokenizer with the first difference, if there is one."""
        if self.difference is None:
            return
        first = self.difference
        raise InvalidTokenizer(
            f"{self.library} {self.version} reads {self.unequal:,} of "
            f"{self.equal + self.unequal:,} {self.unit} differently, first {first.what!r}: at "
            f"{first.at} {first.theirs} instead of {first.ours}",
            f"expected equal results for the format {self.format}; nothing was written",
            "export it as 'bpeline', or report this with the text above",
        )


def certify(
    tokenizer: Tokenizer,
    format: str,
    path: Path,
    texts: Iterable[str] = (),
    folder: Path | None = None,
) -> Certificate:
    """Check an export with its own program, in a separate process.

    If the program fails, the certificate says that nothing was checked.

    Args:
        texts: compared in addition to `certificate_texts`.
        folder: where the program is looked for instead of the installed packages.

    Raises:
        CorruptFile, InvalidTokenizer: an export in our own format cannot be read.
    """
    from bpeline.registry.certify.native_readers import native_reading
    from bpeline.registry.certify.sample_texts import certificate_texts

    files = sorted(path.iterdir()) if path.is_dir() else [path]
    digests = {file.name: digest_of_bytes(read_file(file)) for file in files if file.is_file()}
    known_differences = tuple(differences_of(format, tokenizer))
    unchecked = Certificate(format, tokenizer.digest, digests, differences=known_differences)
    compared = certificate_texts(tokenizer, texts)
    equal, unequal, first = 0, 0, None
    try:
        reading = native_reading(tokenizer, format, path, compared, folder)
        for label, ours, theirs in reading.comparisons:
            if ours == theirs:
                equal += 1
                continue
            unequal += 1
            first = first or _difference(label, ours, theirs)
    except (CorruptFile, InvalidTokenizer):
        raise  # our own format cannot be read back
    except (BpelineError, MemoryError) as error:
        # A failed check must not end a publication, but a difference that was found must.
        if first is None:
            why = error.happened if isinstance(error, BpelineError) else "out of memory"
            return replace(unchecked, not_checked=why)
    return replace(
        unchecked,
        library=reading.library,
        version=reading.version,
        unit=reading.unit,
        compared_on=digest_of(compared),
        unicode=unicodedata.unidata_version,
        equal=equal,
        unequal=unequal,
        difference=first,
        differences=(*known_differences, *_newer_characters(reading)),
        pattern_unicode=unicode_version(),
        library_unicode=reading.unicode,
    )


def _newer_characters(reading: ReadOptions) -> tuple[str, ...]:
    """A note on characters newer than the Unicode version of the program."""
    theirs, ours = reading.unicode, unicode_version()
    since = [
        unicode
        for unicode in LETTERS_SINCE
        if float(theirs or 0) < float(unicode) <= float(ours or 0)
    ]
    if not theirs or not since:
        return ()
    letter = ord(LETTERS_SINCE[since[0]])
    return (
        f"characters that came with Unicode {since[0]} or later, such as U+{letter:04X}: "
        f"{reading.library} {reading.version} knows Unicode {theirs} and may cut them otherwise",
    )


def certify_originals(
    tokenizer: Tokenizer, format: str, path: Path, folder: Path | None = None
) -> Certificate:
    """Check the files that a tokenizer was imported from; see `certify`."""
    if format == "transformers":  # `tokenizers` reads the same file
        format, path = "hf", path / "tokenizer.json"
    return replace(certify(tokenizer, format, path, folder=folder), format=ORIGINAL)


def certificates_in(directory: Path) -> dict[str, Certificate]:
    """Return the certificates of a version by format; unreadable ones are skipped."""
    certificates = {}
    for path in sorted(directory.glob("certificate-*.json")):
        with suppress(OSError, ValueError, TypeError, KeyError):
            record = unsealed(read_json(path, _LARGEST))
            del record["certificate"]
            if record["difference"] is not None:
                record["difference"] = check_fields(Difference(**record["difference"]))
            certificates[str(record["format"])] = check_fields(Certificate(**record))
    return certificates


def certificates_of(directory: Path) -> dict[str, str]:
    """Return the certificates of a version as format → one line of text."""
    return {format: str(certificate) for format, certificate in certificates_in(directory).items()}


def _difference(what: str, ours: Any, theirs: Any) -> Difference:
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return Difference(what, 0, ours, theirs)
    pairs = zip(ours, theirs, strict=False)
    shorter = min(len(ours), len(theirs))
    at = next((at for at, (our_id, their_id) in enumerate(pairs) if our_id != their_id), shorter)
    return Difference(what, at, ours[at : at + 8], theirs[at : at + 8])
