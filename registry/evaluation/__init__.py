"""Evaluate versions, compare them, and check them against rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .comparison import MetricPair as MetricPair
    from .comparison import NamedFiles as NamedFiles
    from .comparison import VersionComparison as VersionComparison
    from .comparison import compare_evaluated as compare_evaluated
    from .comparison import compare_on_slices as compare_on_slices
    from .comparison import compare_versions as compare_versions
    from .drift_rules import MOST_HELD_OUT as MOST_HELD_OUT
    from .drift_rules import default_rules as default_rules
    from .drift_rules import judge_drift as judge_drift
    from .drift_rules import missing_text as missing_text
    from .drift_rules import read_drift_rules as read_drift_rules
    from .drift_rules import share_to_watch as share_to_watch
    from .drift_rules import too_small_to_judge as too_small_to_judge
    from .gates import ABOVE_RULES as ABOVE_RULES
    from .gates import Rule as Rule
    from .gates import Rules as Rules
    from .gates import Verdict as Verdict
    from .gates import every_rule as every_rule
    from .gates import every_rule_holds as every_rule_holds
    from .gates import judge as judge
    from .gates import read_rules as read_rules
    from .gates import require as require
    from .gates import require_gain as require_gain
    from .measured import CHOSEN_SIZES as CHOSEN_SIZES
    from .measured import ROBUSTNESS_COLUMNS as ROBUSTNESS_COLUMNS
    from .measured import MeasuredSource as MeasuredSource
    from .measured import best_measured as best_measured
    from .measured import changed_meaning as changed_meaning
    from .measured import chosen_size_of as chosen_size_of
    from .measured import evaluation_of as evaluation_of
    from .measured import evaluation_record as evaluation_record
    from .measured import evidence_for as evidence_for
    from .measured import metrics_of as metrics_of
    from .measured import read_evaluation as read_evaluation
    from .measured import robustness_table as robustness_table
    from .measured import write_evaluation as write_evaluation
    from .measuring import Measured as Measured
    from .measuring import change_set as change_set
    from .measuring import evaluate as evaluate
    from .measuring import evaluate_version as evaluate_version
    from .measuring import measure_anew as measure_anew
    from .measuring import robustness_on_set as robustness_on_set
    from .measuring import versions_with_aliases as versions_with_aliases
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
