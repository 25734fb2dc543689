"""Split patterns and what runs them: kernels, automata, `regex`, segmenters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import regex_syntax as regex_syntax
    from .cuts import AnyPairs as AnyPairs
    from .cuts import AsciiSpaces as AsciiSpaces
    from .cuts import Cuts as Cuts
    from .cuts import FormedPairs as FormedPairs
    from .cuts import LoneSpaces as LoneSpaces
    from .cuts import SpacesAndPairs as SpacesAndPairs
    from .cuts import SpacesFirst as SpacesFirst
    from .pretokenization import MASK_KERNELS as MASK_KERNELS
    from .pretokenization import MarkShort as MarkShort
    from .pretokenization import ShortText as ShortText
    from .pretokenization import Splitter as Splitter
    from .pretokenization import mark_kept_and_dropped as mark_kept_and_dropped
    from .pretokenization import pre_tokens as pre_tokens
    from .pretokenization import sentence_spans as sentence_spans
    from .regex_processes import abandon_matching as abandon_matching
    from .regex_spellings import DIGITS_FROM_RIGHT as DIGITS_FROM_RIGHT
    from .regex_spellings import LINES_AND_DIGITS as LINES_AND_DIGITS
    from .regex_spellings import MOST_WRITTEN_OUT as MOST_WRITTEN_OUT
    from .regex_spellings import NAMED_PATTERNS as NAMED_PATTERNS
    from .regex_spellings import NAMES as NAMES
    from .regex_spellings import SUPERWORDS as SUPERWORDS
    from .regex_spellings import respelled_for_export as respelled_for_export
    from .regex_spellings import set_operator as set_operator
    from .regex_spellings import size_written_out as size_written_out
    from .regex_syntax import LETTERS_SINCE as LETTERS_SINCE
    from .regex_syntax import class_runs as class_runs
    from .regex_syntax import class_table as class_table
    from .regex_syntax import never_tries_twice as never_tries_twice
    from .regex_syntax import newest_unicode as newest_unicode
    from .regex_syntax import unicode_classes_digest as unicode_classes_digest
    from .regex_syntax import unicode_version as unicode_version
    from .segmenters import PUNKT as PUNKT
    from .segmenters import PUNKT_TABLES as PUNKT_TABLES
    from .segmenters import SEGMENTERS as SEGMENTERS
    from .segmenters import Punkt as Punkt
    from .segmenters import SentenceBreaks as SentenceBreaks
    from .segmenters import line_spans as line_spans
    from .split_automaton import CutPairs as CutPairs
    from .split_automaton import SplitAutomaton as SplitAutomaton
    from .split_automaton import behind_lines as behind_lines
    from .split_patterns import MOST_STEPS as MOST_STEPS
    from .split_patterns import Behavior as Behavior
    from .split_patterns import SplitPattern as SplitPattern
    from .split_patterns import SplitStep as SplitStep
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
