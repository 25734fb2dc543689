"""Foreign files of WordPiece and frequency BPE: equal to other programs' encoding."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from huggingface_peers import assert_as_library
from tokenizers.implementations import BertWordPieceTokenizer

from bpeline.tokenizer_core.algorithms.character_bpe import CharacterBpe
from bpeline.tokenizer_core.algorithms.frequency_bpe import FrequencyBpe, explained
from bpeline.tokenizer_core.algorithms.wordpiece import WordPiece
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer

PIECES = (
    *"abcdeABC019éßπщ中語🀄 .,'-_!?\n\t",
    "  ",
    "\u00a0",
    "low",
    "est",
    "##",
    "##est",
    "naïve",
)
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def random_text(random_: random.Random, pieces: int) -> str:
    return "".join(random_.choices(PIECES, k=pieces))


@pytest.fixture(scope="module", params=["whitespace", "wordpunct"])
def wordpiece(request: pytest.FixtureRequest) -> Tokenizer:
    random_ = random.Random(8)
    words = "".join(random_text(random_, 6_000).split())
    parts = [words[at : at + random_.randint(1, 5)] for at in range(0, len(words), 7)]
    characters = [c for c in sorted({*words}) if c not in "🀄?"]
    tokens = dict.fromkeys(
        [*SPECIALS, *characters, *(f"##{c}" for c in characters)]
        + [random_.choice(["", "##"]) + part for part in parts]
    )
    vocab = {id_: token.encode() for id_, token in enumerate(tokens)}
    return Tokenizer(vocab, [], SPECIALS, request.param, algorithm=WordPiece())


@pytest.mark.night
def test_huggingface_encodes_the_exported_wordpiece_alike(
    wordpiece: Tokenizer, tmp_path: Path
) -> None:
    wordpiece.save(tmp_path / "tokenizer.json", "hf")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    random_ = random.Random(9)
    texts = [random_text(random_, random_.randint(0, 40)) for _ in range(4_000)]
    texts += [random_.choice(["[SEP]", "", "a" * 120]).join(texts[i : i + 3]) for i in range(500)]
    expected = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
    assert wordpiece.encode_batch(texts, allowed_special="all") == expected
    unknown = wordpiece.token_to_id("[UNK]")
    assert 0 < sum(ids.count(unknown) for ids in expected) < sum(map(len, expected)) / 2
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.spec.pipeline is not None  # and with it the library's decoder
    assert replace(loaded.spec, pipeline=None).digest == wordpiece.digest
    # The library's model knows special tokens, too, where no cut parts their text.
    theirs.encode_special_tokens = True
    expected = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
    assert loaded.encode_batch(texts, allowed_special="none") == expected


def test_a_wordpiece_that_huggingface_trained_is_read(tmp_path: Path) -> None:
    theirs = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=SPECIALS, show_progress=False
    )
    random_ = random.Random(10)
    texts = [random_text(random_, 30) for _ in range(2_000)]
    theirs.train_from_iterator(texts[:1_000], trainer)
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.load(tmp_path / "tokenizer.json")
    expected = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
    assert ours.encode_batch(texts, allowed_special="all") == expected


@pytest.mark.parametrize("pre_tokenizer", ["Whitespace", "BertPreTokenizer", "Punctuation"])
@pytest.mark.parametrize("cleanup", [False, True])
def test_text_of_a_wordpiece_is_that_of_its_decoder(
    pre_tokenizer: str, cleanup: bool, tmp_path: Path
) -> None:
    tokens = ["[UNK]", "a", ".", "##b", "\n", " c "]
    model = tokenizers.models.WordPiece({token: n for n, token in enumerate(tokens)})
    theirs = tokenizers.Tokenizer(model)
    theirs.pre_tokenizer = getattr(tokenizers.pre_tokenizers, pre_tokenizer)()
    theirs.decoder = tokenizers.decoders.WordPiece(cleanup=cleanup)
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.load(tmp_path / "tokenizer.json")
    assert ours.decode([1, 2]) == ("a." if cleanup else "a .")
    for ids in product(range(len(tokens)), repeat=3):
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False)


def test_vocab_txt_keeps_a_wordpiece(wordpiece: Tokenizer, tmp_path: Path) -> None:
    wordpiece.save(tmp_path / "vocab.txt", "wordpiece")
    told = {"pattern": wordpiece.pattern, "without_normalizer": True}
    loaded = Tokenizer.load(tmp_path / "vocab.txt", **told)
    assert loaded.digest == wordpiece.digest
    theirs = tokenizers.models.WordPiece.from_file(str(tmp_path / "vocab.txt"), unk_token="[UNK]")
    assert theirs.token_to_id("##a") == loaded.token_to_id("##a")
    (tmp_path / "vocab.txt").write_text("[UNK]\na\na\n")
    with pytest.raises(InvalidTokenizer, match=r"/vocab\.txt"):
        Tokenizer.load(tmp_path / "vocab.txt", **told)


def test_what_vocab_txt_does_not_say_is_asked_for(wordpiece: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    wordpiece.save(path, "wordpiece")
    for told in ({}, {"pattern": "wordpunct"}, {"without_normalizer": True}):
        with pytest.raises(InvalidTokenizer, match=r"vocab\.txt") as refused:
            Tokenizer.load(path, **told)
        assert f"{path},without_normalizer,pattern=whitespace" in refused.value.next_step
        assert f"{path},uncased" in refused.value.next_step


@pytest.mark.parametrize("lowercase", [True, False])
def test_vocab_txt_is_read_as_bert_reads_it(lowercase: bool, tmp_path: Path) -> None:
    words = ["the", "##re", "The", "na", "##ive", "naïve", "漢", "!", "a", "##b", "-", "cafe"]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    peer = BertWordPieceTokenizer(str(path), lowercase=lowercase)
    ours = Tokenizer.load(path, **{"uncased" if lowercase else "cased": True})
    for text in ("There THE the!", "naïve café-ab", "a漢b [MASK] x", "[CLS]the", "", "\x00a\tb"):
        theirs = peer.encode(text)
        assert ours.encode(text, add_special_tokens=True) == theirs.ids, text
        assert ours.decode(theirs.ids) == peer.decode(theirs.ids, skip_special_tokens=False)
    beside = {"do_lower_case": lowercase, "tokenizer_class": "BertTokenizer"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(beside | {"cls_token": "[CLS]"}))
    assert Tokenizer.load(path).digest == ours.digest
    (tmp_path / "added_tokens.json").write_text('{"[NEW]": 17}')
    with pytest.raises(InvalidTokenizer, match=r"'\[NEW\]'"):
        Tokenizer.load(path)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("pre_tokenizer", {"type": "BertPreTokenizer"}),
        (
            "normalizer",
            {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
             "strip_accents": None, "lowercase": True},
        ),
        ("pre_tokenizer", None),
    ],
)  # fmt: skip
def test_other_parts_of_a_tokenizer_json_are_read_exactly(
    wordpiece: Tokenizer, tmp_path: Path, part: str, value: Any
) -> None:
    path = tmp_path / "tokenizer.json"
    wordpiece.save(path, "hf")
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, part: value}), encoding="utf-8")
    assert_as_library(path)


# Frequency BPE. The first is what a program wrote that gave ids to its last segmentation alone.

FREQUENCIES = {"Wo": 5, "l": 9, "lo</w>": 4, "He": 6, "Hel": 2, "</w>": 12, ",": 1, "<line/>": 1}
IDS = ["</w>", "l", "lo</w>", "Hel", ",", "r", "d", "<line/>", "</line>", "<pad>", "<unk>"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    ids = {token: id_ for id_, token in enumerate(IDS)}
    for name, content in (
        ("freqs.json", FREQUENCIES),
        ("vocab_to_idx.json", ids),
        ("idx_to_vocab.json", {id_: token for token, id_ in ids.items()}),
    ):
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    return tmp_path


def test_what_the_files_have_no_id_for_is_unknown(files: Path) -> None:
    tokenizer = Tokenizer.load(files, pattern="wordpunct", sentences="lines")
    assert [tokenizer.vocab[id_].decode() for id_ in sorted(tokenizer.vocab)] == IDS
    tokens = [tokenizer.vocab[id_].decode() for id_ in tokenizer.encode("Hello World , Hey Wow")]
    decide = explained(tokenizer.spec)
    expected = [
        piece if piece in IDS else "<unk>"
        for word in ("Hello", "World", ",", "Hey", "Wow")
        for piece in [(*word, "</w>"), *(step.symbols for step in decide(word))][-1]
    ]
    assert tokens == ["<line/>", *expected, "</line>"]
    assert "Hel" in tokens  # of He, which has no id
    assert tokens.count("<unk>") > 2


def test_the_files_come_back_with_pattern_and_marks(files: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(files, "frequency-bpe", pattern="whitespace", sentences="lines")
    tokenizer.save(tmp_path / "again", "frequency-bpe")
    again = Tokenizer.load(tmp_path / "again")
    assert again.digest == tokenizer.digest
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == [
        "bpeline.json", "freqs.json", "idx_to_vocab.json", "vocab_to_idx.json"
    ]  # fmt: skip
    with pytest.raises(InvalidOption, match="frequency"):
        tokenizer.save(tmp_path / "x", "subword-nmt")


def test_files_that_contradict_each_other_are_refused(files: Path) -> None:
    (files / "idx_to_vocab.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InvalidTokenizer, match=r"idx_to_vocab\.json .*vocab_to_idx\.json"):
        Tokenizer.load(files, pattern="wordpunct", sentences="lines")
    (files / "freqs.json").write_text('{"ab": -1}', encoding="utf-8")
    with pytest.raises(InvalidTokenizer):
        Tokenizer.load(files, pattern="wordpunct", sentences="lines")


def test_marks_of_another_name_are_given(files: Path) -> None:
    marks = FrequencyBpe(unknown="<pad>", sentences="none")
    assert Tokenizer.load(files, algorithm=marks, pattern="wordpunct").encode("?") == [9, 0]


@pytest.mark.parametrize("details", [{}, {"pattern": "wordpunct"}, {"sentences": "lines"}])
def test_how_text_is_cut_is_never_assumed(files: Path, details: dict[str, str]) -> None:
    with pytest.raises(InvalidTokenizer, match=r"bpeline\.json") as refused:
        Tokenizer.load(files, **details)
    assert f"{files},sentences=punkt,pattern=wordpunct" in refused.value.next_step
    assert refused.value.exit_code == 2
    (files / "bpeline.json").write_text('{"algorithm": {"name": "frequency-bpe"}}')
    with pytest.raises(InvalidTokenizer, match=r"/bpeline\.json"):
        Tokenizer.load(files)


@pytest.fixture
def unmerged() -> Tokenizer:
    """Character BPE whose characters ``,`` and ``z`` stand in no merge."""
    tokens = ["<unk>", ",", "a", "b", "z", "</w>", "ab"]
    vocab = {id_: token.encode() for id_, token in enumerate(tokens)}
    return Tokenizer(vocab, [(b"a", b"b")], pattern="whitespace", algorithm=CharacterBpe())


def test_characters_in_no_merge_of_a_codes_file_are_asked_for(
    unmerged: Tokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "x.codes"
    with pytest.warns(UserWarning, match=r"\b2\b.*<unk>.*',z'") as told:
        unmerged.save(path, "subword-nmt")
    assert told[0].filename == __file__
    with pytest.raises(InvalidOption, match="<unk>") as refused:
        Tokenizer.load(path)
    assert "characters='qxz'" in refused.value.next_step
    assert f"{path},characters=qxz" in refused.value.next_step
    again = Tokenizer.load(path, characters=",z")
    assert again.decode(again.encode("abz, ba")) == "abz, ba"
    assert again.digest == unmerged.digest
    known = Tokenizer.load(path, characters="")
    assert known.vocab[known.encode("z")[0]] == b"<unk>"


@pytest.mark.filterwarnings("error")
def test_a_codes_file_that_holds_every_character_is_written_without_a_warning(
    unmerged: Tokenizer, tmp_path: Path
) -> None:
    vocab = {id_: token for id_, token in unmerged.vocab.items() if token not in (b",", b"z")}
    whole = Tokenizer(vocab, [(b"a", b"b")], pattern="whitespace", algorithm=CharacterBpe())
    whole.save(tmp_path / "x.codes", "subword-nmt")
    unmerged.save(tmp_path / "kept")


def test_formats_that_are_read_only_are_not_listed_for_saving(
    unmerged: Tokenizer, tmp_path: Path
) -> None:
    for named in ("nope", "tekken"):
        with pytest.raises(InvalidOption) as refused:
            unmerged.save(tmp_path / "x", named)  # type: ignore[arg-type]
        assert "'sentencepiece'" in refused.value.accepted
        assert "tekken" not in refused.value.accepted
