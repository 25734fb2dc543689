"""tokenizer.json: every trait is read exactly, here or by the library; what neither reads is named.

Ids with special tokens found, ignored and put around texts, and decoded text, are the library's.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from huggingface_peers import (
    NASTY,
    assert_as_library,
    peer_of,
    saved_peer,
    small_peer,
)
from tokenizers import (
    AddedToken,
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.derived import of_size, plan_pruning
from bpeline.tokenizer_core.errors import InvalidOption, InvalidPattern, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer

TEMPLATE = processors.TemplateProcessing(
    single="<|end|> $A", pair="<|end|> $A $B", special_tokens=[("<|end|>", 262)]
)
READ: dict[str, tuple[Callable[[Any], object], tuple[str, ...]]] = {
    "a model without type": (lambda d: d["model"].pop("type"), ()),
    "merges as strings, a version first": (
        lambda d: d["model"].update(
            merges=["#version: 0.2", *(" ".join(pair) for pair in d["model"]["merges"])]
        ),
        (),
    ),
    "empty prefixes": (
        lambda d: d["model"].update(continuing_subword_prefix="", end_of_word_suffix=""), ()
    ),
    "a token without text": (
        lambda d: d["model"]["vocab"].update({"": 400, "<|end|>": 262}),
        ("left out a token without text",),
    ),
    "a token that no merge makes": (
        lambda d: d["model"]["vocab"].update({"zzz": 401, "<|end|>": 262}), ()
    ),
    "ids with gaps": (
        lambda d: d["model"]["vocab"].update({"zzz": 90_000, "<|end|>": 262}), ()
    ),
    "an added token that is ordinary too": (
        lambda d: d["model"]["vocab"].update({"<|end|>": d["added_tokens"][0]["id"]}), ()
    ),
    "empty steps": (
        lambda d: d.update(
            normalizer={"type": "Sequence", "normalizers": []},
            pre_tokenizer={"type": "Sequence", "pretokenizers": [d["pre_tokenizer"]]},
            post_processor={"type": "Sequence", "processors": []},
        ),
        (),
    ),
    "template": (
        lambda d: d.update(post_processor=json.loads(TEMPLATE.__getstate__())),
        (),
    ),
    "Roberta in a Sequence": (
        lambda d: d.update(
            post_processor={
                "type": "Sequence",
                "processors": [
                    {"type": "RobertaProcessing", "sep": ["a", 1], "cls": ["b", 2],
                     "trim_offsets": True, "add_prefix_space": False}
                ],
            }
        ),
        (),
    ),
    "truncation and padding": (
        lambda d: d.update(
            truncation={"direction": "Right", "max_length": 2, "strategy": "LongestFirst",
                        "stride": 0},
            padding={"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None,
                     "pad_id": 0, "pad_type_id": 0, "pad_token": "!"},
        ),
        (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("trait", READ)
def test_traits_are_read_exactly(trait: str, tmp_path: Path) -> None:
    change, remarks = READ[trait]
    ours = assert_as_library(saved_peer(small_peer(), tmp_path / "tokenizer.json", change))
    assert ours.spec.remarks == remarks
    assert ours.algorithm.name == "byte-bpe"
    assert Tokenizer.load(tmp_path).spec.remarks == remarks, "as a folder of transformers"


@pytest.mark.parametrize("individual", [True, False])
def test_digits_before_a_byte_level_are_one_pattern(
    individual: bool, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    peer = small_peer()
    digits = pre_tokenizers.Digits(individual_digits=individual)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    peer.pre_tokenizer = pre_tokenizers.Sequence([digits, level])
    texts = (*NASTY, *fuzz_texts[:3_000])
    ours = assert_as_library(saved_peer(peer, tmp_path / "tokenizer.json"), texts)
    assert ours.pattern.name == ("starcoder" if individual else None)


@pytest.mark.parametrize("number", range(30))
def test_merges_in_any_order_are_those_of_huggingface(number: int, tmp_path: Path) -> None:
    """Parts that later merges make, tokens that several make, and parts that none makes."""
    chance = random.Random(number)
    tokens = ["a", "b", "c"]
    merges: dict[tuple[str, str], None] = {}
    while len(merges) < 25:
        left, right = chance.choices(tokens, k=2)
        merges[left, right] = None
        tokens.append(left + right)
    for token in chance.sample(tokens, 6):
        for cut in range(1, len(token)):
            merges[token[:cut], token[cut:]] = None
    shuffled = chance.sample(list(merges), len(merges))
    parts = tuple(part for pair in shuffled for part in pair)
    whole = chance.random() < 0.5
    peer = peer_of(shuffled, parts, ignore_merges=whole)
    peer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[a-z]+|[^a-z]+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    texts = ["".join(chance.choices("abc", k=chance.randint(1, 14))) for _ in range(400)]
    texts += ["".join(chance.choices("abc", k=chance.randint(65, 400))) for _ in range(30)]
    assert_as_library(saved_peer(peer, tmp_path / "tokenizer.json"), (*texts, *tokens))


def test_the_id_of_an_added_token_is_indeed_not_that_of_the_file(tmp_path: Path) -> None:
    path = saved_peer(
        small_peer(), tmp_path / "x.json", lambda d: d["added_tokens"][0].update(id=700)
    )
    assert tokenizers.Tokenizer.from_file(str(path)).encode("<|end|>").ids == [262]


def added(*tokens: str, **flags: bool) -> Callable[[Any], object]:
    return lambda peer: peer.add_tokens([AddedToken(token, **flags) for token in tokens])


def set_part(name: str, part: Any) -> Callable[[Any], object]:
    return lambda peer: setattr(peer, name, part)


def in_order(*steps: Any) -> Any:
    return pre_tokenizers.Sequence(list(steps))


def level(**flags: bool) -> Any:
    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, "use_regex": False, **flags})


def split(pattern: str, behavior: str = "isolated", invert: bool = False) -> Any:
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


# What is encoded here, with byte-level BPE.
ENCODED_HERE: dict[str, Callable[[Any], object]] = {
    "NFC": set_part("normalizer", normalizers.NFC()),
    "NFKC after lower-casing": set_part(
        "normalizer", normalizers.Sequence([normalizers.Lowercase(), normalizers.NFKC()])
    ),
    "Strip and StripAccents": set_part(
        "normalizer",
        normalizers.Sequence(
            [normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip()]
        ),
    ),
    "Replace": set_part("normalizer", normalizers.Replace("the", "THE ")),
    "Prepend": set_part("normalizer", normalizers.Prepend("the ")),
    "an added token": added("<think>", "x y"),
    "a normalized added token": lambda p: (
        set_part("normalizer", normalizers.Lowercase())(p), added("THE", normalized=True)(p)
    ),
    "lstrip": added("<m>", lstrip=True),
    "rstrip": added("<m>", rstrip=True),
    "both strips": added("<m>", lstrip=True, rstrip=True),
    "single_word": added("the", "12", single_word=True),
    "special with flags": lambda p: p.add_special_tokens(
        [AddedToken("<m>", lstrip=True), AddedToken("<s>", rstrip=True)]
    ),
    "an added token that merges make": added("the"),
    "an added token of the text of an ordinary one": added("  ", " the"),
    "normalized and others that overlap": lambda p: p.add_special_tokens(
        [AddedToken("<s>a", normalized=True), AddedToken("a</s>", normalized=False)]
    ),
    "a space before each piece": set_part("pre_tokenizer", level(add_prefix_space=True)),
    "a space before, and gpt2": set_part(
        "pre_tokenizer", level(add_prefix_space=True, use_regex=True)
    ),
    "no decoder": lambda p: setattr(p, "decoder", None),
    "a decoder in steps": set_part(
        "decoder", decoders.Sequence([decoders.ByteLevel(), decoders.Strip("t", 1, 0)])
    ),
    "Bert's processor": set_part(
        "post_processor", processors.BertProcessing(("<|end|>", 262), ("the", 257))
    ),
}  # fmt: skip


@pytest.mark.parametrize("trait", ENCODED_HERE)
def test_what_stands_around_byte_level_bpe_is_done_here(
    trait: str, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    peer = small_peer()
    ENCODED_HERE[trait](peer)
    path = saved_peer(peer, tmp_path / "tokenizer.json")
    ours = assert_as_library(path, (*NASTY, *fuzz_texts[:300]))
    assert ours.algorithm.name == "byte-bpe"
    assert_kept(ours, tmp_path)


def assert_kept(ours: Tokenizer, tmp_path: Path) -> None:
    """Saved in our own format and as tokenizer.json, it is the same tokenizer."""
    ours.save(tmp_path / "kept")
    kept = Tokenizer.load(tmp_path / "kept")
    assert kept.digest == ours.digest
    assert kept.encode_batch(NASTY) == ours.encode_batch(NASTY)
    ours.save(tmp_path / "again.json", "hf")
    again = assert_as_library(tmp_path / "again.json")
    assert again.digest == ours.digest


def sentencepiece_like() -> Any:
    """BPE over characters as in Llama 2: bytes for unknown ones, ▁ for spaces."""
    peer = tokenizers.Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    peer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<unk>", "<s>", "</s>", *bytes_], show_progress=False
    )
    peer.train_from_iterator(["the cat sat on the mat, naïve 12 the then there"] * 3, trainer)
    peer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return peer


def without_bytes_added(document: Any) -> None:
    kept = [one for one in document["added_tokens"] if not one["content"].startswith("<0x")]
    document["added_tokens"] = kept


SENTENCEPIECE: dict[str, Callable[[Any], object]] = {
    "as Llama 2": lambda _: None,
    "Metaspace": lambda p: (
        setattr(p, "normalizer", normalizers.Sequence([])),
        setattr(p, "pre_tokenizer", pre_tokenizers.Metaspace("▁", "first", split=False)),
    ),
    "Metaspace that cuts": lambda p: (
        setattr(p, "normalizer", normalizers.Sequence([])),
        setattr(p, "pre_tokenizer", pre_tokenizers.Metaspace()),
        setattr(p, "decoder", decoders.Metaspace()),
    ),
}


@pytest.mark.parametrize("trait", SENTENCEPIECE)
def test_bpe_over_characters_is_encoded_here(
    trait: str, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    peer = sentencepiece_like()
    SENTENCEPIECE[trait](peer)
    path = saved_peer(peer, tmp_path / "tokenizer.json", without_bytes_added)
    ours = assert_as_library(path, (*NASTY, *fuzz_texts[:300]))
    assert ours.algorithm.name == "sentencepiece-bpe"
    assert_kept(ours, tmp_path)


# What has no encoder here, by what the refusal says of it.
NOT_HERE: dict[str, Callable[[Any], object]] = {
    "the model WordLevel": lambda p: setattr(p, "model", models.WordLevel({"the": 1, "a": 0}, "a")),
    "dropout": lambda p: setattr(p.model, "dropout", 1.0),
    "end_of_word_suffix": lambda p: setattr(p.model, "end_of_word_suffix", "</w>"),
    "UnicodeScripts": set_part("pre_tokenizer", in_order(pre_tokenizers.UnicodeScripts(), level())),
    "add_prefix_space after another step": set_part(
        "pre_tokenizer", in_order(split(r"\d"), level(add_prefix_space=True))
    ),
}


@pytest.mark.parametrize("trait", NOT_HERE)
def test_what_has_no_encoder_here_is_refused_by_name(trait: str, tmp_path: Path) -> None:
    peer = small_peer()
    NOT_HERE[trait](peer)
    with pytest.raises((InvalidPattern, InvalidTokenizer), match=trait):
        Tokenizer.load(saved_peer(peer, tmp_path / "tokenizer.json"))


DECODERS: dict[str, Any] = {
    "none": None,
    "Metaspace": {
        "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True
    },
    "BPEDecoder": {"type": "BPEDecoder", "suffix": "e"},
    "ByteLevel": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
    "CTC": {"type": "CTC", "pad_token": "a", "word_delimiter_token": "e", "cleanup": True},
}  # fmt: skip


@pytest.mark.parametrize("normalizer", [None, {"type": "Lowercase"}])
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_stream_of_what_the_library_decodes_is_what_it_decodes_at_once(
    decoder: str, normalizer: Any, tmp_path: Path
) -> None:
    peer = tokenizers.Tokenizer(
        models.Unigram([("▁the", -2.0), ("▁", -3.0), ("e", -1.0), ("Ġa", -1.0), ("a", -1.0)], 1)
    )
    peer.add_tokens([AddedToken("BIG", normalized=True)])

    def changed(document: Any) -> None:
        document["decoder"], document["normalizer"] = DECODERS[decoder], normalizer

    ours = Tokenizer.load(saved_peer(peer, tmp_path / "tokenizer.json", changed))
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    some = (itertools.product(range(6), repeat=count) for count in range(4))
    for ids in itertools.chain.from_iterable(some):
        stream = ours.decode_stream()
        text = theirs.decode(ids, skip_special_tokens=False)
        assert "".join(map(stream.feed, ids)) + stream.flush() == text == ours.decode(ids), ids
    if normalizer is None and decoder in ("none", "Metaspace", "ByteLevel"):
        assert ours.decode_stream().feed(0) != ""  # nothing is held back that need not be


MALFORMED: dict[str, tuple[Callable[[Any], object], str]] = {
    "a part of the future": (lambda d: d.update(normalizer={"type": "Future"}), "Future"),
    "a flag of the future": (lambda d: d["pre_tokenizer"].update(type="Future"), "Future"),
    "no merges": (lambda d: d["model"].pop("merges"), "vocab"),
    "merges that are none": (lambda d: d["model"].update(merges={"a": 1}), "merges"),
    "a merge of one": (lambda d: d["model"].update(merges=[["a"]]), "merges"),
    "a merge of a number": (lambda d: d["model"].update(merges=[["a", 5]]), r"\b5\b"),
    "a merge of the unknown": (lambda d: d["model"].update(merges=[["a", "no"]]), "'no'"),
    "a vocab that is a list": (lambda d: d["model"].update(vocab=[1]), "vocab"),
    "an id that is none": (lambda d: d["model"]["vocab"].update(a=1.5), "1.5"),
    "an added token without text": (lambda d: d["added_tokens"].append(5), "added token"),
    "an added token without id": (lambda d: d["added_tokens"][0].update(id="1"), "id"),
    "dropout that is true": (lambda d: d["model"].update(dropout=True), "dropout"),
    "a template of nothing": (lambda d: d.update(post_processor={"type": "Other"}), "Other"),
    "a regex that is none": (
        lambda d: d.update(
            pre_tokenizer={
                "type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False
            }
        ),
        r"\(|regex",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_nobody_reads_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    change, message = MALFORMED[kind]
    path = saved_peer(small_peer(), tmp_path / "tokenizer.json", change)
    with pytest.raises((InvalidTokenizer, InvalidPattern), match=message) as refused:
        Tokenizer.load(path)
    assert str(path) in str(refused.value)
    assert refused.value.accepted


def test_what_the_library_itself_reads_by_chance_is_refused(tmp_path: Path) -> None:
    peer = small_peer()
    peer.normalizer = normalizers.Lowercase()
    peer.add_tokens([AddedToken("THE", normalized=True), AddedToken("The", normalized=True)])
    path = saved_peer(peer, tmp_path / "tokenizer.json")
    with pytest.raises(InvalidTokenizer, match=r"'THE'.*'The'"):
        Tokenizer.load(path)
    found = {tuple(tokenizers.Tokenizer.from_file(str(path)).encode("the").ids) for _ in range(40)}
    assert len(found) == 2, "another release may have mended this"


def test_ids_of_imported_tokenizers_stand_in_the_text_or_nowhere(tmp_path: Path) -> None:
    peer = small_peer()
    peer.add_tokens([AddedToken("<m>", lstrip=True, rstrip=True)])
    ours = Tokenizer.load(saved_peer(peer, tmp_path / "tokenizer.json"))
    text = "the é <m> the<|end|> 12"
    found = ours.encode_with_offsets(text)
    assert found.ids == ours.encode(text)
    content = text.encode()
    pieces = [content[begin:end] for begin, end in found.byte_offsets.tolist()]
    assert b"".join(pieces) == content
    assert pieces[ours.encode(text).index(ours.token_to_id("<m>"))] == b" <m> "
    # " é" takes three tokens, of which the third ends the character.
    assert [ours.truncate(text, most) for most in (1, 2, 3, 4)] == ["the", "the ", "the ", "the é"]
    peer.normalizer = normalizers.Lowercase()
    ours = Tokenizer.load(saved_peer(peer, tmp_path / "lower.json"))
    assert ours.encode_with_offsets("the").ids == ours.encode("the")
    for silent in (ours, Tokenizer.load(saved_peer(sentencepiece_like(), tmp_path / "sp.json"))):
        with pytest.raises(InvalidOption, match="--offsets"):
            silent.encode_with_offsets("The")
        with pytest.raises(InvalidOption, match="--offsets"):
            silent.truncate("The cat", 1)


def test_bytes_that_are_no_tokens_leave_no_wrong_places(tmp_path: Path) -> None:
    def without_two(document: Any) -> None:
        for name in ("q", "Ā"):
            document["model"]["vocab"].pop(name)
        document["added_tokens"] = []

    path = saved_peer(small_peer(), tmp_path / "tokenizer.json", without_two)
    ours = assert_as_library(path, ("tqhqe", "qq", "q the", "\x00t\x00he q", " q q", "theqthe"))
    assert ours.algorithm.name == "byte-bpe"
    with pytest.raises(InvalidOption, match="--offsets"):
        ours.encode_with_offsets("tqhe")


def test_nothing_is_derived_that_would_forget_the_normalizer(tmp_path: Path) -> None:
    peer = small_peer()
    peer.normalizer = normalizers.NFC()
    ours = Tokenizer.load(saved_peer(peer, tmp_path / "tokenizer.json"))
    with pytest.raises(InvalidOption, match="imported"):
        of_size(ours, ours.vocab_size - 1)
    counts = WordCounts.from_mapping({b"the": 3, b" cat": 1})
    with pytest.raises(InvalidOption, match="normalizer"):
        plan_pruning(ours, counts, min_count=2)


def test_added_tokens_are_explained_and_counted_as_they_are_encoded(tmp_path: Path) -> None:
    peer = peer_of([("Ġ", "<"), ("t", "h")])
    peer.add_tokens([AddedToken("    "), AddedToken("<m>", lstrip=True), AddedToken("fx")])
    ours = Tokenizer.load(saved_peer(peer, tmp_path / "x.json"))
    spaces, mask = ours.encode("    ")[0], ours.encode("<m>")[0]
    explained = ours.explain("f    the  <m> x<|end|>")
    assert [id_ for word in explained for id_ in word.ids] == ours.encode("f    the  <m> x<|end|>")
    assert [(word.word, word.begin) for word in explained if word.whole] == [
        (b"    ", 1), (b"  <m>", 8), (b"<|end|>", 15),
    ]  # fmt: skip
    assert {(spaces,), (mask,)} < {word.ids for word in explained}
    assert ours.truncate("Hi <|end|> there", 3) == "Hi <"
    assert ours.truncate("a" + "\t" * 99 + "<m>bc", 3) == "a" + "\t" * 99 + "<m>b"


PREPARED: dict[str, Callable[[Any], object]] = {
    "added tokens that the pattern cuts": lambda _: None,
    "a token with spaces": lambda peer: peer.add_tokens(["the th", " 1 ", "e "]),
    "white space of tokens": lambda peer: peer.add_tokens([AddedToken("a", rstrip=True)]),
    "a prefix": lambda peer: setattr(peer, "pre_tokenizer", pre_tokenizers.ByteLevel()),
    "a local normalizer": lambda peer: setattr(peer, "normalizer", normalizers.NFKC()),
    "a normalizer of whole texts": lambda peer: setattr(peer, "normalizer", normalizers.Strip()),
}


@pytest.mark.parametrize("name", PREPARED)
@pytest.mark.parametrize("compressed", [False, True])
def test_files_have_the_ids_of_their_text(name: str, compressed: bool, tmp_path: Path) -> None:
    peer = small_peer()
    PREPARED[name](peer)
    ours = Tokenizer.load(saved_peer(peer, tmp_path / "x.json"))
    chance = random.Random(name)
    parts = ["the ", " the", "\n", "<|end|>", "a ", "a  1 2", "ｦﾞ", "é", " th", "a\u0301 "]
    text = "".join(chance.choices(parts, k=60_000))
    path = tmp_path / ("x.txt.gz" if compressed else "x.txt")
    path.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    (ids,) = ours.encode_files_to_numpy(path, threads=2)
    assert ids.tolist() == ours.encode(text)
    (tmp_path / "x.jsonl").write_text(json.dumps({"text": text}))
    shards = ours.encode_files(tmp_path / "x.jsonl", tmp_path / "shards")
    assert shards[0].tolist() == ids.tolist()


def test_what_is_saved_keeps_ids_and_flags_of_added_tokens(tmp_path: Path) -> None:
    model = models.BPE({"a": 0, "▁": 1, "▁a": 2}, [("▁", "a")])
    peer = tokenizers.Tokenizer(model)
    peer.normalizer = normalizers.Prepend("▁")
    peer.add_tokens([AddedToken("<s>"), AddedToken("<m>", lstrip=True, normalized=False)])
    ours = Tokenizer.load(saved_peer(peer, tmp_path / "x.json"))
    assert ours.encode("<s>a") == peer.encode("<s>a").ids == [3, 0]
    ours.save(tmp_path / "saved", "transformers")
    again = assert_as_library(tmp_path / "saved" / "tokenizer.json", ["<s>a", "a  <m> b"])
    assert again.digest == ours.digest
    config = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())
    added = peer.get_added_tokens_decoder()
    assert config["added_tokens_decoder"] == {
        str(id_): {
            "content": token.content, "special": token.special, "normalized": token.normalized,
            "single_word": token.single_word, "lstrip": token.lstrip, "rstrip": token.rstrip,
        }
        for id_, token in added.items()
    }  # fmt: skip


def test_added_tokens_that_the_model_must_not_make_are_saved_apart(tmp_path: Path) -> None:
    model = models.BPE({"▁": 0, "a": 1, "u": 2}, [], unk_token="u", ignore_merges=True)
    peer = tokenizers.Tokenizer(model)
    peer.add_special_tokens(["▁a"])
    ours = Tokenizer.load(saved_peer(peer, tmp_path / "x.json"))
    ours.save(tmp_path / "saved.json", "hf")
    assert assert_as_library(tmp_path / "saved.json", ["▁a", "a▁a"]).encode("▁a", "none") == [0, 1]
