"""Our own format: a directory with manifest.json, vocab.json and merges.txt, verified when read.

Only these three names are ever opened. Where tokens may be any bytes, vocab.json and merges.txt are
those of GPT-2's format; with an algorithm over characters they hold tokens as they are, in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NoReturn

from bpeline.tokenizer_core.bounded_files import json_of, read_bounded
from bpeline.tokenizer_core.companions import algorithm_of
from bpeline.tokenizer_core.digests import digest_of_bytes, sealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import CorruptFile, InvalidPattern, InvalidTokenizer
from bpeline.tokenizer_core.formats.plain_tokens import (
    merges_json,
    nothing_left_out,
    read_plain_merges,
    read_plain_vocab,
    vocab_json_of_text,
)
from bpeline.tokenizer_core.formats.printable import (
    cut_out_vocab,
    merges_txt,
    read_merges_file,
    read_vocab,
    vocab_json,
)
from bpeline.tokenizer_core.sealed_manifests import MANIFEST, read_sealed_manifest
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text, utf8_of
from bpeline.tokenizer_core.vocabulary import BYTE_BPE, Pipeline, TokenizerSpec, shown

left_out = nothing_left_out
FORMAT = "bpeline"
# The second has a pipeline, which readers of the first would not heed.
FORMAT_VERSION, WITHOUT_PIPELINE = 2, 1
VOCAB = "vocab.json"
MERGES = "merges.txt"

# Texts on which tokenizers differ: stored with their ids, encoded again by every reader.
GOLDEN_TEXTS = (
    "",
    "Hello, world!",
    "I'm sure they'll say it's we've DON'T 'tis o'clock'",
    " leading and trailing ",
    "two  spaces   three\t\ttabs \t mixed",
    "one\ntwo\r\nthree\n\n\n  indented\n",
    "3.14159 1234567 0x1F ١٢٣ ²³ Ⅷ",
    "snake_case camelCase SCREAMING kebab-case",
    "if (a[i] != b->c && x >= 10) { return; } // ...",
    "https://example.org/a?b=c&d=%20#e",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "Größe naïve façade Ångström e\u0301 İi ſ",
    "Съешь ещё этих мягких французских булок",
    "我能吞下玻璃而不伤身体。いろはにほへと 안녕하세요",
    "नमस्ते दुनिया سلام دنیا שלום",
    "👩\u200d👩\u200d👧\u200d👦 🇺🇳 👍🏽 \u2764\ufe0f",
    "\u00a0no-break\u3000ideographic\u2028line\u200bzero\ufeffmark",
    "\x00\x01\x1b[0m\x7f\x85",
    "<|endoftext|> <s> </s> [MASK]",
)


def save(
    tokenizer: TokenizerParts,
    path: Path,
    provenance: Mapping[str, Any] | None = None,
    samples: Sequence[str] = (),
) -> None:
    """Write the directory; the manifest comes last and vouches for the other files.

    Args:
        tokenizer: what to keep.
        path: the directory; made if need be.
        provenance: any JSON about where the tokenizer comes from; kept, never interpreted.
        samples: texts whose ids are kept beside those of `GOLDEN_TEXTS`, such as words of the
            corpus; encoded again by every reader, so a few.

    Raises:
        InvalidTokenizer: a special token that reads like an ordinary one.
        DiskFull: no space left.
    """
    over_bytes, pipeline = tokenizer.spec.algorithm == BYTE_BPE, tokenizer.spec.pipeline
    files = {
        VOCAB: vocab_json(tokenizer) if over_bytes else vocab_json_of_text(tokenizer),
        MERGES: merges_txt(tokenizer) if over_bytes else merges_json(tokenizer),
    }
    specials = [f"a{token} b{token}" for token in list(tokenizer.spec.special_tokens)[:4]]
    texts = [*GOLDEN_TEXTS, *specials, *samples]
    manifest = {
        "format": FORMAT,
        "format_version": WITHOUT_PIPELINE if pipeline is None else FORMAT_VERSION,
        "digest": tokenizer.spec.digest,
        "vocab_size": tokenizer.spec.vocab_size,
        "pattern": tokenizer.spec.pattern.as_record(),
        "special_tokens": tokenizer.spec.special_tokens,
        "ignore_merges": tokenizer.spec.ignore_merges,
        "files": {name: digest_of_bytes(content) for name, content in files.items()},
        "golden": [{"text": text, "ids": _ids_of(tokenizer, text)} for text in texts],
        "provenance": dict(provenance or {}),
    }
    if not over_bytes:
        manifest["algorithm"] = tokenizer.spec.algorithm.described()
    if pipeline is not None:
        manifest["pipeline"] = pipeline.described()
    content = json.dumps(sealed(manifest), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    for name, file_content in files.items():
        DURABLE.write(path / name, file_content)
    # Names of files, which provenance has, need not be UTF-8: what is not becomes a JSON escape.
    DURABLE.write(path / MANIFEST, content.encode(errors="backslashreplace"))


def load(path: Path) -> TokenizerSpec:
    """Read a directory that `save` wrote; files and digest are verified, ids by `verify`.

    Raises:
        MissingSource: a file is missing.
        CorruptFile: a file is not what was written.
        InvalidTokenizer: of a newer version, made with other Unicode tables, or malformed.
    """
    manifest = read_manifest(path)
    contents = {}
    for name in (VOCAB, MERGES):
        contents[name] = read_bounded(path / name)
        if digest_of_bytes(contents[name]) != manifest["files"].get(name):
            _corrupt(path, f"{name} does not have the digest that {MANIFEST} gives")
    try:
        pattern = SplitPattern.from_record(manifest["pattern"])
    except InvalidPattern as error:
        raise InvalidTokenizer(
            f"{path}: {error.happened}", error.accepted, error.next_step
        ) from error
    specials = manifest["special_tokens"]
    algorithm = algorithm_of(manifest["algorithm"]) if "algorithm" in manifest else BYTE_BPE
    described = manifest.get("pipeline")
    pipeline = None if described is None else Pipeline.of_description(described)
    # The parsed JSON ends here, and its memory serves what follows.
    named = _named(contents.pop(VOCAB), path / VOCAB, algorithm == BYTE_BPE)
    merges: Sequence[tuple[bytes, bytes]]
    if algorithm == BYTE_BPE:
        found_whole = {*specials, *(() if pipeline is None else _added_in(pipeline, named))}
        vocab = read_vocab(named, found_whole, path / VOCAB)
        ordinary = vocab if pipeline is None else pipeline.without_twins(vocab)
        merges = read_merges_file(contents.pop(MERGES), ordinary, path / MERGES)
    else:
        vocab = read_plain_vocab(named, path / VOCAB)
        merges = read_plain_merges(json_of(contents[MERGES], path / MERGES), path / MERGES)
    del named
    spec = TokenizerSpec.checked(
        vocab,
        merges,
        specials,
        pattern,
        algorithm=algorithm,
        ignore_merges=manifest["ignore_merges"],
        pipeline=pipeline,
    )
    if spec.digest != manifest["digest"]:
        _corrupt(path, f"the tokenizer does not have the digest that {MANIFEST} gives")
    return spec


def _named(content: bytes, path: Path, over_bytes: bool) -> Any:
    """The JSON of a vocab.json; a `SpelledVocab` where it is what `save` writes, and large."""
    cut = cut_out_vocab(content, in_model=False) if over_bytes else None
    if cut is not None and cut[0].strip(b" \t\r\n") == b"{}":
        return cut[1]
    return json_of(content, path)


def _added_in(pipeline: Pipeline, named: Any) -> list[str]:
    """Added tokens that stand in a vocab as they are."""
    listed = named if isinstance(named, Mapping) else {}
    return [one.content for one in pipeline.added_tokens if listed.get(one.content) == one.id]


def verify(tokenizer: TokenizerParts, path: Path) -> None:
    """Encode the golden texts of a directory that was loaded.

    Raises:
        CorruptFile: ids are not what they were.
    """
    for entry in read_manifest(path)["golden"]:
        ids = _ids_of(tokenizer, entry["text"])
        if ids != entry["ids"]:
            _corrupt(path, _changed(entry, ids))


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a directory that `save` wrote, its shape checked.

    Raises:
        MissingSource: there is none.
        CorruptFile: not JSON, or not of the shape that `save` writes.
        InvalidTokenizer: a format version that this program does not know.
    """
    manifest = read_sealed_manifest(path, FORMAT, FORMAT_VERSION, _corrupt)
    for field, kind in _FIELDS.items():
        if not isinstance(manifest.get(field), kind):
            _corrupt(path, f"{MANIFEST} has no sound field {field!r}")
    sound = all(type(id_) is int for id_ in manifest["special_tokens"].values()) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("text"), str)
        and isinstance(entry.get("ids"), list)
        for entry in manifest["golden"]
    )
    if not sound:
        _corrupt(path, f"{MANIFEST} has malformed fields")
    return manifest


_FIELDS: dict[str, type] = {
    "digest": str,
    "vocab_size": int,
    "pattern": dict,
    "special_tokens": dict,
    "ignore_merges": bool,
    "files": dict,
    "golden": list,
    "provenance": dict,
}


def _ids_of(tokenizer: TokenizerParts, text: str) -> list[int]:
    ids: list[int] = tokenizer.encoder.encode_whole(Text.of(utf8_of(text))).tolist()
    return ids


def _changed(golden: dict[str, Any], ids: list[int]) -> str:
    """Where an encoding differs from the one that was saved, whatever the file holds for it."""
    saved = golden["ids"]
    pairs = enumerate(zip_longest(saved, ids))
    at = next((at for at, (then, now) in pairs if then != now), 0)
    return (
        f"{shown(golden['text'])} is no longer encoded as it was when saved: from id {at} on it "
        f"gives {shown(ids[at : at + 4])} and gave {shown(saved[at : at + 4])}"
    )


def _corrupt(path: Path, problem: str) -> NoReturn:
    raise CorruptFile(
        f"{path}: {problem}",
        "the files as they were saved",
        "fetch or export this tokenizer again",
    )
