"""A program of its own: token ids by llama.cpp, which ends its process when it finds a bug.

Reads {"model": path, "texts": [text]} from its input; writes one line of JSON: how many tokens the
vocab has, which one ends a text, and for each text its ids with special tokens as text and as
special tokens. Knows nothing of bpeline.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Answer one request."""
    from cyllama.llama import llama_cpp

    request = json.load(sys.stdin)
    llama_cpp.disable_logging()
    model = llama_cpp.LlamaModel(request["model"], llama_cpp.LlamaModelParams())
    vocab = model.get_vocab()
    ids = [
        [list(vocab.tokenize(text, False, special)) for special in (False, True)]
        for text in request["texts"]
    ]
    answer = {"tokens": vocab.n_vocab, "end": vocab.token_eos(), "ids": ids}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
