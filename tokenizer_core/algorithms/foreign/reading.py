"""A file of somebody else's as the spec of a tokenizer that its own library runs."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from bpeline.tokenizer_core.algorithms.foreign.codec import Foreign
from bpeline.tokenizer_core.algorithms.foreign.libraries import TOKENIZERS, library_of
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.vocabulary import Pipeline, TextTemplate, TokenizerSpec


def foreign_spec(library: str, content: bytes, remarks: Iterable[str] = ()) -> TokenizerSpec:
    """The spec of a file, once its library has read it.

    Tokens without text (Whisper has one) are left out of the vocab, and said in the remarks.

    Args:
        library: ``tokenizers`` or ``sentencepiece``.
        content: of a tokenizer.json (UTF-8) or a .model.
        remarks: see `TokenizerSpec`; the library is named among them.

    Raises:
        InvalidOption: the library is not installed.
        LibraryFailed: it does not read the file.
        InvalidTokenizer: it does, and two of its ids have the same token.
    """
    text = content.decode() if library == TOKENIZERS else base64.b64encode(content).decode()
    read = library_of(library, text)
    vocab = {id_: token.text.encode() for id_, token in read.tokens.items() if token.text}
    specials = {
        token.text: id_ for id_, token in read.tokens.items() if token.special and token.text
    }
    said = [*remarks, f"encoded by {read.name}"]
    if len(vocab) < len(read.tokens):
        said.append("a token without text is left out of the vocab")
    template = None
    try:
        template = _template(text) if library == TOKENIZERS else None
    except InvalidTokenizer as error:
        said.append(f"nothing is put around texts: {error.happened}")
    return TokenizerSpec.checked(
        vocab,
        [],
        specials,
        algorithm=Foreign(library, text),
        remarks=said,
        pipeline=Pipeline(template=template),
    )


def _template(text: str) -> TextTemplate | None:
    described = parse_json(text).get("post_processor")
    return None if described is None else TextTemplate.of_description(described)


def tokenizer_json(spec: TokenizerSpec) -> bytes:
    """The tokenizer.json that a spec of `foreign_spec` came from.

    Raises:
        InvalidOption: it came from another file.
    """
    algorithm = spec.algorithm
    assert isinstance(algorithm, Foreign)
    if algorithm.library != TOKENIZERS:
        raise InvalidOption(
            f"this tokenizer is run by {algorithm.library}",
            "in tokenizer.json there is what tokenizers runs",
            "save it as 'bpeline', which keeps every tokenizer",
        )
    return algorithm.content.encode()
