"""Train, register and compare BPE tokenizers: the public API for scripts.

    from bpeline import count_words, load_tokenizer, train_bpe

Names are imported at first use. `bpeline.registry` lists, compares and promotes versions;
`bpeline.tokenizer_core` has the lower-level parts.
"""

from __future__ import annotations

from bpeline.lazy_names import lazy_names

TYPE_CHECKING = False  # importing `typing` would take as long as all other imports here

if TYPE_CHECKING:
    from .flows.python_api import compare as compare
    from .flows.python_api import promote as promote
    from .flows.python_api import train as train
    from .registry import configure as configure
    from .registry import load_tokenizer as load_tokenizer
    from .tokenizer_core import ParityRule as ParityRule
    from .tokenizer_core import SplitPattern as SplitPattern
    from .tokenizer_core import Tokenizer as Tokenizer
    from .tokenizer_core import TokenShards as TokenShards
    from .tokenizer_core import WordCounts as WordCounts
    from .tokenizer_core import count_texts as count_texts
    from .tokenizer_core import count_words as count_words
    from .tokenizer_core import evaluate as evaluate
    from .tokenizer_core import superword_lines as superword_lines
    from .tokenizer_core import train_bpe as train_bpe
    from .tokenizer_core import train_char_bpe as train_char_bpe
    from .tokenizer_core import train_frequency_bpe as train_frequency_bpe
    from .tokenizer_core import train_from_iterator as train_from_iterator
    from .tokenizer_core import train_parity_bpe as train_parity_bpe
    from .tokenizer_core import train_superbpe as train_superbpe
    from .tokenizer_core import train_wordpiece as train_wordpiece
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
