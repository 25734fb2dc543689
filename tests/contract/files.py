"""One of every file that a release writes, in an archive, and what was read from it then."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import behaviour
from contract_texts import contract_text

import bpeline
from bpeline.registry.certify import certificates_of, certify

CASES = {
    "byte-bpe": "byte-bpe special first",
    "superbpe": "superbpe",
    "char-bpe": "char-bpe joined",
    "wordpiece": "wordpiece ratio",
    "frequency-bpe": "frequency-bpe punkt",
}
SHARD_FORMATS = ("bin", "npy", "megatron")
EXPORTS = ("hf", "transformers", "gpt2", "tiktoken", "gguf")
CHECKPOINT_AT = 290  # ids


def write(folder: Path) -> dict[str, Any]:
    """Write all of them into a folder that is there; what must be read from them is returned."""
    made = dict(behaviour.python_cases())
    said: dict[str, Any] = {"digests": {}, "certificates": {}}
    for name, case in CASES.items():
        tokenizer = made[case]()
        tokenizer.save(folder / "tokenizers" / name)
        said["digests"][name] = tokenizer.digest
    tokenizer = made[CASES["byte-bpe"]]()
    (folder / "text.txt").write_text(contract_text(words=40), "utf-8")
    for format_ in SHARD_FORMATS:
        tokenizer.encode_files(folder / "text.txt", folder / "shards" / format_, format=format_)
    shards = bpeline.TokenShards(folder / "shards" / "bin")
    said["documents"] = [document.tolist() for document in shards]
    for format_ in EXPORTS:
        path = folder / "exports" / format_
        path.parent.mkdir(exist_ok=True)
        tokenizer.save(path, format_)
        certificate = certify(tokenizer, format_, path)
        said["certificates"][format_] = str(certificate)
        (folder / "exports" / f"certificate-{format_}.json").write_bytes(certificate.as_json())
    said["resumed"] = _unfinished(folder / "training.checkpoint")
    return said


def _unfinished(path: Path) -> str:
    """Leave the checkpoint of the first merges; what all of them come to."""
    bpeline.train_bpe(behaviour.counts(), CHECKPOINT_AT, checkpoint=path)
    return bpeline.train_bpe(behaviour.counts(), behaviour.IDS).digest


def read(folder: Path) -> dict[str, Any]:
    """What `write` said, read again from its files."""
    shards = {one: bpeline.TokenShards(folder / "shards" / one) for one in SHARD_FORMATS}
    read_alike = {str([document.tolist() for document in one]) for one in shards.values()}
    assert len(read_alike) == 1
    for one in shards.values():
        one.verify()
    resumed = bpeline.train_bpe(
        behaviour.counts(), behaviour.IDS, resume_from=folder / "training.checkpoint"
    )
    load, exports = bpeline.Tokenizer.load, folder / "exports"
    for format_ in ("hf", "gguf"):
        assert (
            load(exports / format_, format_).digest == load(folder / "tokenizers/byte-bpe").digest
        )
    return {
        "digests": {name: load(folder / "tokenizers" / name).digest for name in CASES},
        "certificates": certificates_of(exports),
        "documents": [document.tolist() for document in shards["bin"]],
        "resumed": resumed.digest,
    }


def pack(folder: Path, said: dict[str, Any], archive: Path) -> None:
    """The folder and what was said, in one archive."""
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        content = json.dumps(said).encode()
        member = tarfile.TarInfo("said.json")
        member.size = len(content)
        packed.addfile(member, io.BytesIO(content))
        for path in sorted(folder.rglob("*")):
            packed.add(path, str(path.relative_to(folder)), recursive=False, filter=_nobody_s)


def _nobody_s(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member
