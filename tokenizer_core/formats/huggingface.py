"""HuggingFace's tokenizer.json, written and read part by part.

Ids and decoded text are those of ``tokenizers`` on every text. A tokenizer that was read from such
a file finds its special tokens in every text, as the library does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bpeline.tokenizer_core.bounded_files import json_of, read_bounded, refuse
from bpeline.tokenizer_core.companions import COMPANIONS, of_huggingface_model
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
    require_names,
    tokens_of_printable,
)
from bpeline.tokenizer_core.normalization import Normalizer, ReplaceRegex
from bpeline.tokenizer_core.splitting import (
    SplitPattern,
    pattern_of_pre_tokenizer,
    steps_of_pre_tokenizer,
)
from bpeline.tokenizer_core.vocabulary import (
    AddedToken,
    ByteBpe,
    DecoderSteps,
    MergeList,
    PiecePrefix,
    Pipeline,
    TextTemplate,
    TokenizerSpec,
    TokenTable,
    shown,
)

_PARTS = ("version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
          "post_processor", "decoder", "model")  # fmt: skip
_SINGLE_BYTES = frozenset(bytes([byte]) for byte in range(256))
_CARRIED = ("pre_tokenizer", "truncation", "padding")
_SUPPORTED = "byte-level BPE, BPE of SentencePiece's kind, Unigram and WordPiece"


def spec_of(document: Any, path: Path) -> TokenizerSpec:
    """The spec of a tokenizer.json.

    Args:
        document: its JSON.
        path: of the file, for messages.

    Raises:
        InvalidTokenizer: malformed, or a part that has no encoder here.
        InvalidPattern: a split regex that ``regex`` does not read as Oniguruma does.
    """
    if not isinstance(document, dict):
        refuse(path, "is not a tokenizer.json", "an object with a model")
    for part in document:
        if part not in _PARTS and document[part] is not None:
            refuse(path, f"has the part {part!r}", _SUPPORTED)
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
    normalizer = _given(document, "normalizer", Normalizer.of_description)
    _refuse_unpredictable(added, normalizer)
    model: Any = document.get("model")
    kind = _model_type(model)
    companion = of_huggingface_model(kind)
    if companion is None:
        refuse(path, f"has the model {kind}", _SUPPORTED)
    if kind == "Unigram":
        _refuse_moved(added, companion.reader.names_of(model.get("vocab"), path), path)
    else:
        require_names(model.get("vocab"), path)
        _refuse_moved(added, model["vocab"], path)
    pre_tokenizer = document.get("pre_tokenizer")
    pattern = pattern_of_pre_tokenizer(pre_tokenizer, marks_words=kind == "Unigram")
    prefix = _prefix(pre_tokenizer, path)
    steps = () if normalizer is None else normalizer.steps
    replaces = any(isinstance(step, ReplaceRegex) for step in steps)
    if prefix is not None and prefix.scheme == "first" and replaces:
        refuse(path, "puts a mark before the first text alone, after it replaces a regex",
               "a mark before each text, or before none")  # fmt: skip
    pipeline = Pipeline(
        added_tokens=added,
        normalizer=normalizer,
        prefix=prefix,
        template=_given(document, "post_processor", TextTemplate.of_description),
        carried={part: document[part] for part in _CARRIED if document.get(part)},
    )
    if _is_byte_level(pre_tokenizer):
        if kind != "BPE" or pattern.drops_gaps:
            other = "a step that drops text" if kind == "BPE" else f"the model {kind}"
            refuse(path, f"has ByteLevel with {other}", "BPE, and steps that keep all text")
        return _byte_bpe(document, pattern, pipeline, path)
    pipeline = replace(pipeline, decoder=DecoderSteps.of_description(document.get("decoder")))
    read: TokenizerSpec = companion.reader.from_huggingface(model, pattern, pipeline, path)
    return read


def _byte_bpe(
    document: dict[str, Any], pattern: SplitPattern, pipeline: Pipeline, path: Path
) -> TokenizerSpec:
    decoder = document.get("decoder")
    if _type_of(decoder) != "ByteLevel":
        pipeline = replace(pipeline, decoder=DecoderSteps.of_description(decoder))
    model = _read_model(document["model"], path)
    named = model["vocab"]
    added = {token.content: token.id for token in pipeline.added_tokens}
    _refuse_printable(added, path)
    remarks = []
    if "" in named and named.pop("") is not None:  # which Whisper has
        remarks.append("a token without text left out")
    in_vocab = {content for content in added if content in named}
    ordinary = pipeline.without_twins(read_vocab(named, in_vocab, path))
    merges = _that_can_happen(_read_merges(model["merges"], ordinary, path))

    def is_met(content: str) -> bool:
        if len(content) == 1:
            return content.isascii()
        whole = bool(model.get("ignore_merges")) and tokens_of_printable([content]) is not None
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
        ignore_merges=bool(model.get("ignore_merges", False)),
        remarks=remarks,
        pipeline=pipeline,
    )


def _with_added(ordinary: Mapping[int, bytes], added: dict[int, bytes]) -> Mapping[int, bytes]:
    table = ordinary.with_tokens(added) if isinstance(ordinary, TokenTable) else None
    return {**ordinary, **added} if table is None else table


def _given(document: Mapping[str, Any], part: str, read: Any) -> Any:
    return None if document.get(part) is None else read(document[part])


def _is_byte_level(pre_tokenizer: Any) -> bool:
    return any(_type_of(step) == "ByteLevel" for step in steps_of_pre_tokenizer(pre_tokenizer))


def _prefix(pre_tokenizer: Any, path: Path) -> PiecePrefix | None:
    """The mark that the first step puts before pieces; no other step may put one."""
    first: Any = next(steps_of_pre_tokenizer(pre_tokenizer), None)
    if _type_of(first) == "Metaspace":
        return _metaspace_prefix(first, path)
    if _type_of(first) == "ByteLevel" and first.get("add_prefix_space", True) is not False:
        return PiecePrefix(" ", "always", replaces_spaces=False)
    return None


def _metaspace_prefix(step: dict[str, Any], path: Path) -> PiecePrefix:
    """Of a Metaspace; older files say whether there is a prefix, and not where."""
    known = {"replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"}
    _only(step, known, path)
    mark = step.get("replacement")
    older = "always" if step.get("add_prefix_space", True) is True else "never"
    scheme = step.get("prepend_scheme", older)
    if not isinstance(mark, str) or len(mark) != 1 or scheme not in ("always", "first", "never"):
        refuse(path, f"has the Metaspace {shown(step)}", "one character, and a known scheme")
    return PiecePrefix(mark, scheme, replaces_spaces=True)


def _added_tokens(part: Any, path: Path) -> tuple[AddedToken, ...]:
    listed = [] if part is None else part
    if not isinstance(listed, list):
        refuse(path, "has added tokens that are no list")
    added = tuple(AddedToken.of_description(token) for token in listed)
    seen = set[str]()
    for token in added:
        if token.content in seen:
            refuse(path, f"has the added token {token.content!r} twice")
        seen.add(token.content)
    return added


def _model_type(part: Any) -> str:
    """The type of a model; older files do not name it, and what is in it tells."""
    if not isinstance(part, dict) or "type" in part or "vocab" not in part:
        return _type_of(part)
    if "merges" in part:
        return "BPE"
    if isinstance(part["vocab"], list):
        return "Unigram"
    return "WordPiece" if "max_input_chars_per_word" in part else "WordLevel"


def _refuse_unpredictable(added: tuple[AddedToken, ...], normalizer: Normalizer | None) -> None:
    """Refuse added tokens that normalization makes the same, or empty."""
    seen: dict[bytes, AddedToken] = {}
    for token in added if normalizer is not None else ():
        content = token.content.encode()
        if token.normalized and normalizer is not None:
            content = normalizer.content(content)
            other = seen.setdefault(content, token)
            if other is not token or not content:
                raise InvalidTokenizer(
                    f"the added tokens {shown(other.content)} and {shown(token.content)} are the "
                    "same once they are normalized, and tokenizers finds one of them, by chance"
                    if content
                    else f"the normalizer leaves nothing of the added token {shown(token.content)}",
                    "added tokens that are different, and there, when they are normalized",
                    "remove one from added_tokens, or set its normalized to false",
                )


def _refuse_printable(added: Mapping[str, int], path: Path) -> None:
    """Refuse added tokens that decode to other bytes than their text's: as printable characters."""
    for content in added:
        if not content.isascii() and tokens_of_printable([content]) is not None:
            refuse(
                path,
                f"has the added token {shown(content)}, which ByteLevel decodes as other bytes",
                "added tokens in ASCII, or with a character that stands for no byte",
            )


def _refuse_unknown(vocab: Mapping[int, bytes], model: dict[str, Any], path: Path) -> None:
    """Refuse flags that make more of a text with unknown bytes than to leave these out."""
    flags = ("unk_token", "byte_fallback", "ignore_merges")
    given = [flag for flag in flags if model.get(flag) not in (None, False)]
    if isinstance(vocab, TokenTable):
        has_all = vocab.byte_ids().min() >= 0
    else:
        has_all = {*vocab.values()} >= _SINGLE_BYTES
    if given and not has_all:
        refuse(path, f"sets {given[0]}, and some bytes are no tokens",
               f"a token for each of the 256 bytes, or none of {', '.join(flags)}")  # fmt: skip


def _refuse_unspelled(pipeline: Pipeline, in_vocab: Collection[str], path: Path) -> None:
    """Refuse added tokens of the vocab that ByteLevel cannot spell, where others count."""
    for content in in_vocab if pipeline.model_tokens is not None else ():
        if tokens_of_printable([content]) is None:
            refuse(
                path,
                f"has the added token {shown(content)} in its vocab, which ByteLevel never makes",
                "added tokens in ASCII without spaces",
            )


def _that_can_happen(merges: MergeList) -> MergeList:
    """Without merges of a part that is no byte and that no merge makes: they never fire."""
    vocab = merges.vocab
    if isinstance(vocab, TokenTable):
        single = vocab.ids[vocab.lengths == 1]
    else:
        ids = np.fromiter(vocab, np.int64, len(vocab))
        single = ids[np.fromiter(map(len, vocab.values()), np.int64, len(vocab)) == 1]
    while True:
        made = np.concatenate((single, merges.results))
        kept = np.isin(merges.left, made) & np.isin(merges.right, made)
        if kept.all():
            return merges
        columns = merges.left[kept], merges.right[kept], merges.results[kept]
        merges = MergeList(vocab, *columns)


def _read_model(part: Any, path: Path) -> dict[str, Any]:
    if _model_type(part) != "BPE":
        refuse(
            path, f"has the model {_model_type(part)}", "the models BPE and WordPiece are supported"
        )
    accepted: dict[str, tuple[Any, ...]] = {
        "dropout": (None, 0.0),
        "continuing_subword_prefix": (None, ""),
        "end_of_word_suffix": (None, ""),
        "ignore_merges": (None, False, True),
    }
    # Without effect: nothing is unknown when every byte is a token, which is required.
    model = _only(
        part, {*accepted, "vocab", "merges", "unk_token", "byte_fallback", "fuse_unk"}, path
    )
    for flag, values in accepted.items():
        if model.get(flag) not in values:
            refuse(path, f"sets {flag} of the model to {model[flag]!r}", f"accepted: {values[0]}")
    if "vocab" not in model or "merges" not in model:
        refuse(path, "has a model without vocab or merges", _SUPPORTED)
    return model


def _refuse_moved(added: tuple[AddedToken, ...], named: Any, path: Path) -> None:
    """Refuse added tokens to which ``tokenizers`` gives another id than the file says.

    A token of the vocab keeps its id; any other one follows the highest id of an added token or,
    if that is higher, the number of tokens in the vocab.
    """
    highest = -1
    for token, id_ in ((one.content, one.id) for one in added):
        given = named.get(token, max(highest + 1, len(named)))
        if given != id_:
            refuse(
                path,
                f"gives {shown(token)} two ids: {shown(id_)} among the added tokens, and "
                f"{shown(given)} as tokenizers reads it",
                "the id in the vocab, or those that follow the tokens of the vocab in order",
            )
        highest = max(highest, id_)


def _read_merges(merges: Any, vocab: Mapping[int, bytes], path: Path) -> MergeList:
    """Merges as pairs, or as ``"a b"`` in older files, where a version may stand first."""
    kinds = set(map(type, merges)) if isinstance(merges, list) else {None}
    if kinds == {str}:
        joined = "\n".join(merges)
        if "#version" in joined:
            joined = "\n".join(one for one in merges if not one.startswith("#version"))
        content = joined.encode("utf-8", "surrogatepass")
        return read_merges_txt(merges_text(content, path), vocab, path)
    if kinds - {list} or set(map(len, merges)) - {2}:
        refuse(path, "has merges that are no pairs")
    return read_merges(list(chain.from_iterable(merges)), vocab, path)


def _type_of(part: Any) -> str:
    return str(part.get("type", "without type"))[:40] if isinstance(part, dict) else "none"


def _only(part: dict[str, Any], known: set[str], path: Path) -> dict[str, Any]:
    """``part`` itself, once every key in it is known."""
    unknown = sorted(part.keys() - known - {"type"})
    if unknown:
        refuse(path, f"sets {unknown[0]!r} of {_type_of(part)}, which is not understood")
    return part


left_out = nothing_left_out
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_PLAIN = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
_ADDED_TOKEN = {**_PLAIN, "special": True}


def save(tokenizer: TokenizerParts, path: Path) -> None:
    """Write tokenizer.json for ``tokenizers.Tokenizer.from_file`` (0.20 or newer).

    What is written was read back, and is the same tokenizer; no library is asked.

    Raises:
        InvalidTokenizer: a special token that reads like an ordinary one, or what is read back is
            another tokenizer.
        InvalidPattern: a split pattern that drops text, or that Oniguruma reads differently.
        InvalidOption: an algorithm that the format does not hold.
        DiskFull: no space left.
    """
    spec = tokenizer.spec
    companion = COMPANIONS.get(spec.algorithm.name)
    if companion is not None and companion.huggingface_model:
        parts = companion.reader.parts_for_huggingface(tokenizer)
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
        "model": parts["model"],
    }
    if spec.pipeline is not None:
        document.update(_parts_of_pipeline(spec.pipeline))
    content = json_text(document)
    if reason := _misread(content, spec, path):
        raise InvalidTokenizer(
            f"tokenizer.json does not hold this tokenizer: {reason}",
            "a file that is read back as the same tokenizer",
            "save it as 'bpeline', which keeps every tokenizer",
        )
    DURABLE.write(path, content)


def _misread(content: bytes, spec: TokenizerSpec, path: Path) -> str:
    """How a file would be read as another tokenizer; empty where it is not."""
    try:
        read = _spec_of_content(content, path)
    except (InvalidTokenizer, InvalidPattern) as refusal:
        return refusal.happened
    if spec.pipeline is None:  # nothing of it is ours
        read = replace(read, pipeline=None, pattern=spec.pattern)
    return "" if read.digest == spec.digest else "read back, it is another one"


def _parts_of_pipeline(pipeline: Pipeline) -> dict[str, Any]:
    """What an imported tokenizer's file says of it, besides its model."""
    described = pipeline.described()
    parts: dict[str, Any] = {"added_tokens": described.get("added_tokens", [])}
    names = {"normalizer": "normalizer", "template": "post_processor"}
    parts |= {name: described[part] for part, name in names.items() if part in described}
    if pipeline.decoder is not None:
        parts["decoder"] = pipeline.decoder.described()
    return {**parts, **described.get("carried", {})}


def _parts_of_byte_bpe(tokenizer: TokenizerParts) -> dict[str, Any]:
    pipeline = tokenizer.spec.pipeline
    found = None if pipeline is None else pipeline.pre_tokenizer
    pre_tokenizer = found or _pre_tokenizer(tokenizer.spec.pattern)
    return {
        "pre_tokenizer": pre_tokenizer,
        "decoder": {**_BYTE_LEVEL, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": tokenizer.spec.ignore_merges,
            "vocab": named_vocab(tokenizer, tokenizer.spec.model_vocab),
            "merges": printable_merges(tokenizer),
        },
    }


def load(path: Path) -> TokenizerSpec:
    """Read a tokenizer.json: ids and decoded text are those of ``tokenizers``, on every text.

    Read are byte-level BPE, BPE of SentencePiece's kind, Unigram and WordPiece, with normalizers,
    added tokens, prefixes and decoders. Special tokens around a text are put there where they are
    asked for; truncation and padding are carried along and never applied.

    Raises:
        MissingSource: no such file.
        InvalidTokenizer: malformed, or a part that has no encoder here: it is named.
        InvalidPattern: a split regex that cannot be used.
    """
    return _spec_of_content(read_bounded(path), path)


def _spec_of_content(content: bytes, path: Path) -> TokenizerSpec:
    document = json_of(content, path)
    if isinstance(document, dict) and _model_type(document.get("model")) == "Unigram":
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
