"""A program of its own: what a library makes of an exported file and of texts.

Reads from its input {"library", "path", "texts", "told"}: which reader below, what it reads, and
what the file leaves out. Writes one line of JSON: {"version", "facts", "plain", "special",
"letters"}, "plain" and "special" a list for each text, special tokens in it read as text and as
special tokens, "letters" those in told["letters"] that its regex engine takes for letters; or
{"failed"}, why there is no answer. A library may end or hang this process and nothing else. With a
folder as its argument, packages in there come before those installed. Knows nothing of bpeline.
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
    # What libraries print is no answer, neither by Python nor behind its back.
    answers, output = os.dup(sys.stdout.fileno()), sys.stdout.fileno()
    os.dup2(sys.stderr.fileno(), output)
    request = json.load(sys.stdin)
    try:
        answer = READERS[request["library"]](request["path"], request["texts"], request["told"])
        answer["version"] = _installed(request["library"])
    except BaseException as error:  # what Rust panics with is no Exception
        said = " ".join(str(error).split())[:300]
        known = f"{request['library']} {_installed(request['library'])}"
        answer = {"failed": f"{known} failed: {type(error).__name__}: {said}".rstrip(": ")}
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

    # From 1.0 on there is nothing but tokenizers that are read from a tokenizer.json.
    if not hasattr(tokenizers, "models"):
        if not os.path.isfile(path):
            raise NotImplementedError("this release reads a tokenizer.json and nothing else")
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
            # What a file says of lengths is carried along, and applied where somebody asks for it.
            theirs.no_truncation()
            theirs.no_padding()
        else:
            theirs = _of_vocab_and_merges(path, told)
        ways = []
        for as_text in (True, False):
            theirs.encode_special_tokens = as_text
            ways.append(theirs.encode_batch(texts, add_special_tokens=False))
    plain, special = ([[int(id_) for id_ in one.ids] for one in way] for way in ways)
    return {"plain": plain, "special": special, **_letters_of_tokenizers(told)}


def _letters_of_tokenizers(told: Told) -> Answer:
    import tokenizers

    if not hasattr(tokenizers, "pre_tokenizers"):  # 1.0
        return {}
    removing = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\p{L}"), "removed")
    return {"letters": [one for one in told["letters"] if not removing.pre_tokenize_str(one)]}


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
    # Its remarks on what it finds missing (PyTorch) are not for those who export a tokenizer.
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
    # As tiktoken.load.load_tiktoken_bpe reads a local file, which imports a client for remote ones.
    with open(path, "rb") as file:
        lines = [line.split() for line in file.read().splitlines() if line]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return _of_ranks(ranks, texts, told)


def _tekken(path: str, texts: Sequence[str], told: Told) -> Answer:
    # As mistral_common.tokens.tokenizers.tekken hands the file to tiktoken: so many ranks as the
    # size says, each id behind those of the special tokens.
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
    # What a pattern does not match is left out.
    letters = Encoding("letters", pat_str=r"\p{L}", mergeable_ranks=bytes_, special_tokens={})
    known = [one for one in told.pop("letters") if letters.encode_ordinary(one)]
    theirs = Encoding("exported", mergeable_ranks=ranks, **told)
    return {
        "letters": known,
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
        joined = (one for one in told["letters"] if len(tokenize(f"a{one}", False, False)) == 4)
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
