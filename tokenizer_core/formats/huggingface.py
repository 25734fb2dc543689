"""HuggingFace's tokenizer.json.

Ids and decoded text equal those of ``tokenizers`` on every text. As in the library, a loaded
tokenizer finds its special tokens in every text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bpeline.tokenizer_core.bounded_files import json_of, read_bounded, refuse
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import (
    InvalidPattern,
    InvalidTokenizer,
)
from bpeline.tokenizer_core.formats.json_tokens import (
    json_text,
    merges_text,
    named_vocab,
    nothing_left_out,
    number_as_serde,
    printable_merges,
    read_merges,
    read_merges_txt,
    read_vocab,
    refuse_other_algorithms,
    tokens_of_printable,
)
from bpeline.tokenizer_core.pipeline import (
    PRE_TOKENIZERS,
    AddedToken,
    DecoderSteps,
    Normalizer,
    Pipeline,
    PostProcessor,
    models,
    pattern_of_steps,
)
from bpeline.tokenizer_core.plugins import PLUGINS, of_huggingface_model
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.tokenizer_spec import ByteBpe, TokenizerSpec
from bpeline.tokenizer_core.vocabulary import MergeList, TokenTable, shown

_PARTS = ("version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
          "post_processor", "decoder", "model")  # fmt: skip
_SINGLE_BYTES = frozenset(bytes([byte]) for byte in range(256))
_CARRIED = ("pre_tokenizer", "truncation", "padding")
_SUPPORTED = "expected byte-level BPE, BPE of SentencePiece's kind, Unigram or WordPiece"


def spec_of(document: Any, path: Path) -> TokenizerSpec:
    """Convert the JSON of a tokenizer.json; errors name ``path``, see `load`."""
    if not isinstance(document, dict):
        refuse(path, "is not a tokenizer.json", "expected an object with a model")
    for part in document:
        if part not in _PARTS and document[part] is not None:
            refuse(path, f"has the unknown part {part!r}", _SUPPORTED)
    try:
        return _spec_of(document, path)
    except (InvalidTokenizer, InvalidPattern) as error:
        if str(path) in error.happened:
            raise
        raise type(error)(
            f"{path} cannot be read: {error.happened}", error.accepted, error.next_step
        ) from error


def _spec_of(document: dict[str, Any], path: Path) -> TokenizerSpec:
    added = _added_tokens(document.get("added_tokens"), path)
    normalizer = Normalizer.of_description(document.get("normalizer"))
    kind = models.kind_of_model(document.get("model"))
    plugin = of_huggingface_model(kind)
    if plugin is None:
        refuse(path, f"has the model {kind}", _SUPPORTED)
    model = models.read_model(document["model"])
    is_unigram = isinstance(model, models.Unigram)
    named = plugin.reader.names_of(model.vocab, path) if is_unigram else model.vocab
    _refuse_moved(added, named, path)
    steps = PRE_TOKENIZERS.steps(document.get("pre_tokenizer"))
    pattern = pattern_of_steps(steps, marks_words=is_unigram)
    prefix = steps[0].prefix if steps else None
    replaces = normalizer is not None and normalizer.replaces_regex
    if prefix is not None and prefix.scheme == "first" and replaces:
        refuse(path, "adds a prefix to the first piece only, after it replaces a regex",
               "expected a prefix before every piece, or none")  # fmt: skip
    post_processor = document.get("post_processor")
    pipeline = Pipeline(
        added_tokens=added,
        normalizer=normalizer,
        prefix=prefix,
        template=None if post_processor is None else PostProcessor.of_description(post_processor),
        carried={part: document[part] for part in _CARRIED if document.get(part)},
    )
    _ = pipeline.preparation  # refuses added tokens that normalize to the same text
    if any(step.kind == "ByteLevel" for step in steps):
        if not isinstance(model, models.BPE) or pattern.drops_gaps:
            other = "a step that drops text" if kind == "BPE" else f"the model {kind}"
            refuse(
                path, f"has ByteLevel with {other}", "expected BPE, and steps that keep all text"
            )
        return _byte_bpe(model, document.get("decoder"), pattern, pipeline, path)
    pipeline = replace(pipeline, decoder=DecoderSteps.of_description(document.get("decoder")))
    spec: TokenizerSpec = plugin.reader.from_huggingface(model, pattern, pipeline, path)
    return spec


def _byte_bpe(
    model: models.BPE, decoder: Any, pattern: SplitPattern, pipeline: Pipeline, path: Path
) -> TokenizerSpec:
    if not isinstance(decoder, dict) or decoder.get("type") != "ByteLevel":
        pipeline = replace(pipeline, decoder=DecoderSteps.of_description(decoder))
    named = model.vocab
    added = {token.content: token.id for token in pipeline.added_tokens}
    _refuse_printable(added, path)
    remarks = []
    if "" in named and named.pop("") is not None:  # as in Whisper
        remarks.append("left out a token without text")
    in_vocab = {content for content in added if content in named}
    ordinary = pipeline.without_twins(read_vocab(named, in_vocab, path))
    merges = _that_can_happen(_read_merges(model.merges, ordinary, path))

    def is_met(content: str) -> bool:
        if len(content) == 1:
            return content.isascii()
        whole = bool(model.ignore_merges) and tokens_of_printable([content]) is not None
        return whole and not pattern.parts(content)

    _refuse_unknown(ordinary, model, path)
    numbers = np.array([*added.values()], np.int64)
    merged = numbers[np.isin(numbers, merges.results)].tolist()
    pipeline = pipeline.with_model_tokens(in_vocab, merged, is_met)
    _refuse_unspelled(pipeline, in_vocab, path)
    vocab = _with_added(ordinary, {id_: content.encode() for content, id_ in added.items()})
    return TokenizerSpec.checked(
        vocab,
        merges,
        pipeline.special_tokens,
        pattern,
        ignore_merges=bool(model.ignore_merges),
        remarks=remarks,
        pipeline=pipeline,
    )


def _with_added(ordinary: Mapping[int, bytes], added: dict[int, bytes]) -> Mapping[int, bytes]:
    table = ordinary.with_tokens(added) if isinstance(ordinary, TokenTable) else None
    return {**ordinary, **added} if table is None else table


def _added_tokens(part: Any, path: Path) -> tuple[AddedToken, ...]:
    listed = [] if part is None else part
    if not isinstance(listed, list):
        refuse(path, "has added tokens that are not a list")
    added = tuple(AddedToken.of_description(token) for token in listed)
    seen = set[str]()
    for token in added:
        if token.content in seen:
            refuse(path, f"has the added token {token.content!r} twice")
        seen.add(token.content)
    return added


def _refuse_printable(added: Mapping[str, int], path: Path) -> None:
    """Refuse added tokens that ByteLevel would decode to other bytes than their UTF-8."""
    for content in added:
        if not content.isascii() and tokens_of_printable([content]) is not None:
            refuse(
                path,
                f"has the added token {shown(content)}, which ByteLevel decodes to other bytes",
                "expected ASCII, or a character that stands for no byte",
            )


def _refuse_unknown(vocab: Mapping[int, bytes], model: models.BPE, path: Path) -> None:
    """Refuse flags that handle unknown bytes in other ways than dropping them."""
    flags = ("unk_token", "byte_fallback", "ignore_merges")
    set_flags = [flag for flag in flags if getattr(model, flag) not in (None, False)]
    if isinstance(vocab, TokenTable):
        has_all = vocab.byte_ids().min() >= 0
    else:
        has_all = {*vocab.values()} >= _SINGLE_BYTES
    if set_flags and not has_all:
        refuse(path, f"sets {set_flags[0]}, and some bytes are not tokens",
               f"expected all 256 bytes as tokens, or none of {', '.join(flags)}")  # fmt: skip


def _refuse_unspelled(pipeline: Pipeline, in_vocab: Collection[str], path: Path) -> None:
    """Refuse added tokens in the vocab that ByteLevel cannot write."""
    for content in in_vocab if pipeline.model_tokens is not None else ():
        if tokens_of_printable([content]) is None:
            refuse(
                path,
                f"has the added token {shown(content)} in its vocab, which ByteLevel never writes",
                "expected ASCII without spaces",
            )


def _that_can_happen(merges: MergeList) -> MergeList:
    """Drop merges of tokens that are neither a byte nor the result of a merge."""
    vocab = merges.vocab
    if isinstance(vocab, TokenTable):
        single = vocab.ids[vocab.lengths == 1]
    else:
        ids = np.fromiter(vocab, np.int64, len(vocab))
        single = ids[np.fromiter(map(len, vocab.values()), np.int64, len(vocab)) == 1]
    while True:
        reachable = np.concatenate((single, merges.results))
        keep = np.isin(merges.left, reachable) & np.isin(merges.right, reachable)
        if keep.all():
            return merges
        columns = merges.left[keep], merges.right[keep], merges.results[keep]
        merges = MergeList(vocab, *columns)


def _refuse_moved(added: tuple[AddedToken, ...], named: Any, path: Path) -> None:
    """Refuse added tokens whose id in ``tokenizers`` differs from the file.

    A token in the vocab keeps its id. Any other gets the highest id of the added tokens so far plus
    one, or the size of the vocab if that is higher.
    """
    highest = -1
    for token, id_ in ((added_token.content, added_token.id) for added_token in added):
        expected = named.get(token, max(highest + 1, len(named)))
        if expected != id_:
            refuse(
                path,
                f"gives {shown(token)} two ids: {shown(id_)} among the added tokens, and "
                f"{shown(expected)} as tokenizers reads it",
                "expected the id in the vocab, or consecutive ids after the vocab",
            )
        highest = max(highest, id_)


def _read_merges(merges: Any, vocab: Mapping[int, bytes], path: Path) -> MergeList:
    """Merges as pairs, or as ``"a b"`` in older files, which may hold a version."""
    kinds = set(map(type, merges)) if isinstance(merges, list) else {None}
    if kinds == {str}:
        joined = "\n".join(merges)
        if "#version" in joined:
            joined = "\n".join(line for line in merges if not line.startswith("#version"))
        content = joined.encode("utf-8", "surrogatepass")
        return read_merges_txt(merges_text(content, path), vocab, path)
    if kinds - {list} or set(map(len, merges)) - {2}:
        refuse(path, "has merges that are not pairs")
    return read_merges(list(chain.from_iterable(merges)), vocab, path)


left_out = nothing_left_out
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_PLAIN = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
_ADDED_TOKEN = {**_PLAIN, "special": True}


def save(tokenizer: TokenizerParts, path: Path) -> None:
    """Write a tokenizer.json for ``tokenizers`` 0.20 or newer.

    The content is read back and compared with the tokenizer before it is written.
    """
    spec = tokenizer.spec
    plugin = PLUGINS.get(spec.algorithm.name)
    if plugin is not None and plugin.huggingface_model:
        parts = plugin.reader.parts_for_huggingface(tokenizer)
    else:
        if not isinstance(spec.algorithm, ByteBpe):
            refuse_other_algorithms(tokenizer, "byte-level BPE, Unigram and WordPiece", ByteBpe)
        parts = _parts_of_byte_bpe(tokenizer)
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": id_, "content": token, **_ADDED_TOKEN}
            for token, id_ in sorted(spec.special_tokens.items(), key=lambda item: item[1])
        ],
        "normalizer": None,
        "pre_tokenizer": parts["pre_tokenizer"],
        "post_processor": None,
        "decoder": parts["decoder"],
        "model": parts["model"].described(),
    }
    if spec.pipeline is not None:
        document.update(_parts_of_pipeline(spec.pipeline))
    content = json_text(document)
    if reason := _misread(content, spec, path):
        raise InvalidTokenizer(
            f"tokenizer.json cannot hold this tokenizer: {reason}",
            "expected the same tokenizer when it is read back",
            "save it as 'bpeline', which keeps every tokenizer",
        )
    DURABLE.write(path, content)


def _misread(content: bytes, spec: TokenizerSpec, path: Path) -> str:
    """Why reading back the content gives another tokenizer; "" if it is the same."""
    try:
        spec_read = _spec_of_content(content, path)
    except (InvalidTokenizer, InvalidPattern) as refusal:
        return refusal.happened
    if spec.pipeline is None:  # a pipeline that only matches special tokens counts as none
        spec_read = replace(spec_read, pipeline=None, pattern=spec.pattern)
    return "" if spec_read.digest == spec.digest else "reading it back gives another one"


def _parts_of_pipeline(pipeline: Pipeline) -> dict[str, Any]:
    described = pipeline.described()
    parts: dict[str, Any] = {"added_tokens": described.get("added_tokens", [])}
    names = {"normalizer": "normalizer", "template": "post_processor"}
    parts |= {name: described[part] for part, name in names.items() if part in described}
    if pipeline.decoder is not None:
        parts["decoder"] = pipeline.decoder.described()
    return {**parts, **described.get("carried", {})}


def _parts_of_byte_bpe(tokenizer: TokenizerParts) -> dict[str, Any]:
    pipeline = tokenizer.spec.pipeline
    imported = None if pipeline is None else pipeline.pre_tokenizer
    pre_tokenizer = imported or _pre_tokenizer(tokenizer.spec.pattern)
    return {
        "pre_tokenizer": pre_tokenizer,
        "decoder": {**_BYTE_LEVEL, "use_regex": True},
        "model": models.BPE(
            vocab=named_vocab(tokenizer, tokenizer.spec.model_vocab),
            merges=printable_merges(tokenizer),
            ignore_merges=tokenizer.spec.ignore_merges,
        ),
    }


def load(path: Path) -> TokenizerSpec:
    """Read a tokenizer.json; ids and decoded text equal those of ``tokenizers``.

    Supported are byte-level BPE, BPE of SentencePiece's kind, Unigram and WordPiece, with
    normalizers, added tokens, prefixes and decoders. The post-processor is used with
    ``add_special_tokens``. Truncation and padding are kept for exports, never applied.

    Raises:
        InvalidTokenizer: malformed, or an unsupported part, which is named.
        InvalidPattern: a split regex that ``regex`` reads differently from Oniguruma.
    """
    return _spec_of_content(read_bounded(path), path)


def _spec_of_content(content: bytes, path: Path) -> TokenizerSpec:
    document = json_of(content, path)
    if isinstance(document, dict) and models.kind_of_model(document.get("model")) == "Unigram":
        document = json_of(content, path, parse_float=number_as_serde)
    return spec_of(document, path)


def _pre_tokenizer(pattern: SplitPattern) -> dict[str, Any]:
    if pattern.name == "gpt2":
        return {**_BYTE_LEVEL, "use_regex": True}
    return {
        "type": "Sequence",
        "pretokenizers": [
            {
                "type": "Split",
                "pattern": {"Regex": pattern.regex_for_export},
                "behavior": "Isolated",
                "invert": False,
            },
            {**_BYTE_LEVEL, "use_regex": False},
        ],
    }
