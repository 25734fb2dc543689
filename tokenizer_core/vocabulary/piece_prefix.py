"""What is put in front of each piece between added tokens, as a value; changes no text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from bpeline.tokenizer_core.errors import InvalidTokenizer

PrefixScheme = Literal["always", "first", "never"]


@dataclass(frozen=True, slots=True)
class PiecePrefix:
    """A mark of the beginning of words, as HuggingFace's Metaspace and ByteLevel write it.

    Attributes:
        text: stands in front of a piece that does not begin with it already: ``▁`` or a space.
        scheme: ``always``: in front of every piece; ``first``: only where the text begins;
            ``never``.
        replaces_spaces: whether each space of a piece becomes ``text`` before (Metaspace).
    """

    text: str
    scheme: PrefixScheme
    replaces_spaces: bool

    def described(self) -> dict[str, Any]:
        """The value as JSON, which `of_description` reads."""
        return asdict(self)

    @classmethod
    def of_description(cls, given: Any) -> PiecePrefix:
        """The value that was described.

        Raises:
            InvalidTokenizer: a part is missing, unknown or of another type.
        """
        if (
            not isinstance(given, dict)
            or given.keys() != {"text", "scheme", "replaces_spaces"}
            or not (isinstance(given["text"], str) and given["text"])
            or given["scheme"] not in ("always", "first", "never")
            or not isinstance(given["replaces_spaces"], bool)
        ):
            raise InvalidTokenizer(
                f"the prefix of pieces is {str(given)[:80]}",
                "text, not empty; scheme: always, first or never; replaces_spaces: true or false",
                "save the tokenizer again from where it came",
            )
        return cls(**given)
