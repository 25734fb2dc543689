"""The runner over folders of tokenizer files: what is equal, refused and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from benchmarks import zoo


def byte_level() -> tokenizers.Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {character: id_ for id_, character in enumerate([*alphabet, "th", "the"])}
    made = tokenizers.Tokenizer(models.BPE(vocab, [("t", "h"), ("th", "e")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|end|>"])
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sound, lowered = byte_level(), byte_level()
    lowered.normalizer = normalizers.Lowercase()
    (tmp_path / "deep").mkdir()
    sound.save(str(tmp_path / "deep" / "sound.json"))
    lowered.save(str(tmp_path / "lowered.json"))
    (tmp_path / "no-tokenizer.json").write_text('{"model": {"type": "Ngram"}}')
    (tmp_path / "notes.md").write_text("no tokenizer")
    return tmp_path


@pytest.mark.night
def test_every_tokenizer_below_a_folder_is_compared_or_its_refusal_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = folder / "own.txt"
    text.write_text("one document<|endoftext|>another, the last", encoding="utf-8")
    assert zoo.measure(folder, [text]) == 0
    table = capsys.readouterr().out
    assert "deep/sound.json" in table
    assert "lowered.json" in table
    assert "no-tokenizer.json" in table
    assert table.rstrip().endswith("equal: 2; refused: 1")


def test_other_ids_and_other_text_are_wrong(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "deep" / "sound.json"
    original = zoo.original_of(path)
    assert original is not None
    for doctored, why in (
        (zoo.Original(lambda text: [*original.encode(text), 0], original.decode, ()), "ids of"),
        (zoo.Original(original.encode, lambda ids: original.decode(ids) + "!", ()), "decodes"),
    ):
        monkeypatch.setattr(zoo, "original_of", lambda _, doctored=doctored: doctored)
        outcome = zoo.outcome_of(path, folder)
        assert outcome.outcome == "WRONG"
        assert outcome.why.startswith(why)


def test_rank_files_are_known_by_their_makers_definitions() -> None:
    names = {one["name"] for one in zoo._published().values()}
    assert names == {"r50k_base", "p50k_base", "cl100k_base", "o200k_base", "llama3"}
