"""Program that reads an exported file with a library and encodes texts.

Input: {"library", "path", "texts", "told"}; "told" holds settings that the file lacks. Output: one
line of JSON, {"version", "facts", "plain", "special", "letters"} or {"failed": reason}. "plain" and
"special" hold a list per text, with special tokens in it encoded as text or as special tokens.
"letters" are those of told["letters"] that the regex engine treats as letters. An optional argument
is a folder whose packages take precedence. Does not import bpeline.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

Told = dict[str, Any]
Answer = dict[str, Any]


def main() -> None:
    """Answer one request."""
    sys.path[:0] = sys.argv[1:]
    # Redirect output of libraries, from Python or from C, to standard error.
    answers, output = os.dup(sys.stdout.fileno()), sys.stdout.fileno()
    os.dup2(sys.stderr.fileno(), output)
    request = json.load(sys.stdin)
    try:
        answer = READERS[request["library"]](request["path"], request["texts"], request["told"])
        answer["version"] = _installed(request["library"])
    except BaseException as error:  # a Rust panic is not an Exception
        message = " ".join(str(error).split())[:300]
        title = f"{request['library']} {_installed(request['library'])}"
        answer = {"failed": f"{title} failed: {type(error).__name__}: {message}".rstrip(": ")}
    sys.stdout.flush()
    os.dup2(answers, output)
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()


def _installed(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "of unknown version"


def _tokenizers(path: str, texts: Sequence[str], told: Told) -> Answer:
    import tokenizers

    # Since 1.0, tokenizers can only be read from a tokenizer.json.
    if not hasattr(tokenizers, "models"):
        if not os.path.isfile(path):
            raise NotImplementedError("this release reads only a tokenizer.json")
        recent: Any = tokenizers.Tokenizer.from_file(path)
        ways = [
            recent.encode_batch(
                texts,
                add_special_tokens=False,
                encode_special_tokens=as_text,
                padding=None,
                truncation=None,
            )
            for as_text in (True, False)
        ]
    else:
        theirs: Any
        if os.path.isfile(path):
            theirs = tokenizers.Tokenizer.from_file(path)
            # The file may enable truncation and padding.
            theirs.no_truncation()
            theirs.no_padding()
        else:
            theirs = _of_vocab_and_merges(path, told)
        ways = []
        for as_text in (True, False):
            theirs.encode_special_tokens = as_text
            ways.append(theirs.encode_batch(texts, add_special_tokens=False))
    plain, special = ([[int(id_) for id_ in encoding.ids] for encoding in way] for way in ways)
    return {"plain": plain, "special": special, **_letters_of_tokenizers(told)}


def _letters_of_tokenizers(told: Told) -> Answer:
    import tokenizers

    if not hasattr(tokenizers, "pre_tokenizers"):  # 1.0
        return {}
    removing = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\p{L}"), "removed")
    return {
        "letters": [letter for letter in told["letters"] if not removing.pre_tokenize_str(letter)]
    }


def _of_vocab_and_merges(path: str, told: Told) -> Any:
    import tokenizers
    from tokenizers import models, pre_tokenizers

    vocab, merges = (os.path.join(path, name) for name in ("vocab.json", "merges.txt"))
    model = models.BPE.from_file(vocab, merges)
    model.ignore_merges = told["ignore_merges"]
    theirs = tokenizers.Tokenizer(model)
    theirs.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(told["pattern"]), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    theirs.add_special_tokens(told["special_tokens"])
    return theirs


def _transformers(path: str, texts: Sequence[str], told: Told) -> Answer:
    # Its warnings, such as about a missing PyTorch, do not matter here.
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import AutoTokenizer

        theirs = AutoTokenizer.from_pretrained(path, local_files_only=True)
    plain, special = (
        theirs(texts, add_special_tokens=False, split_special_tokens=as_text)["input_ids"]
        for as_text in (True, False)
    )
    return {"plain": plain, "special": special, **_letters_of_tokenizers(told)}


def _tiktoken(path: str, texts: Sequence[str], told: Told) -> Answer:
    import base64

    if path.endswith(".json"):
        return _tekken(path, texts, told)
    # Like tiktoken.load.load_tiktoken_bpe, which would import an HTTP client.
    with open(path, "rb") as file:
        lines = [line.split() for line in file.read().splitlines() if line]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return _of_ranks(ranks, texts, told)


def _tekken(path: str, texts: Sequence[str], told: Told) -> Answer:
    # Like mistral_common.tokens.tokenizers.tekken: use as many ranks as the size allows; ids follow
    # those of the special tokens.
    import base64

    with open(path, encoding="utf-8") as file:
        model = json.load(file)
    config = model["config"]
    specials = config["default_num_special_tokens"]
    entries = model["vocab"][: config["default_vocab_size"] - specials]
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in entries}
    told = {**told, "pat_str": config["pattern"], "special_tokens": {}}
    answer = _of_ranks(ranks, texts, told)
    del answer["special"]
    return {**answer, "plain": [[specials + id_ for id_ in ids] for ids in answer["plain"]]}


def _of_ranks(ranks: dict[bytes, int], texts: Sequence[str], told: Told) -> Answer:
    from tiktoken import Encoding

    bytes_ = {bytes([byte]): byte for byte in range(256)}
    # tiktoken drops text that the pattern does not match.
    letters = Encoding("letters", pat_str=r"\p{L}", mergeable_ranks=bytes_, special_tokens={})
    found_letters = [letter for letter in told.pop("letters") if letters.encode_ordinary(letter)]
    theirs = Encoding("exported", mergeable_ranks=ranks, **told)
    return {
        "letters": found_letters,
        "plain": [theirs.encode_ordinary(text) for text in texts],
        "special": [theirs.encode(text, allowed_special="all") for text in texts],
    }


def _subword_nmt(path: str, texts: Sequence[str], told: Told) -> Answer:
    from subword_nmt.apply_bpe import BPE

    with open(path, encoding="utf-8") as codes:
        theirs = BPE(codes)
    return {"plain": [theirs.segment(word).split() for word in texts]}


def _sentencepiece(path: str, texts: Sequence[str], told: Told) -> Answer:
    from sentencepiece import SentencePieceProcessor

    return {"plain": SentencePieceProcessor(model_file=path).encode(texts)}


def _cyllama(path: str, texts: Sequence[str], told: Told) -> Answer:
    from cyllama.llama import llama_cpp

    llama_cpp.disable_logging()
    model = llama_cpp.LlamaModel(path, llama_cpp.LlamaModelParams())
    vocab = model.get_vocab()
    answer: Answer = {}
    if "letter_model" in told:
        joining = llama_cpp.LlamaModel(told["letter_model"], llama_cpp.LlamaModelParams())
        tokenize = joining.get_vocab().tokenize
        joined = (
            letter for letter in told["letters"] if len(tokenize(f"a{letter}", False, False)) == 4
        )
        answer["letters"] = list(joined)
    plain, special = (
        [list(vocab.tokenize(text, False, parsed)) for text in texts] for parsed in (False, True)
    )
    facts = {"number of tokens": vocab.n_vocab, "end of a text": vocab.token_eos()}
    return {**answer, "plain": plain, "special": special, "facts": facts}


def _gguf(path: str, texts: Sequence[str], told: Told) -> Answer:
    from gguf import GGUFReader

    return {"facts": {key: field.contents() for key, field in GGUFReader(path).fields.items()}}


READERS = {
    "tokenizers": _tokenizers,
    "transformers": _transformers,
    "tiktoken": _tiktoken,
    "subword-nmt": _subword_nmt,
    "sentencepiece": _sentencepiece,
    "cyllama": _cyllama,
    "gguf": _gguf,
}

if __name__ == "__main__":
    main()
