"""A tokenizer.json as a `TokenizerSpec`, part by part; what has no encoder here is refused by name.

Ids and decoded text are those of ``tokenizers`` on every text. Nothing is put around a text unless
that is asked for; truncation and padding are carried along.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bpeline.tokenizer_core.bounded_files import refuse
from bpeline.tokenizer_core.companions import of_huggingface_model
from bpeline.tokenizer_core.errors import InvalidPattern, InvalidTokenizer
from bpeline.tokenizer_core.formats.plain_tokens import require_names
from bpeline.tokenizer_core.formats.printable import (
    merges_text,
    read_merges,
    read_merges_txt,
    read_vocab,
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
_SUPPORTED = "byte-level BPE, BPE of SentencePiece's kind and WordPiece have encoders here"


class Unpredictable(InvalidTokenizer):
    """A file of which ``tokenizers`` itself makes one thing or another, by chance."""


def spec_of(document: Any, path: Path) -> TokenizerSpec:
    """The spec of a tokenizer.json.

    Args:
        document: its JSON.
        path: of the file, for messages.

    Raises:
        InvalidTokenizer: malformed, or a part that has no encoder here.
        InvalidPattern: a split regex that ``regex`` does not read as Oniguruma does.
        Unpredictable: see there.
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
    if kind not in ("BPE", "WordPiece"):
        refuse(path, f"has the model {kind}", _SUPPORTED)
    require_names(model.get("vocab"), path)
    _refuse_moved(added, model["vocab"], path)
    pre_tokenizer = document.get("pre_tokenizer")
    pattern = pattern_of_pre_tokenizer(pre_tokenizer)
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
    companion = of_huggingface_model(kind)
    assert companion is not None
    read: TokenizerSpec = companion.part("huggingface_model").from_huggingface(
        model, pattern, pipeline, path
    )
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
                raise Unpredictable(
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
