"""Ids to text by the steps of HuggingFace's decoders; what a step does is not known here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding.decoding import (
    Decoder,
    DecodeStream,
    OnInvalid,
    WholeStream,
    check_errors,
    list_of,
    refuse_other_arrays,
)
from bpeline.tokenizer_core.vocabulary import DecoderSteps

_BROKEN = "\ufffd"


class StepDecoder(Decoder):
    """What ``tokenizers`` decodes with ``skip_special_tokens=False``, exactly.

    Bytes that are not UTF-8 become what the steps make of them. With ``errors="strict"`` they are
    an error where steps join bytes (`DecoderSteps.joining`); other steps never meet such bytes, or
    replace them before anybody sees them.

    Args:
        names: id → the string of its token: of an added token that is found in normalized text
            `TextPreparation.contents`, else what is in the file.
        steps: how strings become text.
    """

    def __init__(self, names: Mapping[int, str], steps: DecoderSteps) -> None:
        self.steps = steps
        self._names = dict(names)
        self._joining = steps.joining
        tokens = list(self._names.values())
        #: Ids of tokens that are single bytes.
        self.bytes_alone = frozenset[int]()
        if self._joining is not None:
            contents, alone = self._joining.show(tokens)
            self.bytes_alone = frozenset(id_ for n, id_ in enumerate(self._names) if n in alone)
        else:
            between = steps.applied(["", *tokens, ""])[1:-1] if steps.by_place else tokens
            contents = [token.encode() for token in between]
        shown = dict(zip(self._names, contents, strict=True))
        super().__init__(shown)
        self._silent = [id_ for id_, content in shown.items() if not content]

    def text(self, ids: Iterable[int] | NDArray[Any], errors: OnInvalid) -> str:
        check_errors(errors)
        ids = ids if isinstance(ids, (list, np.ndarray)) else list_of(ids)
        if self._joining is not None:
            return self._text_of_bytes(ids, errors)
        known = self._known_ids(ids)
        if not self.steps.by_place or len(known) < 2:
            return self._by_steps(known)
        between = str(self._joined(known[1:-1]), "utf-8")
        return self.text_at(known[0], True, False) + between + self.text_at(known[-1], False, True)

    def decode(self, ids: Iterable[int] | NDArray[Any]) -> bytes:
        """The bytes of a text, those that are not UTF-8 too where steps join bytes.

        Raises:
            UnknownToken: something that is no id of the vocab.
        """
        joining = self._joining
        if joining is None or joining.after.taken_from_the_beginning is None:
            return self.text(ids, "replace").encode()
        content = bytes(self._joined(ids))
        if not joining.after.steps:
            return content
        text = joining.after.text_of([content.decode("utf-8", "surrogateescape")])
        return text.encode("utf-8", "surrogateescape")

    def text_at(self, id_: int, is_first: bool, is_last: bool) -> str:
        """What becomes of a token at its place, where steps look at no more (`by_place`)."""
        before, behind = [""] * (not is_first), [""] * (not is_last)
        made = self.steps.applied([*before, self._names[id_], *behind])
        return made[len(before)]

    def joined(self, ids: list[int]) -> bytes:
        """The bytes of tokens as steps join them, before other steps see them."""
        return bytes(self._joined(ids))

    def stream(self, errors: OnInvalid = "replace") -> DecodeStream:
        joining = self._joining
        if joining is not None and not joining.whole_runs and not joining.after.steps:
            return DecodeStream(self, errors)
        if joining is not None:
            taken = joining.after.taken_from_the_beginning
            if taken is not None and joining.whole_runs and errors != "ignore":
                return _RunStream(self, errors, taken)
            return WholeStream(self, errors)
        return (_PlaceStream if self.steps.by_place else WholeStream)(self, errors)

    def _text_of_bytes(self, ids: list[int] | NDArray[Any], errors: OnInvalid) -> str:
        assert self._joining is not None
        if not self._joining.whole_runs or errors == "ignore":
            text = super().text(ids, errors)
        else:
            try:
                # Where all bytes together are UTF-8, those of each run are.
                text = super().text(ids, "strict")
            except UnicodeDecodeError:
                if errors == "strict":
                    raise
                return self._by_steps(self._known_ids(ids))
        return self._joining.after.text_of([text]) if self._joining.after.steps else text

    def _by_steps(self, known: list[int]) -> str:
        return self.steps.text_of([self._names[id_] for id_ in known])

    def _known_ids(self, ids: list[int] | NDArray[Any]) -> list[int]:
        if isinstance(ids, np.ndarray):
            refuse_other_arrays(ids)
        return self.known(list_of(ids))

    def _joined(self, ids: Iterable[int] | NDArray[Any]) -> bytes | memoryview:
        if self._silent:  # kernels know of no empty tokens
            if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iu":
                ids = ids[~np.isin(ids, self._silent)]
            else:
                silent = frozenset(self._silent)
                ids = [id_ for id_ in self._known_ids(list_of(ids)) if id_ not in silent]
        return super()._joined(ids)


class _StepStream(DecodeStream):
    """Text from ids, for decoders whose tokens are not just joined."""

    def __init__(self, decoder: StepDecoder, errors: OnInvalid) -> None:
        super().__init__(decoder, errors)
        self._steps = decoder
        self._errors = errors


class _PlaceStream(_StepStream):
    """The first and the last token may become something else than those between."""

    def __init__(self, decoder: StepDecoder, errors: OnInvalid) -> None:
        super().__init__(decoder, errors)
        self._held = list[int]()  # the last token, where the end of the text would change it
        self._count = 0

    def feed(self, id_: int) -> str:
        self._held += self._steps.known([id_])
        if self._steps.steps.ends_differ and len(self._held) < 2:
            return ""
        made = self._steps.text_at(self._held.pop(0), self._count == 0, False)
        self._count += 1
        return made

    def flush(self) -> str:
        held, self._held = self._held, []
        count, self._count = self._count, 0
        return self._steps.text_at(held[0], count == 0, True) if held else ""


class _RunStream(_StepStream):
    """Runs of single bytes are held back until they end; the beginning loses some characters.

    Args:
        taken: the character, and how many of it at most.
    """

    def __init__(self, decoder: StepDecoder, errors: OnInvalid, taken: tuple[str, int]) -> None:
        super().__init__(decoder, errors)
        self._run = list[int]()
        self._character, self._most = taken
        self._left = self._most

    def feed(self, id_: int) -> str:
        (known,) = self._steps.known([id_])
        if known in self._steps.bytes_alone:
            self._run.append(known)
            return ""
        return self._beginning_taken(self._text_of_run() + self._steps.joined([known]).decode())

    def flush(self) -> str:
        rest = self._beginning_taken(self._text_of_run())
        self._left = self._most
        return rest

    def _text_of_run(self) -> str:
        run, self._run = self._run, []
        try:
            return self._steps.joined(run).decode()
        except UnicodeDecodeError:
            if self._errors == "strict":
                raise
            return _BROKEN * len(run)

    def _beginning_taken(self, text: str) -> str:
        while self._left and text:
            if not text.startswith(self._character):
                self._left = 0
                break
            text, self._left = text[1:], self._left - 1
        return text
