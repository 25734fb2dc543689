"""Certificates of exports: read by their own program and compared, text by text.

A file that is one id off in a million is worse than none: nobody notices. A certificate says what
was compared, with which version of which program, and the first difference.
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
    from bpeline.registry.certify.native_readers import Reading
    from bpeline.tokenizer_core.tokenizer import Tokenizer

SUFFIX = ".certificate.json"
ORIGINAL = "original"  # the format of the files that a version was imported from
_FORMAT = 1
_LARGEST = 1 << 20  # bytes of a certificate


@dataclass(frozen=True, slots=True)
class Difference:
    """The first text that two programs read differently; ids from the first that differs on."""

    what: str
    at: int
    ours: Any
    theirs: Any


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is known about an export.

    Attributes:
        format: the format's name. tokenizer: the digest of what was exported.
        files: name → digest of each file.
        library, version: the program that read it; empty when none did.
        unit: what was compared: texts, words or entries.
        compared_on: digest of the texts. unicode: characters newer than this version are not in
            them.
        equal, unequal: how many were read alike and otherwise.
        difference: the first that was read otherwise.
        not_checked: why nothing was compared; empty when it was.
        differences: what is known to be read otherwise, and was not among the texts.
        pattern_unicode: the newest version of Unicode that our split patterns know.
        library_unicode: and the program's; empty where it has no regex engine or was not asked.
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
        """The certificate for a file."""
        record = sealed({"certificate": _FORMAT, **asdict(self)})
        return (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode(errors="replace")

    def require_equal(self) -> None:
        """Refuse an export that its own program reads otherwise.

        Raises:
            InvalidTokenizer: naming the first difference.
        """
        if self.difference is None:
            return
        first = self.difference
        raise InvalidTokenizer(
            f"{self.library} {self.version} reads {self.unequal:,} of "
            f"{self.equal + self.unequal:,} {self.unit} otherwise, the first {first.what!r}: at "
            f"{first.at} {first.theirs} instead of {first.ours}",
            f"only what is exact is exported as {self.format}; nothing was written",
            "export it as 'bpeline', or report this with the text above",
        )


def certify(
    tokenizer: Tokenizer,
    format: str,
    path: Path,
    texts: Iterable[str] = (),
    folder: Path | None = None,
) -> Certificate:
    """Let an export be read by its own program, and compare; a program that fails checks nothing.

    The program runs in a process of its own: what it does there ends nothing here.

    Args:
        tokenizer: what was exported.
        format: as what.
        path: the file or directory.
        texts: to compare on besides `certificate_texts`.
        folder: where the program is looked for instead of among what is installed.

    Raises:
        CorruptFile, InvalidTokenizer: it is in our own format, and we do not read it.
    """
    from bpeline.registry.certify.native_readers import native_reading
    from bpeline.registry.certify.sample_texts import certificate_texts

    files = sorted(path.iterdir()) if path.is_dir() else [path]
    digests = {file.name: digest_of_bytes(read_file(file)) for file in files if file.is_file()}
    known = tuple(differences_of(format, tokenizer))
    unchecked = Certificate(format, tokenizer.digest, digests, differences=known)
    compared = certificate_texts(tokenizer, texts)
    equal, unequal, first = 0, 0, None
    try:
        reading = native_reading(tokenizer, format, path, compared, folder)
        for what, ours, theirs in reading.comparisons:
            if ours == theirs:
                equal += 1
                continue
            unequal += 1
            first = first or _difference(what, ours, theirs)
    except (CorruptFile, InvalidTokenizer):
        raise  # our own format, which we do not read back
    except (BpelineError, MemoryError) as error:
        # What cannot be compared is no reason to end a publication; a difference that is known is.
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
        differences=(*known, *_newer_characters(reading)),
        pattern_unicode=unicode_version(),
        library_unicode=reading.unicode,
    )


def _newer_characters(reading: Reading) -> tuple[str, ...]:
    """From which characters on a program's tables of Unicode are older than ours."""
    theirs, ours = reading.unicode, unicode_version()
    since = [one for one in LETTERS_SINCE if float(theirs or 0) < float(one) <= float(ours or 0)]
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
    """Let files that a tokenizer was imported from be read by their own program, and compare.

    Args:
        tokenizer: as it was read here.
        format: what the files are.
        path: the file or directory.
        folder: as for `certify`.
    """
    if format == "transformers":  # the library underneath reads the same file
        format, path = "hf", path / "tokenizer.json"
    return replace(certify(tokenizer, format, path, folder=folder), format=ORIGINAL)


def certificates_in(directory: Path) -> dict[str, Certificate]:
    """The certificates kept with a version, by format; what cannot be read is none."""
    found = {}
    for path in sorted(directory.glob("certificate-*.json")):
        with suppress(OSError, ValueError, TypeError, KeyError):
            record = unsealed(read_json(path, _LARGEST))
            del record["certificate"]
            if record["difference"] is not None:
                record["difference"] = check_fields(Difference(**record["difference"]))
            found[str(record["format"])] = check_fields(Certificate(**record))
    return found


def certificates_of(directory: Path) -> dict[str, str]:
    """What they say: format → one line."""
    return {format: str(one) for format, one in certificates_in(directory).items()}


def _difference(what: str, ours: Any, theirs: Any) -> Difference:
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return Difference(what, 0, ours, theirs)
    pairs = zip(ours, theirs, strict=False)
    shorter = min(len(ours), len(theirs))
    at = next((at for at, (one, other) in enumerate(pairs) if one != other), shorter)
    return Difference(what, at, ours[at : at + 8], theirs[at : at + 8])
