"""bpeline's own format: a directory with manifest.json and tokenizer.bin.

tokenizer.bin holds `TokenizerSpec.columns`: int64 little-endian ids in ascending order, token
lengths, the joined tokens, the ids of the left and the right part of each merge. The manifest holds
their digest. bpeline 0.2 wrote vocab.json and merges.txt instead of tokenizer.bin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise, zip_longest
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import MAX_FILE_BYTES, json_of, read_bounded
from bpeline.tokenizer_core.digests import MANIFEST, digest_of_bytes, read_sealed_manifest, sealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import CorruptFile, InvalidPattern, InvalidTokenizer
from bpeline.tokenizer_core.formats.json_tokens import (
    merges_json,
    merges_text,
    merges_txt,
    nothing_left_out,
    read_merges_txt,
    read_plain_merges,
    read_plain_vocab,
    read_vocab,
    vocab_json,
    vocab_json_of_text,
)
from bpeline.tokenizer_core.formats.known import DECLARED
from bpeline.tokenizer_core.pipeline import Pipeline
from bpeline.tokenizer_core.plugins import algorithm_of
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text, utf8_of
from bpeline.tokenizer_core.tokenizer_spec import BYTE_BPE, DefaultSpecial, TokenizerSpec
from bpeline.tokenizer_core.vocabulary import MergeList, TokenTable, shown

left_out = nothing_left_out
FORMAT = "bpeline"
FORMAT_VERSION = 3
TOKENS = "tokenizer.bin"
VOCAB, MERGES = "vocab.json", "merges.txt"
_AS_JSON = 2  # the last format version with vocab.json and merges.txt
_NUMBER = 8  # bytes

# Texts on which tokenizers often differ. Saved with their ids; `verify` encodes them again.
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
    """Write the directory; the manifest is written last.

    Args:
        provenance: JSON about the origin of the tokenizer, stored as it is.
        samples: a few more texts that `verify` encodes, such as words of the corpus.
    """
    spec = tokenizer.spec
    roles = [f"{role}={token}" for role, token in spec.roles.items() if role in DECLARED]
    specials = [f"a{token} b{token}" for token in list(spec.special_tokens)[:4]]
    texts = [*GOLDEN_TEXTS, *specials, *samples]
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "digest": spec.digest,
        "vocab_size": spec.vocab_size,
        "merges": len(spec.merges),
        "pattern": spec.pattern.as_record(),
        "special_tokens": spec.special_tokens,
        "allowed_special": spec.allowed_special,
        "ignore_merges": spec.ignore_merges,
        "golden": [{"text": text, "ids": _ids_of(tokenizer, text)} for text in texts],
        "provenance": {**({"roles": roles} if roles else {}), **(provenance or {})},
    }
    if spec.algorithm != BYTE_BPE:
        manifest["algorithm"] = spec.algorithm.described()
    if spec.pipeline is not None:
        manifest["pipeline"] = spec.pipeline.described()
    DURABLE.write(path / TOKENS, b"".join(spec.columns))
    _write_manifest(path, manifest)


def _write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    content = json.dumps(sealed(manifest), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    # File names in the provenance may hold lone surrogates: write these as JSON escapes.
    DURABLE.write(path / MANIFEST, content.encode(errors="backslashreplace"))


def save_for_readers(tokenizer: TokenizerParts, path: Path) -> None:
    """Write vocab.json and merges.txt for other programs; `load` does not read them.

    Byte-level tokenizers are written as in GPT-2's format, other algorithms as JSON text.
    """
    over_bytes = tokenizer.spec.algorithm == BYTE_BPE
    vocab = vocab_json(tokenizer) if over_bytes else vocab_json_of_text(tokenizer)
    merges = merges_txt(tokenizer) if over_bytes else merges_json(tokenizer)
    DURABLE.write(path / VOCAB, vocab)
    DURABLE.write(path / MERGES, merges)


def load(path: Path) -> TokenizerSpec:
    """Read a directory written by `save` or by bpeline 0.2; `verify` checks the ids.

    Raises:
        CorruptFile: a file was changed after it was saved.
        InvalidTokenizer: a newer format version, other Unicode tables, or malformed.
    """
    manifest = read_manifest(path)
    try:
        pattern = SplitPattern.from_record(manifest["pattern"])
    except InvalidPattern as error:
        raise InvalidTokenizer(
            f"{path}: {error.happened}", error.accepted, error.next_step
        ) from error
    described = manifest.get("pipeline")
    pipeline = None if described is None else Pipeline.of_description(described)
    algorithm = algorithm_of(manifest["algorithm"]) if "algorithm" in manifest else BYTE_BPE
    over_bytes, flat = algorithm == BYTE_BPE, manifest["format_version"] > _AS_JSON
    if flat:
        vocab, merges = _of_columns(path, manifest, over_bytes, pipeline)
    else:
        vocab, merges = _of_json_files(path, manifest, over_bytes, pipeline)
    try:
        spec = TokenizerSpec.checked(
            vocab,
            merges,
            manifest["special_tokens"],
            pattern,
            algorithm=algorithm,
            ignore_merges=manifest["ignore_merges"],
            pipeline=pipeline,
            allowed_special=_as_default(manifest["allowed_special"]) if flat else None,
            roles=_declared_roles(manifest),
        )
    except InvalidTokenizer as error:  # `save` never writes an invalid tokenizer
        _corrupt(path, error.happened)
    if spec.digest != manifest["digest"]:
        _corrupt(path, f"the digest of the tokenizer differs from the one in {MANIFEST}")
    return spec


_VocabAndMerges = tuple[Mapping[int, bytes], Sequence[tuple[bytes, bytes]]]


def _of_columns(
    path: Path, manifest: Mapping[str, Any], over_bytes: bool, pipeline: Pipeline | None
) -> _VocabAndMerges:
    content = read_bounded(path / TOKENS)
    tokens, merges = manifest["vocab_size"], manifest["merges"]
    joined = len(content) - 2 * _NUMBER * (tokens + merges)
    if min(tokens, merges, joined) < 0:
        _corrupt(path, f"{TOKENS} is too short for the sizes in {MANIFEST}")
    ids, lengths = _numbers(content, 0, tokens)
    left, right = _numbers(content, 2 * _NUMBER * tokens + joined, merges)
    text = content[2 * _NUMBER * tokens :][:joined]
    # Check each length before the sum, which could overflow.
    is_valid = not tokens or (lengths.min() >= 0 and lengths.max() <= joined)
    if not is_valid or lengths.sum() != joined:
        _corrupt(path, f"{TOKENS} holds token lengths that do not fit its tokens")
    if not np.isin(np.concatenate((left, right)), ids).all():
        _corrupt(path, f"{TOKENS} holds a merge of an unknown id")
    table = TokenTable.sound(text, lengths, ids) if over_bytes else None
    if table is not None:
        results = table.joins(left, right, MAX_FILE_BYTES)
        return table, _merges_into(path, table, left, right, results)
    edges = pairwise(accumulate(lengths.tolist(), initial=0))
    vocab = {id_: text[a:b] for id_, (a, b) in zip(ids.tolist(), edges, strict=True)}
    pairs = [*zip(left.tolist(), right.tolist(), strict=True)]
    if sum(len(vocab[first]) + len(vocab[second]) for first, second in pairs) > MAX_FILE_BYTES:
        _corrupt(path, f"{TOKENS} holds merges of more than {MAX_FILE_BYTES:,} bytes")
    if not over_bytes:
        return vocab, [(vocab[first], vocab[second]) for first, second in pairs]
    ordinary = vocab if pipeline is None else pipeline.without_twins(vocab)
    id_of_token = {token: id_ for id_, token in ordinary.items()}
    joined_ids = [id_of_token.get(vocab[first] + vocab[second], -1) for first, second in pairs]
    results = np.array(joined_ids, np.int64)
    return vocab, _merges_into(path, ordinary, left, right, results)


def _numbers(content: bytes, begin: int, count: int) -> NDArray[np.int64]:
    return np.frombuffer(content, "<i8", 2 * count, begin).astype(np.int64).reshape(2, count)


def _merges_into(
    path: Path,
    vocab: Mapping[int, bytes],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    results: NDArray[np.int64],
) -> MergeList:
    """The `MergeList` of merges whose result ids were looked up; -1 means no token."""
    if results.min(initial=0) < 0:
        _corrupt(path, f"{TOKENS} holds a merge without a token: {int(np.argmin(results))}")
    return MergeList(vocab, left, right, results)


def _of_json_files(
    path: Path, manifest: Mapping[str, Any], over_bytes: bool, pipeline: Pipeline | None
) -> _VocabAndMerges:
    contents = {}
    for name in (VOCAB, MERGES):
        contents[name] = read_bounded(path / name)
        if digest_of_bytes(contents[name]) != manifest["files"].get(name):
            _corrupt(path, f"the digest of {name} differs from the one in {MANIFEST}")
    named = json_of(contents[VOCAB], path / VOCAB)
    if not over_bytes:
        merges = read_plain_merges(json_of(contents[MERGES], path / MERGES), path / MERGES)
        return read_plain_vocab(named, path / VOCAB), merges
    added = () if pipeline is None else _added_in(pipeline, named)
    vocab = read_vocab(named, {*manifest["special_tokens"], *added}, path / VOCAB)
    ordinary = vocab if pipeline is None else pipeline.without_twins(vocab)
    text = merges_text(contents[MERGES], path / MERGES)
    return vocab, read_merges_txt(text, ordinary, path / MERGES)


def _added_in(pipeline: Pipeline, named: Any) -> list[str]:
    listed = named if isinstance(named, Mapping) else {}
    return [
        token.content for token in pipeline.added_tokens if listed.get(token.content) == token.id
    ]


def files_of(path: Path) -> tuple[str, ...]:
    """Names of the files in a directory that `load` reads, the manifest last."""
    flat = read_manifest(path)["format_version"] > _AS_JSON
    return (TOKENS, MANIFEST) if flat else (VOCAB, MERGES, MANIFEST)


def allowed_special_of(path: Path) -> DefaultSpecial:
    """Default ``allowed_special`` of a saved tokenizer; errors as for `load`."""
    manifest = read_manifest(path)
    if manifest["format_version"] > _AS_JSON:
        return _as_default(manifest["allowed_special"])
    described = manifest.get("pipeline")
    pipeline = None if described is None else Pipeline.of_description(described)
    return "all" if pipeline and pipeline.added_tokens else "none"


def keep_allowed_special(path: Path, allowed_special: DefaultSpecial) -> None:
    """Change the default ``allowed_special`` in the manifest of a directory."""
    manifest = read_manifest(path)
    if allowed_special_of(path) != allowed_special:
        _write_manifest(path, {**manifest, "allowed_special": allowed_special})


def _declared_roles(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Role → special token, as a training, an import or another file declared them."""
    provenance = manifest["provenance"]
    request = provenance.get("request")
    spelled = provenance.get("roles") or (request.get("roles") if isinstance(request, dict) else ())
    pairs = [str(text).partition("=") for text in spelled or ()]
    return {role: token for role, _, token in pairs if token in manifest["special_tokens"]}


def _as_default(given: str) -> DefaultSpecial:
    return "all" if given == "all" else "none"


def verify(tokenizer: TokenizerParts, path: Path) -> None:
    """Encode the golden texts again; raise `CorruptFile` if their ids changed."""
    for entry in read_manifest(path)["golden"]:
        ids = _ids_of(tokenizer, entry["text"])
        if ids != entry["ids"]:
            _corrupt(path, _changed(entry, ids))


def read_manifest(path: Path) -> dict[str, Any]:
    """Read and validate the manifest of a directory; errors as for `load`."""
    manifest = read_sealed_manifest(path, FORMAT, FORMAT_VERSION, _corrupt)
    newer = manifest["format_version"] > _AS_JSON
    for field, kind in {**_FIELDS, **(_SINCE_0_3 if newer else _UNTIL_0_2)}.items():
        if not isinstance(manifest.get(field), kind):
            _corrupt(path, f"{MANIFEST} has no valid field {field!r}")
    if newer and manifest["allowed_special"] not in ("none", "all"):
        _corrupt(path, f"{MANIFEST} has no valid field 'allowed_special'")
    is_valid = all(type(id_) is int for id_ in manifest["special_tokens"].values()) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("text"), str)
        and isinstance(entry.get("ids"), list)
        for entry in manifest["golden"]
    )
    if not is_valid:
        _corrupt(path, f"{MANIFEST} has malformed fields")
    return manifest


_FIELDS: dict[str, type] = {
    "digest": str,
    "vocab_size": int,
    "pattern": dict,
    "special_tokens": dict,
    "ignore_merges": bool,
    "golden": list,
    "provenance": dict,
}
_SINCE_0_3 = {"merges": int, "allowed_special": str}
_UNTIL_0_2 = {"files": dict}


def _ids_of(tokenizer: TokenizerParts, text: str) -> list[int]:
    ids: list[int] = tokenizer.encoder.encode_whole(Text.of(utf8_of(text))).tolist()
    return ids


def _changed(golden: dict[str, Any], ids: list[int]) -> str:
    """Message about the first id that differs from the saved ones."""
    saved = golden["ids"]
    pairs = enumerate(zip_longest(saved, ids))
    at = next((at for at, (then, now) in pairs if then != now), 0)
    return (
        f"{shown(golden['text'])} is encoded differently from when it was saved: from id {at} on "
        f"it gives {shown(ids[at : at + 4])}, saved were {shown(saved[at : at + 4])}"
    )


def _corrupt(path: Path, problem: str) -> NoReturn:
    raise CorruptFile(
        f"{path}: {problem}",
        "expected the files as they were saved",
        "fetch or export this tokenizer again",
    )
