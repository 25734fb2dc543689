"""Documents cut into sections of about equal size; knows nothing of what they are for."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compilation import kernel
from bpeline.tokenizer_core.kernels.find_cuts import find_cut
from bpeline.tokenizer_core.kernels.word_keys import I64


@kernel
def cut_sections(
    text: np.ndarray,
    documents: np.ndarray,
    size: I64,
    ahead: I64,
    class_of_point: np.ndarray,
    legal: np.ndarray,
    sections: np.ndarray,
) -> I64:
    """Cut each document at the first legal place behind every ``size`` bytes; how many sections.

    Args:
        text: uint8. documents: int64 ``[n, 2]`` spans, ascending.
        size: more than the bytes of a character.
        ahead: bytes of a document that must lie behind a cut.
        class_of_point, legal: as for `find_cut`.
        sections: int64 ``[m, 2]``, receives spans; m ≥ Σ (length // size + 1).
    """
    number = 0
    for document in range(len(documents)):
        begin, end = documents[document, 0], documents[document, 1]
        while end - begin > size:
            cut = find_cut(text, begin + size, end - ahead + 1, class_of_point, legal)
            if cut < 0:
                break
            sections[number, 0], sections[number, 1] = begin, cut
            number += 1
            begin = cut
        sections[number, 0], sections[number, 1] = begin, end
        number += 1
    return number
