"""Tokenizers that their original library runs: value, codec, and the libraries behind one door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .codec import KIND as KIND
    from .codec import Foreign as Foreign
    from .codec import coders as coders
    from .libraries import ForeignLibrary as ForeignLibrary
    from .libraries import library_of as library_of
    from .reading import foreign_spec as foreign_spec
    from .reading import tokenizer_json as tokenizer_json
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
