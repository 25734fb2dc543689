"""Ids around texts: those of `tokenizers` with add_special_tokens=True."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from amounts import Amounts, numbers
from tokenizers import Tokenizer, models, pre_tokenizers

from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.pipeline import PostProcessor

BERT = {"type": "BertProcessing", "sep": ["[SEP]", 12], "cls": ["[CLS]", 11]}
ROBERTA = {
    "type": "RobertaProcessing", "sep": ["</s>", 14], "cls": ["<s>", 13], "trim_offsets": True,
    "add_prefix_space": False,
}  # fmt: skip
BYTE_LEVEL = {
    "type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True,
}  # fmt: skip


def template(single: str, pair: str = "S $A E $B E") -> dict[str, Any]:
    def pieces(line: str) -> list[dict[str, Any]]:
        return [
            {"Sequence": {"id": name[1:], "type_id": k % 2}}
            if name.startswith("$")
            else {"SpecialToken": {"id": name, "type_id": 0}}
            for k, name in enumerate(line.split())
        ]

    specials = {"S": [21], "E": [22, 23], "empty": []}
    return {
        "type": "TemplateProcessing",
        "single": pieces(single),
        "pair": pieces(pair),
        "special_tokens": {
            name: {"id": f"the {name}", "ids": ids, "tokens": [name] * len(ids)}
            for name, ids in specials.items()
        },
    }


def sequence(*processors: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "processors": list(processors)}


def their_ids(description: dict[str, Any], *texts: str) -> list[int] | None:
    """None where `tokenizers` panics."""
    tokenizer = Tokenizer(models.WordLevel({"[U]": 0, "a": 1, "b": 2}, unk_token="[U]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    whole = {**json.loads(tokenizer.to_str()), "post_processor": description}
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    try:
        ids: list[int] = tokenizer.encode(*texts).ids
    except BaseException as failed:  # a panic is no Exception
        if type(failed).__name__ != "PanicException":
            raise
        return None
    return ids


@pytest.mark.parametrize(
    "description",
    [
        BERT, ROBERTA, BYTE_LEVEL, template("S $A E"), template("$A"),
        template("E empty $A", "$B $A"),
        sequence(), sequence(BYTE_LEVEL, template("S $A")), sequence(BERT, ROBERTA),
        sequence(ROBERTA, BERT), sequence(BERT, template("S $A E")),
        sequence(template("S $A E"), ROBERTA), sequence(sequence(BYTE_LEVEL), sequence(BERT)),
        # What the first one puts around a text makes it a pair for the second.
        sequence(template("S $A"), template("$A", "E $B E $A S")),
    ],
)  # fmt: skip
def test_ids_are_those_of_tokenizers(description: dict[str, Any]) -> None:
    ours = PostProcessor.of_description(description)
    assert ours.described() == description
    assert PostProcessor.of_description(json.loads(json.dumps(description))) == ours
    assert ours.around([1, 2]) == their_ids(description, "a b")
    assert ours.around([]) == their_ids(description, "")
    assert [*ours.before, 2, *ours.behind] == ours.around([2])
    theirs = their_ids(description, "a b", "b")
    if theirs is None:
        with pytest.raises(InvalidOption, match="pairs"):
            ours.around([1, 2], [2])
    else:
        assert ours.around([1, 2], [2]) == theirs


@pytest.mark.night
def test_sequences_of_any_processors(amounts: Amounts, seed: int, point: int) -> None:
    for number in numbers(seed, 2 * amounts.laws, point):
        draw = random.Random(number)

        def line(of: str, draw: random.Random = draw) -> str:
            return " ".join(draw.choices(of.split(), k=draw.randint(1, 4)))

        steps = [
            draw.choice([BERT, ROBERTA, BYTE_LEVEL, template(line("S E $A"), line("S E $A $B"))])
            for _ in range(draw.randint(1, 3))
        ]
        description = sequence(*steps)
        theirs = their_ids(description, "a b")
        try:
            ours = PostProcessor.of_description(description)
        except InvalidTokenizer:
            assert theirs is None or theirs.count(1) != 1, number
            continue
        assert ours.around([1, 2]) == theirs, number
        pair = their_ids(description, "a b", "b")
        if pair is not None:
            assert ours.around([1, 2], [2]) == pair, number


@pytest.mark.parametrize(
    ("description", "complaint"),
    [
        (None, "None"),
        ({"type": "Truncate"}, "Truncate"),
        ({"type": ["Sequence"]}, "['Sequence']"),
        ({**BERT, "sep": ["[SEP]"]}, "BertProcessing"),
        ({**BERT, "sep": ["[SEP]", -1]}, "BertProcessing"),
        ({**BERT, "offsets": 1}, "'offsets'"),
        ({**ROBERTA, "trim_offsets": None}, "RobertaProcessing"),
        (template("S $C"), "TemplateProcessing"),
        (template("S $B"), "'B'"),
        (template("S $A Q"), "'Q'"),
        (template("S"), " 0 "),
        (template("$A $A"), " 2 "),
        (sequence(template("S $A E"), template("$A")), " 3 "),
        (sequence(None), "None"),  # type: ignore[arg-type]
        ({"type": "Sequence", "processors": 3}, "Sequence"),
    ],
)
def test_what_tokenizers_cannot_do_with_a_text_is_refused(description: Any, complaint: str) -> None:
    with pytest.raises(InvalidTokenizer) as caught:
        PostProcessor.of_description(description)
    assert complaint in caught.value.happened
    assert caught.value.accepted
    assert caught.value.next_step
