"""The core as a wheel: the one file by which a model loads where bpeline is not installed.

Knows what a wheel is made of; knows neither MLflow nor models.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import metadata
from pathlib import Path

import bpeline
from bpeline import tokenizer_core

CORE_PACKAGES = ("numpy", "numba", "regex")  # all that loading and encoding import
_BEGINNING = (1980, 1, 1, 0, 0, 0)  # of time in archives: the same files are the same bytes


@dataclass(frozen=True, slots=True)
class CoreWheel:
    """A package ``bpeline`` with nothing in it but the core; Python imports it as it is.

    Attributes:
        digest: SHA-256 of the content, in hexadecimal digits.
    """

    name: str
    content: bytes = field(repr=False)
    digest: str


@cache
def core_wheel() -> CoreWheel:
    """The wheel of the running bpeline, made once per process."""
    running = metadata("bpeline")
    release = f"bpeline_core-{running['Version']}"
    package = Path(bpeline.__file__).parent
    files = {f"bpeline/{name}": package / name for name in ("__init__.py", "lazy_names.py")}
    core = Path(tokenizer_core.__file__).parent
    for path in core.rglob("*.py"):
        files[f"bpeline/tokenizer_core/{path.relative_to(core).as_posix()}"] = path
    packed = {name: files[name].read_bytes() for name in sorted(files)}
    about = [
        "Metadata-Version: 2.1",
        "Name: bpeline-core",
        f"Version: {running['Version']}",
        f"Requires-Python: {running['Requires-Python']}",
        *(f"Requires-Dist: {package}" for package in CORE_PACKAGES),
    ]
    kind = ["Wheel-Version: 1.0", "Root-Is-Purelib: true", "Tag: py3-none-any"]
    for name, lines in (("METADATA", about), ("WHEEL", kind)):
        packed[f"{release}.dist-info/{name}"] = _text(lines)
    record = f"{release}.dist-info/RECORD"
    packed[record] = _text([*(_recorded(*one) for one in packed.items()), f"{record},,"])
    content = _zipped(packed)
    return CoreWheel(f"{release}-py3-none-any.whl", content, hashlib.sha256(content).hexdigest())


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _recorded(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


def _zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _BEGINNING)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()
