"""Split patterns, and every way of running them: kernels, the `regex` package, segmenters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .cut_pairs import CutPairs as CutPairs
    from .cut_pairs import behind_lines as behind_lines
    from .cuts import AnyPairs as AnyPairs
    from .cuts import AsciiSpaces as AsciiSpaces
    from .cuts import Cuts as Cuts
    from .cuts import FormedPairs as FormedPairs
    from .cuts import LoneSpaces as LoneSpaces
    from .cuts import SpacesAndPairs as SpacesAndPairs
    from .cuts import SpacesFirst as SpacesFirst
    from .mask_kernels import MASK_KERNELS as MASK_KERNELS
    from .named_patterns import DIGITS_FROM_RIGHT as DIGITS_FROM_RIGHT
    from .named_patterns import LINES_AND_DIGITS as LINES_AND_DIGITS
    from .named_patterns import SUPERWORDS as SUPERWORDS
    from .pre_tokenizers import pattern_of_pre_tokenizer as pattern_of_pre_tokenizer
    from .pre_tokenizers import steps_of_pre_tokenizer as steps_of_pre_tokenizer
    from .pretokenization import MarkShort as MarkShort
    from .pretokenization import ShortText as ShortText
    from .pretokenization import Splitter as Splitter
    from .pretokenization import mark_kept_and_dropped as mark_kept_and_dropped
    from .pretokenization import pre_tokens as pre_tokens
    from .pretokenization import sentence_spans as sentence_spans
    from .punkt_model import PUNKT as PUNKT
    from .regex_export import respelled_for_export as respelled_for_export
    from .regex_limits import MOST_WRITTEN_OUT as MOST_WRITTEN_OUT
    from .regex_limits import set_operator as set_operator
    from .regex_limits import size_written_out as size_written_out
    from .regex_processes import abandon_matching as abandon_matching
    from .regex_syntax import never_tries_twice as never_tries_twice
    from .segmenters import SEGMENTERS as SEGMENTERS
    from .sentences import PUNKT_TABLES as PUNKT_TABLES
    from .sentences import Punkt as Punkt
    from .sentences import SentenceBreaks as SentenceBreaks
    from .sentences import line_spans as line_spans
    from .split_automaton import SplitAutomaton as SplitAutomaton
    from .split_patterns import NAMED_PATTERNS as NAMED_PATTERNS
    from .split_patterns import SplitPattern as SplitPattern
    from .split_steps import SplitStep as SplitStep
    from .unicode_classes import LETTERS_SINCE as LETTERS_SINCE
    from .unicode_classes import class_runs as class_runs
    from .unicode_classes import class_table as class_table
    from .unicode_classes import newest_unicode as newest_unicode
    from .unicode_classes import unicode_classes_digest as unicode_classes_digest
    from .unicode_classes import unicode_version as unicode_version
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
