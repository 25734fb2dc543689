"""HuggingFace's tokenizer.json: byte-level BPE and WordPiece written and read, the rest refused.

Mind the difference in use: ``tokenizers`` recognizes special tokens in every text unless
``tokenizer.encode_special_tokens = True``; here they are ordinary text unless allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bpeline.tokenizer_core.bounded_files import json_of, read_bounded, refuse
from bpeline.tokenizer_core.companions import COMPANIONS, of_huggingface_model
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.formats.plain_tokens import (
    add_names,
    json_text,
    nothing_left_out,
    refuse_normalizer,
    refuse_other_algorithms,
    require_names,
)
from bpeline.tokenizer_core.formats.printable import (
    merges_text,
    named_vocab,
    printable_merges,
    read_merges,
    read_merges_txt,
    read_vocab,
)
from bpeline.tokenizer_core.splitting import NAMED_PATTERNS, SplitPattern
from bpeline.tokenizer_core.vocabulary import ByteBpe, MergeList, TokenizerSpec, shown

left_out = nothing_left_out
_SUPPORTED = "byte-level BPE with a ByteLevel or Split(Regex) pre-tokenizer is supported"
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
# Cut one after the other, as DeepSeek-V3 publishes them: together `deepseek-v3`.
_DEEPSEEK_V3 = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
_MOST_TO_COMPARE = 1 << 30  # characters; 3,000 added tokens of 20 characters are far below
# Digits(individual_digits=false), then gpt2 on what lies between: as `starcoder`, but in runs.
_RUNS_OF_DIGITS = r"\p{N}+|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
_UNICODE_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
# All that `save` writes.
_PARTS = ("version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
          "post_processor", "decoder", "model")  # fmt: skip
# What each added token must say for us to treat it as HuggingFace does.
_PLAIN = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
_ADDED_TOKEN = {**_PLAIN, "special": True}


def save(tokenizer: TokenizerParts, path: Path) -> None:
    """Write tokenizer.json for ``tokenizers.Tokenizer.from_file`` (0.20 or newer).

    Raises:
        InvalidTokenizer: a special token that reads like an ordinary one.
        InvalidPattern: a split pattern that drops text, or that Oniguruma reads differently.
        InvalidOption: an algorithm that the format does not hold.
        DiskFull: no space left.
    """
    specials = sorted(tokenizer.spec.special_tokens.items(), key=lambda item: item[1])
    companion = COMPANIONS.get(tokenizer.spec.algorithm.name)
    if companion is not None and companion.huggingface_model:
        parts = companion.part("huggingface_model").parts_for_huggingface(tokenizer)
    else:
        refuse_other_algorithms(tokenizer, "byte-level BPE and WordPiece", ByteBpe)
        parts = _parts_of_byte_bpe(tokenizer)
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": id_, "content": token, **_ADDED_TOKEN} for token, id_ in specials],
        "normalizer": None,
        "pre_tokenizer": parts["pre_tokenizer"],
        "post_processor": None,
        "decoder": parts["decoder"],
        "model": parts["model"],
    }
    DURABLE.write(path, json_text(document))


def _parts_of_byte_bpe(tokenizer: TokenizerParts) -> dict[str, Any]:
    return {
        "pre_tokenizer": _pre_tokenizer(tokenizer.spec.pattern),
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
            "vocab": named_vocab(tokenizer),
            "merges": printable_merges(tokenizer),
        },
    }


def load(
    path: Path,
    *,
    without_template: bool = False,
    without_normalizer: bool = False,
    added_as_special: bool = False,
) -> TokenizerSpec:
    """Read a tokenizer.json of byte-level BPE (also with ``ignore_merges``) or of WordPiece.

    Everything in the file is either kept to, or known to change no ids (``unk_token``,
    ``byte_fallback`` and ``fuse_unk`` where every byte is a token, merges that can never happen),
    or refused by name. What HuggingFace does around the ids of a text is left out and said in the
    remarks: special tokens that a post-processor puts around texts (the ids are those with
    ``add_special_tokens=False``), truncation, padding.

    Args:
        path: the file.
        without_template: leave out the remark on the post-processor, too.
        without_normalizer: leave out a Unicode normalization (NFC in Qwen's files): the ids are
            then HuggingFace's for texts in this form. Otherwise such a file is refused.
        added_as_special: make special tokens of added tokens that are not (``<think>``), which
            HuggingFace finds in every text: ids agree where all special tokens are allowed.
            Otherwise such a file is refused.

    Raises:
        MissingSource: no such file.
        InvalidTokenizer: malformed, or a part that would change ids and is not supported.
        InvalidPattern: a split regex that ``regex`` does not read as Oniguruma does.
    """
    document = json_of(read_bounded(path), path)
    if not isinstance(document, dict):
        refuse(path, "is not a tokenizer.json", "an object with a model")
    for part in document:
        if part not in _PARTS and document[part] is not None:
            refuse(path, f"has the part {part!r}", _SUPPORTED)
    remarks = [f"{part} left out" for part in ("truncation", "padding") if document.get(part)]
    remarks += _normalizer_left_out(document.get("normalizer"), without_normalizer, path)
    around = list(_around_texts(document.get("post_processor"), path))
    remarks += [f"post_processor {kind} left out" for kind in around if not without_template]
    companion = of_huggingface_model(_model_type(document.get("model")))
    if companion is not None:
        added = _read_added_tokens(document.get("added_tokens") or [], added_as_special, path)
        _refuse_moved(added, document["model"].get("vocab"), path)
        read: TokenizerSpec = companion.part("huggingface_model").from_huggingface(
            document, added, path
        )
        return replace(read, remarks=tuple(remarks))
    decoder = document.get("decoder")
    if decoder is not None:
        if _type_of(decoder) != "ByteLevel":
            refuse(path, f"has the decoder {_type_of(decoder)}", _SUPPORTED)
        _only(decoder, _BYTE_LEVEL.keys() | {"use_regex"}, path)
    pattern = _read_pattern(document.get("pre_tokenizer"), path)
    model = _read_model(document.get("model"), path)
    specials = _read_added_tokens(document.get("added_tokens") or [], added_as_special, path)
    named = model["vocab"]
    _refuse_moved(specials, named, path)
    add_names(named, specials, path)
    if named.pop("", None) is not None:  # which Whisper has
        remarks.append("a token without text left out")
    vocab = read_vocab(named, specials, path)
    _refuse_hidden(vocab, specials, path)
    merges = _that_can_happen(_read_merges(model["merges"], vocab, path))
    try:
        return TokenizerSpec.checked(
            vocab, merges, specials, pattern,
            ignore_merges=bool(model.get("ignore_merges", False)), remarks=remarks,
        )  # fmt: skip
    except InvalidTokenizer as error:
        raise InvalidTokenizer(
            f"{path} cannot be read: {error.happened}", error.accepted, error.next_step
        ) from error


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


def _read_pattern(part: Any, path: Path) -> SplitPattern:
    steps = _in_sequence(part, "pretokenizers", path)
    if not isinstance(steps, list) or not steps or _type_of(steps[-1]) != "ByteLevel":
        refuse(path, f"has the pre_tokenizer {_type_of(part)}", _SUPPORTED)
    level = _only(steps[-1], {"add_prefix_space", "trim_offsets", "use_regex"}, path)
    if level.get("add_prefix_space", True) is not False:
        refuse(path, "has a ByteLevel pre_tokenizer with add_prefix_space", "false is supported")
    by_gpt2 = level.get("use_regex", True) is True
    if by_gpt2 and len(steps) == 1:
        return SplitPattern.named("gpt2")
    if by_gpt2 and [_type_of(step) for step in steps[:-1]] == ["Digits"]:
        individual = _only(steps[0], {"individual_digits"}, path).get("individual_digits", False)
        return SplitPattern.named("starcoder") if individual else SplitPattern(_RUNS_OF_DIGITS)
    regexes = [_read_split(step, path) for step in steps[:-1] if _type_of(step) == "Split"]
    splits_only = len(regexes) == len(steps) - 1 and not by_gpt2
    if splits_only and regexes == [(regex, True) for regex in _DEEPSEEK_V3]:
        return SplitPattern.named("deepseek-v3")
    if not splits_only or len(regexes) != 1:
        types = ", ".join(_type_of(step) for step in steps)
        refuse(path, f"has a pre_tokenizer of the steps {types}", _SUPPORTED)
    return _pattern_of_export(*regexes[0], path)


def _read_split(step: Any, path: Path) -> tuple[str, bool]:
    """The regex of a Split, and whether it keeps what lies between matches."""
    split = _only(step, {"pattern", "behavior", "invert"}, path)
    pattern = split.get("pattern")
    if not isinstance(pattern, dict) or list(pattern) != ["Regex"]:
        refuse(path, "splits at a fixed string", "a Split pre_tokenizer with a Regex")
    regex = pattern["Regex"]
    if not isinstance(regex, str):
        refuse(path, "has a Split without a regex", _SUPPORTED)
    behavior = split.get("behavior"), split.get("invert")
    if behavior not in (("Isolated", False), ("Removed", True)):
        refuse(path, f"has a Split of the behavior {behavior[0]!r}, inverted: {behavior[1]!r}",
               "Isolated and not inverted, or what amounts to the same")  # fmt: skip
    return regex, behavior == ("Isolated", False)


def _pattern_of_export(regex: str, isolated: bool, path: Path) -> SplitPattern:
    for name in NAMED_PATTERNS:
        if SplitPattern.named(name).regex_for_export == regex:
            return SplitPattern.named(name)
    pattern = SplitPattern(regex)
    # As tiktoken spells cl100k, with a plus that Oniguruma takes for a second repetition.
    misread = "}+" in regex if pattern.name else pattern.regex_for_export != regex
    if misread:
        refuse(
            path,
            f"has the Split regex {regex[:200]!r}, which Oniguruma reads differently",
            f"a regex that every engine reads alike, such as {pattern.regex_for_export[:200]!r}",
        )
    if not (isolated or pattern.name):
        refuse(path, "drops the text between the matches of a Split (behavior Removed, inverted)",
               "Isolated; the other where the regex is known to match every character")  # fmt: skip
    return pattern


def _in_sequence(part: Any, key: str, path: Path) -> list[Any]:
    """The steps of a part: those of a Sequence, also of one in another; else the part itself."""
    if _type_of(part) != "Sequence":
        return [] if part is None else [part]
    steps = _only(part, {key}, path).get(key)
    if not isinstance(steps, list):
        refuse(path, f"has a Sequence without {key}", _SUPPORTED)
    return [step for inner in steps for step in _in_sequence(inner, key, path)]


def _normalizer_left_out(part: Any, without_normalizer: bool, path: Path) -> list[str]:
    steps = _in_sequence(part, "normalizers", path)
    kinds = [_type_of(step) for step in steps]
    for step, kind in zip(steps, kinds, strict=True):
        if kind not in _UNICODE_FORMS:
            refuse(path, f"has the normalizer {kind}, which changes texts before they are cut",
                   f"no normalizer; {_SUPPORTED}")  # fmt: skip
        _only(step, set(), path)
    if kinds and not without_normalizer:
        refuse_normalizer(path, kinds[-1])
    return [f"normalizer {kind} left out" for kind in kinds]


def _around_texts(part: Any, path: Path) -> Iterator[str]:
    """The post-processors that put special tokens around texts; others that change ids are refused.

    ByteLevel moves offsets alone.
    """
    for step in _in_sequence(part, "processors", path):
        kind = _type_of(step)
        if kind == "ByteLevel":
            _only(step, _BYTE_LEVEL.keys() | {"use_regex"}, path)
        elif kind in ("TemplateProcessing", "RobertaProcessing", "BertProcessing"):
            yield kind
        else:
            refuse(path, f"has the post_processor {kind}", _SUPPORTED)


def _model_type(part: Any) -> str:
    """The type of a model; older files do not name it, and what is in it tells."""
    if not isinstance(part, dict) or "type" in part or "vocab" not in part:
        return _type_of(part)
    if "merges" in part:
        return "BPE"
    if isinstance(part["vocab"], list):
        return "Unigram"
    return "WordPiece" if "max_input_chars_per_word" in part else "WordLevel"


def _refuse_hidden(vocab: dict[int, bytes], specials: dict[str, int], path: Path) -> None:
    """Refuse an added token that reads as an ordinary one does: two ids of the same text."""
    ordinary = {token: id_ for id_, token in vocab.items() if id_ not in set(specials.values())}
    for token, id_ in specials.items():
        if (other := ordinary.get(token.encode())) is not None:
            refuse(
                path,
                f"has the added token {shown(token)} (id {id_}) with the text of the ordinary "
                f"token of id {other}",
                "every token has a text of its own",
            )


def _that_can_happen(merges: MergeList) -> MergeList:
    """Without merges of a part that is no byte and that no merge makes: they never fire."""
    while True:
        single = [id_ for id_, token in merges.vocab.items() if len(token) == 1]
        made = np.concatenate((np.array(single, np.int64), merges.results))
        kept = np.isin(merges.left, made) & np.isin(merges.right, made)
        if kept.all():
            return merges
        columns = merges.left[kept], merges.right[kept], merges.results[kept]
        merges = MergeList(merges.vocab, *columns)


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


def _read_added_tokens(part: Any, added_as_special: bool, path: Path) -> dict[str, int]:
    specials: dict[str, int] = {}
    normalized: dict[bool, list[str]] = {False: [], True: []}
    for token in part if isinstance(part, list) else [part]:
        if not isinstance(token, dict) or not isinstance(token.get("content"), str):
            refuse(path, "has an added token without content")
        content, id_ = token["content"], token.get("id")
        if type(id_) is not int or content in specials:
            refuse(path, f"has the added token {content!r} twice or without an id")
        _only({**token, "type": "an added token"}, _ADDED_TOKEN.keys() | {"id", "content"}, path)
        for flag, needed in _ADDED_TOKEN.items():
            if flag in ("normalized", "special") or token.get(flag, False) is needed:
                continue
            refuse(
                path,
                f"has the added token {shown(content)} with {flag}={token.get(flag)}, which "
                "decides where in a text it is found",
                "special tokens that are matched as they are",
            )
        if not (added_as_special or token.get("special", False) is True):
            refuse(
                path,
                f"has the added token {shown(content)} with special={token.get('special')}, which "
                "is found in every text",
                "special tokens, which are ordinary text unless they are allowed",
                "make it one: Tokenizer.load(PATH, added_as_special=True), and wherever a command "
                f"takes a tokenizer: {path},added_as_special",
            )
        normalized[token.get("normalized", False) is True].append(content)
        specials[content] = id_
    # Those that are not normalized are found first, wherever they stand; ours all at once.
    if clash := _overlapping(*normalized.values()):
        refuse(
            path,
            f"has the added tokens {shown(clash[0])} and {shown(clash[1])}, which may overlap in a "
            "text, and of which one is normalized and the other is not",
            "all added tokens normalized, or none",
        )
    return specials


def _refuse_moved(specials: dict[str, int], named: Any, path: Path) -> None:
    """Refuse added tokens to which ``tokenizers`` gives another id than the file says.

    A token of the vocab keeps its id; any other one follows the highest id of an added token or,
    if that is higher, the number of tokens in the vocab.
    """
    require_names(named, path)
    highest = -1
    for token, id_ in specials.items():
        given = named.get(token, max(highest + 1, len(named)))
        if given != id_:
            refuse(
                path,
                f"gives {shown(token)} two ids: {shown(id_)} among the added tokens, and "
                f"{shown(given)} as tokenizers reads it",
                "the id in the vocab, or those that follow the tokens of the vocab in order",
            )
        highest = max(highest, id_)


def _overlapping(some: list[str], others: list[str]) -> tuple[str, str] | None:
    """A token of each list that may share characters in a text, or None."""
    if not some or not others:
        return None
    lengths = [len(token) for token in (*some, *others)]
    if sum(length * length for length in lengths) + sum(lengths) * len(lengths) > _MOST_TO_COMPARE:
        return max(some, key=len), max(others, key=len)  # too many or too long to tell
    for ones, twos in ((some, others), (others, some)):
        joined = "\0".join(twos)
        for one in ones:
            if one in joined:
                return one, joined
        ends = {one[at:]: one for one in ones for at in range(1, len(one))}
        for two in twos:
            for length in range(1, len(two)):
                if two[:length] in ends:
                    return ends[two[:length]], two
    return None


def _read_merges(merges: Any, vocab: dict[int, bytes], path: Path) -> MergeList:
    """Merges as pairs, or as ``"a b"`` in older files, where a version may stand first."""
    if isinstance(merges, list) and merges and isinstance(merges[0], str):
        merges = [one for one in merges if not str(one).startswith("#version")]
    kinds = set(map(type, merges)) if isinstance(merges, list) else {None}
    if kinds == {str}:
        content = "\n".join(merges).encode("utf-8", "surrogatepass")
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
