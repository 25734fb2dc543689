"""Unigram: the ids of ``tokenizers`` for its files, those of ``sentencepiece`` for models."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sentencepiece_peers import MODELS, SENTENCES, STRANGE, random_texts, trained_model

from bpeline.tokenizer_core.algorithms.unigram import Unigram
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer, UnknownToken
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec
from bpeline.tokenizer_core.word_encoding import explain_words

sentencepiece = pytest.importorskip("sentencepiece")
tokenizers = pytest.importorskip("tokenizers")
converters = pytest.importorskip("transformers.convert_slow_tokenizer")
protobuf = pytest.importorskip("sentencepiece.sentencepiece_model_pb2")

# Scores as they were learned, or rounded, so that many paths have the same score.
GRAINS = [0.0, 0.1, 2.0]


@cache
def model_of(name: str, grain: float = 0.0, kind: str = "") -> bytes:
    """A model that sentencepiece trains; of coarse scores also with unused pieces."""
    numbered = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1} if kind == "Pegasus" else {}
    content = trained_model(name, model_type="unigram", hard_vocab_limit=False, **numbered)
    if not grain:
        return content
    model = protobuf.ModelProto.FromString(content)
    chance = random.Random(name)
    for piece in model.pieces:
        if piece.type == piece.NORMAL:
            piece.score = -round(-piece.score / grain) * grain
            piece.type = piece.UNUSED if chance.random() < 0.05 else piece.NORMAL
    return bytes(model.SerializeToString())


def many(request: pytest.FixtureRequest) -> int:
    return 4_000 if request.config.getoption("--night") else 150


@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize("name", MODELS)
def test_ids_and_text_of_a_model_are_those_of_sentencepiece(
    name: str, grain: float, tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> None:
    content = model_of(name, grain)
    (tmp_path / "x.model").write_bytes(content)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=content)
    ours = Tokenizer.load(tmp_path / "x.model", "sentencepiece")
    assert ours.algorithm.name == "unigram"
    symbols = MODELS[name].get("user_defined_symbols", ["ab"])
    texts = [*STRANGE, *SENTENCES, *random_texts(many(request), seed, *symbols)]
    expected = theirs.encode(texts)
    assert ours.encode_batch(texts) == expected
    for text, ids in zip(texts, expected, strict=True):
        assert ours.encode(text) == ids, text
        stream = ours.decode_stream()
        for shown in (ours.decode(ids), "".join(map(stream.feed, ids)) + stream.flush()):
            assert shown == theirs.decode(ids), text
    ours.save(tmp_path / "ours")
    again = Tokenizer.load(tmp_path / "ours")
    assert again.digest == ours.digest
    assert again.encode_batch(texts) == expected


# As `transformers` writes them; what its converters ask the tokenizer that they convert.
KINDS = {
    "T5": "T5Converter", "XLNet": "XLNetConverter", "ALBERT": "AlbertConverter",
    "mBART": "MBartConverter", "XLM-R": "XLMRobertaConverter", "CamemBERT": "CamembertConverter",
    "Pegasus": "PegasusConverter", "DeBERTa-v3": "DebertaV2Converter",
}  # fmt: skip
ASKED = SimpleNamespace(
    _extra_ids=3, keep_accents=False, do_lower_case=True, split_by_punct=False, offset=5,
    pad_token="<pad>", eos_token="</s>", eos_token_id=1, mask_token="<mask_2>", mask_token_id=3,
    mask_token_sent="<mask_1>", convert_tokens_to_ids=lambda _: 1,
)  # fmt: skip


def converted(kind: str, content: bytes, byte_fallback: bool, folder: Path) -> Path:
    """The tokenizer.json that a converter of transformers makes of a model."""
    (folder / "x.model").write_bytes(content)
    parent = getattr(converters, KINDS[kind])
    converter = type("Converter", (parent,), {"handle_byte_fallback": byte_fallback})
    asked = SimpleNamespace(**vars(ASKED), vocab_file=str(folder / "x.model"))
    made = converter(asked).converted()
    made.add_special_tokens(["<mask>"])
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


@pytest.mark.filterwarnings("ignore:The sentencepiece tokenizer that you are converting")
@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize("name", ["as trained by default", "user-defined"])
@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_text_of_converted_models_are_those_of_tokenizers(
    kind: str, name: str, grain: float, tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> None:
    path = converted(kind, model_of(name, grain, kind), name == "user-defined", tmp_path)
    theirs = tokenizers.Tokenizer.from_file(str(path))
    ours = Tokenizer.load(path)
    assert ours.algorithm.name == "unigram"
    symbols = MODELS[name].get("user_defined_symbols", ["ab"])
    texts = [*STRANGE, *SENTENCES, *random_texts(many(request), seed, *symbols, "<mask>", "<s>")]
    for around in (False, True):
        expected = [found.ids for found in theirs.encode_batch(texts, add_special_tokens=around)]
        assert ours.encode_batch(texts, add_special_tokens=around) == expected
    for text in texts[:250]:
        ids = ours.encode(text)
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False), text
        stream = ours.decode_stream()
        assert "".join(map(stream.feed, ids)) + stream.flush() == ours.decode(ids), text
        assert list(ours.encode_iterable(iter(text))) == ids, text
        assert [id_ for word in explain_words(ours, text) for id_ in word.ids] == ids, text
    ours.save(tmp_path / "ours")
    assert Tokenizer.load(tmp_path / "ours").encode_batch(texts) == ours.encode_batch(texts)
    ours.save(tmp_path / "again.json", "hf")
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "again.json"))
    assert [found.ids for found in again.encode_batch(texts, add_special_tokens=True)] == expected


def document(**changed: Any) -> dict[str, Any]:
    vocab = [["<unk>", -9.0], ["a", -1.0], ["b", -2.0], ["ab", -4.0], ["▁", -3.0], ["▁a", -5.0]]
    model = {"type": "Unigram", "vocab": vocab, "unk_id": 0, "byte_fallback": False, **changed}
    return {"version": "1.0", "added_tokens": [], "model": model}


def loaded(content: dict[str, Any], folder: Path) -> Tokenizer:
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return Tokenizer.load(folder / "tokenizer.json")


def test_neighbours_that_are_unknown_become_bytes_only_where_all_of_these_are_there(
    tmp_path: Path,
) -> None:
    vocab = document()["model"]["vocab"]
    some = [[f"<0x{byte:02X}>", -8.0] for byte in "é".encode()]
    for content in (
        document(),
        document(vocab=vocab + some, byte_fallback=True),
        document(vocab=vocab + some),
        document(vocab=[*vocab, ["éü", 40.0]]),  # unknown characters that are a piece together
        document(vocab=[[token, score + 50] for token, score in [*vocab, ["éü", -5.0]]]),
    ):
        ours = loaded(content, tmp_path)
        theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        for text in ("é", "éa", "aüé", "éé b", "éü", "xéü", "<unk>", "<unk>é", "é<unk>", "ab▁é"):
            assert ours.encode(text) == theirs.encode(text).ids, (text, content)


@pytest.mark.parametrize("shortest", [True, False])
def test_scores_are_the_floats_that_tokenizers_reads(shortest: bool, tmp_path: Path) -> None:
    chance = random.Random(5)
    literals = ["-12.130167007446289", "0", "-0.0", "5e-324", "1e-400", "-1.5E+3", "7", "1e22"]
    literals += [repr(-chance.expovariate(0.1)) for _ in range(2_000)]
    if not shortest:  # which no program writes
        literals += [f"-{chance.random():.{chance.randrange(1, 40)}f}" for _ in range(500)]
        more = [f"{chance.randrange(10**18)}.{chance.randrange(10**9)}e-{n}" for n in range(300)]
        literals += more
    vocab = ",".join(f'["{number}", {literal}]' for number, literal in enumerate(literals))
    path = tmp_path / "tokenizer.json"
    path.write_text(f'{{"model": {{"type": "Unigram", "unk_id": 0, "vocab": [{vocab}]}}}}')
    theirs = json.loads(tokenizers.Tokenizer.from_file(str(path)).to_str())["model"]["vocab"]
    ours = Tokenizer.load(path)
    algorithm = ours.algorithm
    assert isinstance(algorithm, Unigram)
    assert [*algorithm.scores_of(ours.vocab).values()] == [score for _, score in theirs]
    if not shortest:
        return
    ours.save(tmp_path / "again.json", "hf")
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "again.json")).to_str()
    assert json.loads(again)["model"]["vocab"] == theirs


def test_pieces_that_are_added_tokens_are_found_by_both(tmp_path: Path) -> None:
    flags = {"special": False, "normalized": True, "single_word": True, "lstrip": False}
    added = [
        {"id": 5, "content": "▁a", "rstrip": False, **flags},
        {"id": 6, "content": "ba", "rstrip": True, **flags},
    ]
    given = {**document(), "added_tokens": added, "normalizer": {"type": "Nmt"}}
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
    ours = loaded({**given, "pre_tokenizer": metaspace}, tmp_path)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("a", " a", "▁a", "ab a", "ba", "xba", "ba  a", "a ba"):
        assert ours.encode(text) == theirs.encode(text).ids, text


def test_without_an_unknown_token_unknown_characters_are_refused(tmp_path: Path) -> None:
    ours = loaded(document(unk_id=None), tmp_path)
    assert ours.encode("abab") == [1, 2, 1, 2]
    with pytest.raises(UnknownToken):
        ours.encode("abc")


def test_steps_say_the_scores_of_the_path(tmp_path: Path) -> None:
    (word,) = explain_words(loaded(document(), tmp_path), "abx")
    assert [step.takes for step in word.steps] == [("a",), ("b",), ("x",)]
    assert [step.why for step in word.steps] == ["score -1.0000", "score -2.0000", "unknown"]


def test_a_model_is_not_written_as_what_encodes_otherwise(tmp_path: Path) -> None:
    (tmp_path / "x.model").write_bytes(model_of("bytes"))
    ours = Tokenizer.load(tmp_path / "x.model", "sentencepiece")
    for format_ in ("hf", "sentencepiece", "tiktoken"):
        with pytest.raises((InvalidTokenizer, InvalidOption)):
            ours.save(tmp_path / "out", format_)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["as trained by default", "user-defined"])
def test_what_a_changed_manifest_says_is_refused_or_done(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.model").write_bytes(model_of(name))
    spec = Tokenizer.load(tmp_path / "x.model", "sentencepiece").spec
    assert isinstance(spec.algorithm, Unigram)
    without = replace(spec, pipeline=None)
    Tokenizer.of_spec(without).decode(Tokenizer.of_spec(without).encode("a b"))
    for algorithm in (replace(spec.algorithm, unknown="a"), replace(spec.algorithm, scores="")):
        with pytest.raises(InvalidTokenizer):
            Tokenizer.of_spec(replace(spec, algorithm=algorithm)).encode("a b")
    changed = {**spec.vocab, max(spec.vocab): b"\xff"}
    made = TokenizerSpec.checked(changed, [], spec.special_tokens, algorithm=spec.algorithm)
    with pytest.raises(InvalidTokenizer, match="UTF-8"):
        Tokenizer.of_spec(made).encode("a b")


def set_model(**changed: Any) -> Callable[[dict[str, Any]], None]:
    return lambda given: given["model"].update(changed)


def set_metaspace(scheme: str) -> Callable[[dict[str, Any]], None]:
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}
    steps = [{"type": "WhitespaceSplit"}, metaspace]
    return lambda given: given.update(pre_tokenizer={"type": "Sequence", "pretokenizers": steps})


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "no list": (set_model(vocab={"a": 1}), "score"),
    "a token alone": (set_model(vocab=[["a"]]), "number 0"),
    "a score that is none": (set_model(vocab=[["a", "1"]]), "'a'"),
    "an endless score": (set_model(vocab=[["a", 10**400]]), "'a'"),
    "no tokens": (set_model(vocab=[], unk_id=None), "empty"),
    "no text": (set_model(vocab=[["", 1.0]]), "without text"),
    "twice": (set_model(vocab=[["a", -1.0], ["a", -2.0]]), "twice"),
    "an unknown id beyond": (set_model(unk_id=6), "6"),
    "an unknown id that is none": (set_model(unk_id=True), "True"),
    "a flag that is none": (set_model(byte_fallback=1), "byte_fallback"),
    "a part of the future": (set_model(alpha=0.1), "alpha"),
    "a mark before the first word": (set_metaspace("first"), "first word"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_such_model_is_refused(name: str, tmp_path: Path) -> None:
    change, said = REFUSED[name]
    given = document()
    change(given)
    with pytest.raises(ValueError, match=said):
        loaded(given, tmp_path)
