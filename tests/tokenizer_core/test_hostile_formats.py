"""Files of every format, hostile ones too, are data: nothing is executed, no other file opened."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import pytest
from amounts import Amounts, numbers
from audited import events_outside
from mutations import as_json, mutated, try_changes

from bpeline.tokenizer_core.algorithms.character_bpe import CharacterBpe
from bpeline.tokenizer_core.algorithms.frequency_bpe import FrequencyBpe
from bpeline.tokenizer_core.algorithms.wordpiece import WordPiece
from bpeline.tokenizer_core.formats.known import FORMATS
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer

TOLD = {
    "gpt2": {"pattern": "gpt2"},
    "greedy": {"end_of_word": "</w>"},
    "tiktoken": {"pattern": "gpt2"},
    "subword-nmt": {"characters": ""},
    "wordpiece": {"pattern": "wordpunct", "without_normalizer": True},
}
OVER_BYTES = ("bpeline", "hf", "transformers", "gpt2", "tiktoken", "gguf")
FILES = {"hf": "tokenizer.json", "tiktoken": "x.tiktoken", "subword-nmt": "x.codes",
         "wordpiece": "vocab.txt", "tekken": "tekken.json", "gguf": "x.gguf",
         "greedy": "tokens.txt",
         "sentencepiece": "x.model"}  # fmt: skip
PAYLOADS = (
    "../../../../../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "http://127.0.0.1:9/x",
    "__import__('os').system('touch executed')", "!!python/object/apply:os.system", "evil",
    "os.system", "evil--evil.Evil", "\x80\x04cposix\nsystem\n", "%2e%2e/x", "C:\\x", "..",
)  # fmt: skip
EVIL = "open(__file__ + '.executed', 'w'); raise SystemExit('executed')\n"
BESIDE = {
    "MLmodel": "flavors:\n  python_function:\n    loader_module: evil\n    code: .\n",
    "evil.py": EVIL, "sitecustomize.py": EVIL, "conda.yaml": "!!python/object/apply:os.system [id]",
    "python_model.pkl": "\x80\x04cposix\nsystem\n(S'touch executed'\ntR.",
    "tokenization_evil.py": EVIL,
    "config.json": '{"auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}}',
    "tokenizer_config.json": '{"auto_map": {"AutoTokenizer": ["evil.Evil", null]}, '
    '"vocab_file": "../../../../../etc/passwd", "tokenizer_class": "evil.Evil"}',
}  # fmt: skip
PREPARE = """
from pathlib import Path
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.tokenizer import Tokenizer
good, hostile = map(Path, arguments)
for path in good.iterdir():  # kernels are compiled, libraries and formats imported
    told = TOLD.get(path.name, {})
    Tokenizer.load(path / FILED.get(path.name, ""), path.name, **told).encode("abc the é")
loaded = refused = 0
"""
ACT = """
global loaded, refused
for folder in sorted(hostile.iterdir()):
    format_ = folder.name.rsplit(":", 1)[0]
    path = folder / FILED.get(format_, "")
    try:
        Tokenizer.load(path, format_, **TOLD.get(format_, {})).encode("abc the é")
        loaded += 1
    except BpelineError:
        refused += 1
assert refused > loaded > 10, (loaded, refused)
"""


def tokenizer_for(format_: str) -> Tokenizer:
    if format_ in OVER_BYTES:
        merges = [(b"a", b"b"), (b"ab", b"c"), (b" ", b"t"), (b" t", b"h")]
        vocab = {byte: bytes([byte]) for byte in range(256)}
        vocab |= {256 + rank: left + right for rank, (left, right) in enumerate(merges)}
        return Tokenizer(vocab | {300: b"<|fin|>"}, merges, ["<|fin|>"])
    tokens = ["[UNK]", "a", "b", "c", "</w>", "ab", "##b", "abc", "##bc", "##c", "##a"]
    named = {id_: token.encode() for id_, token in enumerate(tokens)}
    match format_:
        case "subword-nmt" | "sentencepiece":
            kept = dict(enumerate([b"<unk>", b"a", b"b", b"c", b"</w>", b"ab", b"abc"]))
            merges = [(b"a", b"b"), (b"ab", b"c")]
            return Tokenizer(kept, merges, pattern="whitespace", algorithm=CharacterBpe())
        case "wordpiece":
            return Tokenizer(named, [], ["[UNK]"], algorithm=WordPiece())
    marks = ["<unk>", "<line/>", "</line>", "</w>", "a", "b", "ab"]
    known = {id_: token.encode() for id_, token in enumerate(marks)}
    frequencies = FrequencyBpe("</w>", "<unk>", "<line/>", "</line>", "none", (("ab", 3),))
    return Tokenizer(known, [], algorithm=frequencies)


def saved(folder: Path, format_: Any) -> Path:
    folder.mkdir(parents=True)
    path = folder / FILES.get(format_, "")
    if format_ == "tekken":  # which is read and not written
        path.write_text(json.dumps(tekken_document()))
    elif format_ == "greedy":  # and so is this
        path.write_text("the</w>\nab\nc</w>\nthe\na\nb\n")
    else:
        tokenizer_for(format_).save(path, format_)
    return path


def tekken_document() -> dict[str, Any]:
    tokens = [*(bytes([byte]) for byte in range(256)), b"ab", b"abc", b"xyz"]
    pattern = SplitPattern.named("tekken").regex
    config = {"pattern": pattern, "default_vocab_size": 262, "default_num_special_tokens": 3}
    entries = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for rank, token in enumerate(tokens)
    ]
    return {"config": {**config, "version": "v3"}, "vocab": entries, "special_tokens": []}


def spoilt(content: bytes, random_: random.Random) -> bytes:
    """With values of JSON, bytes or strings replaced, or cut off, or doubled."""
    if content[:1] == b"{" and random_.random() < 0.3:
        return as_json(mutated(json.loads(content), random_))
    pieces = content.split(b'"')
    if len(pieces) > 4 and random_.random() < 0.6:
        for _ in range(random_.randint(1, 3)):
            at = random_.randrange(1, len(pieces) - 1, 2)
            pieces[at] = json.dumps(random_.choice(PAYLOADS))[1:-1].encode()
        return b'"'.join(pieces)
    at = random_.randrange(len(content))
    match random_.randint(0, 3):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + bytes([random_.randrange(256)]) + content[at + 1 :]
        case 2:
            return content[:at] + random_.choice(PAYLOADS).encode() + content[at:]
        case _:
            return content + content[at:]


def hostile_folders(root: Path, format_: str, number: int) -> None:
    for seed in range(number):
        random_ = random.Random(f"{format_} {seed}")
        folder = root / f"{format_}:{seed}"
        saved(folder, format_)
        victim = random_.choice(sorted(folder.iterdir()))
        if seed:  # the first one is sound, with bad company
            victim.write_bytes(spoilt(victim.read_bytes(), random_))
        for name, content in BESIDE.items():
            if not (folder / name).exists():
                (folder / name).write_text(content)


@pytest.mark.night
def test_loading_executes_nothing_and_opens_nothing_else(tmp_path: Path) -> None:
    good, hostile = tmp_path / "good", tmp_path / "hostile"
    for format_ in FORMATS:
        saved(good / format_, format_)
        hostile_folders(hostile, format_, 30)
    prepare = f"FILED, TOLD = {FILES!r}, {TOLD!r}\n{PREPARE}"
    assert events_outside(prepare, ACT, [hostile], str(good), str(hostile)) == []
    assert list(tmp_path.rglob("*executed*")) == []


@pytest.mark.night
@pytest.mark.parametrize("format_", FORMATS)
def test_changed_files_are_loaded_or_refused(
    format_: Any, amounts: Amounts, seed: int, point: int, tmp_path: Path
) -> None:
    path, told = saved(tmp_path / "changed", format_), TOLD.get(format_, {})
    for file in sorted((tmp_path / "changed").iterdir()):
        cases = numbers(seed, amounts.mutations, point)
        try_changes(file, lambda: Tokenizer.load(path, format_, **told).encode("abc é"), cases)


def test_the_hook_sees_what_it_is_to_see(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("")
    acts = {
        "open('/etc/hostname').close()": "open",
        "open(arguments[0] + '/../x/hosts', 'rb') if False else os.open('/dev/null', 0)": "open",
        "open(arguments[0] + '/written', 'w').close()": "open",
        "os.listdir('/')": "os.listdir",
        "os.system('true')": "os.system",
        "exec('1')": "exec",
        "sys.path.insert(0, arguments[0]); import evil": "import",
        "import socket as s; s.socket().connect_ex(('127.0.0.1', 9))": "socket.connect",
        "import pickle; pickle.loads(b'cos\\nsystem\\n.')": "pickle.find_class",
        "import ctypes; ctypes.CDLL(None)": "ctypes.dlopen",
        "os.rename(arguments[0] + '/evil.py', arguments[0] + '/b.py')": "os.rename",
    }
    for act, event in acts.items():
        seen = events_outside("import socket, pickle, ctypes", act, [tmp_path], str(tmp_path))
        assert any(line.startswith(event) for line in seen), (act, seen)
    quiet = "open(arguments[0] + '/written', 'rb').close(); os.listdir(arguments[0])"
    assert events_outside("", quiet, [tmp_path], str(tmp_path)) == []
