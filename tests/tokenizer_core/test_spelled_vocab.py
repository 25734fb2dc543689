"""A vocab read apart from the JSON around it: as a parser reads all of it, or refused alike."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_peers import assert_moves_to_another_process

from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.encoding import Decoder
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.formats import bpeline, huggingface_reading, printable
from bpeline.tokenizer_core.formats.printable import (
    SpelledVocab,
    cut_out_vocab,
    printable_tokens,
    read_merges_file,
    spelled_lines,
)
from bpeline.tokenizer_core.vocabulary import MAX_ID, MAX_TOKEN_BYTES, TokenTable

NAMES = printable_tokens(bytes([byte]) for byte in range(256))
SPACE = NAMES[0x20]
MERGES = [("a", "b"), (SPACE, "ab"), ('"', "\\"), (NAMES[0xFF], "é"), ("ab", "ab")]
ORDINARY = [*NAMES, *(left + right for left, right in MERGES)]
VOCAB = {name: id_ for id_, name in enumerate(ORDINARY)}
END, ROUND, GAP = "<|end|>", "<｜end▁of｜>", "<two words>"
TEXTS = ["", "abab ab é\n", f"ab{END}ab {ROUND}{GAP} ab", '"\\ÿé日本']


def json_of(vocab: Mapping[str, int]) -> str:
    return json.dumps(vocab, ensure_ascii=False)


def file_of(
    vocab: str = json_of(VOCAB),
    added: Mapping[str, int] | None = None,
    *,
    more: str = "",
    before: str = "",
    parts: str = "",
    merges: list[Any] = MERGES,
) -> bytes:
    """A tokenizer.json with this vocab, and perhaps other parts."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokens = [
        {"id": id_, "content": name, **flags, "special": name != GAP}
        for name, id_ in (added or {}).items()
    ]
    return (
        f'{{{before}"version": "1.0", "pre_tokenizer": {{"type": "ByteLevel", '
        f'"add_prefix_space": false}}, "decoder": {{"type": "ByteLevel"}}, {parts}'
        f'"added_tokens": {json.dumps(tokens, ensure_ascii=False)}, "model": {{"type": "BPE", '
        f'"vocab": {vocab}, "merges": {json.dumps(merges, ensure_ascii=False)}{more}}}}}'
    ).encode()


def outcome(content: bytes, path: Path, small: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What loading gives when only files of some size are read by kernels."""
    monkeypatch.setattr(printable, "_SMALL", small)
    path.write_bytes(content)
    try:
        loaded = Tokenizer.load(path, format="hf")
    except BpelineError as error:
        return type(error), str(error)
    ids = [loaded.encode(text) for text in TEXTS]
    decoded = [loaded.decode(one) for one in ids]
    return (
        loaded.digest, dict(loaded.vocab), dict(loaded.spec.ids), loaded.merges, ids, decoded,
        [part.tolist() for part in loaded.spec.merge_ids], loaded.spec.byte_ids.tolist(),
        loaded.special_tokens, loaded.spec.remarks, len(loaded.spec.ids),
    )  # fmt: skip


def is_table(path: Path) -> bool:
    return isinstance(Tokenizer.load(path, format="hf").spec.vocab, TokenTable)


def shuffled(vocab: Mapping[str, int]) -> dict[str, int]:
    names = list(vocab.items())
    random.Random(1).shuffle(names)
    return dict(names)


AFTER = len(VOCAB)
USUAL = {
    "as it is": file_of(),
    "white space": file_of(json_of(VOCAB).replace(", ", " ,\r\n\t").replace(": ", " : ")),
    "indented": file_of(json.dumps(VOCAB, ensure_ascii=False, indent=1)),
    "slashes": file_of(json_of(VOCAB).replace('"/"', '"\\/"')),
    "shuffled": file_of(json_of(shuffled(VOCAB))),
    "gaps": file_of(json_of({name: 3 * id_ + 1 for name, id_ in VOCAB.items()})),
    "added": file_of(added={END: AFTER, ROUND: AFTER + 1, GAP: AFTER + 2}),
    "added, in the vocab": file_of(
        json_of({END: AFTER, **VOCAB, ROUND: AFTER + 1, GAP: AFTER + 2}),
        {END: AFTER, ROUND: AFTER + 1, GAP: AFTER + 2},
    ),
    "added, written as an escape": file_of(
        json_of({**VOCAB, ROUND: AFTER}).replace("｜", "\\uff5c"), {ROUND: AFTER}
    ),
    "a byte added": file_of(added={"a": VOCAB["a"]}),
    "the result of a merge added": file_of(added={"ab": VOCAB["ab"]}),
    "bytes that are no tokens": file_of(
        json_of({name: id_ for name, id_ in VOCAB.items() if name not in "xyz"})
    ),
    "a token that no merge makes": file_of(json_of({**VOCAB, "xyz": AFTER})),
    "tokens before merges": file_of(more=', "ignore_merges": true'),
    "the same name elsewhere": file_of(parts='"padding": {"model": {"vocab": {"a": 1}}}, '),
    "in a string": file_of(before='"truncation": "\\"model\\": {\\"vocab\\": {", '),
}


@pytest.mark.parametrize("kind", USUAL)
def test_usual_vocabs_are_read_apart(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, path = USUAL[kind], tmp_path / "tokenizer.json"
    apart = outcome(content, path, 0, monkeypatch)
    assert is_table(path)
    assert_moves_to_another_process(Tokenizer.load(path), TEXTS)
    cut = cut_out_vocab(content, in_model=True)
    assert cut is not None
    rest, named = cut
    document = json.loads(content)
    assert dict(named) == named.parsed() == document["model"]["vocab"]
    assert len(named) == len(document["model"]["vocab"])
    document["model"]["vocab"] = {}
    assert json.loads(rest) == document
    assert apart == outcome(content, path, len(content) + 1, monkeypatch)
    assert isinstance(apart[0], str)
    assert not is_table(path)


def with_vocab(more: str) -> bytes:
    """A file whose vocab goes on with these members."""
    return file_of(f"{json_of(VOCAB)[:-1]}, {more}}}")


HIGH = 1 << 24
UNUSUAL = {
    "all escaped": file_of(json.dumps(VOCAB)),
    "an id twice": with_vocab('"ba": 7'),
    "an id twice, one of them added": file_of(
        json_of({**VOCAB, ROUND: 7}), {ROUND: 7}
    ),
    "a name twice": with_vocab(f'"ab": {AFTER}'),
    "a name twice, once in an escape": with_vocab(f'"\\u0061b": {AFTER}'),
    "a name twice, of other characters": with_vocab(f'"日": {AFTER}, "日": {AFTER + 1}'),
    "an empty name": with_vocab(f'"": {AFTER}'),
    "no byte": with_vocab(f'"日": {AFTER}'),
    "a space": with_vocab(f'"a b": {AFTER}'),
    "a control character": with_vocab(f'"a\nb": {AFTER}'),
    "half of a pair": with_vocab(f'"\\ud800": {AFTER}'),
    "an unknown escape": with_vocab(f'"\\x": {AFTER}'),
    "a fraction": with_vocab('"ba": 1.5'),
    "a power": with_vocab('"ba": 1e3'),
    "a negative id": with_vocab('"ba": -1'),
    "a leading zero": with_vocab('"ba": 0300'),
    "a string for an id": with_vocab('"ba": "1"'),
    "a flag for an id": with_vocab('"ba": true'),
    "no id": with_vocab('"ba": '),
    "the largest id": with_vocab(f'"ba": {HIGH - 1}'),
    "an id too large": with_vocab(f'"ba": {HIGH}'),
    "an id of many digits": with_vocab(f'"ba": {1 << 70}'),
    "a comma too many": with_vocab("")[:-1] + b"}",
    "a comma too few": with_vocab('"ba": 300 "bc": 301'),
    "no colon": with_vocab('"ba" 300'),
    "not closed": file_of()[:-9],
    "empty": file_of("{}"),
    "a list": file_of("[]"),
    "two vocabs": file_of(more=f', "vocab": {json_of(VOCAB)}'),
    "two models": file_of(before=f'"model": {{"vocab": {json_of(VOCAB)}}}, '),
    "no object": b"[" + file_of() + b"]",
    "a mark": b"\xef\xbb\xbf" + file_of(),
    "no UTF-8 in a name": with_vocab(f'"?": {AFTER}').replace(b'"?": 26', b'"\xc3(": 26'),
    "no UTF-8 in another name": with_vocab(f'"日?": {AFTER}').replace("日?".encode(), b"\xe6\x97"),
    "no UTF-8 elsewhere": file_of(before='"truncation": "?", ').replace(b'"?"', b'"\xff"'),
    "a token of too many bytes": with_vocab(f'"{"a" * (MAX_TOKEN_BYTES + 1)}": {AFTER}'),
    "an added token under another id": file_of(json_of({**VOCAB, END: AFTER}), {END: AFTER + 1}),
    "an added token under the id of another": file_of(added={END: 7}),
    "an added token of printable characters": file_of(
        json_of({**VOCAB, "é!": AFTER}), {"é!": AFTER}
    ),
    "an added token that is an ordinary one besides": file_of(
        json_of({**VOCAB, SPACE * 2: AFTER}), {"  ": AFTER + 1}, merges=[(SPACE, SPACE)]
    ),
    "the text of an ordinary token": file_of(
        json_of({**VOCAB, "æĹ¥": AFTER, "日": AFTER + 1}), {"日": AFTER + 1}
    ),
    "an unknown part": file_of(merges=[*MERGES, ("ab", "xx")]),
    "an unknown result": file_of(merges=[*MERGES, ("b", "b")]),
    "a merge twice": file_of(merges=[*MERGES, ("a", "b")]),
    "a merge of an added token": file_of(
        json_of({**VOCAB, "<s>": AFTER, "<s>a": AFTER + 1}), {"<s>": AFTER},
        merges=[*MERGES, ("<s>", "a")],
    ),
    "an unknown token, and bytes that are none": file_of(
        json_of({name: id_ for name, id_ in VOCAB.items() if name != "x"}),
        more=', "unk_token": "a"',
    ),
    "a normalizer": file_of(
        json_of({**VOCAB, ROUND: AFTER}), {ROUND: AFTER}, parts='"normalizer": {"type": "NFC"}, '
    ),
    "a normalizer that added tokens go through": file_of(
        added={"<B>": AFTER}, parts='"normalizer": {"type": "Lowercase"}, '
    ).replace(b'"normalized": false', b'"normalized": true'),
    "another pre-tokenizer": file_of().replace(b'"ByteLevel", "add', b'"Digits", "add'),
    "another model": file_of().replace(b'"type": "BPE"', b'"type": "WordPiece"'),
}  # fmt: skip
READ = (
    "all escaped", "the largest id", "a normalizer", "a normalizer that added tokens go through",
    "a merge of an added token", "an empty name", "an added token that is an ordinary one besides",
    "the text of an ordinary token",
)  # fmt: skip


@pytest.mark.parametrize("kind", UNUSUAL)
def test_all_else_is_read_or_refused_by_the_parser(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = UNUSUAL[kind]
    apart = outcome(content, tmp_path / "tokenizer.json", 0, monkeypatch)
    whole = outcome(content, tmp_path / "tokenizer.json", len(content) + 1, monkeypatch)
    assert apart == whole
    assert isinstance(whole[0], str) == (kind in READ)


def test_a_file_cut_off_anywhere_is_refused_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = file_of(json_of({**VOCAB, ROUND: AFTER}), {ROUND: AFTER})
    for end in range(content.index(b'"vocab"'), content.index(b'"merges"'), 7):
        apart = outcome(content[:end], tmp_path / "tokenizer.json", 0, monkeypatch)
        assert apart == outcome(content[:end], tmp_path / "tokenizer.json", 1 << 30, monkeypatch)
        assert not isinstance(apart[0], str)


def test_our_own_directory_is_read_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vocab = dict(enumerate([END.encode(), ROUND.encode()]))
    vocab |= {2 + byte: bytes([byte]) for byte in range(256)} | {300: b"ab", 299: b" ab"}
    made = Tokenizer(vocab, [(b"a", b"b"), (b" ", b"ab")], [END, ROUND])
    made.save(tmp_path / "kept", format="bpeline")
    for small, kind in ((0, TokenTable), (1 << 30, Mapping)):
        monkeypatch.setattr(printable, "_SMALL", small)
        read = Tokenizer.load(tmp_path / "kept", format="bpeline")
        assert isinstance(read.spec.vocab, kind)
        assert isinstance(read.spec.vocab, TokenTable) == (small == 0)
        assert read.digest == made.digest
        assert read.vocab == made.vocab
        assert read.spec.ids == made.spec.ids
        assert len(read.spec.ids) == len(made.spec.ids)
        assert read.special_tokens == made.special_tokens
        assert read.merges == made.merges
        assert [read.encode(text, "all") for text in TEXTS] == [
            made.encode(text, "all") for text in TEXTS
        ]


@pytest.mark.parametrize("content", ['{"a": 0} x', '{"a": 0}{}', '[{"a": 0}]', '{"a": 0'])
def test_what_is_no_vocab_as_a_whole_goes_to_the_parser(
    content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printable, "_SMALL", 0)
    try:
        expected = json.loads(content)
    except ValueError:
        with pytest.raises(BpelineError, match="is not the JSON we read"):
            bpeline._named(content.encode(), Path("vocab.json"), True)
    else:
        assert bpeline._named(content.encode(), Path("vocab.json"), True) == expected


LINES = {
    "as we write it": "#version: 0.2\na b\nĠ ab\n",
    "without header": 'a b\nĠ ab\n" \\\n',
    "without an end": "a b\nĠ ab",
    "of Windows": "a b\r\nĠ ab\r\n",
    "a header alone": "#version: 0.2\n",
    "a header that does not end": "#version: 0.2",
    "nothing": "",
    "an empty line": "a b\n\nĠ ab\n",
    "two ends": "a b\n\n",
    "three names": "a b c\nab ab\n",
    "one name": "a\nb\n",
    "two spaces": "a  b\n",
    "a space behind": "a b \n",
    "no byte": "a 日\n",
    "unknown": "a bb\n",
    "unknown result": "b b\n",
    "half a character": "a b\nĠ a?b\n",
}


@pytest.mark.parametrize("kind", LINES)
def test_lines_of_merges_are_read_alike(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = LINES[kind].encode().replace(b"?", b"\xc4")
    vocab = {byte: bytes([byte]) for byte in range(256)}
    vocab |= {256: b"ab", 257: b" ab", 258: b'"\\'}
    results = []
    for small in (0, 1 << 30):
        monkeypatch.setattr(printable, "_SMALL", small)
        try:
            results.append(list(read_merges_file(content, vocab, Path("merges.txt"))))
        except BpelineError as error:
            results.append([type(error), str(error)])
    assert results[0] == results[1]
    monkeypatch.setattr(printable, "_SMALL", 0)
    usual = kind in ("as we write it", "without header", "unknown", "unknown result")
    assert (spelled_lines(content) is not None) == usual


def table_of(vocab: Mapping[int, bytes]) -> TokenTable | None:
    lengths = np.fromiter(map(len, vocab.values()), np.int64, len(vocab))
    return TokenTable.sound(b"".join(vocab.values()), lengths, np.array(list(vocab), np.int64))


def test_a_table_is_the_dict_that_it_stands_for() -> None:
    rng = random.Random(3)
    lengths = [1, 1, 2, 7, 14, 15, 16, 17, 40, 300]
    tokens = {rng.randbytes(rng.choice(lengths)) for _ in range(900)} | {b"\0", b"\0\0", b"a\0"}
    ids = rng.sample(range(3000), len(tokens))
    vocab = dict(zip(ids, tokens, strict=True))
    table = table_of(vocab)
    assert table is not None
    assert list(table) == list(vocab)
    assert len(table) == len(vocab)
    assert max(table) == max(vocab)
    by_id, sizes, joined = table.in_order_of_id()
    assert by_id.tolist() == sorted(vocab)
    assert sizes.tolist() == [len(token) for _, token in sorted(vocab.items())]
    assert joined == b"".join(token for _, token in sorted(vocab.items()))
    assert [table.id_of(token) for token in vocab.values()] == ids
    assert [table.id_of(token) for token in (b"", rng.randbytes(16), b"\0\0\0")] == [-1, -1, -1]
    assert table.tokens_of(np.array(ids[5:9])) == [vocab[id_] for id_ in ids[5:9]]
    ids_of = {token: id_ for id_, token in vocab.items()}
    expected = [ids_of.get(bytes([byte]), -1) for byte in range(256)]
    assert table.byte_ids().tolist() == expected
    flat, usual = Decoder(table), Decoder(vocab)
    asked = [*ids, *rng.choices(ids, k=5000)]
    assert flat.decode(asked) == usual.decode(asked)
    assert flat.decode(np.array(asked, np.uint32)) == usual.decode(asked)
    assert flat.lengths(np.array(ids, np.uint32)).tolist() == list(map(len, vocab.values()))
    assert table == vocab
    assert dict(table) == vocab


WRONG: dict[str, Callable[[dict[int, bytes]], Any]] = {
    "nothing": dict.clear,
    "an empty token": lambda vocab: vocab.update({5: b""}),
    "a token twice": lambda vocab: vocab.update({5: b"bb"}),
    "a long token twice": lambda vocab: vocab.update({5: b"c" * 99, 6: b"c" * 99}),
    "a negative id": lambda vocab: vocab.update({-1: b"x"}),
    "an id too large": lambda vocab: vocab.update({MAX_ID + 1: b"x"}),
    "a token too long": lambda vocab: vocab.update({5: bytes(MAX_TOKEN_BYTES + 1)}),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_no_table(kind: str) -> None:
    vocab = {0: b"a", 1: b"bb", 2: b"c" * 98}
    assert table_of(vocab) is not None
    WRONG[kind](vocab)
    assert table_of(vocab) is None


def test_an_id_twice_is_no_table() -> None:
    two = np.array([1, 1], np.int64)
    assert TokenTable.sound(b"ab", two, np.array([4, 5])) is not None
    assert TokenTable.sound(b"ab", two, np.array([4, 4])) is None


def test_tokens_are_added_to_a_table_once() -> None:
    table = table_of({0: b"a", 1: b"bb"})
    assert table is not None
    assert table.with_tokens({1: b"bb"}) is table
    more = table.with_tokens({1: b"bb", 7: b"new"})
    assert more == {0: b"a", 1: b"bb", 7: b"new"}
    assert table.with_tokens({7: b"bb"}) is None  # a token under two ids
    assert table.with_tokens({1: b"new"}) is None  # two tokens under an id


def test_the_reader_hands_on_what_was_read_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printable, "_SMALL", 0)
    document, _ = huggingface_reading.read_document(file_of(), Path("tokenizer.json"))
    assert isinstance(document["model"]["vocab"], SpelledVocab)
